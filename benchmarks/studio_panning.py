"""Frames drawn per second while a 24-megapixel result is panned in the studio, from Chromium's own trace.

Run: python benchmarks/studio_panning.py FOLDER [--seconds 4] [--width 1600 --height 1000]
FOLDER takes about 2 GB and is left as it is afterwards. Prints one Markdown row for each way of looking. A drag with
250 moves a second is played into the page; counted is what the compositor drew between the two marks of the drag: the
event DrawFrame, of which 60 a second is the most a screen shows. Beside it stand the page's own redraws of the canvas
(FireAnimationFrame), so that a frame that shows nothing new cannot pass as smoothness, and what all processes of the
browser take of the processor for one of them, and its page's main thread alone, which must stay below 16 ms for 60 a
second: on a busy machine that says more than the rate. "cold" pans over tiles that were never loaded, "warm" the same
way back. Without a graphics card everything is drawn by the processor.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from playwright.sync_api import Browser, CDPSession, Page, expect
from studio_browser import browser_process, chromium, fuse, processor_seconds, running_studio

from allfocus.scenes.rendering import render_scene

HEIGHT, WIDTH, FRAMES = 4000, 6000, 2
CATEGORIES = [
    "blink.user_timing",
    "devtools.timeline",
    "devtools.timeline.frame",
    "disabled-by-default-devtools.timeline.frame",
]

DRAG = """async ([seconds, across, down]) => {
  const canvas = document.getElementById("canvas");
  const box = canvas.getBoundingClientRect();
  const send = (kind, x, y) => canvas.dispatchEvent(new PointerEvent(kind,
    {pointerId: 1, button: 0, buttons: 1, clientX: box.left + x, clientY: box.top + y, bubbles: true}));
  canvas.setPointerCapture = () => {};  // a pointer that is played has nothing to capture
  let [x, y] = [box.width / 2, box.height / 2];
  send("pointerdown", x, y);
  performance.mark("drag-begins");
  const began = performance.now();
  let last = began;
  await new Promise((done) => {
    const timer = setInterval(() => {
      const now = performance.now();
      x += across * (now - last) / 1000;
      y += down * (now - last) / 1000;
      last = now;
      send("pointermove", x, y);
      if (now - began < seconds * 1000) return;
      clearInterval(timer);
      done();
    }, 4);
  });
  performance.mark("drag-ends");
  send("pointerup", x, y);
}"""


def render_frames(folder: Path) -> list[Path]:
    """Two frames of 24 megapixels, 16 bit: a rendered scene repeated 4 x 4."""
    paths = [folder / f"frame_{number}.tif" for number in range(FRAMES)]
    if not all(path.exists() for path in paths):
        scene = render_scene("desk", frames=FRAMES, size=(HEIGHT // 4, WIDTH // 4), bit_depth=16, noise=0.002)
        for path, frame in zip(paths, scene.frames, strict=True):
            tifffile.imwrite(path, np.rint(np.tile(frame, (4, 4, 1)) * 65535).astype(np.uint16), photometric="rgb")
    return paths


def main_thread_seconds(session: CDPSession) -> float:
    """What the main thread of a page has taken of the processor so far."""
    found = session.send("Performance.getMetrics")["metrics"]
    return float(next(entry["value"] for entry in found if entry["name"] == "TaskDuration"))


def measure(browser: Browser, page: Page, seconds: float, speed: tuple[int, int]) -> dict[str, float]:
    """Frames and redraws per second, processor ms per redraw, the longest gap in ms, the share of dropped frames."""
    process = browser_process(browser)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    browser.start_tracing(page=page, categories=CATEGORIES)
    before, main_before = processor_seconds(process), main_thread_seconds(session)
    page.evaluate(DRAG, [seconds, *speed])
    taken, main_taken = processor_seconds(process) - before, main_thread_seconds(session) - main_before
    session.detach()
    events: list[dict[str, Any]] = json.loads(browser.stop_tracing())["traceEvents"]
    marks = {event["name"]: event["ts"] for event in events if event["name"] in ("drag-begins", "drag-ends")}
    inside = [event for event in events if marks["drag-begins"] <= event.get("ts", 0) <= marks["drag-ends"]]
    drawn = sorted(event["ts"] for event in inside if event["name"] == "DrawFrame")
    dropped = sum(event["name"] == "DroppedFrame" for event in inside)
    length = (marks["drag-ends"] - marks["drag-begins"]) / 1e6
    redraws = sum(event["name"] == "FireAnimationFrame" for event in inside)
    return {
        "rate": len(drawn) / length,
        "redraws": redraws / length,
        "cost": 1000 * taken / max(1, redraws),
        "main": 1000 * main_taken / max(1, redraws),
        "longest": float(np.diff([marks["drag-begins"], *drawn, marks["drag-ends"]]).max()) / 1000,
        "dropped": dropped / max(1, dropped + len(drawn)),
    }


def look(page: Page, address: str, identity: str, scale: str, view: str) -> None:
    """Open the result at a scale and in a view, from the browser's empty memory."""
    page.goto("about:blank")
    page.goto(f"{address}/#/stack/{identity}")
    expect(page.locator("body")).to_have_attribute("data-phase", "done")
    page.keyboard.press({"result": "v", "slider": "c"}[view])
    page.keyboard.press({"100 %": "1", "whole picture": "0", "200 %": "2"}[scale])
    page.wait_for_timeout(300)
    expect(page.locator("#canvas")).to_have_attribute("data-complete", "true")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--width", type=int, default=1600)
    parser.add_argument("--height", type=int, default=1000)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    paths = render_frames(arguments.folder)
    with running_studio(arguments.folder) as address, chromium() as browser:
        identity = fuse(address, "24 megapixels", paths, method="average", align=False)
        page = browser.new_page(viewport={"width": arguments.width, "height": arguments.height})
        waiting = f"{os.cpu_count()} cores, {os.getloadavg()[0]:.1f} processes already waiting for them"
        print(f"Chromium {browser.version}, {arguments.width} x {arguments.height}, {waiting}\n")
        print(
            "| view | scale | tiles | frames/s | redraws/s | processor ms per redraw | of its main thread "
            "| longest gap ms | dropped |\n|---|---|---|---|---|---|---|---|---|"
        )
        for view, scale in (("result", "100 %"), ("slider", "100 %"), ("result", "whole picture")):
            look(page, address, identity, scale, view)
            for tiles, speed in (("cold", (-400, -250)), ("warm", (400, 250))):
                found = measure(browser, page, arguments.seconds, speed)
                print(
                    f"| {view} | {scale} | {tiles} | {found['rate']:.1f} | {found['redraws']:.1f} "
                    f"| {found['cost']:.1f} | {found['main']:.1f} | {found['longest']:.0f} "
                    f"| {100 * found['dropped']:.0f} % |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
