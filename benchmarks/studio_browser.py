"""A running studio and a Chromium to look at it with, for the scripts here that measure or photograph the page."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect, sync_playwright

SWITCHES = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    "--enable-unsafe-swiftshader",
)
"""Nothing is fetched in the background; pages are drawn by the processor itself, and so is WebGL."""


@contextmanager
def running_studio(folder: Path, *options: str) -> Iterator[str]:
    """The address of ``allfocus serve`` with its jobs in a folder, its number in ``server.pid``; stopped at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "allfocus.cli",
        "serve",
        "--no-browser",
        "--port",
        "0",
        "--work",
        str(folder / "work"),
    ]
    with (folder / "server.log").open("w+") as log:
        process = subprocess.Popen([*command, *options], stderr=log, env=os.environ)
        (folder / "server.pid").write_text(str(process.pid))
        try:
            yield _address(Path(log.name), process)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


def _address(log: Path, process: "subprocess.Popen[bytes]") -> str:
    while process.poll() is None:
        found = re.search(r"http://[\d.]+:\d+", log.read_text())
        if found:
            return found[0]
        time.sleep(0.05)
    raise SystemExit(f"the server did not start: {log.read_text()}")


def find_chromium() -> str | None:
    """The program of Chromium, or of Chrome, on this machine."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The Chromium of this machine, without a window."""
    program = find_chromium()
    if program is None:
        raise SystemExit("no Chromium found; install the package chromium")
    expect.set_options(timeout=120_000)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(SWITCHES))
        yield browser
        browser.close()


def processor_seconds(*roots: int) -> float:
    """What these processes and all that they started have taken of the processor so far, as far as they still run."""
    taken: dict[int, float] = {}
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(folder.name)] = int(fields[1])
        taken[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_below(process: int) -> bool:
        while process and process not in roots:
            process = parents.get(process, 0)
        return process in roots

    return sum(seconds for process, seconds in taken.items() if is_below(process))


def browser_process(browser: Browser) -> int:
    """The number of the first process of a browser, which started all its others."""
    found = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return next(int(process["id"]) for process in found if process["type"] == "browser")


def call(address: str, path: str, body: dict[str, Any] | Path | None = None) -> Any:
    """The studio's answer: GET without a body, else POST of JSON or of a file."""
    data = body.read_bytes() if isinstance(body, Path) else json.dumps(body).encode() if body is not None else None
    kind = "image/tiff" if isinstance(body, Path) else "application/json"
    request = urllib.request.Request(address + path, data, {"Content-Type": kind} if data is not None else {})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.loads(answer.read())


def fuse(address: str, name: str, frames: list[Path] | Path, **options: Any) -> str:
    """The id of a job with this name that is done: one of an earlier run, else one that is fused now over the API.

    A folder of frames is opened where it lies; the studio must have been started with ``--allow-folders``.
    """
    for job in call(address, "/api/jobs"):
        if job["name"] == name and job["state"] == "done":
            return str(job["id"])
    identity = str(call(address, "/api/jobs", {"name": name})["id"])
    if isinstance(frames, Path):
        call(address, f"/api/jobs/{identity}/folder", {"path": str(frames.absolute())})
    else:
        for path in frames:
            call(address, f"/api/jobs/{identity}/frames?name={path.name}", path)
    fuse_again(address, identity, **options)
    return identity


def fuse_again(address: str, identity: str, **options: Any) -> None:
    """Give a job of the studio one more result, and wait for it."""
    call(address, f"/api/jobs/{identity}/start", options)
    while (job := call(address, f"/api/jobs/{identity}"))["state"] in ("queued", "running"):
        time.sleep(0.3)
    if job["state"] != "done":
        raise SystemExit(f"{job['name']}: {job['state']}: {job['error']}")
