"""How long it takes to go through all places worth a look of a stack of 100 frames in the studio, and to mend them.

Run: python benchmarks/studio_checking.py FOLDER [--frames 100] [--width 2000 --height 1500]
FOLDER takes about 2 GB. Frames show even ground and forty legs, each sharp in one frame and blurred to nothing in the
others; `average` loses them all. Keys are pressed as fast as the page is ready: N and R until no place is open. Printed
are the seconds of each place from the key until result and frame stand side by side with all their tiles, and the lost
detail before and after, measured on the downloaded picture.
"""

import argparse
import io
import os
import time
import urllib.request
from pathlib import Path

import cv2
import numpy as np
import tifffile
from playwright.sync_api import Page, expect
from studio_browser import chromium, fuse, running_studio

from allfocus.fusion.detail_meter import measure_lost_detail

LEGS = 40


def make_frames(folder: Path, count: int, size: tuple[int, int]) -> list[Path]:
    """The frames as 8-bit TIFF files."""
    random = np.random.default_rng(0)
    height, width = size
    ground = 150 + 8 * cv2.GaussianBlur(random.standard_normal(size).astype(np.float32), (0, 0), 1.2)
    lines = [
        (random.uniform((100, 100), (width - 250, height - 250)), random.uniform((-120, 40), (120, 150)))
        for _ in range(LEGS)
    ]
    paths = []
    for number in range(count):
        frame = ground.copy()
        for leg, (start, along) in enumerate(lines):
            if number == leg * count // LEGS:
                mark = np.zeros(size, np.float32)
                ends = [[round(float(value)) for value in end] for end in (start, start + along)]
                cv2.line(mark, ends[0], ends[1], 1.0, 4)
                frame = frame * (1 - np.float32(0.8) * mark)
        paths.append(folder / f"frame_{number:03d}.tif")
        pixels = np.rint(np.clip(frame, 0, 255)).astype(np.uint8)
        tifffile.imwrite(paths[-1], np.repeat(pixels[..., None], 3, axis=2), photometric="rgb")
    return paths


def lost_share(address: str, identity: str, paths: list[Path]) -> float:
    """Percent of the result as it is now in which detail is lost."""
    with urllib.request.urlopen(f"{address}/api/jobs/{identity}/download?format=tiff", timeout=300) as answer:
        result = np.asarray(tifffile.imread(io.BytesIO(answer.read())) / 65535, np.float32)
    frames = [np.asarray(tifffile.imread(path) / 255, np.float32) for path in paths]
    return measure_lost_detail(result, frames).share


def go_through(page: Page) -> list[float]:
    """Press N and R until no place is open; the seconds of each."""
    canvas = page.locator("#canvas")
    open_places = page.locator(".fault.open")
    seconds = []
    page.locator("#fault-go-on").evaluate("box => box.checked && box.click()")
    while left := open_places.count():
        began = time.perf_counter()
        page.keyboard.press("n")
        expect(page.locator(".fault.open[aria-current]")).to_be_attached()
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        expect(canvas).to_have_attribute("data-complete", "true")
        seconds.append(time.perf_counter() - began)
        page.keyboard.press("r")
        expect(open_places).to_have_count(left - 1)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--width", type=int, default=2000)
    parser.add_argument("--height", type=int, default=1500)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    paths = make_frames(arguments.folder, arguments.frames, (arguments.height, arguments.width))
    with running_studio(arguments.folder) as address, chromium() as browser:
        expect.set_options(timeout=60_000)
        identity = fuse(address, "to check", paths, method="average", align=False)
        before = lost_share(address, identity, paths)
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.goto(f"{address}/#/stack/{identity}")
        expect(page.locator("#tab-check .badge")).to_be_visible()
        began = time.perf_counter()
        seconds = go_through(page)
        total = time.perf_counter() - began
        after = lost_share(address, identity, paths)
    print(f"{os.cpu_count()} cores, {os.getloadavg()[0]:.1f} processes already waiting for them\n")
    print("| frames | size | places | seconds each, median | longest | all, with painting | lost before | after |")
    print("|---|---|---|---|---|---|---|---|")
    print(
        f"| {len(paths)} | {arguments.width} x {arguments.height} | {len(seconds)} | {np.median(seconds):.2f} "
        f"| {max(seconds):.2f} | {total:.0f} | {before:.3f} % | {after:.3f} % |"
    )


if __name__ == "__main__":
    main()
