"""Whether JPEG data is whole: what libjpeg notices and decoders keep to themselves.

libjpeg decodes on when the data makes no sense, fills what is missing with grey, and counts a warning. Pillow and
imagecodecs do not hand it on; OpenCV lets libjpeg print it. So the data goes through OpenCV once more, at an eighth of
the size (a tenth of the time of the real decoding), and what it prints meanwhile is read.
"""

import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

import numpy as np

from allfocus.errors import InputError
from allfocus.images.decoded import require_pixels

WARNINGS = re.compile(
    rb"(Corrupt JPEG data[^\n]*|Premature end of JPEG file[^\n]*|Inconsistent progression sequence[^\n]*)\n?"
)
OTHER_WARNINGS = re.compile(
    rb"(Invalid SOS parameters|Warning: unknown JFIF|Unknown Adobe color|\[ ?(WARN|ERROR|INFO|DEBUG))[^\n]*\n?"
)
"""About how the file was labelled, and not about its pixels; and OpenCV's own log."""

MOST_WORK = 4_000_000_000
"""Pixels times scans: a progressive picture is gone through once for each scan. Cameras need ten, and this allows
twenty for the largest picture that is read without being asked."""

NEXT_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
"""What ends a scan: neither a stuffed byte nor a restart."""

_ALONE = threading.Lock()


def require_sound_jpeg(data: bytes | memoryview) -> None:
    """Raise InputError when libjpeg has something to say against the data.

    Args:
        data: A whole JPEG picture, tables and all.
    """
    import cv2

    flags = cv2.IMREAD_REDUCED_GRAYSCALE_8 | cv2.IMREAD_IGNORE_ORIENTATION
    with _ALONE, _printed() as said, suppress(cv2.error):  # what OpenCV cannot read at all is for the other decoder
        cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    found = WARNINGS.search(said[0]) if said else None
    if found is not None:
        sentence = found[1].decode("ascii", "replace").removeprefix("Corrupt JPEG data: ")
        raise InputError(f"its data is damaged ({sentence.strip()}); copy it again from the camera")


@contextmanager
def _printed() -> Iterator[list[bytes]]:
    """A list that in the end holds what was printed on stderr meanwhile; what others printed is printed again."""
    said: list[bytes] = []
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    try:
        before: int | None = os.dup(2)
    except OSError:
        before = None  # a service may have none
    with tempfile.TemporaryFile(buffering=0) as heard:
        os.dup2(heard.fileno(), 2)
        try:
            yield said
        finally:
            if before is None:
                os.close(2)
            else:
                os.dup2(before, 2)
                os.close(before)
            heard.seek(0)
            said.append(heard.read())
    others = OTHER_WARNINGS.sub(b"", WARNINGS.sub(b"", said[0]))
    if others and before is not None:
        with suppress(OSError):
            os.write(2, others)


def require_modest_scans(file: BinaryIO, width: int, height: int) -> None:
    """Raise InputError when a picture has so many scans that decoding it would take minutes.

    Args:
        file: The JPEG file.
        width: Of the picture.
        height: Of the picture.
    """
    require_pixels(width, height, width * height or 1)
    most = max(1, MOST_WORK // (width * height))
    file.seek(0)
    data = file.read()
    scans = 0
    if data.find(b"\xff\xc2") < 0:
        return  # not progressive: there are as many scans as channels at most
    position = 2
    while position + 4 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xD9:
            break
        if marker == 0xFF or marker == 0x01 or 0xD0 <= marker <= 0xD8:
            position += 1 if marker == 0xFF else 2
            continue
        position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        if marker == 0xDA:
            scans += 1
            if scans > most:
                raise InputError(
                    f"it has more than {most} scans of {width}x{height} pixels, which would take minutes to decode; "
                    "save it again, without progressive display"
                )
            found = NEXT_MARKER.search(data, position)
            if found is None:
                break
            position = found.start()
