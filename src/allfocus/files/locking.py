"""The lock of an open file, by which one run at a time has the right to a place."""

import io


def lock(file: int | io.IOBase) -> bool | None:
    """Whether an open file could be locked; None where that cannot be told (Windows, some network drives).

    The lock lasts as long as the file is open.
    """
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(file if isinstance(file, int) else file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
