"""What the list of faults finds on a real stack, and what is left once the first of them are painted.

Run: python benchmarks/faults_of_stack.py FOLDER [--method dct-corr] [--fused PICTURE] [--most 3] [--pictures OUT]
                                          [--studio WORK]
FOLDER holds the frames, which must lie on each other already. They are fused with a method that loses detail, or
PICTURE is what some other program made of them. Printed are the first places of the list, and after painting each of
them with the studio's brush the lost detail of the whole picture and of that place. OUT takes each place before, in the
frame that shows it, and after. With WORK, a folder, the same is done in the studio itself: fused there, opened in
Chromium, one key to the first place, then one key for each; measured is the file that is downloaded.
"""

import argparse
import io
import urllib.request
from pathlib import Path

import numpy as np
import tifffile
from faults import paint_faults
from method_names import check_method
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import expect
from studio_browser import call, chromium, fuse, running_studio

import allfocus
from allfocus.fusion.faults import LOST, Fault, find_faults
from allfocus.fusion.lost_detail import LostDetail
from allfocus.fusion.stack_fusion import FusionResult
from allfocus.images.frame_file import list_frames
from allfocus.images.reading import read_image

MARGIN = 60
"""Pixels around a place that its pictures show."""


def lost_there(lost: LostDetail, fault: Fault, size: tuple[int, int]) -> float:
    """The most that is lost within the box of a fault, 0 to 1."""
    down, across = lost.map.shape[0] / size[0], lost.map.shape[1] / size[1]
    rows = slice(int(fault.top * down), int(np.ceil((fault.top + fault.height) * down)))
    columns = slice(int(fault.left * across), int(np.ceil((fault.left + fault.width) * across)))
    return float(lost.map[rows, columns].mean())


def save_places(out: Path, fault: Fault, number: int, pictures: list[NDArray[np.float32]]) -> None:
    """Write what a place looks like in several pictures, side by side."""
    out.mkdir(parents=True, exist_ok=True)
    rows = slice(max(0, fault.top - MARGIN), fault.top + fault.height + MARGIN)
    columns = slice(max(0, fault.left - MARGIN), fault.left + fault.width + MARGIN)
    parts = [np.rint(picture[rows, columns].clip(0, 1) * 255).astype(np.uint8) for picture in pictures]
    Image.fromarray(np.concatenate(parts, axis=1)).save(out / f"place_{number}.png")


def press_keys(work: Path, folder: Path, method: str, count: int) -> NDArray[np.float32]:
    """The picture that the studio gives after its key for painting a fault was pressed so often."""
    paths = [frame.path for frame in list_frames([folder])]
    with running_studio(work) as address, chromium() as browser:
        identity = fuse(address, folder.name, paths, method=method, align=False)
        while call(address, f"/api/jobs/{identity}")["strokes"]:
            call(address, f"/api/jobs/{identity}/undo", {})
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{address}/#/stack/{identity}")
        expect(page.locator("#tab-check .badge")).to_be_visible()
        page.keyboard.press("n")
        for number in range(1, count + 1):
            expect(page.locator("#canvas")).to_have_attribute("data-complete", "true")
            page.keyboard.press("r")
            expect(page.locator("#canvas")).to_have_attribute("data-strokes", str(number))
        with urllib.request.urlopen(f"{address}/api/jobs/{identity}/download?format=tiff", timeout=600) as answer:
            found = tifffile.imread(io.BytesIO(answer.read()))
    return np.asarray(found / np.float32(65535), np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--method", type=check_method, default="dct-corr")
    parser.add_argument("--fused", type=Path)
    parser.add_argument("--most", type=int, default=3)
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--studio", type=Path)
    arguments = parser.parse_args()
    frames = [read_image(frame.path).pixels for frame in list_frames([arguments.folder])]
    if arguments.fused is not None:
        image = read_image(arguments.fused).pixels
        fusion = FusionResult(image, lost_detail=allfocus.measure_lost_detail(image, frames))
    else:
        fusion = allfocus.fuse(frames, method=arguments.method)
        image = np.asarray(fusion.image, np.float32)
    lost = fusion.lost_detail
    assert lost is not None
    size = (image.shape[0], image.shape[1])
    faults = [fault for fault in find_faults(fusion) if fault.kind == LOST]
    print(f"{len(faults)} places, {lost.share:.3f} % lost, {lost.erased:.3f} % erased\n")
    print("| painted | at | of frame | strength | lost there | after | lost, whole picture | erased |")
    print("|---|---|---|---|---|---|---|---|")
    for number, fault in enumerate(faults[: arguments.most], start=1):
        painted = paint_faults(image, frames, faults[:number])
        after = allfocus.measure_lost_detail(painted, frames)
        print(
            f"| {number} | {fault.left}, {fault.top} {fault.width} x {fault.height} | {fault.frame + 1} "
            f"| {fault.strength:.0f} | {lost_there(lost, fault, size):.3f} | {lost_there(after, fault, size):.3f} "
            f"| {after.share:.3f} % | {after.erased:.3f} % |",
            flush=True,
        )
        if arguments.pictures is not None:
            save_places(arguments.pictures, fault, number, [image, frames[fault.frame], painted])
    if arguments.studio is not None:
        made = press_keys(arguments.studio, arguments.folder, arguments.method, arguments.most)
        after = allfocus.measure_lost_detail(made, frames)
        print(f"\n{arguments.most} keys in the studio: {after.share:.3f} % lost, {after.erased:.3f} % erased")
        for number, fault in enumerate(faults[: arguments.most] if arguments.pictures is not None else [], start=1):
            save_places(arguments.pictures / "studio", fault, number, [image, frames[fault.frame], made])


if __name__ == "__main__":
    main()
