"""Makes every picture of the documentation from our own rendered scenes: ``python docs/make_pictures.py``.

Name pictures to make only those. The picture of the report needs the package playwright and Chromium, that of darktable
needs darktable and Xvfb; without them they are left as they are, and the script says so. Figures that the pages quote
are printed.
"""

import argparse
import functools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont

import allfocus
from allfocus.alignment.stack_alignment import AlignmentResult, align
from allfocus.alignment.transforms import corners as corner_points
from allfocus.alignment.transforms import move_points
from allfocus.cli.demo_command import before_and_after
from allfocus.fusion.decisions import EXCLUSION
from allfocus.fusion.depth import colour_depth, smooth_depth
from allfocus.fusion.inference import Above, LevelOutput, run_level
from allfocus.fusion.planning import value_range
from allfocus.fusion.stack_fusion import FusionResult
from allfocus.images.spool import reduce_frame
from allfocus.network.contract import SIZE_MULTIPLE
from allfocus.pages.pictures import difference_map, heat_picture
from allfocus.scenes.catalogue import SCENES
from allfocus.scenes.rendering import Scene, render_scene
from allfocus.stack_report.pictures import paint_decision

Pixels = NDArray[np.float32]
FOLDER = Path(__file__).parent / "images"
GAP = 8
"""Pixels between pictures."""
METHODS = ("ips", "laplacian-pyramid-energy", "guided-filter", "depth-map")
"""Those that the pages compare."""
GALLERY = tuple(name for name in SCENES if name != "legs")
"""The scenes of the gallery; the hairs of `legs` are thinner than a pixel at this size."""
BRIGHTEST = 0.1
"""Difference from the truth that is shown brightest: 10 % of black to white."""


# --- layout ---------------------------------------------------------------------------------------------------------


def lay_out(rows: Sequence[Sequence[tuple[str, Pixels]]], *, width: int) -> Pixels:
    """Rows of pictures, each with its title above, on white; every picture gets the same width."""
    font = ImageFont.load_default(size=15)
    strips = []
    for row in rows:
        pictures = [_to_width(picture, width) for _, picture in row]
        has_titles = any(title for title, _ in row)
        top = 24 if has_titles else 0
        height = top + max(picture.shape[0] for picture in pictures)
        strip = PillowImage.new("RGB", (len(row) * (width + GAP) - GAP, height), "white")
        draw = ImageDraw.Draw(strip)
        for place, ((title, _), picture) in enumerate(zip(row, pictures, strict=True)):
            draw.text((place * (width + GAP) + 1, 2), title, fill="#222222", font=font)
            strip.paste(PillowImage.fromarray(to_bytes(picture)), (place * (width + GAP), top))
        strips.append(strip)
    total = sum(strip.height for strip in strips) + GAP * (len(strips) - 1)
    sheet = PillowImage.new("RGB", (max(strip.width for strip in strips), total), "white")
    place = 0
    for strip in strips:
        sheet.paste(strip, (0, place))
        place += strip.height + GAP
    return np.asarray(sheet).astype(np.float32) / np.float32(255)


def _to_width(picture: Pixels, width: int) -> Pixels:
    colour = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
    height = round(colour.shape[0] * width / colour.shape[1])
    larger = width > colour.shape[1]
    kernel = cv2.INTER_NEAREST if larger else cv2.INTER_AREA
    return np.asarray(cv2.resize(colour, (width, height), interpolation=kernel), np.float32)


def to_bytes(picture: Pixels) -> NDArray[np.uint8]:
    """The picture as 8-bit levels."""
    return np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8)


def cut(picture: Pixels, top: int, left: int, height: int, width: int) -> Pixels:
    """A part of a picture."""
    return picture[top : top + height, left : left + width]


def quality_against(picture: Pixels, truth: Pixels) -> float:
    """Peak signal-to-noise ratio in dB."""
    return float(allfocus.score(picture, [truth, truth], reference=truth, metrics=["PSNR"])["PSNR"])


def compare_methods(title: str, scene: Scene) -> None:
    """Prints the PSNR of each kind of method against the truth."""
    best = max(quality_against(frame, scene.truth) for frame in scene.frames)
    found = {name: quality_against(allfocus.fuse(scene.frames, method=name).image, scene.truth) for name in METHODS}
    listed = ", ".join(f"{name} {value:.1f}" for name, value in found.items())
    print(f"{title}, {len(scene.frames)} frames: best frame {best:.1f} dB, {listed}")


