"""A batch of many stacks: scaling from 1 to 2 workers, the cost of a second run, and what losing machines costs.

Run: python benchmarks/batch_stacks.py FOLDER [--stacks 200] [--size 160x120] [--frames 3] [--namespaces]
Renders the stacks into FOLDER and runs `allfocus batch` on them with 1 and with 2 local workers (all from nothing),
once more on what is done, and, on `dask scheduler` and two `dask worker` processes in folders of their own, with one
worker killed (SIGKILL) and then the scheduler restarted in the middle. Checks every result and prints one JSON object.
With --namespaces (Linux, as root) each worker has a network of its own, with a cable to the scheduler and nothing else.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from allfocus.batch.outcome import BatchProgress, BatchResult
from allfocus.batch.running import fuse_stacks
from allfocus.images.reading import read_image
from allfocus.images.writing import write_image
from allfocus.scenes.catalogue import SCENES
from allfocus.scenes.rendering import render_scene

SEARCH = os.pathsep.join(os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path)
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": SEARCH}
"""Paths in full, because workers have working folders of their own."""


def render_stacks(folder: Path, count: int, frames: int, size: tuple[int, int]) -> None:
    names = sorted(SCENES)
    for number in range(count):
        stack = folder / f"stack_{number:04d}"
        if stack.is_dir() and len(list(stack.iterdir())) == frames:
            continue
        stack.mkdir(parents=True, exist_ok=True)
        scene = render_scene(names[number % len(names)], frames=frames, size=size, seed=number)
        for index, frame in enumerate(scene.frames):
            write_image(frame, stack / f"frame_{index:02d}.png", overwrite=True)


def run_command(stacks: Path, output: Path, workers: int) -> dict[str, float]:
    """Wall and processor seconds of one run of the command, all its processes counted."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "allfocus.cli", "batch", str(stacks), "-o", str(output), "--workers", str(workers)]
    child = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"allfocus batch ended with status {status}; see {output / 'summary.csv'}")
    return {"seconds": time.perf_counter() - began, "processor_seconds": usage.ru_utime + usage.ru_stime}


class Networks:
    """A network for each of two workers (Linux network namespaces), joined to this machine by a bridge."""

    def __init__(self) -> None:
        _ip("link add allfocus0 type bridge", "addr add 10.77.0.1/24 dev allfocus0", "link set allfocus0 up")
        for number in (2, 3):
            inside = f"netns exec allfocus{number} ip"
            _ip(
                f"netns add allfocus{number}",
                f"link add afcable{number} type veth peer name afsocket{number}",
                f"link set afcable{number} master allfocus0 up",
                f"link set afsocket{number} netns allfocus{number}",
                f"{inside} addr add 10.77.0.{number}/24 dev afsocket{number}",
                f"{inside} link set afsocket{number} up",
                f"{inside} link set lo up",
            )

    def close(self) -> None:
        """Takes them down, with their cables."""
        _ip("netns del allfocus2", "netns del allfocus3", "link del allfocus0")


def _ip(*commands: str) -> None:
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)


