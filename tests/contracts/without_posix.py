"""Makes a process as poor as one on Windows: `make_poor`, to be called before anything of allfocus is imported.

Modules and calls of POSIX are gone, so are /proc and /dev, and files behave as they do on Windows: one that is open or
mapped can be neither moved, replaced nor deleted, a folder cannot be opened, and a rename does not replace.
"""

import builtins
import contextlib
import errno
import importlib
import os
import signal
import stat
import sys

MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "spwd", "nis", "crypt")
OF_OS = """
fork forkpty register_at_fork getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid seteuid
setegid setsid setpgid getpgid getpgrp getsid killpg wait wait3 wait4 waitid nice getpriority setpriority getloadavg
sysconf sysconf_names confstr pathconf fpathconf statvfs fstatvfs chown fchown lchown fchdir chroot mkfifo mknod
ctermid ttyname openpty tcgetpgrp tcsetpgrp sched_getaffinity sched_setaffinity sched_yield sync fdatasync lockf pread
pwrite preadv pwritev readv writev posix_fadvise posix_fallocate sendfile copy_file_range splice memfd_create eventfd
getxattr setxattr listxattr removexattr posix_spawn posix_spawnp pipe2 pidfd_open O_TMPFILE O_NOFOLLOW O_CLOEXEC
O_NONBLOCK O_DIRECTORY O_PATH O_SYNC O_DSYNC O_NOATIME O_NOCTTY O_DIRECT
"""
OF_SIGNAL = """
pthread_sigmask pthread_kill sigwait sigwaitinfo sigtimedwait sigpending siginterrupt alarm setitimer getitimer pause
SIGALRM SIGHUP SIGKILL SIGUSR1 SIGUSR2 SIGCHLD SIGPIPE SIGQUIT SIGSTOP SIGCONT SIGTSTP SIG_BLOCK SIG_UNBLOCK
SIG_SETMASK
"""
OTHERS = [
    "asyncio",
    "distributed",
    "locket",
    "multiprocessing",
    "psutil",
    "shutil",
    "subprocess",
    "tornado",
    "uvicorn",
    "zict",
]
"""Packages that know Windows by the name of the system, which is not changed here; they keep what they ask for."""

# What is needed to play Windows, kept before it goes.
_open, _listdir, _readlink, _stat = os.open, os.listdir, os.readlink, os.stat
_replace, _rename, _unlink, _link = os.replace, os.rename, os.unlink, os.link
_builtin_open = builtins.open


def _is_hidden(path):
    return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(("/proc", "/dev/n"))


def _is_in_use(path):
    """Whether this process has the file open or mapped."""
    try:
        own = _stat(path, follow_symlinks=False)
    except OSError:
        return False
    for number in _listdir("/proc/self/fd"):
        try:
            other = _stat(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if stat.S_ISREG(other.st_mode) and (other.st_dev, other.st_ino) == (own.st_dev, own.st_ino):
            return True
    with _builtin_open("/proc/self/maps", encoding="utf-8") as maps:
        return any(line.split()[4] == str(own.st_ino) for line in maps)


def _by_standard_library():
    """On Windows tempfile has ways of its own."""
    return sys._getframe(2).f_globals.get("__name__") == "tempfile"


def _refuse_in_use(*paths):
    for path in paths:
        if not isinstance(path, int) and _is_in_use(path):
            raise PermissionError(errno.EACCES, "the file is in use by another process (it is open here)", str(path))


def _windows_open(path, flags, mode=0o777, *, dir_fd=None):
    assert dir_fd is None, "Windows has no dir_fd"
    if _is_hidden(path):
        raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, "a folder cannot be opened", str(path))
    return _open(path, flags, mode)


def _windows_builtin_open(file, *arguments, **options):
    caller = str(sys._getframe(1).f_globals.get("__name__"))
    if _is_hidden(file) and os.fspath(file) != os.devnull and not caller.startswith("psutil"):
        raise FileNotFoundError(errno.ENOENT, "no such file", str(file))
    mode = options.get("mode", arguments[0] if arguments else "r")
    if "b" not in mode and "encoding" not in options and len(arguments) < 3:
        assert not caller.startswith("allfocus"), f"{caller} opens {file} in whatever encoding the system has"
    return _builtin_open(file, *arguments, **options)


def _windows_replace(source, target, *, src_dir_fd=None, dst_dir_fd=None):
    assert src_dir_fd is dst_dir_fd is None, "Windows has no dir_fd"
    _refuse_in_use(source, target)
    return _replace(source, target)


def _windows_rename(source, target, *, src_dir_fd=None, dst_dir_fd=None):
    assert src_dir_fd is dst_dir_fd is None, "Windows has no dir_fd"
    _refuse_in_use(source)
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, "a rename does not replace", str(target))
    return _rename(source, target)


def _windows_unlink(path, *, dir_fd=None):
    if dir_fd is None and not _by_standard_library():
        _refuse_in_use(path)
    if os.path.isdir(path) and not os.path.islink(path):
        raise PermissionError(errno.EACCES, "a folder is removed otherwise", str(path))
    return _unlink(path) if dir_fd is None else _unlink(path, dir_fd=dir_fd)


def _windows_link(source, target, *, src_dir_fd=None, dst_dir_fd=None, follow_symlinks=True):
    assert src_dir_fd is dst_dir_fd is None, "Windows has no dir_fd"
    return _link(source, target, follow_symlinks=follow_symlinks)


def _keep_for_others(place):
    """Lets other people's packages find what is taken away from a module."""
    kept = dict(vars(place))

    def find(name):
        caller = str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0]
        if caller in OTHERS and name in kept:
            return kept[name]
        raise AttributeError(f"module {place.__name__!r} has no attribute {name!r}")

    place.__getattr__ = find


def make_poor():
    """Takes it all away; there is no way back."""
    # Parts of the standard library choose what they need when they are loaded; psutil and locket, of others, too.
    import multiprocessing.util
    import random
    import shutil
    import subprocess
    import tempfile

    for name in ("psutil", "locket"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    del multiprocessing, random, subprocess
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # as there
    shutil._use_fd_functions = False
    if hasattr(shutil, "_rmtree_impl"):  # Python 3.14 has chosen by now
        shutil._rmtree_impl = shutil._rmtree_unsafe
    for name in MODULES:
        sys.modules[name] = None
    for place, names in ((os, OF_OS), (signal, OF_SIGNAL)):
        _keep_for_others(place)
        for name in names.split():
            if hasattr(place, name):
                delattr(place, name)
    if hasattr(os, "process_cpu_count"):  # Python 3.13; by sched_getaffinity where there is one
        os.process_cpu_count = os.cpu_count
    os.open, builtins.open = _windows_open, _windows_builtin_open
    os.replace, os.rename, os.link = _windows_replace, _windows_rename, _windows_link
    os.unlink = os.remove = _windows_unlink
