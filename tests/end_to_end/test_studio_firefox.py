"""The main way through the studio in Firefox as Debian has it: choose frames, fuse, look, paint, undo, save.

Firefox is spoken to in WebDriver BiDi, which it understands by itself. Without Firefox the test is skipped, unless
ALLFOCUS_REQUIRE_FIREFOX=1 says that it must be there.
"""

import asyncio
import base64
import io
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import studio_window as window
import tifffile
from PIL import Image

aiohttp = pytest.importorskip("aiohttp", reason="nothing to speak to Firefox with: pip install aiohttp")

from allfocus.web.dabs import DabMask  # noqa: E402
from allfocus.web.stroke import Stroke  # noqa: E402

studio, frames, frame_paths = window.studio, window.frames, window.frame_paths  # its fixtures

PREFERENCES = """
user_pref("app.update.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
"""

UNTIL = """(...asked) => new Promise((done) => {
  const look = () => {
    const found = (%s)(...asked);
    if (found) done(found);
    else setTimeout(look, 20);
  };
  look();
})"""


class Firefox:
    """A tab of a running Firefox."""

    def __init__(self, profile: Path) -> None:
        program = shutil.which("firefox-esr") or shutil.which("firefox")
        if program is None:
            if os.environ.get("ALLFOCUS_REQUIRE_FIREFOX") == "1":
                pytest.fail("no Firefox found and ALLFOCUS_REQUIRE_FIREFOX=1; install the package firefox-esr")
            pytest.skip("no Firefox found; install the package firefox-esr")
        (profile / "user.js").write_text(PREFERENCES)
        self.problems: list[str] = []
        self._log = profile / "log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [program, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"],
                stdout=log,
                stderr=log,
                env={**os.environ, "HOME": str(profile)},
            )
        self._loop, self._number, self._waiting = asyncio.new_event_loop(), 0, dict[int, asyncio.Future[Any]]()
        self._run(self._open(self._address()))

    def _address(self) -> str:
        for _ in range(2400):
            found = re.search(r"ws://[\d.]+:\d+", self._log.read_text())
            if found:
                return found[0]
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"Firefox did not start: {self._log.read_text()}")

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    async def _open(self, address: str) -> None:
        self._session = aiohttp.ClientSession()
        self._socket = await self._session.ws_connect(f"{address}/session", max_msg_size=0)
        self._listening = asyncio.ensure_future(self._listen())
        await self._send("session.new", capabilities={})
        await self._send("session.subscribe", events=["log.entryAdded"])
        self.tab = (await self._send("browsingContext.create", type="tab"))["context"]
        await self._send("browsingContext.setViewport", context=self.tab, viewport={"width": 1280, "height": 800})

    async def _listen(self) -> None:
        async for message in self._socket:
            said = json.loads(message.data)
            if said.get("id") in self._waiting:
                self._waiting.pop(said["id"]).set_result(said)
            elif said.get("method") == "log.entryAdded" and said["params"]["level"] in ("error", "warn"):
                self.problems.append(str(said["params"]["text"]))

    async def _send(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        answer = self._waiting[self._number] = self._loop.create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        said = await answer
        assert said["type"] == "success", said
        return said["result"]

    def send(self, method: str, **parameters: Any) -> Any:
        """What Firefox answers to a command of WebDriver BiDi about this tab."""
        return self._run(self._send(method, context=self.tab, **parameters))

    def call(self, function: str, *values: Any) -> Any:
        """What a function gives in the page, as JSON knows it; promises are waited for."""
        body = f"async (text) => JSON.stringify(await ({function})(...JSON.parse(text)) ?? null)"
        asked = {"arguments": [{"type": "string", "value": json.dumps(values)}], "target": {"context": self.tab}}
        answer = self._run(self._send("script.callFunction", functionDeclaration=body, awaitPromise=True, **asked))
        assert answer["type"] == "success", answer
        return json.loads(answer["result"]["value"])

    def wait(self, function: str, *values: Any) -> Any:
        """The first value of a function in the page that is true."""
        return self.call(UNTIL % function, *values)

    def wait_for(self, selector: str, name: str, value: str) -> None:
        """Wait until an attribute of an element has a value."""
        self.wait("(...a) => document.querySelector(a[0])?.getAttribute(a[1]) === a[2]", selector, name, value)

    def click(self, selector: str) -> None:
        self.wait(
            "(selector) => { const box = document.querySelector(selector); return box && !box.disabled; }", selector
        )
        self.call("(selector) => document.querySelector(selector).click()", selector)

    def choose(self, selector: str, paths: list[Path]) -> None:
        """Choose files in the field of a page."""
        found = self.send("browsingContext.locateNodes", locator={"type": "css", "value": selector})["nodes"][0]
        self.send("input.setFiles", element={"sharedId": found["sharedId"]}, files=[str(path) for path in paths])

    def press(self, key: str) -> None:
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.send("input.performActions", actions=[{"type": "key", "id": "keys", "actions": keys}])

    def drag(self, points: list[tuple[float, float]]) -> None:
        """Draw a line with the mouse."""
        places = [{"x": round(x), "y": round(y), "duration": 20} for x, y in points]
        first, *rest = ({"type": "pointerMove", **place} for place in places)
        pressed = [{"type": "pointerDown", "button": 0}, *rest, {"type": "pointerUp", "button": 0}]
        self.send("input.performActions", actions=[{"type": "pointer", "id": "mouse", "actions": [first, *pressed]}])

    def close(self) -> None:
        async def end() -> None:
            await self._socket.close()  # which ends the listening, and gives the connection back
            await self._listening
            await self._session.close()
            await asyncio.sleep(0)  # the loop closes what was given back

        try:
            self._run(end())
        finally:
            self._loop.close()
            self.process.terminate()
            self.process.wait(timeout=60)


@pytest.fixture
def firefox(tmp_path: Path) -> Iterator[Firefox]:
    """Firefox with an empty profile, on an empty tab."""
    profile = tmp_path / "profile"
    profile.mkdir()
    started = Firefox(profile)
    try:
        yield started
    finally:
        started.close()


MASK = """async (stroke) => {
  const { maskOf } = await import("/static/stroke_masks.js");
  for (;;) {
    const { level, tiles, isComplete } = maskOf(stroke);
    const text = (values) => btoa([...new Uint8Array(values.buffer)].map((byte) => String.fromCharCode(byte)).join(""));
    if (isComplete) return tiles.map(({ column, row, width, height, values }) =>
      ({ level, column, row, width, height, values: text(values.slice(0, width * height)) }));
    await new Promise((done) => setTimeout(done, 20));
  }
}"""

PLACE = """async (x, y) => {
  const { canvas, panes, view } = await import("/static/viewer.js");
  const { toScreen } = await import("/static/camera.js");
  const box = canvas.getBoundingClientRect();
  const at = toScreen(view.camera, panes()[0], { x, y });
  return [box.left + at.x * box.width / canvas.width, box.top + at.y * box.height / canvas.height];
}"""


def test_frames_are_chosen_fused_looked_at_painted_undone_and_saved_in_firefox(
    firefox: Firefox, studio: Any, frames: list[np.ndarray], frame_paths: list[Path]
) -> None:
    firefox.send("browsingContext.navigate", url=studio.address, wait="complete")
    firefox.wait_for("body", "data-phase", "welcome")
    firefox.choose("#choose-files", frame_paths[:4])
    firefox.wait("() => document.querySelectorAll('.card[data-frame]').length === 4")
    firefox.wait("() => document.querySelector('#option-align')")
    firefox.call("() => { const box = document.querySelector('#option-align'); if (box.checked) box.click(); }")
    firefox.click("#start")
    firefox.wait_for("body", "data-phase", "done")
    firefox.wait_for("#canvas", "data-complete", "true")
    identity = firefox.call("() => location.hash").rsplit("/", 1)[1]
    for key in ("c", "x", "d", "m", "g", "k", "v", "1"):
        firefox.press(key)
        firefox.wait_for("#canvas", "data-complete", "true")

    paint_a_line(firefox, studio, identity, frames)
    compare_masks(firefox, studio, identity)
    firefox.click("#undo")
    firefox.wait_for("#canvas", "data-strokes", "0")
    assert studio.job(identity)["strokes"] == []
    firefox.click("#tab-save")
    assert firefox.wait(
        "() => document.querySelector('#download-tiff') && document.querySelector('#download-tiff').checkVisibility()"
    )
    assert firefox.problems == []


def paint_a_line(firefox: Firefox, studio: Any, identity: str, frames: list[np.ndarray]) -> None:
    """A stroke from the third frame: its pixels are that frame's, and no others change."""
    frame = studio.job(identity)["frames"][2]
    source = f"frame-{frame['id']}"
    firefox.press("b")
    firefox.call(
        """(source) => {
          const list = document.getElementById("source");
          list.value = source;
          list.dispatchEvent(new Event("change"));
        }""",
        source,
    )
    before = read_result(studio, identity)
    firefox.drag([firefox.call(PLACE, x, 160) for x in range(200, 300, 10)])
    firefox.wait_for("#canvas", "data-strokes", "1")
    firefox.wait_for("#canvas", "data-busy", "false")
    stroke = studio.job(identity)["strokes"][0]
    assert stroke["source"] == source
    assert len(stroke["points"]) > 3
    after = read_result(studio, identity)
    assert np.array_equal(after[159:161, 230:270], frames[2][159:161, 230:270])
    assert np.array_equal(after[:100], before[:100])


def compare_masks(firefox: Firefox, studio: Any, identity: str) -> None:
    """The mask of a brush that stays inside one thing is the server's, bit for bit, in this browser too."""
    source = f"frame-{studio.job(identity)['frames'][1]['id']}"

    def read(level: int, column: int, row: int) -> np.ndarray:
        content = studio.get(f"/api/jobs/{identity}/tiles/{source}/{level}/{column}/{row}?smoothed=true")
        return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))

    for radius in (40.0, 100.0):
        values: dict[str, Any] = {"points": [[150.5, 120.0], [300.2, 200.9]], "radius": radius, "hardness": 0.3}
        values |= {"flow": 0.4, "tolerance": 0.2}
        mask = DabMask(Stroke("s", source, **values), window.WIDTH, window.HEIGHT, read)
        drawn = firefox.call(MASK, {"source": source, **values})
        assert drawn
        for tile in drawn:
            left, top = 256 * tile["column"], 256 * tile["row"]
            wanted = mask.on_level((left, top, left + tile["width"], top + tile["height"]))
            assert tile["level"] == mask.level
            assert np.array_equal(np.frombuffer(base64.b64decode(tile["values"])).reshape(wanted.shape), wanted)


def read_result(studio: Any, identity: str) -> np.ndarray:
    return np.asarray(tifffile.imread(io.BytesIO(studio.get(f"/api/jobs/{identity}/download?format=tiff"))))
