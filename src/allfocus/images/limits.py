"""How large a picture may be, how RAW is developed and files are packed: for help to show, so nothing heavy is here."""

from typing import TypedDict

MAX_PIXELS = 200_000_000
"""The largest picture read without being asked: more than any camera on sale makes in one shot."""

DEMOSAICS = {
    "ahd": "fine detail with few false colours; what most programs do",
    "dht": "less of the labyrinth pattern in the finest detail",
    "dcb": "smoother than ahd, slower",
    "vng": "fewest false colours, a little softer",
    "ppg": "fast",
    "linear": "softest, fastest; nothing is guessed",
}
"""How the colours that a pixel of the sensor did not see are found, by LibRaw's names."""

Compression = str | int | None
"""How to pack: a level 0 to 9 (PNG), or "none", "deflate", "lzw" or "zstd" (TIFF); None leaves it to the format."""


class Storing(TypedDict, total=False):
    """How a picture is stored; see ``images.writing.encode_image``."""

    bit_depth: int | None
    quality: int
    compression: Compression
