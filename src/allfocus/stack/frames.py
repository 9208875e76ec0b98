"""The frames of a stack of files on their way: which can be used, where they lie, and each on one grid."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.stack_alignment import StackAlignment, estimate_stack
from allfocus.alignment.transforms import warp_picture
from allfocus.errors import InputError
from allfocus.fusion.windows import Area
from allfocus.images.exif import SOFTWARE, parse_block
from allfocus.images.filling import fill_from_surroundings
from allfocus.images.image import Image, shows_something
from allfocus.images.reading import StackReader, too_few_frames
from allfocus.stack.notes import RunNotes

STRANGE = "does not seem to belong to the stack"
BLANK = "is blank: there is nothing in it to align"


def find_readable(reader: StackReader, notes: RunNotes) -> list[int]:
    """The frames that are whole; each is decoded, because damage behind a header shows only then.

    Raises:
        InputError: fewer than two are.
    """
    kept = []
    for index, name in enumerate(reader.names):
        try:
            reader.read(index)
            kept.append(index)
        except InputError as error:
            notes.leave_out(name, error)
        notes.tell("checking", index + 1, reader.count)
    _require_two(kept, reader, notes)
    notes.end_step("checking")
    return kept


def align_kept(
    reader: StackReader, kept: Sequence[int], notes: RunNotes, *, skip_bad: bool, crop: bool
) -> tuple[StackAlignment, list[int]]:
    """How frames lie to each other, and which of them belong; the others are left out, or are an error.

    Args:
        reader: The stack.
        kept: Indices of the frames to align.
        notes: Hears what was found.
        skip_bad: Leave out frames that do not belong.
        crop: Whether the frames will be cropped; only for the notice about it.

    Raises:
        InputError: a frame does not belong and may not be left out, or fewer than two are left.
    """
    alignment = estimate_frames(reader, kept, notes)
    if alignment.outliers:
        names = {place: reader.names[kept[place]] for place in alignment.outliers}
        if not skip_bad:
            raise strangers(names, alignment.blanks)
        for place in sorted(names, reverse=True):
            notes.leave_out(names[place], BLANK if place in alignment.blanks else STRANGE)
        kept = [index for place, index in enumerate(kept) if place not in names]
        _require_two(kept, reader, notes)
        alignment = estimate_frames(reader, kept, notes)
    for sentence in alignment.warnings:
        notes.say(sentence)
    _say_what_moved(alignment, notes, crop=crop)
    notes.end_step("aligning")
    return alignment, list(kept)


def estimate_frames(
    reader: StackReader,
    kept: Sequence[int],
    notes: RunNotes,
    *,
    model: str = "auto",
    reference: int | None = None,
    match_brightness: bool = True,
) -> StackAlignment:
    """How the kept frames of a stack lie to each other; see :func:`allfocus.alignment.stack_alignment.align`."""
    return estimate_stack(
        lambda place: whole_pixels(reader.read(kept[place])),
        len(kept),
        model=model,
        reference=reference,
        match_brightness=match_brightness,
        progress=lambda done, count: notes.tell("aligning", done, count),
    )


def _say_what_moved(alignment: StackAlignment, notes: RunNotes, *, crop: bool) -> None:
    if not alignment.measured:
        return  # its warning has told
    if alignment.registered:
        notes.say("the frames are registered already; nothing was moved")
    elif crop:
        notes.say(f"the frames were aligned ({alignment.model}) and cropped to what all of them show")
    else:
        notes.say(
            f"the frames were aligned ({alignment.model}) onto frame {alignment.reference + 1}, whose size is kept"
        )


def _require_two(kept: Sequence[int], reader: StackReader, notes: RunNotes) -> None:
    if len(kept) < 2:
        raise too_few_frames([reader.names[index] for index in kept], notes.left_out)


def strangers(names: Mapping[int, str], blanks: Sequence[int]) -> InputError:
    """The error for frames that cannot be aligned with the others: for the blank ones, if there are any."""
    listed = [name for place, name in names.items() if place in blanks] or list(names.values())
    reason = BLANK if any(place in blanks for place in names) else f"{STRANGE} (it cannot be aligned with the others)"
    more = f" (also {', '.join(listed[1:4])}{' ...' if len(listed) > 4 else ''})" if len(listed) > 1 else ""
    return InputError(
        reason,
        where=f"{listed[0]}{more}",
        hint=[
            "take it out",
            "{skip_bad=on} to leave such frames out",
            "{align=off} to fuse the frames as they are",
        ],
        code="stranger-frame",
        frames=", ".join(listed),
    )


def spool_depth(reader: StackReader, alignment: StackAlignment | None) -> int:
    """Frames are held as in their files; moved ones have values between the levels: 16 bits are enough for them."""
    if alignment is None or alignment.registered or reader.bit_depth == 32:
        return reader.bit_depth
    return 16


class PlacedFrame(NamedTuple):
    """A frame on the grid of its stack."""

    pixels: NDArray[np.float32]
    """(H, W, 3) or (H, W)."""
    valid: NDArray[np.bool_] | None
    """(H, W), where it has pixels; None for everywhere."""
    alpha: NDArray[np.float32] | None
    """(H, W), its own opacity, moved with it; None when it is opaque wherever it has pixels."""
    inside: NDArray[np.bool_] | None = None
    """(H, W), where it reaches on the grid; None for everywhere."""

    def cut(self, area: Area | None) -> "PlacedFrame":
        """The part in a window; None takes all of it."""
        if area is None:
            return self
        return PlacedFrame(
            np.ascontiguousarray(self.pixels[area]),
            None if self.valid is None else self.valid[area],
            None if self.alpha is None else self.alpha[area],
            None if self.inside is None else self.inside[area],
        )


def place_frame(image: Image, alignment: StackAlignment | None, place: int) -> PlacedFrame:
    """A frame where its alignment puts it: the one way in which frames come onto the grid of their stack.

    Args:
        image: The frame as it was read, in 0..1.
        alignment: Where the frames of the stack lie; None leaves them where they are.
        place: Which of the aligned frames it is, from 0.
    """
    pixels = whole_pixels(image)
    valid = None if image.alpha is None else shows_something(image.alpha)
    if alignment is None:
        return PlacedFrame(pixels, valid, image.alpha)
    pixels, inside = alignment.apply(place, pixels)
    transform = alignment.transforms[place]
    if np.array_equal(transform, np.eye(3)):
        return PlacedFrame(pixels, inside if valid is None else valid, image.alpha)
    if image.alpha is None:
        return PlacedFrame(pixels, inside, None, inside)
    moved = warp_picture(image.alpha, transform)
    return PlacedFrame(pixels, inside & shows_something(moved), np.clip(moved, 0, 1), inside)


def common_window(alignment: StackAlignment | None, *, crop: bool) -> Area | None:
    """The part that all aligned frames show; None where nothing has to be cut off.

    Raises:
        InputError: they have nothing in common.
    """
    if not crop or alignment is None or alignment.registered:
        return None
    top, left, bottom, right = alignment.common_area()
    if bottom - top < 1 or right - left < 1:
        raise InputError(
            "the aligned frames have no area in common", hint="{crop=off} to keep their size", code="no-common-area"
        )
    return slice(top, bottom), slice(left, right)


class PreparedFrames:
    """The kept frames one by one, on one grid, and what was learnt of them on the way.

    Args:
        reader: The stack.
        kept: Indices of the frames to give.
        alignment: Where these frames lie; None leaves them where they are.
        notes: Hears what was found.
        crop: Cut moved frames to what all of them show.

    Raises:
        InputError: a frame is damaged, or moved frames have nothing in common.
    """

    def __init__(
        self,
        reader: StackReader,
        kept: Sequence[int],
        alignment: StackAlignment | None,
        notes: RunNotes,
        *,
        crop: bool,
    ) -> None:
        self._reader, self._kept, self._alignment, self._notes = reader, kept, alignment, notes
        self._area = common_window(alignment, crop=crop)
        self._opaque = False
        self.opacity: NDArray[np.float32] | None = None
        """The most that any frame lets see of each pixel, (H, W); None when a frame is opaque, or none was read."""
        self.exif: list[bytes | None] = []
        """Of each frame that was read."""

    def __iter__(self) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_] | None]]:
        """Gives the pixels of each frame, and where it has any (None for everywhere)."""
        profile = None
        for place, index in enumerate(self._kept):
            image, name = self._reader.read(index), self._reader.names[index]
            for sentence in image.notices:
                self._notes.say(f"{name}: {sentence}")
            if _is_result(image):
                self._notes.say(f"{name}: was itself fused by allfocus; leave it out if it is the result of this stack")
            if place == 0:
                profile = image.icc_profile
            elif image.icc_profile != profile:
                first = self._reader.names[self._kept[0]]
                self._notes.say(f"{name}: has another colour profile than {first}, which the result gets")
            self.exif.append(image.exif)
            placed = place_frame(image, self._alignment, place).cut(self._area)
            self._add_opacity(image, placed)
            yield placed.pixels, None if placed.valid is None or placed.valid.all() else placed.valid

    def _add_opacity(self, image: Image, placed: PlacedFrame) -> None:
        """Counts the alpha of a frame in, so that half-transparent frames give a half-transparent result.

        Alpha that is 1 somewhere is a mask: a frame that has one is opaque where it has pixels.
        """
        if self._opaque or image.alpha is None or placed.alpha is None or not 0 < float(image.alpha.max()) < 1:
            self._opaque, self.opacity = True, None
        else:
            self.opacity = placed.alpha.copy() if self.opacity is None else np.maximum(self.opacity, placed.alpha)


def whole_pixels(image: Image) -> NDArray[np.float32]:
    """The pixels of a picture, with those below its mask filled in from around.

    What a file holds there is mostly black, whose edge would pass for part of the scene when frames are compared, and
    would bleed into the picture when they are moved.
    """
    valid = None if image.alpha is None else shows_something(image.alpha)
    if valid is None or valid.all() or not valid.any():
        return image.pixels
    return fill_from_surroundings(image.pixels, valid.astype(np.float32))


def _is_result(image: Image) -> bool:
    """Whether a picture says that this program made it: a folder or pattern may catch the result of an earlier run."""
    entries = parse_block(image.exif).entries if image.exif else []
    return any(tag == SOFTWARE and value.startswith(b"allfocus") for tag, _, _, value in entries)
