"""How large a picture may be, and how RAW can be developed; apart: the command line shows it without a decoder."""

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
