"""What the tests of the studio in a browser share: a server, Chromium, windows that are watched, frames, first steps.

Without Chromium the tests are skipped, unless ALLFOCUS_REQUIRE_BROWSER=1 says that it must be there.
"""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image
from scripts import load_script

pytest.importorskip("fastapi", reason="the studio needs the extra: pip install 'allfocus[web]'")
playwright_api = pytest.importorskip("playwright.sync_api", reason="no browser driver: pip install playwright")

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect  # noqa: E402

from allfocus.scenes.rendering import render_scene  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]

studio_browser = load_script("benchmarks/studio_browser.py")

HEIGHT, WIDTH, COUNT = 320, 480, 8

VIEWS = ("result", "finished", "slider", "side", "flicker", "difference", "depth", "decision", "confidence", "relief")

SECONDS = 1000  # playwright counts in milliseconds

BEEN_HERE = "try { localStorage.setItem('allfocus-tour', 'seen') } catch {}"
"""Makes a window that of somebody who knows the studio, to whom it shows no tour; a page of no host has no memory."""


@dataclass
class Studio:
    """A running server: its address, and its API in plain calls."""

    address: str
    log: Path
    """What it says."""

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.address + path, timeout=60) as answer:
            return bytes(answer.read())

    def send(self, path: str, body: bytes = b"{}", method: str = "POST", kind: str = "application/json") -> Any:
        request = urllib.request.Request(self.address + path, body, {"Content-Type": kind}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def job(self, identity: str) -> Any:
        return json.loads(self.get(f"/api/jobs/{identity}"))

    def make_job(self, paths: list[Path], name: str) -> str:
        identity: str = self.send("/api/jobs", json.dumps({"name": name}).encode())["id"]
        for path in paths:
            self.send(f"/api/jobs/{identity}/frames?name={path.name}", path.read_bytes(), kind="image/tiff")
        return identity

    def fuse(self, identity: str, **options: Any) -> None:
        self.send(f"/api/jobs/{identity}/start", json.dumps(options).encode())
        for _ in range(1200):
            if self.job(identity)["state"] == "done":
                return
            time.sleep(0.1)
        raise AssertionError(f"not fused within two minutes: {self.job(identity)}")


@dataclass
class Process:
    """``allfocus serve`` in a process of its own, which can be killed and started again at the same address."""

    folder: Path
    options: list[str]
    first: Path
    """What is put first on its search path."""

    def start(self, port: int = 0) -> Studio:
        search = os.pathsep.join(filter(None, (str(self.first), str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-m", "allfocus.cli", "serve", "--no-browser", "--port", str(port)]
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--work", str(self.folder / "work"), *self.options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": search},
            )
        return Studio(address_in(self.folder / "log", self.process), self.folder / "log")

    def stop(self, with_signal: int = signal.SIGINT) -> None:
        self.process.send_signal(with_signal)
        try:
            self.process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self.process.kill()  # or it would outlive the tests
            self.process.wait()
            raise AssertionError(f"the server did not end: {(self.folder / 'log').read_text()}") from None


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory, module_brake: Any) -> Iterator[Studio]:
    """A server for most of the tests, with one report to show."""
    folder = tmp_path_factory.mktemp("studio")
    report = folder / "reports" / "trial"
    report.mkdir(parents=True)
    (report / "report.html").write_text("<!doctype html><title>Trial</title><h1>Two methods on one set</h1>")
    options = ["--reports", str(report.parent), "--allow-folders", str(tmp_path_factory.getbasetemp())]
    server = Process(folder, options, module_brake.folder)
    try:
        yield server.start()
    finally:
        server.stop()


def address_in(log: Path, process: "subprocess.Popen[bytes]") -> str:
    """What the server printed about where it listens."""
    for _ in range(2400):
        found = re.search(r"http://[\d.]+:\d+", log.read_text())
        if found:
            return found[0]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise AssertionError(f"the server did not start: {log.read_text()}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium as the system has it."""
    program = studio_browser.find_chromium()
    if program is None:
        if os.environ.get("ALLFOCUS_REQUIRE_BROWSER") == "1":
            pytest.fail("no Chromium found and ALLFOCUS_REQUIRE_BROWSER=1; install the package chromium")
        pytest.skip("no Chromium found; install the package chromium")
    expect.set_options(timeout=60 * SECONDS)  # a shared machine is slow at random
    with playwright_api.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=program, args=list(studio_browser.SWITCHES), timeout=180 * SECONDS
        )
        yield started
        started.close()


@dataclass
class Watched:
    """A page and what went wrong on it."""

    page: Page
    problems: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    """All that the console said and all requests with their ends, for whoever wants to know why a test failed."""

    def allow(self, text: str) -> None:
        """Expect messages of the console with this text in them."""
        self.allowed.append(text)


@pytest.fixture
def watched(browser: Browser, studio: Studio, not_for_ever: Any, has_failed: Any) -> Iterator[Watched]:
    """A fresh window; afterwards: no error in its console, no request to another host."""
    seen: list[Watched] = []

    def describe() -> str:
        story = seen[0].story if seen else ["no window was opened"]
        return "\n".join(["--- the page:", *story[-200:], "--- the server:", studio.log.read_text()[-20_000:]])

    with not_for_ever(describe):
        context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
        context.set_default_timeout(60 * SECONDS)
        context.add_init_script(BEEN_HERE)
        seen.append(watch(context.new_page(), studio))
        yield seen[0]
        if has_failed():
            print(describe())
        context.close()
    unexpected = [text for text in seen[0].problems if not any(allowed in text for allowed in seen[0].allowed)]
    assert unexpected == [], "\n".join([*unexpected, describe()])


def watch(page: Page, studio: Studio) -> Watched:
    """A page with somebody who writes down what goes on in it."""
    seen = Watched(page)

    def on_console(message: ConsoleMessage) -> None:
        seen.story.append(f"console: {message.type} {message.text}")
        from_driver = "GL Driver Message" in message.text  # how fast WebGL is without a graphics card, not whether
        if message.type in ("error", "warning") and not from_driver:
            seen.problems.append(f"{message.text} {message.location.get('url', '')}")

    def on_request(request: Request) -> None:
        seen.story.append(f"asks: {request.method} {request.url[:300]}")
        if not request.url.startswith((studio.address, "blob:", "data:")):
            seen.problems.append(f"a request to another host: {request.url}")

    def on_error(error: object) -> None:
        seen.story.append(f"uncaught: {error}")
        seen.problems.append(f"uncaught: {error}")

    page.on("console", on_console)
    page.on("pageerror", on_error)
    page.on("crash", lambda _: seen.story.append("the page has crashed"))
    page.on("request", on_request)
    page.on("requestfinished", lambda request: seen.story.append(f"has: {request.method} {request.url[:300]}"))
    page.on("requestfailed", lambda request: seen.story.append(f"has not: {request.method} {request.url[:300]}"))
    return seen


@pytest.fixture(scope="module")
def frames() -> list[np.ndarray]:
    """Eight registered frames of a rendered scene, 16 bit."""
    scene = render_scene("desk", frames=COUNT, size=(HEIGHT, WIDTH), bit_depth=16, noise=0.002)
    return [np.rint(frame * 65535).astype(np.uint16) for frame in scene.frames]


@pytest.fixture(scope="module")
def frame_paths(frames: list[np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("frames")
    paths = [folder / f"shot_{number}.tif" for number in range(1, COUNT + 1)]
    for path, frame in zip(paths, frames, strict=True):
        tifffile.imwrite(path, frame, photometric="rgb")
    return paths


def drop(page: Page, paths: list[Path]) -> None:
    """Drop files or folders onto the window, as the browser receives them from a file manager."""
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 300, "y": 300, "data": data})


def open_job(page: Page, studio: Studio, identity: str) -> Locator:
    """Open the result of a job; returns the canvas once all its tiles are drawn."""
    page.goto(f"{studio.address}/#/stack/{identity}")
    expect(page.locator("body")).to_have_attribute("data-phase", "done")
    settle(page)
    return page.locator("#canvas")


def settle(page: Page) -> None:
    """Wait until the canvas shows what was asked for, with all its tiles."""
    settle_cards(page)
    expect(page.locator("#canvas")).to_have_attribute("data-complete", "true")


def choose_view(page: Page, name: str) -> None:
    page.locator(f'#views input[value="{name}"]').check(force=True)
    if name != "relief":
        settle(page)


def pixels(page: Page, left: float, top: float, right: float, bottom: float) -> np.ndarray:
    """What the canvas shows in a part of it, the corners as shares of its width and height: (height, width, 3)."""
    picture: str = page.evaluate(
        """([left, top, right, bottom]) => {
          const shown = document.getElementById("canvas");
          const copy = document.createElement("canvas");
          [copy.width, copy.height] = [(right - left) * shown.width, (bottom - top) * shown.height].map(Math.round);
          const place = [left * shown.width, top * shown.height].map(Math.round);
          copy.getContext("2d").drawImage(shown, ...place, copy.width, copy.height, 0, 0, copy.width, copy.height);
          return copy.toDataURL("image/png");
        }""",
        [left, top, right, bottom],
    )
    return np.asarray(Image.open(BytesIO(base64.b64decode(picture.partition(",")[2]))).convert("RGB"), np.float64)


def settle_cards(page: Page) -> None:
    """Wait until what was asked for is drawn.

    What runs in a page has no time limit in the driver, and a browser that draws nothing (its process for graphics has
    died or hangs) never calls back; so the page itself must give up.
    """
    page.evaluate(
        """() => new Promise((done, fail) => {
          requestAnimationFrame(() => requestAnimationFrame(done));
          setTimeout(() => fail(new Error("the browser has drawn nothing for two minutes")), 120_000);
        })"""
    )


def place_on_screen(page: Page, x: float, y: float) -> tuple[float, float]:
    """Where a place of the result is on the page."""
    found: list[float] = page.evaluate(
        """async ([x, y]) => {
          const { canvas, panes, view } = await import("/static/viewer.js");
          const { toScreen } = await import("/static/camera.js");
          const box = canvas.getBoundingClientRect();
          const at = toScreen(view.camera, panes()[0], { x, y });
          return [box.left + at.x * box.width / canvas.width, box.top + at.y * box.height / canvas.height];
        }""",
        [x, y],
    )
    return found[0], found[1]


def axe_script() -> str:
    """The script of axe-core, which finds what shuts people out of a page."""
    axe = pytest.importorskip("axe_playwright_python.base", reason="no axe-core: pip install axe-playwright-python")
    return Path(axe.__file__).with_name("axe.min.js").read_text(encoding="utf-8")


def violations(page: Page, script: str) -> list[tuple[str, str, str]]:
    """What axe-core finds wrong with the page as it is now: the rule, the element, and what would mend it."""
    page.evaluate(script)
    found = page.evaluate("async () => JSON.stringify((await axe.run(document)).violations)")
    return [
        (rule["id"], node["html"][:200], node["failureSummary"]) for rule in json.loads(found) for node in rule["nodes"]
    ]
