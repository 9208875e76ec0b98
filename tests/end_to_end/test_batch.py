"""Batches as users run them: everything fused once, whatever dies on the way; nothing done twice."""

import contextlib
import csv
import importlib.resources
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
from allfocus.batch.manifest import BatchManifest, read_manifest
from allfocus.batch.outcome import BatchProgress, BatchResult
from allfocus.batch.running import fuse_stacks
from allfocus.errors import OutputError
from allfocus.images.reading import read_image
from allfocus.images.writing import write_image
from allfocus.stack.options import FuseOptions

pytest.importorskip("distributed", reason="needs the extra batch")

ROOT = Path(__file__).resolve().parents[2]
SEARCH = os.pathsep.join([str(ROOT / "src"), str(Path(__file__).parent / "gate_hooks")])
QUICK = FuseOptions(method="average", align=False)
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


class Gate:
    """Holds the worker that comes to a frame until it is killed; see ``gate_hooks``."""

    def __init__(self, frame: Path) -> None:
        self._folder = frame.with_name(f".{frame.name}.gate")
        self._folder.mkdir()

    def reader(self) -> int | None:
        """The process that is held; None while there is none."""
        held = [int(entry.name) for entry in self._folder.iterdir()] if self._folder.exists() else []
        return held[0] if held else None

    def put_picture(self) -> None:
        """Opens the gate for all who come now; who is held stays so."""
        shutil.rmtree(self._folder)


@pytest.fixture(autouse=True)
def _gates(monkeypatch):
    """Lets gates hold processes that are started from here."""
    monkeypatch.setenv("PYTHONPATH", SEARCH)


def wait_until(condition: Callable[[], bool], *, seconds: float = 200) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def fused_in(folder: Path) -> set[str]:
    """The stacks that the manifest of a folder says are fused."""
    return {name for name, record in read_manifest(folder).items() if record.status == "fused"}


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
        self.search = SEARCH
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self.starts = 0

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def _start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        self.starts += 1
        own = self.folder / f"machine_{self.starts}"
        (own / "tmp").mkdir(parents=True)
        environment = {
            **os.environ,
            "PYTHONPATH": self.search,
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

    def scheduler_answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5):
            return True
        return False

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
        wait_until(processes.scheduler_answers)
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
    fuse_stacks(shots, out, options=QUICK, scheduler=address)
    before = state_of(tmp_path)
    again = fuse_stacks(shots, out, options=QUICK, scheduler="tcp://127.0.0.1:1")  # would fail if it were needed
    assert len(again.unchanged) == 4
    assert state_of(tmp_path) == before

    write_image(np.zeros((48, 48, 3), np.float32), shots / "stack_2/frame_0.png", overwrite=True)
    changed = fuse_stacks(shots, out, options=QUICK, scheduler=address)
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
    fuse_stacks(shots, out, options=QUICK, scheduler=address)
    for path in shots.rglob("*.png"):
        os.utime(path)
    assert len(fuse_stacks(shots, out, options=QUICK, scheduler=address).unchanged) == 2
    moved = shutil.copytree(shots, tmp_path / "elsewhere")
    assert len(fuse_stacks(moved, out, options=QUICK, scheduler=address).unchanged) == 2
    (out / "stack_1.png").unlink()
    assert [row.stack for row in fuse_stacks(shots, out, options=QUICK, scheduler=address).fused] == ["stack_1"]
    other = fuse_stacks(shots, out, options=FuseOptions(method="average", align=False, bit_depth=16), scheduler=address)
    assert len(other.fused) == 2


def test_what_the_batch_did_not_make_or_was_edited_is_not_replaced(tmp_path, address):
    shots, out = make_stacks(tmp_path / "shots", 2), tmp_path / "out"
    out.mkdir()
    (out / "stack_0.png").write_bytes(b"mine")
    first = fuse_stacks(shots, out, options=QUICK, scheduler=address)
    assert [row.stack for row in first.failed] == ["stack_0"]
    assert "--overwrite" in first.failed[0].error
    (out / "stack_1.png").write_bytes(b"retouched")
    kept = fuse_stacks(shots, out, options=QUICK, scheduler=address)
    assert [row.stack for row in kept.unchanged] == ["stack_1"]
    write_image(np.zeros((48, 48, 3), np.float32), shots / "stack_1/frame_0.png", overwrite=True)
    refused = fuse_stacks(shots, out, options=QUICK, scheduler=address)
    assert "edited" in refused.failed[1].error
    assert (out / "stack_0.png").read_bytes() == b"mine"
    assert (out / "stack_1.png").read_bytes() == b"retouched"
    assert len(fuse_stacks(shots, out, options=QUICK, scheduler=address, overwrite=True).fused) == 2


