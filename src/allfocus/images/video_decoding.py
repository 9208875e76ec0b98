"""Decodes a video and uses nothing of it; run as a program of its own by :mod:`.video_log`, which reads what it prints.

It imports nothing of allfocus, so that it begins soon and runs in any folder.
"""

import sys
from contextlib import suppress

JPEG_START = b"\xff\xd8"


def decode_all(path: str) -> None:
    """Decode every frame, and those of motion JPEG by libjpeg as well; both print what they find wrong."""
    import cv2

    video = cv2.VideoCapture(path, cv2.CAP_FFMPEG)
    while video.grab():
        pass
    packets = cv2.VideoCapture(path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_FORMAT, -1])
    while packets.grab():
        packet = packets.retrieve()[1].reshape(-1)
        if packet[:2].tobytes() != JPEG_START:
            break
        with suppress(cv2.error):  # what libjpeg does not read at all, FFmpeg has told
            cv2.imdecode(packet, cv2.IMREAD_REDUCED_GRAYSCALE_8)


if __name__ == "__main__":
    decode_all(sys.argv[1])
