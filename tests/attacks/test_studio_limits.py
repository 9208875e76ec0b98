"""What one client, or somebody without a token, can make the studio do: bounded time, memory, connections and log."""

import asyncio
import contextlib
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra web")

import httpx

from allfocus.web.connections import RecordLimit
from allfocus.web.events import LISTENERS, EventBus
from allfocus.web.job_records import Frame, Job, Run
from allfocus.web.processes import TaskError, WorkerProcess
from allfocus.web.refusals import Refusal
from allfocus.web.retouching import stroke_work
from allfocus.web.settings import ServerSettings
from allfocus.web.stroke import MOST_WORK, Stroke
from allfocus.web.studio import Studio
from allfocus.web.viewing import Viewer

SOURCE = Path(__file__).resolve().parents[2] / "src"

START = """
import resource, sys
from allfocus.web import connections
connections.LONGEST_HEADERS = 2.0
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
connections.SPARE_FILES = 150
from allfocus.cli.start import main
sys.argv = ["allfocus", "serve", "--no-browser", "--port", "0", "--work", sys.argv[1]]
main()
"""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    log = folder / "log"
    with log.open("wb") as file:
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
        words = [sys.executable, "-c", START, str(folder / "work")]
        process = subprocess.Popen(words, stderr=file, env=environment)
    try:
        end = time.monotonic() + 120
        while not (found := re.search(r"http://\S+?:([0-9]+)/", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end
            time.sleep(0.05)
        yield process, int(found[1]), log
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)


def is_healthy(port: int) -> bool:
    return httpx.get(f"http://127.0.0.1:{port}/api/health", timeout=20, trust_env=False).status_code == 200


def test_half_sent_headers_time_out_and_do_not_stop_others(tmp_path):
    with serving(tmp_path) as (_, port, log):
        sockets = []
        for number in range(400):  # more than the process may open
            try:
                one = socket.create_connection(("127.0.0.1", port), timeout=20)
                one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" if number % 2 else b"")
                sockets.append(one)
            except OSError:
                continue
        assert is_healthy(port)
        assert len(sockets) > 100
        time.sleep(3)
        for one in sockets:
            one.settimeout(10)
            with contextlib.suppress(ConnectionError):
                assert one.recv(1000) == b""  # hung up on
            one.close()
        assert is_healthy(port)
        # A connection that is kept for a second request may not take for ever over it either.
        with socket.create_connection(("127.0.0.1", port), timeout=20) as kept:
            kept.sendall(b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b"200 OK" in kept.recv(4000)
            kept.sendall(b"GET /api/hea")
            kept.settimeout(15)
            left = b"x"
            while left:
                left = kept.recv(4000)
        assert is_healthy(port)
        assert log.stat().st_size < 100_000


@pytest.mark.parametrize("presses", [1, 2, 3])
def test_ctrl_c_ends_the_studio_with_one_line_however_often_it_is_pressed(tmp_path, presses):
    with serving(tmp_path) as (process, port, log):
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20, trust_env=False) as client:
            job = client.post("/api/jobs", json={}).json()["id"]
            with socket.create_connection(("127.0.0.1", port)) as listening:
                listening.sendall(f"GET /api/jobs/{job}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
                listening.recv(1000)
                for _ in range(presses):
                    process.send_signal(signal.SIGINT)
                    time.sleep(0.05)
                process.wait(60)
        assert "Traceback" not in log.read_text()
        assert process.returncode == 130


def test_what_goes_wrong_again_and_again_is_not_logged_for_ever(caplog):
    logger = logging.getLogger("allfocus.test")
    limit = RecordLimit(5)
    logger.addFilter(limit)
    with caplog.at_level(logging.WARNING, "allfocus.test"):
        for number in range(1000):
            logger.warning("mistake %d", number)
    logger.removeFilter(limit)
    assert [record.getMessage() for record in caplog.records][-1].endswith("left out)")
    assert len(caplog.records) == 5


def test_no_more_clients_listen_than_may(tmp_path):
    bus = EventBus()

    async def listen_all() -> int:
        streams = []
        for _ in range(LISTENERS + 50):  # all are promised before one of them begins
            try:
                bus.require_room()
            except Refusal:
                continue
            streams.append(bus.listen("job", {}))
        for stream in streams:
            await stream.__anext__()
        count = len(streams)
        with pytest.raises(Refusal):
            bus.require_room()
        for stream in streams:
            await stream.aclose()
        bus.require_room()
        return count

    assert asyncio.run(listen_all()) == LISTENERS


def test_a_stroke_that_would_take_a_minute_is_refused(tmp_path):
    studio = Studio(ServerSettings(work=tmp_path / "work"))
    try:
        job_id = studio.create("a")["id"]
        job: Job = studio.job(job_id)
        values = dict(method="average", bit_depth=8, frames=["0123456789ab"], names=["a"], left_out={}, maps=[])
        values |= dict(has_report=False, bytes=1, first_revision=1, width=1000, height=700, channels=3)
        job.run = Run(folder="run-01234567", working_depth=16, white=1.0, seconds={}, aligned=False, **values)
        job.frames = [Frame("0123456789ab", "a.png", 1000, 700, 3, 8, 1)]
        points = [[float(number % 1000), 350.0] for number in range(20_000)]
        with pytest.raises(Refusal, match="brush") as refused:
            Viewer(studio).add_stroke(job_id, Stroke("s", "frame-0123456789ab", points, 4000.0, 0.5))
        assert refused.value.status == 413
        job.frames = []
    finally:
        studio.close()


def test_ordinary_strokes_are_far_from_the_limit():
    line = [[float(x), 2000.0] for x in range(0, 6000, 25)]
    assert stroke_work(Stroke("1", "a", line, radius=200, hardness=0.5), 6000, 4000) < MOST_WORK / 10


def test_ordinary_strokes_of_dabs_are_far_from_the_limit_and_endless_ones_beyond_it():
    line = [[float(x), 2000.0] for x in range(0, 6000, 25)]
    for change in ({"flow": 0.1}, {"tolerance": 0.2}, {"pen": "size"}):
        assert stroke_work(Stroke("1", "a", line, radius=40, hardness=0.5, **change), 6000, 4000) < MOST_WORK / 5
        endless = Stroke("1", "a", [[0.0, 0.0], [1e6, 0.0]] * 10_000, radius=1e-9, hardness=0.5, **change)
        assert stroke_work(endless, 6000, 4000) > 1000 * MOST_WORK


def test_a_worker_takes_no_more_memory_than_it_may(tmp_path):
    from allfocus.images.writing import write_image

    write_image(np.zeros((3000, 4000, 3), np.float32), tmp_path / "a.png", compression=1)
    values = {"path": str(tmp_path / "a.png"), "target": str(tmp_path / "t.jpg"), "max_pixels": 10**9}
    small, large = WorkerProcess(400_000_000), WorkerProcess(4_000_000_000)
    try:
        with pytest.raises(TaskError, match="memory"):
            small.run("make_thumbnail", values)
        large.run("make_thumbnail", values)
    finally:
        small.close()
        large.close()
    assert (tmp_path / "t.jpg").exists()


def test_a_machine_that_starts_no_more_processes_is_told_and_no_file_is_blamed(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(TaskError, match="no process can be started") as caught:
        WorkerProcess().run("make_thumbnail", {})
    assert caught.value.error.code == "memory"
