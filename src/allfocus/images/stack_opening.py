"""Files -> a stack: the frames of files, folders, patterns, a multi-page TIFF or a video, checked by their headers.

A stack can be read whole (:func:`read_stack`) or frame by frame (:func:`open_stack`), which looks at every header
first, so that a frame that does not fit is found before any pixel is decoded, and then holds one frame at a time.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from allfocus.errors import InputError
from allfocus.images.camera_colour import Development
from allfocus.images.decoded import require_pixels
from allfocus.images.frame_file import FrameFile, frames_of
from allfocus.images.image import Image, ImageStack, require_match
from allfocus.images.limits import MAX_PIXELS
from allfocus.images.listing import Paths, list_files, split_pairs
from allfocus.images.numbered_names import group_numbered
from allfocus.images.reading import errors_about, guarded
from allfocus.images.stack_file import open_set
from allfocus.images.stack_reader import StackReader, require_promise
from allfocus.images.video import choose_frames, is_video
from allfocus.progress import Notice


def too_few_frames(kept: Sequence[str], left_out: Mapping[str, str]) -> InputError:
    """The error for a stack of which fewer than two frames can be used.

    Args:
        kept: Names of the frames that can be used.
        left_out: Names of those that cannot, with the reason.

    Example:
        >>> print(too_few_frames(["a.png"], {"b.png": "is damaged"}))
        of 2 frames only a.png can be used, and a stack needs two; left out: b.png: is damaged
    """
    shown = [reason if name in reason else f"{name}: {reason}" for name, reason in list(left_out.items())[:2]]
    more = f"; and {len(left_out) - 2} more" if len(left_out) > 2 else ""
    usable = f"only {kept[0]} can be used" if kept else "none can be used"
    total = len(kept) + len(left_out)
    return InputError(
        f"of {total} frames {usable}, and a stack needs two; left out: {'; '.join(shown)}{more}",
        code="too-few-frames",
    )


def open_stack(
    paths: Paths,
    *,
    names: Sequence[str] | None = None,
    max_pixels: int = MAX_PIXELS,
    keep_bytes: int = 0,
    on_bad_frame: Callable[[str, InputError], None] | None = None,
    development: Development | None = None,
    pairs: str = "raw",
) -> StackReader:
    """The frames of a stack, checked by their headers and ready to be decoded one at a time.

    Args:
        paths: Files, a folder, a pattern, one multi-page TIFF, or a video of a focus sweep, of which the needed frames
            are taken; see :func:`list_frames` for their order.
        names: How messages call each file, where that is not its own name; errors then name no path.
        max_pixels: Refuse a frame with more pixels than this.
        keep_bytes: How much of what is decoded may be kept, so that it is not decoded twice.
        on_bad_frame: Called with the name and the error of each frame that cannot be read or does not fit the first
            one, which is then left out; None stops at the first of them. (Damage behind the header shows only when
            the frame is read.)
        development: How to develop camera RAW files: the white balance of the first frame serves all of them.
        pairs: Which of a RAW and a JPEG file of the same shot is taken: "raw" or "jpeg".

    Raises:
        InputError: fewer than two frames, frames of different size (both are named), or a file that cannot be read.

    Example:
        >>> import tempfile, numpy as np
        >>> from allfocus.images.writing import write_image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for number in (10, 9):
        ...         _ = write_image(np.zeros((4, 6), np.float32), f"{folder}/frame{number}.png", bit_depth=16)
        ...     stack = open_stack(folder)
        ...     stack.names, stack.size, stack.channels, stack.bit_depth, stack.read(1).width
        (['frame9.png', 'frame10.png'], (4, 6), 1, 16, 6)
    """
    kept: list[FrameFile] = []
    numbers: list[int] = []
    left_out: dict[str, str] = {}
    absent: dict[int, str] = {}
    counted = 0

    def leave_out(name: str, error: InputError) -> None:
        if on_bad_frame is None:
            raise error
        left_out[name] = str(error)
        on_bad_frame(name, error)

    files = list_files(paths)
    if names is not None and len(names) != len(files):
        raise ValueError(f"{len(names)} names were given for {len(files)} files")
    _require_one_stack(files, names)
    taken, passed = split_pairs(files if names is None else list(map(Path, names)), pairs)
    for number, path in ((number, files[number]) for number in taken):
        called = None if names is None else names[number]
        try:
            with errors_about(called):
                found = [replace(frame, called=called) for frame in _frames_to_fuse(path, max_pixels)]
        except InputError as error:
            leave_out(called or path.name, error)
            absent[counted] = called or path.name
            counted += 1
            continue
        for place, frame in enumerate(found):
            own = counted + (frame.page if frame.of_video else place)
            try:
                _accept(frame, kept, max_pixels)
            except InputError as error:
                leave_out(frame.name, error)
                absent[own] = frame.name
            else:
                numbers.append(own)
        counted += found[0].header.pages if found and found[0].of_video else len(found)
    if left_out and len(kept) < 2:
        raise too_few_frames([frame.name for frame in kept], left_out)
    return StackReader(
        kept,
        max_pixels=max_pixels,
        keep_bytes=keep_bytes,
        files=files,
        development=development,
        numbers=numbers,
        absent=absent,
        counted=counted,
        notices=[*([_tell_pairs(len(passed), pairs)] if passed else []), *_tell_videos(kept), *_tell_twice(kept)],
    )


def _require_one_stack(files: Sequence[Path], names: Sequence[str] | None) -> None:
    """Raise InputError for files whose names or descriptions tell that they are several channels, times or positions.

    Whoever can choose among them (``stack/selection.py``) has done so before.
    """
    if len(files) < 2:
        return
    called = names or [file.name for file in files]
    numbered = group_numbered([Path(name) for name in called])
    found = open_set(files, called) if numbered is None else None
    several = numbered is not None or (found is not None and not found.is_plain)
    if several:
        raise InputError(
            "these files are the planes of several channels, times or positions, and a stack is one of them; give the "
            "files of one, or save all of it as one file",
            where=called[0],
            code="several-stacks",
        )


def _tell_videos(frames: Sequence[FrameFile]) -> list[str]:
    videos = {frame.path: frame.header.pages for frame in frames if frame.of_video}
    return [
        Notice(f"{path.name}: {sum(frame.path == path for frame in frames)} of {pages} frames are taken, by sharpness")
        for path, pages in videos.items()
    ]


def _tell_twice(frames: Sequence[FrameFile]) -> list[str]:
    """About frames that were named twice, which fuse as once but count as two places of focus."""
    counts = Counter((frame.path, frame.page) for frame in frames)
    names = {(frame.path, frame.page): frame.name for frame in frames}
    return [
        Notice(f"{names[place]} is given more than once, and counts as a frame each time")
        for place, count in counts.items()
        if count > 1
    ]


def _tell_pairs(count: int, pairs: str) -> str:
    taken, other = ("RAW", "JPEG or HEIF") if pairs == "raw" else ("JPEG or HEIF", "RAW")
    if count == 1:
        return Notice(
            f"1 shot lies here as RAW and as JPEG or HEIF; the {taken} file is taken, the {other} file passed over"
        )
    return Notice(
        f"{count} shots lie here as RAW and as JPEG or HEIF; the {taken} files are taken, the {other} files passed over"
    )


def _accept(frame: FrameFile, kept: list[FrameFile], max_pixels: int) -> None:
    """Adds a frame to those that are kept, if it is not too large and fits the first of them."""
    with errors_about(frame.place):
        require_pixels(frame.width, frame.height, max_pixels)  # knows no place of its own
    if kept:
        require_match(kept[0], frame)
    kept.append(frame)


def read_stack(
    paths: Paths,
    *,
    max_pixels: int = MAX_PIXELS,
    progress: Callable[[int, int], None] | None = None,
) -> ImageStack:
    """The frames of a stack, all of one size, all in memory; of a RAW and a JPEG file of one shot the RAW file.

    Args:
        paths: Files, a folder, a pattern, or one multi-page TIFF; see :func:`list_frames` for their order.
        max_pixels: Refuse a frame with more pixels than this.
        progress: Called with (frames read, frames in all) after each frame.

    Raises:
        InputError: fewer than two frames, frames of different size (both are named), or a file that cannot be read.

    Example:
        >>> import tempfile, numpy as np
        >>> from allfocus.images.writing import write_image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for number in (10, 9):
        ...         _ = write_image(np.zeros((4, 6), np.float32), f"{folder}/frame{number}.png")
        ...     stack = read_stack(folder)
        >>> stack.names
        ['frame9.png', 'frame10.png']
    """
    reader = open_stack(paths, max_pixels=max_pixels)
    images: list[Image] = []
    for frame in reader.frames:
        image = reader.decode(frame)
        require_promise(frame, image)
        images.append(image)
        if progress:
            progress(len(images), reader.count)
    return ImageStack(images)


def _frames_to_fuse(path: Path, max_pixels: int) -> list[FrameFile]:
    """The frames in a file; of a video those that are needed."""
    if not is_video(path):
        return frames_of(path)
    headers = guarded(path, lambda: choose_frames(path, max_pixels=max_pixels))
    return [FrameFile(path, header, of_video=True) for header in headers]