class Machines:
    """A scheduler and workers as processes with working folders of their own, and networks of their own if asked."""

    def __init__(self, folder: Path, *, namespaces: bool) -> None:
        self.host = "10.77.0.1" if namespaces else "127.0.0.1"
        self.namespaces = namespaces
        self._networks = Networks() if namespaces else None
        with socket.socket() as probe:
            probe.bind((self.host, 0))
            self.port = int(probe.getsockname()[1])
        self.folder = folder
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.start_scheduler()
        self.add_workers(2)

    @property
    def address(self) -> str:
        """Of the scheduler."""
        return f"tcp://{self.host}:{self.port}"

    def _start(self, *arguments: str, network: int | None = None) -> "subprocess.Popen[bytes]":
        own = self.folder / f"machine_{time.monotonic_ns()}"
        own.mkdir(parents=True)
        place = [] if network is None else ["ip", "netns", "exec", f"allfocus{network}"]  # becomes the worker itself
        command = [*place, sys.executable, "-m", "dask", *arguments]
        return subprocess.Popen(command, cwd=own, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start_scheduler(self) -> "subprocess.Popen[bytes]":
        """The process of a new scheduler at the same address."""
        return self._start(
            "scheduler", "--host", self.host, "--port", str(self.port), "--dashboard-address", "127.0.0.1:0"
        )

    def add_workers(self, count: int) -> None:
        """Starts workers."""
        for _ in range(count):
            options = ("--nthreads", "1", "--no-nanny", "--dashboard-address", "127.0.0.1:0")
            network = (3 if self.workers else 2) if self.namespaces else None
            self.workers.append(self._start("worker", self.address, *options, network=network))

    def stop(self, *processes: "subprocess.Popen[bytes]") -> None:
        """Kills processes, as a power cut would."""
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def close(self) -> None:
        """Ends everything."""
        self.stop(self.scheduler, *self.workers)
        if self._networks:
            self._networks.close()

    def restart(self) -> None:
        """Kills everything and starts it again at the same address."""
        self.stop(self.scheduler, *self.workers)
        self.workers.clear()
        self.scheduler = self.start_scheduler()
        self.add_workers(2)


def run_with_losses(
    stacks: Path, output: Path, folder: Path, count: int, *, namespaces: bool
) -> tuple[BatchResult, dict[str, object]]:
    machines = Machines(folder, namespaces=namespaces)
    events: dict[str, object] = {}

    def lose(state: BatchProgress) -> None:
        if state.fused >= count // 4 and "worker_killed_at" not in events:
            events["worker_killed_at"] = state.fused
            machines.stop(machines.workers.pop())
            machines.add_workers(1)
        if state.fused >= count // 2 and "scheduler_restarted_at" not in events:
            events["scheduler_restarted_at"] = state.fused
            machines.restart()

    began = time.perf_counter()
    try:
        result = fuse_stacks(stacks, output, scheduler=machines.address, progress=lose)
    finally:
        machines.close()
    workers = len({row.worker for row in result.rows})
    return result, {
        **events,
        "networks": namespaces,
        "workers_that_fused": workers,
        "seconds": round(time.perf_counter() - began, 1),
    }


def check(result: BatchResult, expected: Path, count: int) -> dict[str, object]:
    """Every stack fused, written down once, and equal to what the undisturbed run gave."""
    lines = [json.loads(line) for line in (result.output / "manifest.jsonl").read_text().splitlines()]
    fused = [line["stack"] for line in lines if line["status"] == "fused"]
    pictures = sorted(result.output.glob("stack_*.png"))
    same = sum(np.array_equal(read_image(path).pixels, read_image(expected / path.name).pixels) for path in pictures)
    found = {
        "fused": len(result.fused),
        "failed": len(result.failed),
        "pictures": len(pictures),
        "recorded_as_fused": len(fused),
        "recorded_twice": len(fused) - len(set(fused)),
        "equal_to_the_undisturbed_run": same,
    }
    right = {"fused": count, "failed": 0, "pictures": count, "recorded_as_fused": count, "recorded_twice": 0}
    right["equal_to_the_undisturbed_run"] = count
    if found != right:
        raise SystemExit(f"wrong: {found}")
    return dict(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stacks", type=int, default=200)
    parser.add_argument("--frames", type=int, default=3)
    parser.add_argument("--size", default="160x120")
    parser.add_argument("--namespaces", action="store_true")
    arguments = parser.parse_args()
    width, height = map(int, arguments.size.split("x"))
    stacks = arguments.folder / f"stacks_{arguments.stacks}"
    render_stacks(stacks, arguments.stacks, arguments.frames, (height, width))
    for name in ("one", "two", "losses", "machines"):
        shutil.rmtree(arguments.folder / name, ignore_errors=True)
    one = run_command(stacks, arguments.folder / "one", 1)
    two = run_command(stacks, arguments.folder / "two", 2)
    again = run_command(stacks, arguments.folder / "two", 2)
    result, losses = run_with_losses(
        stacks,
        arguments.folder / "losses",
        arguments.folder / "machines",
        arguments.stacks,
        namespaces=arguments.namespaces,
    )
    print(
        json.dumps(
            {
                "stacks": arguments.stacks,
                "frames": arguments.frames,
                "size": arguments.size,
                "cores": os.cpu_count(),
                "load": [round(value, 1) for value in os.getloadavg()],
                "one_worker": {key: round(value, 1) for key, value in one.items()},
                "two_workers": {key: round(value, 1) for key, value in two.items()},
                "scaling_efficiency": round(one["seconds"] / two["seconds"] / 2, 3),
                "second_run": {key: round(value, 2) for key, value in again.items()},
                "second_run_share_of_processor_seconds": round(
                    again["processor_seconds"] / two["processor_seconds"], 4
                ),
                "with_losses": losses,
                "checked": check(result, arguments.folder / "two", arguments.stacks),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
