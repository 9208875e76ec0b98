"""What is done to the frames of a stack before they are aligned: dark current, hot pixels, frames that add nothing."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.files.names import named_path
from allfocus.images.frame_corrections import FrameCorrections
from allfocus.images.frame_file import list_frames
from allfocus.images.hot_pixels import HotPixelFinder
from allfocus.images.image import Image, require_match
from allfocus.images.raw_decoder import read_mosaic
from allfocus.images.reading import guarded, with_file
from allfocus.images.sharpness import grey_of, measure_sharpness, show_something
from allfocus.images.stack_reader import StackReader
from allfocus.images.transfer import find_curve
from allfocus.images.value_range import extremes_of
from allfocus.progress import Notice
from allfocus.stack.notes import RunNotes
from allfocus.stack.options import FuseOptions

LEAST_FRAMES = 3
"""From which hot pixels can be told from detail without a dark frame."""
LEAST_CHANGE = 1.5
"""How much sharper, as a factor, a part gets somewhere in the stack, for focus to matter there."""
NEARLY_BEST = 0.85
"""Share of the best sharpness of a part with which a frame still adds to it."""
BRIGHT_DARK = 0.5
"""Share of the brightness of a frame from which on a dark frame may be none."""
SAME_CURVE = 0.01
"""How far, in light from 0 to 1, two curves that count as the same may be apart."""
NOTHING_TO_ADD = Notice("adds nothing: wherever focus matters, other frames are sharper")


def check_dark(dark: str | None, reader: StackReader) -> None:
    """Raise InputError when a dark frame is not one picture of the size and kind of the frames, and none of them."""
    if dark is None:
        return
    if os.path.isdir(named_path(dark)):
        raise InputError("a dark frame is one picture; this is a folder", where=dark, code="bad-option")
    found = list_frames([dark])
    if len(found) != 1:
        raise InputError(f"a dark frame is one picture; it holds {len(found)}", where=dark, code="bad-option")
    if any(frame.path.exists() and frame.path.samefile(dark) for frame in reader.frames):
        raise InputError(
            "is the dark frame, and one of the frames as well",
            where=dark,
            hint=["move it to another folder", "name the frames without it"],
            code="bad-option",
        )
    require_match(reader.frames[0], found[0])
    turned = next((frame for frame in reader.frames if frame.header.orientation != found[0].header.orientation), None)
    if turned is not None:
        raise InputError(
            f"the camera was held otherwise than for {turned.name}, so its pixels would not meet those of the frames",
            where=dark,
            hint="take out the orientation of all of them, or take the dark frame again",
            code="unequal-frames",
        )
    if (found[0].header.camera is None) != (reader.frames[0].header.camera is None):
        raise InputError(
            "one of dark frame and frames is camera RAW, the other is not; give both in one format",
            where=dark,
            code="unequal-frames",
        )


def find_corrections(
    reader: StackReader, kept: Sequence[int], options: FuseOptions, notes: RunNotes
) -> FrameCorrections | None:
    """The corrections that options ask for, found in the frames that are kept; None for none.

    Raises:
        InputError: the dark frame does not fit, or hot pixels cannot be told.
    """
    if options.dark is None and not options.hot_pixels:
        return None
    dark = None
    if options.dark is not None:
        if not reader.value_range.is_unit:
            raise InputError(
                "frames in units of their own have no dark frame; subtract it first",
                hint="{dark=default}",
                code="bad-option",
            )
        (place,) = list_frames([options.dark])
        dark = reader.decode(place)
        low, high = extremes_of(dark.pixels, None)
        if low < 0 or high > 1:
            raise InputError(
                f"its values run from {low:g} to {high:g}, those of the frames from 0 to 1; save it as the frames are",
                where=options.dark,
                code="unequal-frames",
            )
        _require_same_curve(dark, reader.describe(kept[0]), options.dark)
        share = float(dark.pixels.mean()) / max(float(reader.read(kept[0]).pixels.mean()), 1e-9)
        if share > BRIGHT_DARK:
            name = reader.names[kept[0]]
            notes.say(Notice(f"the dark frame is {share:.0%} as bright as {name}; was it taken without light?"))
    files = () if options.dark is None else (Path(options.dark),)
    if not options.hot_pixels:
        return FrameCorrections(None if dark is None else dark.pixels, files=files)
    hot, sensor = _find_hot(reader, kept, options.dark, dark, notes)
    count = int(hot.sum())
    notes.say(_tell_hot(count))
    pixels = None if dark is None else dark.pixels
    return FrameCorrections(pixels, None if sensor else hot, hot if sensor else None, files)


def _require_same_curve(dark: Image, frame: Image, path: str) -> None:
    """Raise InputError when the colour profiles of both tell different curves; where one has none, they agree."""
    channels = 3 if dark.is_colour else 1  # the frame comes without pixels
    curves = [find_curve(image.icc_profile, image.exif, channels=channels) for image in (dark, frame)]
    ramp = np.linspace(0, 1, 33, dtype=np.float32)[None]
    values = np.dstack([ramp] * 3) if dark.is_colour else ramp
    ramps = [None if curve is None else curve.to_linear(values) for curve in curves]
    if ramps[0] is not None and ramps[1] is not None and np.abs(ramps[0] - ramps[1]).max() > SAME_CURVE:
        raise InputError(
            "its colour profile has another curve than that of the frames; save it as the frames are",
            where=path,
            code="unequal-frames",
        )


def _find_hot(
    reader: StackReader, kept: Sequence[int], path: str | None, dark: Image | None, notes: RunNotes
) -> tuple[NDArray[np.bool_], bool]:
    """Where pixels are hot, and whether that is on the sensor (or in the upright picture)."""
    finder = HotPixelFinder()
    if path is not None and dark is not None:
        mosaic = _mosaic(Path(path)) if reader.frames[0].header.camera is not None else None
        finder.add(dark.pixels if mosaic is None else mosaic)
        return finder.find(), mosaic is not None
    if len(kept) < LEAST_FRAMES:
        raise InputError(
            f"hot pixels cannot be told from detail in {len(kept)} frames",
            hint=["{dark} to a frame taken without light", "{hot_pixels=default}"],
            code="bad-option",
        )
    frames = [reader.frames[index] for index in kept]
    sensor = all(frame.header.camera is not None for frame in frames) and _mosaic(frames[0].path) is not None
    for number, (index, frame) in enumerate(zip(kept, frames, strict=True), start=1):
        mosaic = _mosaic(frame.path) if sensor else None
        finder.add(reader.read(index).pixels if mosaic is None else mosaic)
        notes.tell("checking", number, len(kept))
    return finder.find(), sensor


def _mosaic(path: Path) -> NDArray[np.float32] | None:
    return with_file(path, lambda file: guarded(path, lambda: read_mosaic(file)))


def _tell_hot(count: int) -> Notice:
    if count == 0:
        return Notice("no hot pixels")
    if count == 1:
        return Notice("1 hot pixel is filled from around")
    return Notice(f"{count} hot pixels are filled from around")


def cull_frames(reader: StackReader, kept: Sequence[int], notes: RunNotes) -> list[int]:
    """The frames that are among the sharpest anywhere, of those kept before; the others are left out, and named.

    Two are always kept.
    """
    maps = []
    with reader.ahead(kept):
        for number, index in enumerate(kept, start=1):
            maps.append(measure_sharpness(grey_of(reader.read(index).pixels)))
            notes.tell("checking", number, len(kept))
    adding = frames_that_add(np.stack(maps))
    if len(adding) < 2:
        return list(kept)
    for place, index in enumerate(kept):
        if place not in adding:
            notes.leave_out(reader.names[index], NOTHING_TO_ADD)
    notes.end_step("checking")
    return [index for place, index in enumerate(kept) if place in adding]


def frames_that_add(maps: NDArray[np.float32]) -> list[int]:
    """Which of the frames are nearly the sharpest in some part where focus matters.

    Args:
        maps: (N, rows, columns), from ``measure_sharpness``.

    Example:
        >>> near, far, nothing = [[9, 1, 5]], [[1, 9, 5]], [[2, 2, 5]]
        >>> frames_that_add(np.float32([nothing, near, far]))
        [1, 2]
    """
    best = maps.max(axis=0)
    parts = show_something(maps) & (best > LEAST_CHANGE * maps.min(axis=0))
    if not parts.any():
        return list(range(len(maps)))
    good = (maps >= NEARLY_BEST * best)[:, parts].any(axis=1)
    return [int(place) for place in np.flatnonzero(good)]
