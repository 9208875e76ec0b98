"""What a hostile or unlucky client may do to `allfocus serve`, a real one in a process of its own."""

import contextlib
import io
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tifffile

SOURCE = Path(__file__).resolve().parents[2] / "src"
PATIENCE = 120.0
UPLOAD_LIMIT = 1_000_000
FRAME_LIMIT = 100


class Server:
    """A running `allfocus serve`, and a client of it."""

    def __init__(self, work: Path, *options: str, first: Path | None = None) -> None:
        self.work = work
        search = os.pathsep.join(filter(None, (str(first or ""), str(SOURCE), os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-m", "allfocus.cli", "serve", "--no-browser", "--port", "0", "--work", str(work)]
        work.parent.mkdir(parents=True, exist_ok=True)
        self._log = work.parent / f"server-{time.monotonic_ns()}.log"
        with self._log.open("w") as log:
            environment = {**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1"}
            self.process = subprocess.Popen([*command, *options], stdout=log, stderr=log, env=environment)
        end = time.monotonic() + PATIENCE
        while not (found := re.search(r"http://\S+?:([0-9]+)/\S* ", self.log)):
            assert self.process.poll() is None, self.log
            assert time.monotonic() < end
            time.sleep(0.02)
        self.port = int(found[1])
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE, trust_env=False)

    @property
    def log(self) -> str:
        """What the server printed."""
        return self._log.read_text()

    def make_job(self, files: list[bytes], name: str = "stack") -> str:
        job_id: str = self.client.post("/api/jobs", json={"name": name}).json()["id"]
        for number, content in enumerate(files):
            answer = self.upload(job_id, content, f"frame_{number}.png")
            assert answer.status_code == 201, answer.text
        return job_id

    def upload(self, job_id: str, content: Any, name: str, **options: Any) -> httpx.Response:
        return self.client.post(f"/api/jobs/{job_id}/frames", params={"name": name}, content=content, **options)

    def job(self, job_id: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.client.get(f"/api/jobs/{job_id}").json()
        return shown

    def start(self, job_id: str, **options: Any) -> httpx.Response:
        return self.client.post(f"/api/jobs/{job_id}/start", json=options)

    def wait(self, job_id: str, is_reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while not is_reached(job := self.job(job_id)):
            assert time.monotonic() < end, f"nothing came of it: {job}"
            time.sleep(0.02)
        return job

    def wait_for_progress(self, job_id: str) -> None:
        self.wait(job_id, lambda job: job["state"] == "running" and job["progress"] is not None)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.client.close()

    def stop(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()  # or it would outlive the tests
            self.process.wait()
            raise AssertionError(f"the server did not end: {self.log}") from None


@contextlib.contextmanager
def serving(work: Path, *options: str, first: Path | None = None) -> Iterator[Server]:
    server = Server(work, *options, first=first)
    try:
        yield server
    finally:
        server.stop()
        assert "Traceback" not in server.log, server.log


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, module_brake: Any) -> Iterator[Server]:
    limits = ["--max-upload", str(UPLOAD_LIMIT), "--max-pixels", "1000000", "--max-frames", str(FRAME_LIMIT)]
    limits += ["--workers", "2", "--max-waiting", "3"]
    with serving(tmp_path_factory.mktemp("studio") / "work", *limits, first=module_brake.folder) as running:
        yield running
        assert running.client.get("/api/health").status_code == 200


@pytest.fixture(scope="module")
def tiny_files() -> list[bytes]:
    random = np.random.default_rng(0)
    return [encode_png(random.integers(0, 256, (24, 32, 3)).astype(np.uint8)) for _ in range(2)]


@pytest.fixture(scope="module")
def large_files() -> list[bytes]:
    """Six frames of more than a few pixels."""
    random = np.random.default_rng(0)
    scene = np.kron(random.integers(0, 256, (60, 90, 3)), np.ones((10, 10, 1))).astype(np.uint8)
    return [encode_png(np.roll(scene, shift, axis=1)) for shift in (0, 1, 2, 1, 0, 1)]


def encode_png(pixels: Any) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=1)
    return file.getvalue()


def png_that_promises(width: int, height: int) -> bytes:
    """A PNG whose header says so, with a few kilobytes of zeros that unpack to a thousand times as much."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(4_000_000), 9)) + chunk(b"IEND", b"")


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


NAMES = [
    "../../../../tmp/evil.png", "..\\..\\evil.png", "/etc/passwd", "C:\\evil.png", "....//....//evil.png",
    "%2e%2e%2fevil.png", "evil\x00.png", "a\nb.png", "\u202egnp.exe", "con", ".", "..", "", " ", "x" * 900,
    "<img src=x onerror=alert(1)>.png", "job.json", "-rf", "$(reboot).png", "'; rm -rf ~ #.png",
]  # fmt: skip


def test_no_name_of_a_client_becomes_a_path(server: Server, tiny_files: list[bytes]) -> None:
    around = files_below(server.work.parent) - files_below(server.work)
    job_id = server.make_job([], name="../../evil")
    for name in NAMES:
        assert server.upload(job_id, tiny_files[0], name).status_code == 201, name
    job = server.job(job_id)
    assert "/" not in job["name"]
    for frame in job["frames"]:
        assert frame["name"]
        assert not re.search(r"[/\\\x00-\x1f\u202e]", frame["name"])
    assert {path.name for path in (server.work / "jobs" / job_id / "frames").iterdir()} == {
        frame["id"] for frame in job["frames"]
    }
    assert files_below(server.work.parent) - files_below(server.work) == around
    assert server.start(job_id, method="average", align=False).status_code == 202
    assert server.wait(job_id, lambda job: job["state"] not in ("queued", "running"))["state"] == "done"
    report = server.client.get(f"/api/jobs/{job_id}/report").text
    assert "<img src=x" not in report
    assert "&lt;img src=x" in report
    assert str(server.work) not in report
    disposition = server.client.get(f"/api/jobs/{job_id}/download").headers["content-disposition"]
    assert "/" not in disposition.replace("%2F", "/")
    server.client.delete(f"/api/jobs/{job_id}")


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static/%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2fetc/passwd",
        "/static//etc/passwd",
        "/static/..\\server.py",
        "/api/jobs/..%2f..%2fserver.lock",
        "/api/jobs/%2e%2e",
        "/reports/../server.lock",
        "/api/jobs/x/maps/..%2f..%2fjob.json",
        "/api/jobs/x/maps/%2e%2e%2fresult.png",
    ],
)
def test_no_address_leads_out_of_the_public_files(server: Server, path: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert re.match(rb"HTTP/1.1 (400|404) ", answer), answer[:200]


def test_ten_thousand_tiny_files_end_at_the_limit_of_frames(server: Server) -> None:
    file = encode_png(np.zeros((1, 1), np.uint8))
    job_id = server.make_job([])
    head = (
        f"POST /api/jobs/{job_id}/frames?name=a.png HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(file)}\r\n\r\n"
    )
    request = head.encode() + file
    answers = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw:
        raw.settimeout(PATIENCE)
        for _ in range(100):
            raw.sendall(request * 100)
            while answers.count(b"HTTP/1.1 ") < 100 or not answers.endswith(b"}"):
                answers += raw.recv(2**20)
            statuses = re.findall(rb"HTTP/1.1 ([0-9]+)", answers)
            accepted = statuses.count(b"201")
            assert accepted + statuses.count(b"413") == 100, set(statuses)
            answers = b""
    assert len(server.job(job_id)["frames"]) == FRAME_LIMIT
    assert len(list((server.work / "jobs" / job_id / "frames").iterdir())) == FRAME_LIMIT
    assert not list((server.work / "temporary").iterdir())
    server.client.delete(f"/api/jobs/{job_id}")


def test_a_file_larger_than_the_limit_is_refused_whatever_it_says_of_its_length(server: Server) -> None:
    job_id = server.make_job([])
    large = bytes(UPLOAD_LIMIT + 1)
    assert server.upload(job_id, large, "large.png").status_code == 413

    def pieces() -> Iterator[bytes]:
        for _ in range(100):
            yield bytes(100_000)

    with contextlib.suppress(httpx.WriteError, httpx.ReadError):  # hung up on before it had sent everything
        assert server.upload(job_id, pieces(), "endless.png").status_code == 413
    assert server.upload(job_id, b"", "empty.png").status_code == 415
    for length in ("-1", "x", "1000"):  # two lies, and one who hangs up after the first bytes
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw:
            raw.sendall(f"POST /api/jobs/{job_id}/frames HTTP/1.1\r\nHost: localhost\r\n".encode())
            raw.sendall(f"Content-Length: {length}\r\n\r\nhello".encode())
    end = time.monotonic() + PATIENCE
    while list((server.work / "temporary").iterdir()):
        assert time.monotonic() < end, "a part of an upload was left behind"
        time.sleep(0.02)
    assert server.job(job_id)["frames"] == []


@pytest.mark.parametrize(("width", "height"), [(50_000, 50_000), (2**31 - 1, 2**31 - 1), (1001, 1000)])
def test_a_bomb_is_refused_by_its_header(server: Server, width: int, height: int) -> None:
    job_id = server.make_job([])
    answer = server.upload(job_id, png_that_promises(width, height), "bomb.png")
    assert answer.status_code in (413, 415)
    assert "bomb.png" in answer.json()["error"]
    assert server.job(job_id)["frames"] == []


def test_a_file_that_unpacks_to_more_than_it_promises_does_no_harm(server: Server) -> None:
    job_id = server.make_job([png_that_promises(40, 30), png_that_promises(40, 30)])
    frame = server.job(job_id)["frames"][0]["id"]
    assert server.client.get(f"/api/jobs/{job_id}/frames/{frame}/thumbnail").status_code in (200, 415)
    assert server.start(job_id, method="average").status_code == 202
    job = server.wait(job_id, lambda job: job["state"] not in ("queued", "running"))
    assert job["state"] in ("done", "failed")


def tiff_with(pages: int, side: int) -> bytes:
    """A small file of many black pictures."""
    file = io.BytesIO()
    black = np.zeros((side, side), np.uint8)
    with tifffile.TiffWriter(file) as writer:
        for _ in range(pages):
            writer.write(black, photometric="minisblack", compression="zlib", metadata=None)
    return file.getvalue()


def test_a_file_of_too_many_pictures_is_refused_before_it_is_unpacked(server: Server, tmp_path: Path) -> None:
    job_id = server.make_job([])
    answer = server.upload(job_id, tiff_with(FRAME_LIMIT + 1, 4), "many.tif")
    assert answer.status_code == 413
    assert f"holds {FRAME_LIMIT + 1} pictures" in answer.json()["error"]
    assert server.upload(job_id, tiff_with(3, 4), "few.tif").status_code == 201
    with serving(tmp_path / "work", "--max-disk", "2M") as small:
        job_id = small.make_job([])
        answer = small.upload(job_id, tiff_with(3, 900), "bomb.tif")
        assert answer.status_code == 413, answer.text
        assert small.job(job_id)["frames"] == []
        assert not list((small.work / "temporary").iterdir())


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"<html><script>alert(1)</script>", "image/png"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
        (b"GIF89a" + bytes(50), "image/gif"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "image/png"),
        (b"\xff\xd8\xff\xe0" + bytes(50), "image/jpeg"),
        (b"II*\x00" + b"\xff" * 50, "image/tiff"),
        (b"RIFF\x00\x00\x00\x00WEBP" + bytes(20), "image/webp"),
        (b"PK\x03\x04" + bytes(50), "application/octet-stream"),
    ],
)
def test_what_is_no_picture_is_refused_whatever_its_type_says(server: Server, content: bytes, kind: str) -> None:
    job_id = server.make_job([])
    answer = server.upload(job_id, content, "picture.png", headers={"content-type": kind})
    assert answer.status_code == 415
    assert "picture.png" in answer.json()["error"]
    assert str(server.work) not in answer.text
    assert server.job(job_id)["frames"] == []


def test_a_form_is_no_picture_and_a_picture_is_one_under_any_type(server: Server, tiny_files: list[bytes]) -> None:
    job_id = server.make_job([])
    url = f"/api/jobs/{job_id}/frames"
    assert server.client.post(url, files={"file": ("a.png", tiny_files[0])}).status_code == 415
    for kind in ("text/html", "application/json", "application/x-www-form-urlencoded"):
        assert server.upload(job_id, tiny_files[0], "a.png", headers={"content-type": kind}).status_code == 415
    assert server.upload(job_id, tiny_files[0], "a.jpg", headers={"content-type": "image/jpeg"}).status_code == 201


def test_a_foreign_page_can_do_nothing(server: Server, tiny_files: list[bytes]) -> None:
    job_id = server.make_job(tiny_files)
    foreign = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    assert server.upload(job_id, tiny_files[0], "a.png", headers=foreign).status_code == 403
    assert server.client.delete(f"/api/jobs/{job_id}", headers=foreign).status_code == 403
    assert server.client.post(f"/api/jobs/{job_id}/start", headers=foreign, json={}).status_code == 403
    assert server.client.get("/api/jobs", headers={"host": "rebound.example"}).status_code == 403
    job = server.job(job_id)
    assert (len(job["frames"]), job["state"]) == (2, "new")


def test_a_server_for_others_prints_a_token_and_demands_it(tmp_path: Path) -> None:
    with serving(tmp_path / "work", "--host", "0.0.0.0") as running:
        token = re.search(r"\?token=([A-Za-z0-9_-]{40,})", running.log)
        assert token
        assert running.client.get("/api/jobs").status_code == 401
        assert running.client.get("/").status_code == 401
        headers = {"authorization": f"Bearer {token[1]}"}
        assert running.client.get("/api/jobs", headers=headers).status_code == 200
        assert token[1] not in "".join(map(str, running.work.rglob("*")))


def children_of(pid: int) -> list[int]:
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in file.read_text().split()]
    return found


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_until_gone(pids: list[int]) -> None:
    end = time.monotonic() + PATIENCE
    while any(map(is_alive, pids)):
        assert time.monotonic() < end, "a worker outlived its server"
        time.sleep(0.02)


def test_a_job_cancelled_in_the_middle_is_over_and_can_be_started_again(
    server: Server, large_files: list[bytes], tiny_files: list[bytes], brake: Any
) -> None:
    brake.hold()
    job_id = server.make_job(large_files)
    assert server.start(job_id, method="ips").status_code == 202
    server.wait_for_progress(job_id)
    assert server.start(job_id, method="ips").status_code == 409
    assert server.upload(job_id, tiny_files[0], "late.png").status_code == 409
    # Held, it would run for ever; only the cancelling ends it.
    assert server.client.post(f"/api/jobs/{job_id}/cancel").status_code == 202
    job = server.wait(job_id, lambda job: job["state"] == "cancelled")
    brake.release()
    assert job["result"] is None
    assert len(job["frames"]) == 6
    assert server.client.post(f"/api/jobs/{job_id}/cancel").status_code == 409
    end = time.monotonic() + PATIENCE
    while list((server.work / "jobs" / job_id).glob("run-*")):
        assert time.monotonic() < end, "a run that was cut short was left behind"
        time.sleep(0.02)
    assert server.start(job_id, method="average", align=False).status_code == 202
    assert server.wait(job_id, lambda job: job["state"] not in ("queued", "running"))["state"] == "done"


def test_a_job_deleted_in_the_middle_leaves_nothing(server: Server, large_files: list[bytes], brake: Any) -> None:
    brake.hold()
    job_id = server.make_job(large_files)
    server.start(job_id, method="ips")
    server.wait_for_progress(job_id)
    assert server.client.delete(f"/api/jobs/{job_id}").status_code == 204
    assert server.client.get(f"/api/jobs/{job_id}").status_code == 404
    end = time.monotonic() + PATIENCE
    while (server.work / "jobs" / job_id).exists():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_twenty_clients_at_once_are_served_or_told_to_wait(server: Server, tiny_files: list[bytes], brake: Any) -> None:
    brake.hold()  # until one is told to wait, so that the line is full whatever the machine's pace
    told_to_wait = []

    def work(number: int) -> str:
        with httpx.Client(base_url=server.client.base_url, timeout=PATIENCE, trust_env=False) as client:
            job_id = client.post("/api/jobs", json={"name": f"client {number}"}).json()["id"]
            for name in ("a.png", "b.png"):
                sent = client.post(
                    f"/api/jobs/{job_id}/frames", params={"name": name}, content=tiny_files[name == "b.png"]
                )
                assert sent.status_code == 201, sent.text
            end = time.monotonic() + 2 * PATIENCE
            while True:
                answer = client.post(f"/api/jobs/{job_id}/start", json={"method": "average", "align": False})
                assert answer.status_code in (202, 429), answer.text
                if answer.status_code == 202:
                    break
                assert int(answer.headers["retry-after"]) > 0
                told_to_wait.append(number)
                brake.release()
                assert time.monotonic() < end
                time.sleep(0.2)
            while (job := client.get(f"/api/jobs/{job_id}").json())["state"] in ("queued", "running"):
                assert time.monotonic() < end
                time.sleep(0.1)
            tile = client.get(f"/api/jobs/{job_id}/tiles/result/0/0/0")
            assert tile.status_code == 200
            state: str = job["state"]
            return state

    with ThreadPoolExecutor(20) as pool:
        states = list(pool.map(work, range(20)))
    assert states == ["done"] * 20
    assert told_to_wait, "the queue was never full: the test did not test it"


def test_kill_minus_nine_loses_nothing_finished_and_shows_nothing_unfinished(
    tmp_path: Path, large_files: list[bytes], tiny_files: list[bytes], brake: Any
) -> None:
    work = tmp_path / "work"
    running = Server(work, first=brake.folder)
    finished = running.make_job(tiny_files, name="finished")
    running.start(finished, method="depth-map", align=False)
    frame = running.wait(finished, lambda job: job["state"] == "done")["frames"][1]["id"]
    stroke = {"source": f"frame-{frame}", "points": [[10, 10], [20, 12]], "radius": 6, "hardness": 0.5}
    assert running.client.post(f"/api/jobs/{finished}/strokes", json=stroke).status_code == 201
    before = running.job(finished)
    file = running.client.get(f"/api/jobs/{finished}/download").content
    again = running.make_job(large_files, name="finished before, running now")
    running.start(again, method="average", align=False)
    running.wait(again, lambda job: job["state"] == "done")
    waiting = running.make_job(tiny_files, name="waiting")
    uploading = running.make_job([], name="uploading")
    brake.hold()
    running.start(again, method="ips")
    running.start(waiting, method="average")
    with socket.create_connection(("127.0.0.1", running.port)) as raw:
        head = f"POST /api/jobs/{uploading}/frames HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n"
        raw.sendall(head.encode() + bytes(200_000))
        running.wait_for_progress(again)
        workers = children_of(running.process.pid)
        assert workers
        running.kill()
    wait_until_gone(workers)
    brake.release()
    with serving(work) as restarted:
        jobs = {job["name"]: job for job in restarted.client.get("/api/jobs").json()}
        assert jobs["finished"] == before
        download = restarted.client.get(f"/api/jobs/{finished}/download").content
        assert np.array_equal(tifffile.imread(io.BytesIO(download)), tifffile.imread(io.BytesIO(file)))
        assert restarted.client.get(f"/api/jobs/{finished}/tiles/result/0/0/0").status_code == 200
        cut_short = jobs["finished before, running now"]
        assert cut_short["state"] == "failed"
        assert "the server stopped while it ran" in cut_short["error"]
        assert [len(jobs[name]["frames"]) for name in ("finished before, running now", "waiting")] == [6, 2]
        assert cut_short["result"]["method"] == "average"
        assert restarted.wait(waiting, lambda job: job["state"] not in ("queued", "running"))["state"] == "done"
        assert jobs["uploading"]["frames"] == []
        assert not list((work / "temporary").iterdir())
        assert len(list((work / "jobs" / again).glob("run-*"))) == 1
        assert restarted.start(waiting, method="average", align=False).status_code == 202
        assert restarted.wait(waiting, lambda job: job["state"] not in ("queued", "running"))["state"] == "done"


def test_a_full_disk_is_said_and_a_deletion_makes_room(tmp_path: Path, large_files: list[bytes]) -> None:
    limit = 3 * len(large_files[0])
    with serving(tmp_path / "work", "--max-disk", str(limit), "--max-jobs", "2") as running:
        job_id = running.make_job(large_files[:2])
        answer = running.upload(job_id, large_files[2] + bytes(len(large_files[0])), "more.png")
        assert answer.status_code == 507
        assert running.start(job_id, method="average").status_code == 507
        assert running.client.post("/api/jobs", json={}).status_code == 201
        assert running.client.post("/api/jobs", json={}).status_code == 507
        assert running.client.delete(f"/api/jobs/{job_id}").status_code == 204
        other = running.client.post("/api/jobs", json={}).json()["id"]
        assert running.upload(other, large_files[0], "a.png").status_code == 201


def test_a_worker_that_is_killed_fails_its_job_and_not_the_server(
    server: Server, large_files: list[bytes], brake: Any
) -> None:
    brake.hold()
    job_id = server.make_job(large_files)
    before = set(children_of(server.process.pid))
    server.start(job_id, method="ips")
    server.wait_for_progress(job_id)
    for child in set(children_of(server.process.pid)) - before:
        os.kill(child, signal.SIGKILL)
    job = server.wait(job_id, lambda job: job["state"] not in ("queued", "running"))
    assert job["state"] == "failed"
    assert "worker process ended (signal 9)" in job["error"]


def test_ctrl_c_stops_the_server_at_once_even_while_it_works(
    tmp_path: Path, large_files: list[bytes], brake: Any
) -> None:
    brake.hold()
    running = Server(tmp_path / "work", first=brake.folder)
    job_id = running.make_job(large_files)
    running.start(job_id, method="ips")
    running.wait_for_progress(job_id)
    workers = children_of(running.process.pid)
    with running.client.stream("GET", f"/api/jobs/{job_id}/events"):
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(PATIENCE) == 130
    wait_until_gone(workers)
    running.client.close()
    stored = json.loads((tmp_path / "work" / "jobs" / job_id / "job.json").read_text())
    assert stored["state"] == "failed"


def test_a_port_or_folder_in_use_is_one_line_and_exit_code_2(server: Server, run_command: Any, tmp_path: Path) -> None:
    for options in (["--port", server.port, "--work", tmp_path], ["--port", 0, "--work", server.work]):
        answer = run_command("serve", "--no-browser", *options)
        assert answer.returncode == 2
        assert answer.stderr.count("\n") == 1, answer.stderr


def test_without_the_extra_the_command_names_it(run_command: Any, tmp_path: Path) -> None:
    (tmp_path / "fastapi.py").write_text("raise ImportError('not here')")
    answer = run_command("serve", environment={"PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE)])})
    assert answer.returncode == 2
    assert "allfocus[web]" in answer.stderr
