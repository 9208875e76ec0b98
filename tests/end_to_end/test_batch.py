"""Batches as users run them: everything fused once, whatever dies on the way; nothing done twice."""

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from allfocus.batch.cluster import Cluster
from allfocus.batch.records import Manifest, read_manifest
from allfocus.batch.running import BatchProgress, BatchResult, fuse_stacks
from allfocus.batch.stack_task import FuseSettings
from allfocus.errors import OutputError
from allfocus.images.reading import read_image
from allfocus.images.writing import write_image

pytest.importorskip("distributed", reason="needs the extra batch")

ROOT = Path(__file__).resolve().parents[2]
QUICK = FuseSettings(method="average", align=False)
OPTIONS = ("--method", "average", "--no-align")


def make_stack(folder: Path, *, seed: int, frames: int = 2, side: int = 48) -> None:
    folder.mkdir(parents=True)
    generator = np.random.default_rng(seed)
    for number in range(frames):
        write_image(generator.random((side, side, 3), np.float32), folder / f"frame_{number}.png")


def make_stacks(folder: Path, count: int, *, side: int = 48) -> Path:
    for number in range(count):
        make_stack(folder / f"stack_{number}", seed=number, side=side)
    return folder


def make_long_stack(folder: Path, *, frames: int = 400) -> None:
    """A stack that takes seconds to fuse, of one picture under many names."""
    make_stack(folder, seed=0, frames=1, side=512)
    for number in range(1, frames):
        os.link(folder / "frame_0.png", folder / f"frame_{number}.png")


def state_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file with its time of change and its place on the disk, which a file that is written anew does not keep."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


