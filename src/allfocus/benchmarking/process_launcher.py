"""Runs one command and writes down what it used; a program of its own, with nothing but the standard library.

A child begins with the memory of the process that starts it, and the kernel counts that into the child's peak. Started
from here, where there is next to nothing in memory, a small program is not charged for the benchmark's own pictures.

Called as: python -I -S process_launcher.py REPORT STDOUT STDERR COMMAND...
"""

import json
import os
import subprocess
import sys
import time

if __name__ == "__main__":
    report, stdout, stderr, *command = sys.argv[1:]
    with open(stdout, "wb") as out, open(stderr, "wb") as err:
        began = time.perf_counter()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
    with open(report, "w", encoding="utf-8") as file:
        json.dump(
            {
                "exit_code": os.waitstatus_to_exitcode(status),
                "cpu_seconds": usage.ru_utime + usage.ru_stime,
                "wall_seconds": wall,
                # Kilobytes on Linux, bytes on macOS.
                "peak_megabytes": usage.ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024),
            },
            file,
        )
