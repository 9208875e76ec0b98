"""How large a picture may be; apart, because the command line shows it and loads no decoder for that."""

MAX_PIXELS = 200_000_000
"""The largest picture read without being asked: more than any camera on sale makes in one shot."""
