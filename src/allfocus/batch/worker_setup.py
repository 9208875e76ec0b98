"""What a worker of a local cluster does first; Dask calls it because the cluster names this module as a preload."""

import os
import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Leaves Ctrl-C and the terminal to the program that started the worker.

    Ctrl-C reaches all processes, and only that one may stop. What libraries print would break its table, and what goes
    wrong with a stack comes back as its record; with ALLFOCUS_TRACEBACK set, it is printed all the same.
    """
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not os.environ.get("ALLFOCUS_TRACEBACK"):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
