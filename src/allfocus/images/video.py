"""A video of a focus sweep -> the frames that are needed: for each part of the picture one in which it is sharpest.

Through OpenCV (FFmpeg), 8 bits. A video is looked through once to choose, and beside that for damage
(:mod:`.video_log`); then the chosen frames are read in order.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.files.opening import open_plain
from allfocus.images.conversion import from_integers
from allfocus.images.decoded import Header, require_pixels
from allfocus.images.image import Image
from allfocus.images.limits import MAX_PIXELS
from allfocus.images.sharpness import grey_of, measure_sharpness, needed_frames
from allfocus.images.video_log import VideoLog, name_for_decoder

BRANDS = (b"isom", b"iso2", b"iso4", b"iso5", b"iso6", b"mp41", b"mp42", b"avc1", b"M4V ", b"qt  ", b"3gp4", b"3gp5")
MATROSKA = b"\x1a\x45\xdf\xa3"
MOST_FRAMES = 20_000
"""Of a video: eleven minutes at 30 a second; a focus sweep is one of seconds."""
MOST_TAKEN = 200
LEAST_DECODED = 0.9
"""Share of the frames that a video promises, below which it is damaged."""
TOLERANCE = 0.05
"""How much less sharp than in the sharpest frame a part may be."""


def is_video(path: Path) -> bool:
    """Whether a file is a video, by its first bytes: MP4, MOV, Matroska, WebM or AVI.

    Raises:
        InputError: it cannot be opened.
    """
    with open_plain(path) as file:
        head = file.read(16)
    return (
        (head[4:8] == b"ftyp" and head[8:12] in BRANDS)
        or head.startswith(MATROSKA)
        or (head[:4] == b"RIFF" and head[8:12] == b"AVI ")
    )


def choose_frames(path: Path, *, max_pixels: int = MAX_PIXELS) -> list[Header]:
    """The frames of a focus sweep that are needed to show every part as sharp as the video does, in order.

    Args:
        path: The video.
        max_pixels: Refuse a video with larger frames.

    Raises:
        InputError: it cannot be decoded, is damaged, has no two frames, or far too many.
    """
    maps: list[NDArray[np.float32]] = []
    size = (0, 0)
    with ExitStack() as beside:
        log: VideoLog | None = None
        for frame in _frames(path, max_pixels):
            log = log or beside.enter_context(VideoLog(path))  # not before its size is known to be modest
            size = (frame.shape[0], frame.shape[1])
            maps.append(measure_sharpness(grey_of(from_integers(frame[..., ::-1]))))
            if len(maps) > MOST_FRAMES:
                raise InputError(f"has more than {MOST_FRAMES} frames; cut out the focus sweep", where=path)
        _require_sound(path, len(maps), log)
    chosen = needed_frames(maps, tolerance=TOLERANCE)
    if len(chosen) == 1:  # a flat scene that is sharp at once: the frame beside it makes it a stack
        chosen = sorted({*chosen, chosen[0] - 1 if chosen[0] else 1})
    if len(chosen) > MOST_TAKEN:
        chosen = [chosen[place] for place in np.linspace(0, len(chosen) - 1, MOST_TAKEN).round().astype(int)]
    height, width = size
    return [Header(width, height, 3, 8, page=number, pages=len(maps)) for number in chosen]


def _require_sound(path: Path, decoded: int, log: VideoLog | None) -> None:
    """Refuse a video of which parts are missing, or were made up by the decoder."""
    promised = _promised_frames(path)
    if 2 <= decoded < LEAST_DECODED * promised:
        raise InputError(
            f"only {decoded} of its {promised} frames can be decoded; the file is cut off or damaged: copy it again, "
            "or convert it to MP4 (H.264)",
            where=path,
            code="damaged-picture",
        )
    if decoded < 2 or log is None:
        raise InputError("no two frames can be decoded; convert it to MP4 (H.264)", where=path, code="damaged-picture")
    if complaint := log.first_complaint():
        raise InputError(
            f"a part of it cannot be decoded ({complaint}); the file is damaged: copy it again, or, if it plays well, "
            "convert it to MP4 (H.264)",
            where=path,
            code="damaged-picture",
        )


def _promised_frames(path: Path) -> int:
    """How many frames a video says that it has; some say it by their length alone, so that it may be a little off."""
    import cv2

    with _opened(path) as video:
        count = float(video.get(cv2.CAP_PROP_FRAME_COUNT))
    return int(count) if 0 < count <= MOST_FRAMES else 0


class VideoReader:
    """Single frames of a video; cheap as long as they are asked for in order."""

    def __init__(self, path: Path, *, max_pixels: int = MAX_PIXELS) -> None:
        self._path, self._max_pixels = path, max_pixels
        self._frames: Iterator[NDArray[np.uint8]] | None = None
        self._next = 0

    def read(self, number: int) -> Image:
        """A frame, from 0.

        Raises:
            InputError: there is none, or it is damaged.
        """
        if self._frames is None or number < self._next:
            self._frames, self._next = _frames(self._path, self._max_pixels), 0
        for frame in self._frames:
            self._next += 1
            if self._next > number:
                pixels = np.ascontiguousarray(from_integers(frame[..., ::-1]))
                return Image(pixels, path=self._path, page=number)
        raise InputError(f"has no frame {number + 1} any more", where=self._path, code="changed-meanwhile")


def _frames(path: Path, max_pixels: int) -> Iterator[NDArray[np.uint8]]:
    """Every frame (H, W, 3), blue first, upright."""
    import cv2

    with _opened(path) as video:
        width, height = (int(video.get(what)) for what in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT))
        require_pixels(width, height, max_pixels)
        shape: tuple[int, ...] | None = None
        while True:
            there, frame = video.read()
            if not there:
                return
            if shape is not None and frame.shape != shape:
                raise InputError("its frames differ in size; convert it to MP4 (H.264)", where=path)
            shape = frame.shape
            yield frame


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    # What FFmpeg has to say about a damaged file is said by our own error.
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    import cv2

    levels: Any = cv2.utils.logging
    before = levels.setLogLevel(levels.LOG_LEVEL_SILENT)  # OpenCV's own words about it as well
    try:
        video = cv2.VideoCapture(name_for_decoder(path), cv2.CAP_FFMPEG)
    finally:
        levels.setLogLevel(before)
    try:
        if not video.isOpened():
            raise InputError(
                "the video cannot be decoded; convert it to MP4 (H.264)", where=path, code="damaged-picture"
            )
        yield video
    finally:
        video.release()
