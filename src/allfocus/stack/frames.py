"""The frames of a stack of files on their way to fusion: which can be used, where they lie, and each on one grid."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.stack_alignment import StackAlignment, estimate_stack
from allfocus.alignment.transforms import warp_picture
from allfocus.errors import InputError
from allfocus.images.exif import SOFTWARE, parse_block
from allfocus.images.filling import fill_from_surroundings
from allfocus.images.image import Image, shows_something
from allfocus.images.reading import StackReader, too_few_frames

Progress = Callable[[str, int, int], None]
"""Called with the step ("checking", "aligning", "reading", "slabs", "fusing", "writing", "reporting"), how much of
it is done, and how much there is."""

Frame = tuple[NDArray[np.float32], NDArray[np.bool_] | None]
"""The pixels of a frame, and where it has any (None for everywhere)."""


STRANGE = "does not seem to belong to the stack"
BLANK = "is blank: there is nothing in it to align"


class Job:
    """What happens beside the pixels: progress, notices, times, and frames that are left out."""

    def __init__(self, progress: Progress | None, notice: Callable[[str], None] | None) -> None:
        self.tell: Progress = progress or (lambda step, done, count: None)
        self._notice = notice
        self.notices: list[str] = []
        """Each sentence once, in order."""
        self.left_out: dict[str, str] = {}
        """Names of frames, with the reason."""
        self.seconds: dict[str, float] = {}
        """Time of each step."""
        self.opacity: NDArray[np.float32] | None = None
        """The most that any frame lets see of each pixel, (H, W); None when a frame is opaque, or none was read."""
        self._began = time.perf_counter()

    def say(self, sentence: str) -> None:
        """Notes a sentence for the user, and tells it if it is new."""
        if sentence not in self.notices:
            self.notices.append(sentence)
            if self._notice is not None:
                self._notice(sentence)

    def leave_out(self, name: str, reason: Exception | str) -> None:
        """Notes that a frame is left out."""
        self.left_out[name] = str(reason)
        self.say(f"left out {name}: {reason}")

    def end_step(self, step: str) -> None:
        """Notes the time since the step before as that of this one."""
        now = time.perf_counter()
        self.seconds[step] = round(now - self._began, 3)
        self._began = now

    def check_readable(self, reader: StackReader) -> list[int]:
        """Decodes every frame once, because damage behind a header shows only then; returns those that are whole."""
        kept = []
        for index, name in enumerate(reader.names):
            try:
                reader.read(index)
                kept.append(index)
            except InputError as error:
                self.leave_out(name, error)
            self.tell("checking", index + 1, reader.count)
        self._require_two(kept, reader)
        self.end_step("checking")
        return kept

    def align(self, reader: StackReader, kept: list[int], *, skip_bad: bool, crop: bool) -> StackAlignment:
        """Returns how the kept frames lie to each other; frames that do not belong are left out or are an error."""

        def estimate() -> StackAlignment:
            return estimate_stack(
                lambda place: whole_pixels(reader.read(kept[place])),
                len(kept),
                progress=lambda done, count: self.tell("aligning", done, count),
            )

        alignment = estimate()
        if alignment.outliers:
            names = {place: reader.names[kept[place]] for place in alignment.outliers}
            if not skip_bad:
                raise _strangers(names, alignment.blanks)
            for place in sorted(names, reverse=True):
                self.leave_out(names[place], BLANK if place in alignment.blanks else STRANGE)
                del kept[place]
            self._require_two(kept, reader)
            alignment = estimate()
        for sentence in alignment.warnings:
            self.say(sentence)
        self._say_what_moved(alignment, crop=crop)
        self.end_step("aligning")
        return alignment

    def _say_what_moved(self, alignment: StackAlignment, *, crop: bool) -> None:
        if not alignment.measured:
            return  # its warning has told
        if alignment.registered:
            self.say("the frames are registered already; nothing was moved")
        elif crop:
            self.say(f"the frames were aligned ({alignment.model}) and cropped to what all of them show")
        else:
            self.say(
                f"the frames were aligned ({alignment.model}) onto frame {alignment.reference + 1}, whose size is kept"
            )

    def _require_two(self, kept: list[int], reader: StackReader) -> None:
        if len(kept) < 2:
            raise too_few_frames([reader.names[index] for index in kept], self.left_out)

    @staticmethod
    def spool_depth(reader: StackReader, alignment: StackAlignment | None) -> int:
        """Frames are held as in their files; moved ones have values between the levels: 16 bits are enough for them."""
        if alignment is None or alignment.registered or reader.bit_depth == 32:
            return reader.bit_depth
        return 16


def _strangers(names: Mapping[int, str], blanks: Sequence[int]) -> InputError:
    """The error for frames that cannot be aligned with the others: for the blank ones, if there are any."""
    listed = [name for place, name in names.items() if place in blanks] or list(names.values())
    reason = BLANK if any(place in blanks for place in names) else f"{STRANGE} (it cannot be aligned with the others)"
    more = f" (also {', '.join(listed[1:4])}{' ...' if len(listed) > 4 else ''})" if len(listed) > 1 else ""
    return InputError(
        f"{listed[0]}{more}: {reason}; take it out, add --skip-bad to leave such frames out, or --no-align to fuse the "
        "frames as they are"
    )


def prepare_frames(
    reader: StackReader, kept: list[int], alignment: StackAlignment | None, job: Job, *, crop: bool
) -> Iterator[Frame]:
    """Gives the kept frames one by one, on one grid, with the mask of where each has pixels.

    Args:
        reader: The stack.
        kept: Indices of the frames to give.
        alignment: Where these frames lie, from :meth:`Job.align`; None leaves them where they are.
        job: Hears what was found.
        crop: Cut moved frames to what all of them show.

    Raises:
        InputError: a frame is damaged, or moved frames have nothing in common.
    """
    area = _common_area(alignment) if crop else None
    profile = None
    opacities = _Opacities()
    for place, index in enumerate(kept):
        image = reader.read(index)
        for sentence in image.notices:
            job.say(f"{image.name}: {sentence}")
        if _is_result(image):
            job.say(f"{image.name}: was itself fused by allfocus; leave it out if it is the result of this stack")
        if place == 0:
            profile = image.icc_profile
        elif image.icc_profile != profile:
            job.say(f"{image.name}: has another colour profile than {reader.names[kept[0]]}, which the result gets")
        pixels, valid = _place(image, alignment, place)
        opacities.add(image, alignment, place, area)
        if area is not None:
            pixels = np.ascontiguousarray(pixels[area])
            valid = None if valid is None else valid[area]
        yield pixels, None if valid is None or valid.all() else valid
    job.opacity = opacities.most


class _Opacities:
    """The largest alpha of all frames at each pixel, so that half-transparent frames give a half-transparent result.

    Alpha that is 1 somewhere is a mask: a frame that has one is opaque where it has pixels.
    """

    def __init__(self) -> None:
        self.most: NDArray[np.float32] | None = None
        self._opaque = False

    def add(self, image: Image, alignment: StackAlignment | None, place: int, area: tuple[slice, slice] | None) -> None:
        """Counts a frame in, as it lies on the grid of the stack."""
        if self._opaque or image.alpha is None or not 0 < float(image.alpha.max()) < 1:
            self._opaque, self.most = True, None
            return
        alpha = image.alpha
        if alignment is not None and not np.array_equal(alignment.transforms[place], np.eye(3)):
            alpha = np.clip(warp_picture(alpha, alignment.transforms[place]), 0, 1)
        alpha = alpha if area is None else alpha[area]
        self.most = alpha.copy() if self.most is None else np.maximum(self.most, alpha)


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


def _place(image: Image, alignment: StackAlignment | None, place: int) -> Frame:
    """A frame on the grid of the stack."""
    pixels = whole_pixels(image)
    valid = None if image.alpha is None else shows_something(image.alpha)
    if alignment is None:
        return pixels, valid
    pixels, inside = alignment.apply(place, pixels)
    if image.alpha is None or np.array_equal(alignment.transforms[place], np.eye(3)):
        return pixels, inside if valid is None else valid
    return pixels, inside & shows_something(warp_picture(image.alpha, alignment.transforms[place]))


def _common_area(alignment: StackAlignment | None) -> tuple[slice, slice] | None:
    if alignment is None or alignment.registered:
        return None
    top, left, bottom, right = alignment.common_area()
    if bottom - top < 1 or right - left < 1:
        raise InputError("the aligned frames have no area in common; --keep-size fuses them all the same")
    return slice(top, bottom), slice(left, right)
