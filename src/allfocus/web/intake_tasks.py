"""What the worker processes do with what comes in: look at files, shrink them, find stacks, render a sample."""

import secrets
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from allfocus.errors import AllfocusError, InputError
from allfocus.finishing.finish import PIXEL_SIZES
from allfocus.images.decoded import require_pixels
from allfocus.images.frame_file import list_frames
from allfocus.images.reading import read_image
from allfocus.images.stack_file import open_stack_file
from allfocus.images.value_range import extremes_of
from allfocus.images.writing import replace_file, write_image
from allfocus.web.channel_planes import describe_choice, find_stacks_in, split_planes
from allfocus.web.layers import choose_white, jpeg_bytes, to_bytes
from allfocus.web.project_files import Tell

THUMBNAIL_SIDE = 240

SAMPLE_FRAMES, SAMPLE_SIZE = 8, (600, 900)


def inspect_file(
    path: str,
    *,
    max_pixels: int,
    max_pictures: int,
    max_bytes: int,
    split_into: str,
    position: str | None = None,
    time: str | None = None,
    tell: Tell,
) -> list[dict[str, Any]] | dict[str, Any]:
    """What the frames in a file are, by its headers; a file with several pictures is split into one file for each.

    Of a file with several positions or times of which none is named, what there is to choose.

    Args:
        path: The file.
        max_pixels: Refuse a picture with more.
        max_pictures: Refuse a file with more of them.
        max_bytes: Refuse a file whose pictures would need more when it is split.
        split_into: Folder for the single pictures of a file with several.
        position: Which to take of a file of a microscope.
        time: The same.
        tell: Not used.
    """
    file = Path(path)
    if (stacks := find_stacks_in(file)) is not None:
        limits = {"max_pixels": max_pixels, "max_pictures": max_pictures, "max_bytes": max_bytes}
        choice = describe_choice(stacks, position, time)
        return choice or split_planes(stacks, Path(split_into), position, time, limits=limits)
    found = list_frames([file])
    if not found:
        raise InputError("holds no picture", where=file, code="not-a-picture")
    for frame in found:
        require_pixels(frame.width, frame.height, max_pixels)
    if len(found) > max_pictures:
        raise InputError(
            f"holds {len(found)} pictures, more than the limit of {max_pictures}; leave some out",
            where=file,
            code="too-many-pictures",
        )
    pixel_size = _pixel_size(file)
    size = sum(f.width * f.height * f.header.channels * f.header.bit_depth // 8 for f in found)
    if len(found) > 1 and size > max_bytes:
        raise InputError(
            f"unpacks to {size} bytes, more than the limit of {max_bytes} that are free",
            where=file,
            code="too-many-bytes",
        )
    described = []
    for frame in found:
        own = file
        if len(found) > 1:
            own = Path(split_into) / f"{secrets.token_hex(8)}.tif"
            write_image(read_image(file, page=frame.page, max_pixels=max_pixels), own, compression="none")
        described.append(
            {
                "file": str(own),
                "width": frame.width,
                "height": frame.height,
                "channels": frame.header.channels,
                "bit_depth": frame.header.bit_depth,
                "pixel_size": pixel_size,
            }
        )
    return described


def _pixel_size(file: Path) -> float | None:
    """Micrometres from one pixel of a file's pictures to the next; None where it does not say."""
    try:
        held = open_stack_file(file).positions[0]
    except AllfocusError:  # what the file holds besides is not needed to fuse it
        return None
    return (
        None
        if held.pixel_size is None or not PIXEL_SIZES[0] <= held.pixel_size[1] <= PIXEL_SIZES[1]
        else held.pixel_size[1]
    )


def make_thumbnail(path: str, target: str, *, max_pixels: int, tell: Tell) -> None:
    """Write a small JPEG of a frame."""
    image = read_image(path, max_pixels=max_pixels)
    low, high = extremes_of(image.pixels, image.valid)
    if low < 0 or high > 1:
        raise InputError(
            f"its floating point values run from {low:g} to {high:g}; the studio takes 0..1: scale all frames by the "
            "same factor, or use allfocus fuse, which takes any range",
            code="unsupported-picture",
        )
    scale = THUMBNAIL_SIDE / max(image.width, image.height)
    small = image.pixels
    if scale < 1:
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        small = np.asarray(cv2.resize(small, size, interpolation=cv2.INTER_AREA), np.float32)
    white = choose_white(small) if image.bit_depth > 8 else 1.0
    Path(target).parent.mkdir(exist_ok=True)
    replace_file(
        Path(target), jpeg_bytes(to_bytes(small, white), icc_profile=image.icc_profile, quality=85), overwrite=True
    )


def render_sample(scene: str, folder: str, *, tell: Tell) -> list[str]:
    """Render a small stack to try things with; the files come back in order."""
    from allfocus.scenes.rendering import render_scene

    files = []
    for number, frame in enumerate(render_scene(scene, frames=SAMPLE_FRAMES, size=SAMPLE_SIZE).frames):
        target = Path(folder) / f"{secrets.token_hex(8)}.tif"
        files.append(str(write_image(frame, target, bit_depth=16, compression="none")))
        tell({"progress": {"step": "rendering", "done": number + 1, "count": SAMPLE_FRAMES}})
    return files


def cut_into_stacks(folder: str, *, by: str, gap: float, size: int | None, tell: Tell) -> dict[str, Any]:
    """The stacks in a tree of pictures by the rules of ``batch``, by which of them, and the pictures in no stack.

    Args:
        folder: The top of the tree.
        by: As ``find_stacks`` takes it, but "shoot" for its "auto", which looks into the pictures and takes its time;
            "auto" is the quick one of the others that fits.
        gap: Seconds between two shots from which on a new stack begins.
        size: Frames in each stack.
        tell: Not used.
    """
    from allfocus.batch.stacks import find_stacks

    root = Path(folder).absolute()
    chosen = suggest_grouping(root) if by == "auto" else by
    found = []
    left_out: list[dict[str, str]] = []

    def leave_out(path: Path, reason: str) -> None:
        shown = path.relative_to(root).as_posix().encode("utf-8", "replace").decode()
        left_out.append({"path": shown, "reason": reason})

    rule = "auto" if chosen == "shoot" else chosen
    for stack in find_stacks(root, by=rule, gap=gap, size=size, on_left_out=leave_out):
        paths = [path.relative_to(root).as_posix() for path in stack.frames]
        shown = [path.encode("utf-8", "replace").decode() for path in paths]
        odd = "" if shown == paths else "a name of its files is not Unicode; rename them"
        bytes_of = [path.stat().st_size if path.is_file() else 0 for path in stack.frames]
        found.append(
            {
                "name": stack.name.encode("utf-8", "replace").decode(),
                "frames": shown,
                "bytes": sum(bytes_of),
                "problem": (stack.problem or odd).encode("utf-8", "replace").decode(),
            }
        )
    return {"by": chosen, "stacks": found, "left_out": left_out}


def suggest_grouping(root: Path) -> str:
    """By what a tree of pictures is best cut into stacks: by time or number where folders hold several, else by folder.

    Times know best. Numbers are asked only where pictures tell no time, and believed only if no picture is left alone:
    a shot that was deleted is a gap too.
    """
    from allfocus.batch.stacks import Stack, find_stacks

    def is_whole(stacks: list[Stack]) -> bool:
        return all(len(stack.frames) > 1 and not stack.problem for stack in stacks)

    folders = find_stacks(root, by="folder")
    by_time = find_stacks(root, by="time")
    if not any(stack.problem for stack in by_time):
        return "time" if len(by_time) > len(folders) and is_whole(by_time) else "folder"
    by_number = find_stacks(root, by="number")
    return "number" if len(by_number) > len(folders) and is_whole(by_number) else "folder"
