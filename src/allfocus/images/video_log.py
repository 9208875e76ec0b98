"""What the decoder of a video says about it: damage that it hides behind pixels of its own.

FFmpeg fills what it cannot decode with what is near, and hands the frame on as if nothing were wrong. OpenCV passes on
neither its flags nor its option to stop at the first error (``err_detect=explode``); what FFmpeg writes to its log is
all that tells, and OpenCV prints that to the standard output of the process. So a process of its own decodes the video
once more, beside the one that needs the frames, and what it prints is read.

Motion JPEG says less of it, because FFmpeg's own decoder is used; its pictures go through libjpeg as well, as single
JPEG files do (:mod:`.jpeg_check`). Damage that still decodes is told by nothing: most videos carry no checksum.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from allfocus.errors import InputError
from allfocus.images.jpeg_check import WARNINGS

ERROR_LEVEL = 16
"""AV_LOG_ERROR: what FFmpeg could not do; below it come warnings, which sound files have too."""
MOST_LINE = 2**16
HARMLESS = re.compile(rb"mmco: unref short failure|Corrupt JPEG data: [0-9] extraneous bytes before marker 0xd9")
"""What some cameras' sound videos cause: a frame that nobody needs is given up twice; a few bytes fill up a picture."""

_LINE = re.compile(rb"\[OPENCV:FFMPEG:-?[0-9]+\] (.*\S)")
_DECODER = Path(__file__).resolve().with_name("video_decoding.py")


def name_for_decoder(path: Path) -> str:
    """The name by which OpenCV opens a video: from the root, as FFmpeg takes ``concat:a.mp4`` for something to fetch.

    Raises:
        InputError: it is no text; OpenCV would end the program.
    """
    name = os.path.abspath(path)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            "has a name, or lies in a folder with one, that is not UTF-8; OpenCV opens no such video: rename it",
            where=path,
            code="unreadable-file",
        ) from error
    return name


class VideoLog:
    """The log of decoding a video, written beside whatever else is done while it is open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        environment = {**os.environ, "OPENCV_FFMPEG_LOGLEVEL": str(ERROR_LEVEL)}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_DECODER), name_for_decoder(path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        except (OSError, ValueError) as error:
            raise self._unknown(error) from error

    def __enter__(self) -> "VideoLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def first_complaint(self) -> str:
        """The first line about something that could not be decoded; empty when all could.

        Raises:
            InputError: the process that decodes ended before its time, so that nobody knows.
        """
        assert self._process.stdout is not None
        while line := self._process.stdout.readline(MOST_LINE):
            found = _LINE.match(line) or WARNINGS.match(line)
            if found and not HARMLESS.match(found[1]):
                return found[1].decode(errors="replace")[:100]
        if code := self._process.wait():
            raise self._unknown(f"it ended with {code}")
        return ""

    def _unknown(self, why: object) -> InputError:
        return InputError(f"could not be looked through for damage ({why})", where=self._path, code="unreadable-file")
