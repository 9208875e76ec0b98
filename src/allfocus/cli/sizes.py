"""Sizes in bytes as people write them, the same for every option."""

import re

from allfocus.errors import InputError

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_bytes(text: str) -> int:
    """The number of bytes that a text like ``500M``, ``2GiB`` or ``1.5GB`` means.

    As everywhere on Unix: K, M, G, T and KiB, MiB, GiB, TiB count by 1024; KB, MB, GB and TB count by 1000.

    Raises:
        InputError: the text is no such number.

    Example:
        >>> parse_bytes("1.5G"), parse_bytes("3GB"), parse_bytes("300")
        (1610612736, 3000000000, 300)
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(IB|B)?", text.strip().upper())
    if found is None or len(found[1]) > 15 or float(found[1]) == 0:
        raise InputError(f"{text!r} is no size; write it like 500M or 2G", code="bad-option")
    thousand = 1000 if found[3] == "B" else 1024
    return int(float(found[1]) * thousand ** _POWERS[found[2]])
