"""Names like ``cells_t01_c2_z005.tif`` -> what each file is: which position, time, channel and plane."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from allfocus.errors import InputError
from allfocus.images.listing import natural_order

AXES = {
    "time": ("t", "time", "tp"),
    "channel": ("c", "ch", "channel", "w"),
    "plane": ("z", "plane", "slice"),
    "position": ("p", "pos", "position", "s", "xy", "f", "field", "m"),
}
"""How programs abbreviate what a number in a name counts."""
_WORDS = {word: axis for axis, words in AXES.items() for word in words}
_TOKEN = re.compile(
    rf"(?:^|(?<=[_\-. ]))({'|'.join(sorted(_WORDS, key=len, reverse=True))})[=]?([0-9]+)(?=$|[_\-. ])", re.IGNORECASE
)
Files = dict[tuple[int, int, int], Path]


@dataclass(frozen=True, eq=False)
class NumberedFiles:
    """The files of a folder by what their names count."""

    positions: tuple[str, ...]
    """What tells each from the others in the names."""
    times: tuple[str, ...]
    channels: tuple[str, ...]
    planes: int
    files: tuple[Files, ...]
    """For each position: (time, channel, plane), all from 0, to the file."""


def group_numbered(paths: Sequence[Path]) -> NumberedFiles | None:
    """What each of several files is, by its name; None where the names do not say, or all of them are one stack.

    Raises:
        InputError: the names say it, and a file is missing.

    Example:
        >>> found = group_numbered([Path(f"a_c{c}_z{z}.tif") for c in (1, 2) for z in (0, 1, 2)])
        >>> found.channels, found.planes, found.files[0][0, 1, 2].name
        (('1', '2'), 3, 'a_c2_z2.tif')
    """
    read = [_read_name(path) for path in paths]
    axes = {frozenset(numbers) for _, numbers in read}
    if len(axes) != 1 or "plane" not in next(iter(axes)):
        return None
    keys = [
        ((rest, numbers.get("position", "")), numbers.get("time", ""), numbers.get("channel", ""), numbers["plane"])
        for rest, numbers in read
    ]
    positions = sorted({key[0] for key in keys}, key=lambda key: (natural_order(key[0]), natural_order(key[1])))
    times, channels, planes = (
        sorted(numbers, key=natural_order)
        for numbers in ({key[1] for key in keys}, {key[2] for key in keys}, {key[3] for key in keys})
    )
    if len(positions) == len(times) == len(channels) == 1:
        return None
    by_key = dict(zip(keys, paths, strict=True))
    several = len({rest for rest, _ in positions}) > 1
    missing = [key for key in itertools.product(positions, times, channels, planes) if key not in by_key]
    if missing or len(by_key) != len(paths):
        problem = f"there is no {_tell(missing[0], several)}" if missing else "one of them is there twice"
        raise InputError(
            f"the names of its {len(paths)} files count times, channels or planes, but {problem}; complete it",
            where=paths[0].parent,
            code="incomplete-stack",
        )
    return NumberedFiles(
        tuple(_position_name(position, several) for position in positions),
        tuple(times),
        tuple(channels),
        len(planes),
        tuple(
            {
                (t, c, z): by_key[position, time, channel, plane]
                for t, time in enumerate(times)
                for c, channel in enumerate(channels)
                for z, plane in enumerate(planes)
            }
            for position in positions
        ),
    )


def _tell(key: tuple[tuple[str, str], str, str, str], several: bool) -> str:
    position, *numbers = key
    told = [f"{word} {value}" for word, value in zip("tcz", numbers, strict=True) if value]
    return f"{', '.join(told)} of {_position_name(position, several)}"


def _position_name(key: tuple[str, str], several: bool) -> str:
    rest, number = key
    return (number if number and not several else "_".join(filter(None, (rest, number)))) or "1"


def _read_name(path: Path) -> tuple[str, dict[str, str]]:
    """What is left of a name without its numbers, and the number of each axis."""
    numbers: dict[str, str] = {}
    rest = path.stem
    for found in reversed(list(_TOKEN.finditer(path.stem))):  # where an axis is named twice, the last counts
        axis = _WORDS[found[1].lower()]
        if axis not in numbers:
            numbers[axis] = found[2]
            rest = rest[: found.start()] + rest[found.end() :]
    return re.sub(r"[_\-. ]{2,}", "_", rest).strip("_-. "), numbers