def check_everything_fused(shots: Path, result: BatchResult, count: int) -> None:
    """Each stack has one right picture, one row of the summary and one record."""
    assert not result.failed
    assert len(result.fused) == count
    assert len(list(result.output.rglob("stack_*.png"))) == count
    for number in range(count):
        frames = [read_image(path).pixels for path in sorted((shots / f"stack_{number}").iterdir())]
        fused = read_image(result.output / f"stack_{number}.png").pixels
        assert np.abs(fused - np.mean(frames, axis=0)).max() <= 1 / 255
    with (result.output / "summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["stack"], row["status"]) for row in rows] == [(f"stack_{number}", "fused") for number in range(count)]
    lines = [json.loads(line) for line in (result.output / "manifest.jsonl").read_text().splitlines()]
    assert sorted(line["stack"] for line in lines if line["status"] == "fused") == sorted(
        f"stack_{number}" for number in range(count)
    )


# --- a scheduler and workers as processes of their own ----------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Processes:
    """`dask scheduler` and `dask worker`, each in a working folder of its own, as on different machines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self._started = 0

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def _start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        self._started += 1
        own = self.folder / f"machine_{self._started}"
        (own / "tmp").mkdir(parents=True)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "TMPDIR": str(own / "tmp"),
            "OMP_NUM_THREADS": "1",
        }
        environment.pop("PYTHONWARNINGS", None)
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments],
            cwd=own,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def start_scheduler(self) -> None:
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--dashboard-address", "127.0.0.1:0"
        )

    def start_worker(self) -> None:
        self.workers.append(
            self._start("worker", self.address, "--nthreads", "1", "--no-nanny", "--dashboard-address", "127.0.0.1:0")
        )

    def stop(self, processes: "list[subprocess.Popen[bytes]]") -> None:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait(20)

    def stop_all(self) -> None:
        self.stop([*self.workers, *([self.scheduler] if self.scheduler else [])])


@contextmanager
def running_processes(folder: Path, workers: int) -> Iterator[Processes]:
    processes = Processes(folder)
    try:
        processes.start_scheduler()
        for _ in range(workers):
            processes.start_worker()
        yield processes
    finally:
        processes.stop_all()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a scheduler with two workers that share nothing but the file system."""
    with running_processes(tmp_path_factory.mktemp("machines"), workers=2) as processes:
        yield processes.address


# --- stacks -----------------------------------------------------------------------------------------------------------


def test_a_batch_fuses_every_stack_once_and_reports_the_bad_one(tmp_path, run_command):
    shots = make_stacks(tmp_path / "shots", 3)
    (shots / "stack_1/frame_1.png").write_bytes(b"no picture")
    out = tmp_path / "out"
    done = run_command("batch", shots, "-o", out, "--workers", 2, *OPTIONS, "--json")
    assert done.returncode == 2
    assert "stack_1" in done.stderr
    assert "frame_1.png" in done.stderr
    told = json.loads(done.stdout)
    assert (told["fused"], told["unchanged"], told["failed"]) == (2, 0, 1)
    assert (out / "stack_0.png").exists()
    assert not (out / "stack_1.png").exists()
    assert (out / "stack_2.png").exists()
    page = (out / "contact_sheet.html").read_text()
    assert page.count("data:image/webp;base64,") == 2
    assert "frame_1.png: not a picture" in page
    assert "http://" not in page
    assert "https://" not in page

    again = run_command("batch", shots, "-o", out, "--workers", 1, "--skip-bad", *OPTIONS)
    assert again.returncode == 2  # other settings redo all three; one frame is no stack
    assert "1 of 3 stacks failed; the first: stack_1" in again.stderr


def test_a_second_run_touches_nothing_and_a_changed_stack_is_the_only_one_redone(tmp_path, address):
    shots, out = make_stacks(tmp_path / "shots", 4), tmp_path / "out"
    fuse_stacks(shots, out, settings=QUICK, scheduler=address)
    before = state_of(tmp_path)
    again = fuse_stacks(shots, out, settings=QUICK, scheduler="tcp://127.0.0.1:1")  # would fail if it were needed
    assert len(again.unchanged) == 4
    assert state_of(tmp_path) == before

    write_image(np.zeros((48, 48, 3), np.float32), shots / "stack_2/frame_0.png", overwrite=True)
    changed = fuse_stacks(shots, out, settings=QUICK, scheduler=address)
    assert [row.stack for row in changed.fused] == ["stack_2"]
    after = state_of(out)
    assert {name for name in after if after[name] != before.get(f"out/{name}")} == {
        "stack_2.png",
        ".thumbnails/stack_2.webp",
        "manifest.jsonl",
        "summary.csv",
        "contact_sheet.html",
    }


def test_touched_and_copied_frames_are_not_fused_again_but_other_settings_and_missing_results_are(tmp_path, address):
    shots, out = make_stacks(tmp_path / "shots", 2), tmp_path / "out"
    fuse_stacks(shots, out, settings=QUICK, scheduler=address)
    for path in shots.rglob("*.png"):
        os.utime(path)
    assert len(fuse_stacks(shots, out, settings=QUICK, scheduler=address).unchanged) == 2
    moved = shutil.copytree(shots, tmp_path / "elsewhere")
    assert len(fuse_stacks(moved, out, settings=QUICK, scheduler=address).unchanged) == 2
    (out / "stack_1.png").unlink()
    assert [row.stack for row in fuse_stacks(shots, out, settings=QUICK, scheduler=address).fused] == ["stack_1"]
    other = fuse_stacks(
        shots, out, settings=FuseSettings(method="average", align=False, bit_depth=16), scheduler=address
    )
    assert len(other.fused) == 2


def test_what_the_batch_did_not_make_or_was_edited_is_not_replaced(tmp_path, address):
    shots, out = make_stacks(tmp_path / "shots", 2), tmp_path / "out"
    out.mkdir()
    (out / "stack_0.png").write_bytes(b"mine")
    first = fuse_stacks(shots, out, settings=QUICK, scheduler=address)
    assert [row.stack for row in first.failed] == ["stack_0"]
    assert "--overwrite" in first.failed[0].error
    (out / "stack_1.png").write_bytes(b"retouched")
    kept = fuse_stacks(shots, out, settings=QUICK, scheduler=address)
    assert [row.stack for row in kept.unchanged] == ["stack_1"]
    write_image(np.zeros((48, 48, 3), np.float32), shots / "stack_1/frame_0.png", overwrite=True)
    refused = fuse_stacks(shots, out, settings=QUICK, scheduler=address)
    assert "edited" in refused.failed[1].error
    assert (out / "stack_0.png").read_bytes() == b"mine"
    assert (out / "stack_1.png").read_bytes() == b"retouched"
    assert len(fuse_stacks(shots, out, settings=QUICK, scheduler=address, overwrite=True).fused) == 2


def test_a_worker_killed_in_the_middle_costs_nothing(tmp_path):
    shots, count = make_stacks(tmp_path / "shots", 14, side=256), 14
    killed: list[int] = []

    def kill_one(state: BatchProgress) -> None:
        for row in state.latest:
            pid = int(row.worker.rpartition(":")[2])
            if not killed and state.waiting > 4 and pid != os.getpid():
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

    result = fuse_stacks(shots, tmp_path / "out", settings=QUICK, workers=2, progress=kill_one)
    assert killed
    check_everything_fused(shots, result, count)
    assert len({row.worker for row in result.rows}) >= 2


def test_a_task_that_kills_its_workers_is_one_failure_and_takes_no_other_with_it():
    with Cluster(workers=1, memory_limit=10**9) as cluster:
        cluster.submit("bad", _die)
        cluster.submit("good", len, "four")
        outcomes: dict[str, object] = {}
        deadline = time.monotonic() + 90
        while cluster.waiting and time.monotonic() < deadline:
            outcomes |= cluster.collect(1.0)
    assert outcomes["good"] == 4
    assert "workers died" in outcomes["bad"].reason


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_that_share_only_a_file_system_and_a_restarted_scheduler_fuse_everything(tmp_path):
    shots, count = make_stacks(tmp_path / "shots", 16, side=256), 16
    restarts: list[int] = []
    hosts: set[str] = set()

    with running_processes(tmp_path / "machines", workers=2) as processes:

        def restart_in_the_middle(state: BatchProgress) -> None:
            assert state.seconds < 150, "what the scheduler forgot was not given to it again"
            hosts.update(row.worker for row in state.latest)
            if state.fused >= 4 and state.waiting > 4 and not restarts:
                restarts.append(state.fused)
                # All of it goes, as when a login node is booted; then it comes up again at the same address.
                processes.stop_all()
                processes.workers.clear()
                processes.start_scheduler()
                processes.start_worker()
                processes.start_worker()

        result = fuse_stacks(
            shots,
            tmp_path / "out",
            settings=QUICK,
            scheduler=processes.address,
            patience=60,
            progress=restart_in_the_middle,
        )
    assert restarts
    check_everything_fused(shots, result, count)
    assert len(hosts) >= 2


def test_a_scheduler_that_is_not_there_is_a_clear_error(tmp_path, run_command):
    shots = make_stacks(tmp_path / "shots", 1)
    where = f"tcp://127.0.0.1:{free_port()}"
    done = run_command("batch", shots, "-o", tmp_path / "out", "--scheduler", where, "--patience", 1, *OPTIONS)
    assert done.returncode == 2
    assert "no Dask scheduler answers" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_ctrl_c_keeps_what_is_finished_and_the_next_run_goes_on(tmp_path):
    shots, out, count = make_stacks(tmp_path / "shots", 6), tmp_path / "out", 7
    make_long_stack(shots / "stack_9")  # the last one, which is still being fused when the interruption comes
    command = [sys.executable, "-m", "allfocus.cli", "batch", str(shots), "-o", str(out), "--workers", "1", *OPTIONS]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as running:
        try:
            wait_until(lambda: len(list(out.glob("*.png"))) == count - 1, seconds=60)
            time.sleep(0.2)  # for the last message to reach the scheduler; the manifest may not know of it yet
            os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to all processes of the command
            _, told = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 130
    assert told.strip().splitlines()[-1] == "allfocus: interrupted"
    assert "Traceback" not in told
    finished = {name for name, record in read_manifest(out).items() if record.status == "fused"}
    assert "stack_0" in finished
    assert "stack_9" not in finished
    for path in out.glob("*.png"):
        read_image(path)  # whole, whether it was written down or not
    assert not list(out.rglob("*.part"))
    result = fuse_stacks(shots, out, settings=QUICK, workers=1)
    assert {row.stack for row in result.unchanged} == finished
    assert len(result.fused) == count - len(finished)


def test_an_interruption_takes_what_the_workers_have_finished(tmp_path):
    shots, out = make_stacks(tmp_path / "shots", 3), tmp_path / "out"
    make_long_stack(shots / "stack_9")

    def interrupt_late(state: BatchProgress) -> None:
        # The program looks away while the workers finish three stacks: none of them has been written down.
        if state.waiting == 4:
            wait_until(lambda: len(list(out.glob("*.png"))) == 3, seconds=60)
            time.sleep(1.0)  # for the last message to come over
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fuse_stacks(shots, out, settings=QUICK, workers=1, progress=interrupt_late)
    finished = {name for name, record in read_manifest(out).items() if record.status == "fused"}
    assert finished == {"stack_0", "stack_1", "stack_2"}


def wait_until(condition: Callable[[], bool], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_watching_waits_for_a_stack_to_be_complete(tmp_path):
    shots, out = tmp_path / "shots", tmp_path / "out"
    make_stack(tmp_path / "camera", seed=0, frames=4)
    (shots / "beetle").mkdir(parents=True)
    frames = sorted((tmp_path / "camera").iterdir())
    began = time.monotonic()
    copied: list[float] = []
    seen: list[int] = []

    def copy_slowly(state: BatchProgress) -> None:
        # A frame every 0.6 s: each time before the stack has been quiet for 1.2 s.
        if len(copied) < len(frames) and (not copied or time.monotonic() - copied[-1] > 0.6):
            shutil.copy2(frames[len(copied)], shots / "beetle")
            copied.append(time.monotonic())
        seen.extend(len(row.inputs) for row in state.latest)

    result = fuse_stacks(
        shots, out, settings=QUICK, workers=1, watch=True, settle=1.2, stop_after=2.5, progress=copy_slowly
    )
    assert seen == [4]  # once, with all frames
    assert [row.stack for row in result.fused] == ["beetle"]
    assert time.monotonic() - began > 0.6 * 3 + 1.2
    assert (out / "contact_sheet.html").exists()


def test_results_are_not_mixed_with_frames_and_may_lie_in_a_folder_below(tmp_path, address):
    shots = make_stacks(tmp_path / "shots", 1)
    with pytest.raises(OutputError, match="folder of the frames"):
        fuse_stacks(shots, shots, settings=QUICK, scheduler=address)
    for expected in ("fused", "unchanged"):
        result = fuse_stacks(shots, shots / "out", settings=QUICK, scheduler=address)
        assert [row.stack for row in getattr(result, expected)] == ["stack_0"]


def test_each_page_of_a_file_is_a_frame_and_maps_lie_beside_the_result(tmp_path, address):
    import tifffile

    pages = np.random.default_rng(0).integers(0, 255, (3, 64, 64, 3), np.uint8)
    (tmp_path / "shots").mkdir()
    tifffile.imwrite(tmp_path / "shots/slide.tif", pages, photometric="rgb")
    settings = FuseSettings(method="depth-map", align=False, depth_maps=True, decision_maps=True)
    result = fuse_stacks(tmp_path / "shots", tmp_path / "out", by="file", settings=settings, scheduler=address)
    assert not result.failed, result.failed
    assert {"slide.tif", "slide_depth.png", "slide_decision.png"} <= {path.name for path in result.output.iterdir()}


def test_a_second_batch_into_the_same_folder_is_refused(tmp_path):
    shots, out = make_stacks(tmp_path / "shots", 1), tmp_path / "out"
    out.mkdir()
    with Manifest(out).opened(), pytest.raises(OutputError, match="another batch"):
        fuse_stacks(shots, out, settings=QUICK, workers=1)


def test_planes_are_fused_on_a_cluster(tmp_path, run_command, address, small_stack):
    zarr = pytest.importorskip("zarr")
    for number, frame in enumerate(small_stack):
        (tmp_path / "in").mkdir(exist_ok=True)
        write_image(frame, tmp_path / f"in/{number}.tif")
    done = run_command("batch", tmp_path / "in", "-o", tmp_path / "out.zarr", "--scheduler", address, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["size"] == [96, 128]
    import allfocus

    levels = [read_image(path).pixels for path in sorted((tmp_path / "in").iterdir())]
    expected = allfocus.fuse(levels).image
    found = np.moveaxis(zarr.open_group(str(tmp_path / "out.zarr"), mode="r")["0"][:], 0, -1) / 255
    assert np.abs(found - expected).max() <= 1 / 255
    wrong = run_command("batch", tmp_path / "in", "-o", tmp_path / "again.zarr", "--method", "average")
    assert wrong.returncode == 2
    assert "--method is for stacks" in wrong.stderr


def test_an_evaluation_on_a_cluster_gives_what_this_machine_gives(tmp_path, run_command, address):
    make_stacks(tmp_path / "sets", 2)
    common = ("evaluate", "--dataset", "folder", "--data", "sets", "--method", "average", "--method", "wavelet")
    common = (*common, "--metric", "Q_SF", "--json")
    near = run_command(*common, "-o", "near", "--workers", 1, cwd=tmp_path)
    far = run_command(*common, "-o", "far", "--scheduler", address, cwd=tmp_path)
    assert far.returncode == near.returncode == 0, far.stderr + near.stderr
    rows = [
        [{key: value for key, value in row.items() if key != "seconds"} for row in json.loads(done.stdout)["rows"]]
        for done in (near, far)
    ]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 4
    assert (tmp_path / "far/report.html").exists()