# --- the stack that the step-by-step page follows ---------------------------------------------------------------------


@functools.cache
def moved_stack() -> Scene:
    """A hand-held product photo: eight frames that are shifted, turned, zoomed by their focus, and noisy."""
    return render_scene("desk", frames=8, size=(600, 800), breathing=0.004, shake=8, noise=0.012, seed=0)


@functools.cache
def aligned_stack() -> AlignmentResult:
    """Its frames on one grid: that of the first, because the truth lies on it."""
    return align(moved_stack().frames, reference=0)


@functools.cache
def fused_stack() -> FusionResult:
    """The result of its fusion."""
    return allfocus.fuse(aligned_stack().frames)


@functools.cache
def truth_of_fused_stack() -> Pixels:
    """The truth, cropped as the aligned frames are."""
    top, left, bottom, right = aligned_stack().alignment.common_area()
    return moved_stack().truth[top:bottom, left:right]


@functools.cache
def levels_of_stack() -> list[LevelOutput]:
    """What the network says of the stack at every level, the coarsest first, each given what the one before said.

    All frames and the whole picture at once, without windows, and cropped so that every level has whole pixels. A
    picture of this size is seen whole at once; here it is decided at three levels, as one of four times its sides is.
    """
    frames, count = aligned_stack().frames, 3
    step = SIZE_MULTIPLE * 2 ** (count - 1)
    height, width = (side // step * step for side in frames[0].shape[:2])
    low, span = value_range(frames)
    found: list[LevelOutput] = []
    for level in reversed(range(count)):
        small = [reduce_frame(np.ascontiguousarray(frame[:height, :width]), 2**level) for frame in frames]
        stack = np.stack([np.clip((frame - low) / span, 0, 1).transpose(2, 0, 1) for frame in small])
        above = None
        if found:
            best = found[-1].logits.max(axis=0)
            above = Above(np.maximum(found[-1].logits - best, -EXCLUSION), found[-1].veil)
        found.append(run_level(stack.astype(np.float32), above, device="cpu", threads=1))
    return found


def draw_frames() -> Pixels:
    """All frames of the stack."""
    pictures = [(f"frame {number}", frame) for number, frame in enumerate(moved_stack().frames, start=1)]
    return lay_out([pictures[:4], pictures[4:]], width=223)


def draw_alignment() -> Pixels:
    """Two neighbours laid over each other, one in red and one in cyan, before and after alignment."""
    top, left, _, _ = aligned_stack().alignment.common_area()
    height, width, row, column = 220, 300, 140, 230
    before = _overlay(*(cut(moved_stack().frames[index], row, column, height, width) for index in (4, 5)))
    row, column = row - top, column - left
    after = _overlay(*(cut(aligned_stack().frames[index], row, column, height, width) for index in (4, 5)))
    truth = [np.linalg.inv(moved_stack().transforms[0]) @ transform for transform in moved_stack().transforms]
    corners = corner_points(moved_stack().truth.shape[:2])
    errors = [
        np.hypot(*(move_points(own, corners) - move_points(true, corners)).T)
        for own, true in zip(aligned_stack().alignment.transforms, truth, strict=True)
    ]
    moved = [np.hypot(*(move_points(true, corners) - corners).T) for true in truth]
    print(
        f"alignment: corners moved by up to {np.max(moved):.1f} px; error of the estimate "
        f"{np.median(errors[1:]):.2f} px (median), {np.max(errors):.2f} px (largest)"
    )
    titles = ("frames 5 (red) and 6 (cyan) as they are", "the same two, aligned")
    return lay_out([list(zip(titles, (before, after), strict=True))], width=454)


def _overlay(first: Pixels, second: Pixels) -> Pixels:
    red, cyan = first.mean(axis=2), second.mean(axis=2)
    return np.stack([red, cyan, cyan], axis=2)


def draw_logits() -> Pixels:
    """Three frames, and where the network holds each of them to be the sharp one."""
    frames, logits = aligned_stack().frames, levels_of_stack()[-1].logits
    height, width = logits.shape[1:]
    best = np.max(logits, axis=0)
    chosen = (0, 3, 7)
    margins = [np.clip(1 + (logits[index] - best) / EXCLUSION, 0, 1).astype(np.float32) for index in chosen]
    above = [(f"frame {index + 1}", frames[index][:height, :width]) for index in chosen]
    below = [("its logits: light wins", heat_picture(margin, largest=1)) for margin in margins]
    return lay_out([above, below], width=300)


def draw_levels() -> Pixels:
    """The choice at each level, coarse to fine, and how many frames are still in the running after it."""
    chosen, competing = [], []
    for number, output in enumerate(levels_of_stack(), start=1):
        height, width = output.logits.shape[1:]
        decision = np.argmax(output.logits, axis=0)
        left = np.sum(output.logits - output.logits.max(axis=0) > -EXCLUSION, axis=0).astype(np.float32)
        print(f"level {number}, {width}x{height}: {left.mean():.2f} of {len(output.logits)} frames left on average")
        chosen.append((f"level {number}: {width}x{height} pixels", paint_decision(decision, 8, 800)))
        competing.append((f"{left.mean():.1f} of {len(output.logits)} frames left", heat_picture(left, largest=8)))
    return lay_out([chosen, competing], width=300)


def draw_blending() -> Pixels:
    """The fused picture, the truth, and how far apart they are."""
    fused, truth = fused_stack().image, truth_of_fused_stack()
    frames = aligned_stack().frames
    print(
        f"step by step: best frame {max(quality_against(frame, truth) for frame in frames):.1f} dB, "
        f"fused {quality_against(fused, truth):.1f} dB"
    )
    row = [
        ("fused", fused),
        ("truth", truth),
        ("difference", heat_picture(difference_map(fused, truth), largest=BRIGHTEST)),
    ]
    return lay_out([row], width=300)


def draw_depth() -> Pixels:
    """Depth as the network has it, how sure it is, and the depth that is measured and written."""
    result, frames = fused_stack(), aligned_stack().frames
    measured = allfocus.measure_depth(frames, result.decision, result.image)
    share = np.nan_to_num(measured.position / (len(frames) - 1))
    coloured = np.where(measured.measured[..., None], colour_depth(share.astype(np.float32)), 1)
    print(f"step by step: depth measured in {measured.measured.mean():.0%} of the picture")
    row = [
        ("which frame, pixel by pixel", colour_depth(result.depth)),
        ("confidence", heat_picture(result.confidence, largest=1)),
        ("depth as measured", coloured.astype(np.float32)),
    ]
    return lay_out([row], width=300)


# --- one picture for each page --------------------------------------------------------------------------------------


def draw_contact_sheet() -> Pixels:
    """All scenes: the frame at each end, the fused picture, who was chosen, and what is wrong with it."""
    rows = []
    for name in GALLERY:
        scene = render_scene(name, frames=8, size=(450, 600))
        result = allfocus.fuse(scene.frames)
        best = max(quality_against(frame, scene.truth) for frame in scene.frames)
        gained = quality_against(result.image, scene.truth)
        print(f"contact sheet: {name} best frame {best:.1f} dB, fused {gained:.1f} dB")
        wrong = heat_picture(difference_map(result.image, scene.truth), largest=BRIGHTEST)
        rows.append(
            [
                (f"{name}: nearest frame", scene.frames[0]),
                ("farthest frame", scene.frames[-1]),
                (f"fused, {gained:.1f} dB (best frame {best:.1f})", result.image),
                ("the frame chosen", paint_decision(result.decision, 8, 600)),
                ("difference from the truth", wrong),
            ]
        )
    return lay_out(rows, width=272)


def draw_before_after() -> Pixels:
    """The front page: one frame beside the fused picture, and a part of both enlarged."""
    scene = render_scene("desk")
    fused = allfocus.fuse(scene.frames).image
    best = max(scene.frames, key=lambda frame: quality_against(frame, scene.truth))
    return before_and_after(best, fused, scene.truth)


@functools.cache
def gallery_pair(name: str) -> tuple[Pixels, Pixels]:
    """The best single frame of a scene, and the fused picture."""
    scene = render_scene(name, frames=10, size=(420, 560), seed=5)
    fused = allfocus.fuse(scene.frames).image
    best = max(scene.frames, key=lambda frame: quality_against(frame, scene.truth))
    before, after = (quality_against(picture, scene.truth) for picture in (best, fused))
    print(f"gallery: {name} best frame {before:.1f} dB, fused {after:.1f} dB")
    return best, fused


def draw_gallery(name: str, half: int) -> Pixels:
    """One of the two pictures of a scene: 0 before, 1 after."""
    return gallery_pair(name)[half]


def draw_macro() -> Pixels:
    """Hairs at many depths: too few frames leave gaps, enough do not."""
    window = (40, 400, 300, 400)
    cells = []
    for count in (4, 8, 16):
        scene = render_scene("insect", frames=count, size=(600, 900), seed=2)
        fused = allfocus.fuse(scene.frames).image
        decibels = quality_against(fused, scene.truth)
        print(f"macro: {count} frames {decibels:.2f} dB")
        cells.append((f"{count} frames: {decibels:.1f} dB", cut(fused, *window)))
    compare_methods("macro", scene)
    cells.append(("truth", cut(scene.truth, *window)))
    return lay_out([cells[:2], cells[2:]], width=440)


def draw_landscape() -> Pixels:
    """Near leaves before a far trunk, in three frames: both ends, the fused picture, and the truth."""
    scene = render_scene("foliage", frames=3, size=(600, 900), seed=1)
    window = (150, 250, 260, 380)
    cells = [("near focus", cut(scene.frames[0], *window)), ("far focus", cut(scene.frames[-1], *window))]
    for prefer in (None, "near", "far"):
        fused = allfocus.fuse(scene.frames, prefer=prefer).image
        print(f"landscape: prefer {prefer} {quality_against(fused, scene.truth):.2f} dB")
        if prefer is None:
            cells.append(("fused", cut(fused, *window)))
    for count in (4, 6, 10):
        longer = render_scene("foliage", frames=count, size=(600, 900), seed=1)
        print(f"landscape: {count} frames {quality_against(allfocus.fuse(longer.frames).image, longer.truth):.2f} dB")
    compare_methods("landscape", scene)
    cells.append(("truth", cut(scene.truth, *window)))
    return lay_out([cells[:2], cells[2:]], width=400)


def draw_microscope() -> Pixels:
    """Parts in steps of height: one plane, the fused picture, and its depth."""
    scene = render_scene("circuit", frames=12, size=(600, 800), noise=0.01, bit_depth=16, seed=1)
    result = allfocus.fuse(scene.frames)
    depth = smooth_depth(result.depth, result.confidence, result.image, step=1 / 11)
    # Where in the stack the focus lies on what each pixel shows; frames are evenly spaced in 1/distance.
    inverse = 1 / np.array(scene.focus_distances)
    place = (1 / scene.depth - inverse[0]) / (inverse[-1] - inverse[0])
    error = 11 * np.abs(depth - place)
    print(f"microscope: depth within half a step for {np.mean(error < 0.5):.1%} of the pixels, ", end="")
    print(f"within one step for {np.mean(error < 1):.1%}")
    compare_methods("microscope", scene)
    row = [("one plane of 12", scene.frames[5]), ("fused", result.image), ("depth map", colour_depth(depth))]
    return lay_out([row], width=380)


def draw_report() -> Pixels | None:
    """The page that --report writes, light and dark; None where there is no browser to show it."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        browser = None
    if browser is None:
        return None
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tool:
        page = Path(folder) / "report.html"
        page.write_text(_report_of_insect())
        window = tool.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        halves = []
        for scheme, part in (("light", "#picture"), ("dark", "#frames")):
            tab = window.new_context(viewport={"width": 1000, "height": 1180}, color_scheme=scheme).new_page()
            tab.goto(page.as_uri())
            if scheme == "dark":
                tab.evaluate(f"document.querySelector('{part}').scrollIntoView({{behavior: 'instant'}})")
            tab.wait_for_timeout(500)
            data = np.frombuffer(tab.screenshot(), np.uint8)
            halves.append(cv2.cvtColor(cv2.imdecode(data, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB) / np.float32(255))
        window.close()
    return lay_out([[("", half) for half in halves]], width=620)


def _report_of_insect() -> str:
    from allfocus.stack_report import StackReport, build_stack_report

    scene = render_scene("insect", frames=8, size=(900, 1350), breathing=0.003, shake=6, exposure=0.08, seed=1)
    aligned = align(scene.frames)
    result = allfocus.fuse(aligned.frames)
    report = StackReport(
        result.image,
        tuple(f"frame_{number:02d}.png" for number in range(8)),
        output="sharp.png",
        decision=result.decision,
        depth=result.depth,
        confidence=result.confidence,
        alignment=aligned.alignment,
        settings={"method": "ips", "align": True},
        command="allfocus fuse insect/frames -o sharp.png --report report.html",
        notices=("the frames were aligned (similarity) and cropped to what all of them show",),
    )
    return build_stack_report(report, frames=aligned.frames)


DARKTABLE = """
local dt = require "darktable"
for _, panel in ipairs {{ "BOTTOM", "LEFT" }} do dt.gui.panel_hide("DT_UI_PANEL_" .. panel) end
local pictures = {{}}
for number = 1, 8 do pictures[number] = dt.database.import(("{folder}/DSC_010%d.png"):format(number)) end
dt.gui.selection(pictures)
dt.control.sleep(1500)
dt.gui.selection(pictures)
dt.gui.action("lib/export/export", 0, "", "", 1.0)
for _ = 1, 600 do
  if #dt.database > 8 then break end
  dt.control.sleep(100)
end
dt.control.sleep(1000)
dt.gui.selection(pictures)
dt.control.sleep(1500)
os.execute("cp {folder}/Xvfb_screen0 {folder}/screen.xwd")
os.exit(0)
"""


def draw_darktable() -> Pixels | None:
    """The export module of darktable after a stack was fused; None where it is not installed."""
    if not all(map(shutil.which, ("darktable", "xvfb-run"))):
        return None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, frame in enumerate(render_scene("desk", frames=8, size=(600, 900), seed=4).frames, start=1):
            allfocus.write_image(frame, folder / f"DSC_010{number}.png")
        program = folder / "allfocus"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m allfocus.cli "$@"\n')
        program.chmod(0o755)
        plug_in = FOLDER.parents[1] / "integrations" / "darktable" / "allfocus"
        shutil.copytree(plug_in, folder / "config" / "lua" / "allfocus")
        preference = f'require("darktable").preferences.write("allfocus", "program", "string", "{program}")'
        (folder / "config" / "luarc").write_text(f'require "allfocus/allfocus"\n{preference}\n')
        (folder / "driver.lua").write_text(DARKTABLE.format(folder=folder))
        settings = {"ui_last/window_w": 1180, "ui_last/window_h": 780, "ui_last/window_x": 0, "ui_last/window_y": 0}
        settings["plugins/imageio/format/tiff/bpp"] = 16
        export = {"storage_name": "allfocus", "format_name": "tiff", "expanded": "true"}
        settings |= {f"plugins/lighttable/export/{key}": value for key, value in export.items()}
        words = ["xvfb-run", "-a", "-s", f"-screen 0 1180x780x24 -fbdir {folder}", "darktable", "--library", ":memory:"]
        words += ["--configdir", str(folder / "config"), "--cachedir", str(folder / "cache")]
        words += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        subprocess.run([*words, "--luacmd", f'dofile("{folder}/driver.lua")'], check=True, capture_output=True)
        return _read_screen((folder / "screen.xwd").read_bytes())


def _read_screen(dump: bytes) -> Pixels:
    """A dump of a window (XWD) with 32 bits a pixel: its header tells sizes, then come colours, then pixels."""
    header = np.frombuffer(dump, ">u4", 25)
    width, height, row, colours = (int(header[place]) for place in (4, 5, 12, 19))
    pixels = np.frombuffer(dump, np.uint8, row * height, int(header[0]) + 12 * colours)
    return pixels.reshape(height, row // 4, 4)[:, :width, 2::-1] / np.float32(255)


PICTURES: dict[str, Callable[[], Pixels | None]] = {
    "before_after.webp": draw_before_after,
    "contact_sheet.webp": draw_contact_sheet,
    "step_1_frames.webp": draw_frames,
    "step_2_alignment.webp": draw_alignment,
    "step_3_logits.webp": draw_logits,
    "step_4_levels.webp": draw_levels,
    "step_5_blending.webp": draw_blending,
    "step_6_depth.webp": draw_depth,
    "macro.webp": draw_macro,
    "landscape.webp": draw_landscape,
    "microscope.webp": draw_microscope,
    "stack_report.webp": draw_report,
    "darktable.webp": draw_darktable,
    **{
        f"gallery_{name}_{half}.webp": functools.partial(draw_gallery, name, number)
        for name in GALLERY
        for number, half in enumerate(("before", "after"))
    },
}
"""File -> what draws it."""


def main() -> None:
    """Write the pictures that were asked for, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PICTURES)}; all without")
    parser.add_argument("-o", "--output", type=Path, default=FOLDER, help="the folder to write into")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(PICTURES))
    if unknown:
        parser.error(f"there is no picture {unknown[0]}; there are {', '.join(PICTURES)}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or PICTURES:
        picture = PICTURES[name]()
        if picture is None:
            print(f"{name}: left as it is; the program that it shows is not installed here")
            continue
        path = allfocus.write_image(picture, arguments.output / name, quality=84, overwrite=True)
        print(f"{path}: {picture.shape[1]}x{picture.shape[0]}, {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