def test_a_worker_killed_in_the_middle_costs_nothing(tmp_path):
    shots, count = make_stacks(tmp_path / "shots", 8), 8
    gate = Gate(shots / "stack_3/frame_1.png")
    killed: list[int] = []

    def kill_the_reader(state: BatchProgress) -> None:
        assert state.seconds < 300, "the stack of the killed worker was not given to another"
        reader = None if killed else gate.reader()
        if reader is not None:
            gate.put_picture()
            os.kill(reader, signal.SIGKILL)
            killed.append(reader)

    result = fuse_stacks(shots, tmp_path / "out", options=QUICK, workers=2, progress=kill_the_reader)
    check_everything_fused(shots, result, count)
    assert result.rows[3].worker.rpartition(":")[2] != str(killed[0])


def test_a_task_that_kills_its_workers_is_one_failure_and_takes_no_other_with_it():
    with Cluster(workers=1, memory_limit=10**9) as cluster:
        cluster.submit("bad", eval, f"__import__('os').kill(__import__('os').getpid(), {int(signal.SIGKILL)})")
        cluster.submit("good", len, "four")
        outcomes: dict[str, object] = {}
        deadline = time.monotonic() + 300
        while cluster.waiting and time.monotonic() < deadline:
            outcomes |= cluster.collect(1.0)
    assert outcomes["good"] == 4
    assert "workers died" in outcomes["bad"].reason


def test_a_local_worker_that_ended_for_good_is_replaced():
    with Cluster(workers=1, memory_limit=10**9) as cluster:
        (worker,) = cluster._local.workers.values()
        cluster._local.sync(worker.close)
        cluster.submit("good", len, "four")
        outcomes: dict[str, object] = {}
        wait_until(lambda: bool(outcomes.update(cluster.collect(1.0)) or outcomes))
    assert outcomes == {"good": 4}


def test_a_worker_without_allfocus_refuses_and_lives_on(tmp_path):
    (tmp_path / "broken/allfocus").mkdir(parents=True)
    (tmp_path / "broken/allfocus/__init__.py").write_text("raise ModuleNotFoundError('no allfocus here')")
    shots = make_stacks(tmp_path / "shots", 2)
    processes = Processes(tmp_path / "machines")
    processes.search = str(tmp_path / "broken")
    try:
        processes.start_scheduler()
        wait_until(processes.scheduler_answers)
        processes.start_worker()
        result = fuse_stacks(shots, tmp_path / "out", options=QUICK, scheduler=processes.address)
        assert processes.workers[0].poll() is None
    finally:
        processes.stop_all()
    assert [row.error for row in result.failed] == [
        "a worker cannot import allfocus (no allfocus here); install the same version everywhere"
    ] * 2


def test_workers_that_share_only_a_file_system_and_a_restarted_scheduler_fuse_everything(tmp_path):
    shots, count = make_stacks(tmp_path / "shots", 10), 10
    # Whatever the speed, these are not done when the scheduler goes.
    gates = [Gate(shots / f"stack_{number}/frame_1.png") for number in range(6, count)]
    before: set[str] = set()
    after: set[str] = set()

    with running_processes(tmp_path / "machines", workers=2) as processes:

        def restart_in_the_middle(state: BatchProgress) -> None:
            assert state.seconds < 300, "what the scheduler forgot was not given to it again"
            (before if processes.starts == 3 else after).update(row.worker for row in state.latest)
            if processes.starts == 3 and state.fused and any(gate.reader() for gate in gates):
                for gate in gates:
                    gate.put_picture()
                # All of it goes, as when a login node is booted; then it comes up again at the same address.
                processes.stop_all()
                processes.workers.clear()
                processes.start_scheduler()
                processes.start_worker()
                processes.start_worker()

        result = fuse_stacks(
            shots,
            tmp_path / "out",
            options=QUICK,
            scheduler=processes.address,
            patience=200,
            progress=restart_in_the_middle,
        )
    check_everything_fused(shots, result, count)
    assert before
    assert after
    assert not before & after


