"""The studio with 60 frames of 24 megapixels: time to the first picture, frames per second, memory over 500 strokes.

Run: python benchmarks/studio_large.py FOLDER [--frames 60] [--strokes 500] [--seconds 4] [--width 1600 --height 1000]
FOLDER takes about 12 GB, and as much again while it is fused; a next run uses its frames and the finished job again.
Printed are three tables. *Opening*: milliseconds from the navigation to the first drawing with all its tiles, by the
page's own clock, with nothing in the browser's memory; the first time of a server that was just started, and again.
*Moving*: what the compositor drew while a drag is played into the page, as in studio_panning.py; painting drags the
brush, and its strokes are rendered by the server on the same cores. *Painting*: what the server holds after each part
of the strokes. Its own memory is counted (RssAnon of /proc), because mapped files are the system's to take.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from method_names import check_method
from playwright.sync_api import Browser, Page, ViewportSize, expect
from studio_browser import browser_process, call, chromium, fuse, processor_seconds, running_studio
from studio_panning import HEIGHT, WIDTH, look, measure

from allfocus.scenes.rendering import render_scene

SOURCES = 6
"""Frames that strokes take from in turn."""
PARTS = 5
"""How often the memory is looked at while the strokes are painted."""
KINDS: tuple[dict[str, Any], ...] = ({}, {"flow": 0.2}, {"tolerance": 0.15})

FIRST_PICTURE = """() => new Promise((done) => {
  const canvas = document.getElementById("canvas");
  const look = () => canvas.dataset.complete === "true" && done(performance.now());
  new MutationObserver(look).observe(canvas, {attributes: true});
  look();
})"""


def render_frames(folder: Path, count: int) -> None:
    """Write frames of 24 megapixels, 16 bit: a rendered scene repeated 4 x 4."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"frame_{number:02d}.tif" for number in range(count)]
    if all(path.exists() for path in paths):
        return
    scene = render_scene("desk", frames=count, size=(HEIGHT // 4, WIDTH // 4), bit_depth=16, noise=0.002)
    for path, frame in zip(paths, scene.frames, strict=True):
        tifffile.imwrite(path, np.rint(np.tile(frame, (4, 4, 1)) * 65535).astype(np.uint16), photometric="rgb")


def own_memory(process: int) -> float:
    """MB that a process holds for itself, without files that are mapped."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1000


def measure_opening(browser: Browser, address: str, identity: str, size: ViewportSize, server: int) -> None:
    """Print how long a stack takes to show its first picture, in windows that remember nothing."""
    print("| opened | ms to the first whole picture | processor ms of browser and server |\n|---|---|---|")
    processes = browser_process(browser), server
    for time in ("first", "again", "again"):
        window = browser.new_context(viewport=size)
        page = window.new_page()
        before = processor_seconds(*processes)
        page.goto(f"{address}/#/stack/{identity}", wait_until="commit")
        page.wait_for_selector("#canvas", state="attached")
        passed = page.evaluate(FIRST_PICTURE)
        print(f"| {time} | {passed:.0f} | {1000 * (processor_seconds(*processes) - before):.0f} |", flush=True)
        window.close()


def take_brush(page: Page, *, stays: bool) -> None:
    """Switch the brush on, plain or such that it stays inside one thing."""
    page.keyboard.press("b")
    if stays:
        page.keyboard.press("a")
    page.mouse.move(700, 500)
    expect(page.locator("#canvas")).to_have_attribute("data-complete", "true")


def measure_moving(browser: Browser, page: Page, address: str, identity: str, seconds: float) -> None:
    """Print frames per second while the picture is moved, and while it is painted."""
    print(
        "\n| what | scale | frames/s | processor ms per redraw | of its main thread | longest gap ms | dropped |\n"
        "|---|---|---|---|---|---|---|"
    )
    for what, scale in (
        ("panning", "100 %"),
        ("panning", "whole picture"),
        ("painting", "100 %"),
        ("painting", "whole picture"),
        ("painting inside one thing", "100 %"),
        ("painting inside one thing", "whole picture"),
    ):
        look(page, address, identity, scale, "result")
        if what != "panning":
            take_brush(page, stays=what != "painting")
        for speed in ((-80, -50), (80, 50)):
            found = measure(browser, page, seconds, speed)
            expect(page.locator("#canvas")).to_have_attribute("data-busy", "false")
            print(
                f"| {what} | {scale} | {found['rate']:.1f} | {found['cost']:.1f} | {found['main']:.1f} "
                f"| {found['longest']:.0f} | {100 * found['dropped']:.0f} % |",
                flush=True,
            )


def measure_strokes(address: str, identity: str, process: int, count: int) -> None:
    """Print what the server holds while strokes of every kind are painted all over the picture."""
    frames = [frame["id"] for frame in call(address, f"/api/jobs/{identity}")["frames"][:SOURCES]]
    random = np.random.default_rng(0)
    print("\n| strokes | own memory of the server, MB |\n|---|---|")
    for number in range(count):
        start = random.uniform(0, (WIDTH, HEIGHT))
        points = (start + np.linspace(0, 1, 30)[:, None] * random.uniform(-600, 600, 2)).clip(0, (WIDTH, HEIGHT))
        stroke = {"points": points.round(1).tolist(), "radius": 60, "hardness": 0.7, **KINDS[number % len(KINDS)]}
        call(address, f"/api/jobs/{identity}/strokes", {"source": f"frame-{frames[number % len(frames)]}", **stroke})
        if number in (0, 9) or (number + 1) % (count // PARTS) == 0:
            print(f"| {number + 1} | {own_memory(process):.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--strokes", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--method", type=check_method, default="ips")
    parser.add_argument("--width", type=int, default=1600)
    parser.add_argument("--height", type=int, default=1000)
    arguments = parser.parse_args()
    frames = arguments.folder / "frames"
    render_frames(frames, arguments.frames)
    name = f"{arguments.frames} frames of 24 megapixels"
    size: ViewportSize = {"width": arguments.width, "height": arguments.height}
    allowed = ("--allow-folders", str(arguments.folder.absolute()))
    with running_studio(arguments.folder, *allowed) as address:
        identity = fuse(address, name, frames, method=arguments.method, align=False)
    with running_studio(arguments.folder, *allowed) as address, chromium() as browser:
        waiting = f"{os.cpu_count()} cores, {os.getloadavg()[0]:.1f} processes already waiting for them"
        print(f"Chromium {browser.version}, {arguments.width} x {arguments.height}, {waiting}\n")
        process = int((arguments.folder / "server.pid").read_text())
        measure_opening(browser, address, identity, size, process)
        measure_moving(browser, browser.new_page(viewport=size), address, identity, arguments.seconds)
        measure_strokes(address, identity, process, arguments.strokes)


if __name__ == "__main__":
    main()
