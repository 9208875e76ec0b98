"""The frames of a stack of files on their way: which can be used, how they lie, and each on one grid."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.placement import PlacedFrame, Window, place_frame, whole_pixels
from allfocus.alignment.stack_alignment import StackAlignment, estimate_stack
from allfocus.alignment.stack_walk import walking_order
from allfocus.errors import InputError
from allfocus.images.image import Image
from allfocus.images.photo_facts import facts_of, finished_by
from allfocus.images.spool import FrameSpool
from allfocus.images.stack_opening import too_few_frames
from allfocus.images.stack_reader import StackReader
from allfocus.progress import Notice
from allfocus.stack.notes import RunNotes

STRANGE = Notice("does not seem to belong to the stack")
BLANK = Notice("is blank: there is nothing in it to align")
DIM = Notice("is all but black beside the others")


def find_readable(reader: StackReader, notes: RunNotes) -> list[int]:
    """The frames that are whole and were not fused already; each is decoded, because damage shows only then.

    Raises:
        InputError: fewer than two are.
    """
    kept, finished = [], {}
    with reader.ahead(range(reader.count)):
        for index, name in enumerate(reader.names):
            try:
                if program := _finished_by(reader.read(index)):
                    finished[index] = program
                kept.append(index)
            except InputError as error:
                notes.leave_out(name, error)
            notes.tell("checking", index + 1, reader.count)
    if len(kept) - len(finished) >= 2:  # otherwise slabs are fused, which are composites all
        for index, program in finished.items():
            notes.leave_out(reader.names[index], Notice(f"is a finished composite ({program})"))
        kept = [index for index in kept if index not in finished]
    _require_two(kept, reader, notes)
    notes.end_step("checking")
    return kept


def align_frames(
    reader: StackReader,
    kept: Sequence[int],
    notes: RunNotes,
    *,
    skip_bad: bool,
    reference: int | None = None,
    brightness: bool = True,
) -> tuple[StackAlignment, list[int]]:
    """How frames lie to each other, and which of them belong; the others are left out, or are an error.

    Args:
        reader: The stack.
        kept: Indices of the frames to align.
        notes: Hears what was found.
        skip_bad: Leave out frames that do not belong.
        reference: The frame that stays as it is, counted from 1 among all of the stack; None for the middle one.
        brightness: Also match brightness and white balance.

    Raises:
        InputError: a frame does not belong and may not be left out, fewer than two are left, or the reference is none
            of the frames.
    """
    chosen = list(kept)
    match = partial(estimate_stack, progress=partial(notes.tell, "aligning"), match_brightness=brightness)

    def estimate() -> StackAlignment:
        place = _place_of(reference, chosen, reader)
        order = walking_order(len(chosen), len(chosen) // 2 if place is None else place)
        with reader.ahead([chosen[place] for place in order]):
            return match(lambda place: whole_pixels(reader.read(chosen[place])), len(chosen), reference=place)

    alignment = estimate()
    asked = None if reference is None else alignment.reference
    if dim := [place for place in alignment.dim if place != asked and place not in alignment.outliers]:
        for place in dim:
            notes.leave_out(reader.names[chosen[place]], DIM)
        chosen = [index for place, index in enumerate(chosen) if place not in dim]
        _require_two(chosen, reader, notes)
        alignment = estimate()
    if say_rims(reader, chosen, notes):
        alignment = estimate()
    if alignment.outliers:
        names = {place: reader.names[chosen[place]] for place in alignment.outliers}
        if not skip_bad:
            raise strangers(names, alignment.blanks)
        for place in sorted(names, reverse=True):
            notes.leave_out(names[place], BLANK if place in alignment.blanks else STRANGE)
        chosen = [index for place, index in enumerate(chosen) if place not in names]
        _require_two(chosen, reader, notes)
        alignment = estimate()
    for sentence in alignment.warnings:
        notes.say(sentence)
    notes.end_step("aligning")
    return alignment, chosen


def say_rims(reader: StackReader, kept: Sequence[int], notes: RunNotes) -> bool:
    """Whether frames were found to have an empty rim, which is left out from now on: they have to be read again."""
    found = [reader.names[index] for index in reader.leave_out_rims(kept)]
    if found:
        named = ", ".join(found[:3]) + (" ..." if len(found) > 3 else "")
        notes.say(Notice(f"frames that end in an empty rim: {len(found)} of {len(kept)} ({named}); others fill it"))
    return bool(found)


def _place_of(reference: int | None, chosen: Sequence[int], reader: StackReader) -> int | None:
    """Where the reference lies among the chosen frames."""
    if reference is None:
        return None
    # Of a video those frames are counted that are taken; of others also those that could not be opened at all.
    of_video = any(frame.of_video for frame in reader.frames)
    numbers, counted = (range(reader.count), reader.count) if of_video else (reader.numbers, reader.counted)
    if reference > counted:
        raise InputError(
            f"the reference is frame {reference}, but the stack has {counted}",
            hint=[f"give 1 to {counted}", "{reference=default}"],
            code="bad-option",
        )
    index = next((index for index, number in enumerate(numbers) if number == reference - 1), None)
    if index is None or index not in chosen:
        raise InputError(
            "is to be the reference, but is left out",
            where=reader.absent.get(reference - 1, f"frame {reference}") if index is None else reader.names[index],
            hint=["choose another", "{reference=default}"],
            code="bad-option",
        )
    return list(chosen).index(index)


def tell_movement(alignment: StackAlignment, area: Window | None) -> str:
    """What aligning did to the frames, as a sentence; empty where its warning has told.

    Args:
        alignment: How the frames lay.
        area: What they are cropped to; None when their size is kept.
    """
    if not alignment.measured:
        return ""
    if alignment.registered:
        return Notice("the frames are registered already; nothing was moved")
    if area is not None:
        return Notice(f"the frames were aligned ({alignment.model}) and cropped to what all of them show")
    return Notice(
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


class PlacedFrames:
    """The kept frames one by one, on one grid, and what was learnt of them on the way.

    Args:
        reader: The stack.
        kept: Indices of the frames to give.
        alignment: Where these frames lie; None leaves them where they are.
        notes: Hears what was found.
        area: The part of the grid to give; None for all of it.

    Raises:
        InputError: a frame is damaged.
    """

    def __init__(
        self,
        reader: StackReader,
        kept: Sequence[int],
        alignment: StackAlignment | None,
        notes: RunNotes,
        *,
        area: Window | None,
    ) -> None:
        self._reader, self._kept, self._alignment, self._notes = reader, kept, alignment, notes
        self._area = area
        self._opaque = False
        self.opacity: NDArray[np.float32] | None = None
        """The most that any frame lets see of each pixel, (H, W); None when a frame is opaque, or none was read."""
        self.exif: list[bytes | None] = []
        """Of each frame that was read."""

    def __iter__(self) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_] | None]]:
        """Gives the pixels of each frame, and where it has any (None for everywhere)."""
        for place, image in self._read():
            yield self._place(place, image)

    def _read(self) -> Iterator[tuple[int, Image]]:
        """Gives the frames as they were read, with their places; tells what is odd about them."""
        with self._reader.ahead(self._kept):
            yield from self._read_each()

    def _read_each(self) -> Iterator[tuple[int, Image]]:
        profile = None
        for place, index in enumerate(self._kept):
            image, name = self._reader.read(index), self._reader.names[index]
            for sentence in image.notices:
                self._notes.say(f"{name}: {sentence}")
            if program := _finished_by(image):
                self._notes.say(
                    Notice(f"{name}: was itself fused by {program}; leave it out if it is the result of this stack")
                )
            if place == 0:
                profile = image.icc_profile
            elif image.icc_profile != profile:
                first = self._reader.names[self._kept[0]]
                self._notes.say(Notice(f"{name}: has another colour profile than {first}, which the result gets"))
            self.exif.append(image.exif)
            yield place, image

    def _place(self, place: int, image: Image) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        placed = place_frame(image, self._alignment, place).cut(self._area)
        self._add_opacity(image, placed)
        return placed.pixels, None if placed.valid is None or placed.valid.all() else placed.valid

    def fill(self, spool: FrameSpool) -> None:
        """Reads all frames into a spool; once more if some turn out to have an empty rim."""
        self._fill(spool)
        if say_rims(self._reader, self._kept, self._notes):
            spool.clear()
            self.exif.clear()
            self._fill(spool)

    def _fill(self, spool: FrameSpool) -> None:
        stay = self._alignment is None and self._area is None
        for place, image in self._read():
            levels = image.levels
            if stay and levels is not None and levels.dtype == spool.kind:
                # As the file has them, without the way to 0..1 and back.
                self._opaque, self.opacity = True, None
                spool.append(levels)
            else:
                spool.append(*self._place(place, image))
            self._notes.tell("reading", len(spool), len(self._kept))

    def _add_opacity(self, image: Image, placed: PlacedFrame) -> None:
        """Counts the alpha of a frame in, so that half-transparent frames give a half-transparent result.

        Alpha that is 1 somewhere is a mask: a frame that has one is opaque where it has pixels.
        """
        if self._opaque or image.alpha is None or placed.alpha is None or not 0 < float(image.alpha.max()) < 1:
            self._opaque, self.opacity = True, None
        else:
            self.opacity = placed.alpha.copy() if self.opacity is None else np.maximum(self.opacity, placed.alpha)


def _finished_by(image: Image) -> str:
    """The program that fused a picture, as it says: a folder or pattern may catch the result of an earlier run."""
    return finished_by(facts_of(image.exif), "") if image.exif else ""
