"""A server of the studio in a thread of the tests, on a free port, and a client that knows its ways."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

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
def running_server(settings: ServerSettings) -> Iterator[StudioClient]:
    """A client of a server with these settings."""
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
