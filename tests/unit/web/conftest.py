"""A server in a thread of the tests, on a free port, with a small rendered stack to send to it."""

import contextlib
import io
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from allfocus.web.server import create_app
from allfocus.web.settings import ServerSettings

PATIENCE = 120.0


class StudioClient(httpx.Client):
    """A client that knows the usual ways through the interface."""

    work: Path

    def make_job(self, files: list[bytes], name: str = "stack") -> str:
        job_id: str = self.post("/api/jobs", json={"name": name}).json()["id"]
        for number, content in enumerate(files):
            answer = self.post(f"/api/jobs/{job_id}/frames", params={"name": f"frame_{number}.png"}, content=content)
            assert answer.status_code == 201, answer.text
        return job_id

    def job(self, job_id: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.get(f"/api/jobs/{job_id}").json()
        return shown

    def fuse(self, job_id: str, **options: Any) -> dict[str, Any]:
        answer = self.post(f"/api/jobs/{job_id}/start", json=options)
        assert answer.status_code == 202, answer.text
        return self.wait(job_id, lambda job: job["state"] not in ("queued", "running"))

    def wait(self, job_id: str, is_reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while not is_reached(job := self.job(job_id)):
            assert time.monotonic() < end, f"nothing came of it: {job}"
            time.sleep(0.02)
        return job

    def wait_until_nothing_is_left(self) -> None:
        """What was made to be downloaded is removed once it was sent, a moment after the last byte was received."""
        end = time.monotonic() + PATIENCE
        while left := list((self.work / "temporary").iterdir()):
            assert time.monotonic() < end, f"{left} stayed"
            time.sleep(0.02)


@contextlib.contextmanager
def _run_server(settings: ServerSettings) -> Iterator[StudioClient]:
    import uvicorn

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(256)
    app = create_app(settings)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with StudioClient(base_url=address, timeout=PATIENCE, trust_env=False) as client:
            client.work = settings.work
            while not server.started:
                assert thread.is_alive(), "the server did not start"
                time.sleep(0.005)
            yield client
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


def _encode(pixels: NDArray[Any]) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="session")
def run_server() -> Callable[[ServerSettings], contextlib.AbstractContextManager[StudioClient]]:
    """Runs a server with these settings and gives a client of it."""
    return _run_server


@pytest.fixture(scope="session")
def encode() -> Callable[[NDArray[Any]], bytes]:
    """Makes a PNG file of uint8 pixels."""
    return _encode


@pytest.fixture(scope="session")
def frame_files(small_stack: list[NDArray[np.float32]]) -> list[bytes]:
    """The three frames of the small stack (128 x 96) as 8-bit PNG files."""
    return [_encode(np.rint(frame * 255).astype(np.uint8)) for frame in small_stack]


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioClient]:
    """A client of a server that many tests share; each makes jobs of its own."""
    with _run_server(ServerSettings(work=tmp_path_factory.mktemp("studio") / "work")) as client:
        yield client