def test_a_scheduler_that_is_not_there_is_a_clear_error(tmp_path, run_command):
    shots = make_stacks(tmp_path / "shots", 1)
    where = f"tcp://127.0.0.1:{free_port()}"
    done = run_command("batch", shots, "-o", tmp_path / "out", "--scheduler", where, "--patience", 1, *OPTIONS)
    assert done.returncode == 2
    assert "no Dask scheduler answers" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_ctrl_c_keeps_what_is_finished_and_the_next_run_goes_on(tmp_path):
    shots, out = make_stacks(tmp_path / "shots", 6), tmp_path / "out"
    gate = Gate(shots / "stack_5/frame_1.png")  # the last one, which is still being fused when the interruption comes
    finished = {f"stack_{number}" for number in range(5)}
    command = [sys.executable, "-m", "allfocus.cli", "batch", str(shots), "-o", str(out), "--workers", "1", *OPTIONS]
    environment = {**os.environ, "PYTHONPATH": SEARCH, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as running:
        try:
            wait_until(lambda: fused_in(out) == finished and gate.reader() is not None)
            os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to all processes of the command
            _, told = running.communicate(timeout=200)
        finally:
            running.kill()
    assert running.returncode == 130
    assert told.strip().splitlines()[-1] == "allfocus: interrupted"
    assert "Traceback" not in told
    assert fused_in(out) == finished
    assert not list(out.rglob("*.part"))
    gate.put_picture()
    result = fuse_stacks(shots, out, options=QUICK, workers=1)
    assert {row.stack for row in result.unchanged} == finished
    assert [row.stack for row in result.fused] == ["stack_5"]


def test_an_interruption_takes_what_the_workers_have_finished(tmp_path, monkeypatch):
    shots, out = make_stacks(tmp_path / "shots", 4), tmp_path / "out"
    Gate(shots / "stack_3/frame_1.png")
    clusters: list[Cluster] = []

    class SeenCluster(Cluster):
        def __enter__(self) -> Cluster:
            clusters.append(self)
            return super().__enter__()

    def interrupt_late(state: BatchProgress) -> None:
        # The program looks away until the workers have told that three stacks are done: these are not written down.
        def done() -> bool:
            return state.fused + sum(future.status == "finished" for future in clusters[0]._futures.values()) == 3

        wait_until(done)
        raise KeyboardInterrupt

    monkeypatch.setattr("allfocus.batch.running.Cluster", SeenCluster)
    with pytest.raises(KeyboardInterrupt):
        fuse_stacks(shots, out, options=QUICK, workers=1, progress=interrupt_late)
    assert fused_in(out) == {"stack_0", "stack_1", "stack_2"}


def test_a_second_ctrl_c_does_not_break_off_the_end_and_a_third_one_ends_at_once():
    code = (
        "import os, signal\n"
        "from allfocus.cli.batch_command import _end_at_the_third_interruption\n"
        "_end_at_the_third_interruption()\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    print('ending', flush=True)\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "print('still ending', flush=True)\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "print('never')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (130, "ending\nstill ending\n")
    assert "once more" in done.stderr


def test_watching_waits_for_a_stack_to_be_complete_and_a_stray_picture_stops_nothing(tmp_path):
    shots, out = tmp_path / "shots", tmp_path / "out"
    make_stack(tmp_path / "camera", seed=0, frames=4)
    (shots / "beetle").mkdir(parents=True)
    (shots / "beetle/notes.png").write_bytes(b"no number, no picture")
    pieces: list[tuple[str, bytes]] = []
    for path in sorted((tmp_path / "camera").iterdir()):
        data = path.read_bytes()
        pieces += [(path.name, data[:1000]), (path.name, data[1000:])]
    times: list[float] = []
    seen: list[tuple[str, int]] = []

    def copy_a_piece(state: BatchProgress) -> None:
        # Something new before each look, as from a slow card: so no look finds the stack as it was before.
        if pieces:
            name, data = pieces.pop(0)
            with (shots / "beetle" / name).open("ab") as file:
                file.write(data)
            times.append(time.monotonic())
        seen.extend((row.stack, len(row.inputs)) for row in state.latest)
        times.extend(time.monotonic() for _ in state.latest)

    result = fuse_stacks(
        shots,
        out,
        by="number",
        options=QUICK,
        workers=1,
        watch=True,
        settle=0.5,
        stop_after=0.5,
        progress=copy_a_piece,
    )
    assert seen == [("beetle/frame_0", 4)]  # once, with all frames
    assert times[-1] - times[-2] >= 0.5
    assert [row.stack for row in result.fused] == ["beetle/frame_0"]
    assert [row.stack for row in result.failed] == ["beetle/notes"]
    assert "no number" in (out / "contact_sheet.html").read_text()


def test_maps_do_not_replace_the_result_of_another_stack_nor_what_the_batch_did_not_make(tmp_path, address):
    shots, out = tmp_path / "shots", tmp_path / "out"
    for number, name in enumerate(("a", "a_depth", "b")):
        make_stack(shots / name, seed=number)
    out.mkdir()
    (out / "b_depth.png").write_bytes(b"mine")
    maps = dict(options=FuseOptions(method="depth-map", align=False), maps=["depth"])
    first = fuse_stacks(shots, out, **maps, scheduler=address)
    assert {row.stack: row.error.partition(": ")[2].partition(";")[0] for row in first.failed} == {
        "a": "is a file of the stack a_depth too",
        "b": "exists already and was not made by this batch",
    }
    assert [row.stack for row in first.fused] == ["a_depth"]
    assert (out / "b_depth.png").read_bytes() == b"mine"
    (out / "b_depth.png").unlink()
    shutil.move(shots / "a_depth", tmp_path)
    (out / "a_depth.png").unlink()
    assert len(fuse_stacks(shots, out, **maps, scheduler=address).fused) == 2
    without = dict(options=FuseOptions(method="depth-map", align=False))
    assert len(fuse_stacks(shots, out, **without, scheduler=address).fused) == 2
    assert len(fuse_stacks(shots, out, **maps, scheduler=address).fused) == 2  # the maps are known as its own


def test_an_output_named_like_a_picture_is_refused(tmp_path, run_command):
    shots = make_stacks(tmp_path / "shots", 1)
    done = run_command("batch", shots, "-o", tmp_path / "fused.jpg")
    assert done.returncode == 2
    assert "name a folder" in done.stderr
    assert not (tmp_path / "fused.jpg").exists()


def test_results_are_not_mixed_with_frames_and_may_lie_in_a_folder_below(tmp_path, address):
    shots = make_stacks(tmp_path / "shots", 1)
    with pytest.raises(OutputError, match="folder of the frames"):
        fuse_stacks(shots, shots, options=QUICK, scheduler=address)
    for expected in ("fused", "unchanged"):
        result = fuse_stacks(shots, shots / "out", options=QUICK, scheduler=address)
        assert [row.stack for row in getattr(result, expected)] == ["stack_0"]


def test_each_page_of_a_file_is_a_frame_and_maps_lie_beside_the_result(tmp_path, address):
    import tifffile

    pages = np.random.default_rng(0).integers(0, 255, (3, 64, 64, 3), np.uint8)
    (tmp_path / "shots").mkdir()
    tifffile.imwrite(tmp_path / "shots/slide.tif", pages, photometric="rgb")
    settings = dict(options=FuseOptions(method="depth-map", align=False), maps=["depth", "decision"])
    result = fuse_stacks(tmp_path / "shots", tmp_path / "out", by="file", **settings, scheduler=address)
    assert not result.failed, result.failed
    assert {"slide.tif", "slide_depth.png", "slide_decision.png"} <= {path.name for path in result.output.iterdir()}


def test_a_second_batch_into_the_same_folder_is_refused(tmp_path):
    shots, out = make_stacks(tmp_path / "shots", 1), tmp_path / "out"
    out.mkdir()
    with BatchManifest(out).opened(), pytest.raises(OutputError, match="another batch"):
        fuse_stacks(shots, out, options=QUICK, workers=1)


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


def test_workers_elsewhere_find_a_network_that_was_named_from_here(tmp_path, monkeypatch):
    shots = make_stacks(tmp_path / "shots", 1)
    weights = importlib.resources.files("allfocus") / "weights" / "ips.onnx"
    (tmp_path / "own.onnx").write_bytes(weights.read_bytes())
    monkeypatch.chdir(tmp_path)
    settings = dict(options=FuseOptions(method="own.onnx", align=False))
    with running_processes(tmp_path / "machines", workers=1) as processes:
        result = fuse_stacks(shots, tmp_path / "out", **settings, scheduler=processes.address, patience=120)
    assert [row.error for row in result.rows] == [""]
    assert len(result.fused) == 1
