"""Loaded by every Python process of the batch tests: who opens a picture with a gate before it is held there."""

import builtins
import io
import os
import time

_open, _os_open = io.open, os.open


def _wait(path: object) -> None:
    if not isinstance(path, str | os.PathLike) or not str(path).endswith(".png"):
        return
    folder, name = os.path.split(os.fspath(path))
    gate = os.path.join(folder, f".{name}.gate")
    if os.path.isdir(gate):
        with _open(os.path.join(gate, str(os.getpid())), "w"):
            pass
        while True:  # until it is killed
            time.sleep(0.1)


def _held_open(path, *values, **options):
    _wait(path)
    return _open(path, *values, **options)


def _held_os_open(path, *values, **options):
    _wait(path)
    return _os_open(path, *values, **options)


io.open = builtins.open = _held_open
os.open = _held_os_open
