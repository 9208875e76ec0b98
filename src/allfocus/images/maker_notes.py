"""What cameras note about a bracketing in their maker notes: whether it is one of focus, which shot, from where.

Each maker has a layout of its own, none of them a standard; we follow the public tag tables of ExifTool. Read are:

| maker | entries | tells |
|---|---|---|
| Olympus, OM | DriveMode, FocusBracketStepSize, StackedImage, FocusStepCount | focus, shot, composite, position |
| Canon | FocusBracketingInfo, FileInfo, ShotInfo | focus, other bracketings, position |
| Panasonic | BurstMode, SequenceNumber, FocusBracket | focus, other bracketings, shot, position |
| Nikon | ShotInfo (Z 8, Z 9), ShootingMode, ManualFocusDistance | focus, shot, other bracketings, position |
| Fujifilm | AutoBracketing, SequenceNumber | shot of a sequence of any kind |
| Sony | ReleaseMode, SequenceNumber, Tag9400 | other bracketings, shot of a sequence of any kind |

A note is small and hostile until shown otherwise: a fixed number of entries is looked at, only those that are wanted
are read, directories lie at most two deep, and what is damaged tells nothing.
"""

import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass

from allfocus.images.nikon_shot_info import read_focus_shift_shot
from allfocus.images.tiff_layout import BYTES_PER_VALUE, Bytes, Layout, find_layout

FOCUS, OTHER = "focus", "other"
MOST_ENTRIES = 2048
"""Of one directory of a note; the longest known have a few hundred."""
LARGEST_VALUE = 8192
"""Bytes of a value that is worth reading."""

Found = dict[int, tuple[int, bytes]]
"""Type and value of each entry that was wanted, by its tag."""


@dataclass(frozen=True)
class Bracketing:
    """What a maker note tells about the series that a shot belongs to."""

    kind: str = ""
    """"focus"; "other" for exposure, white balance and the like; empty where the note does not tell."""
    shot: int | None = None
    """The number of the shot in its series, as the camera counts."""
    position: float | None = None
    """Where the lens was focused, in units that say only what is nearer and what is farther."""
    composite: bool = False
    """Whether the camera has fused the picture from several focused at different distances."""


@dataclass(frozen=True)
class _Note:
    """The entries of a note that were wanted, and how to read on."""

    data: Bytes
    base: int
    layout: Layout
    found: Found

    def numbers(self, tag: int) -> tuple[int, ...]:
        """The whole numbers of an entry; none where there are none."""
        kind, value = self.found.get(tag, (0, b""))
        code = {1: "B", 3: "H", 4: "I", 6: "b", 7: "B", 8: "h", 9: "i", 13: "I"}.get(kind)
        if code is None:
            return ()
        count = len(value) // struct.calcsize("=" + code)
        return struct.unpack_from(f"{self.layout.order}{count}{code}", value)

    def number(self, tag: int) -> int | None:
        """The first of them."""
        return next(iter(self.numbers(tag)), None)

    def inner(self, tag: int, wanted: Collection[int]) -> "_Note":
        """A directory that an entry points to."""
        place = self.number(tag)
        found = {} if place is None else _pick(self.data, self.base + place, self.layout, self.base, wanted)
        return _Note(self.data, self.base, self.layout, found)


def read_bracketing(data: Bytes, start: int, layout: Layout, *, maker: str = "") -> Bracketing:
    """What a maker note tells; nothing where it is damaged, or its maker unknown.

    Args:
        data: The EXIF block or TIFF file that holds it.
        start: Where the note begins.
        layout: Of the block.
        maker: As EXIF names it; Canon and later Sony notes have no name of their own.
    """
    head = data[start : start + 16]
    by_name = BY_MAKER.get(maker.casefold().split(" ")[0])
    read = next((own for signature, own in READERS.items() if head.startswith(signature)), by_name)
    try:
        return Bracketing() if read is None else read(data, start, layout)
    except (struct.error, IndexError, OverflowError):
        return Bracketing()


def _table(data: Bytes, start: int, layout: Layout) -> bytes:
    """The entries of a directory, 12 bytes each; none where there is no directory."""
    head = data[start : start + 2]
    if start < 0 or len(head) < 2 or layout.big:
        return b""
    count = min(struct.unpack(layout.order + "H", head)[0], MOST_ENTRIES)
    table = data[start + 2 : start + 2 + 12 * count]
    return table[: len(table) // 12 * 12]


def _find(data: Bytes, start: int, layout: Layout, tag: int) -> tuple[int, int]:
    """Where the value of an entry of bytes lies, from the base on, and how long it is; (0, 0) where there is none."""
    for own, kind, number, place in struct.iter_unpack(layout.order + "HHII", _table(data, start, layout)):
        if own == tag:
            return (place, number) if kind == 7 and number > 4 else (0, 0)
    return 0, 0


def _pick(data: Bytes, start: int, layout: Layout, base: int, wanted: Collection[int]) -> Found:
    """Those entries of a directory that are wanted; positions count from the base."""
    table = _table(data, start, layout)
    found: Found = {}
    for at in range(0, len(table), 12):
        tag, kind, number = struct.unpack_from(layout.order + "HHI", table, at)
        size = BYTES_PER_VALUE.get(kind, 0) * number
        if tag not in wanted or not 0 < size <= LARGEST_VALUE or tag in found:
            continue
        value = table[at + 8 : at + 8 + size]
        if size > 4:
            place = base + struct.unpack_from(layout.order + "I", table, at + 8)[0]
            value = data[place : place + size]
        if len(value) == size:
            found[tag] = (kind, value)
    return found


def _own_order(mark: bytes) -> Layout:
    return Layout(">" if mark == b"MM" else "<")


def _olympus(data: Bytes, start: int, layout: Layout) -> Bracketing:
    head = data[start : start + 16]
    modern = head.startswith(b"OM SYSTEM")
    own = _own_order(head[12:14] if modern else head[8:10])
    settings, focus = 0x2020, 0x2050
    note = _Note(data, start, own, _pick(data, start + (16 if modern else 12), own, start, (settings, focus)))
    drive = note.inner(settings, (0x308, 0x600, 0x804))
    mode = drive.numbers(0x600)
    stacked = drive.numbers(0x804)[:1] == (9,)
    steps = note.inner(focus, (0x301,)).number(0x301)
    kind = ""
    if len(mode) > 2 and mode[0] == 5:
        kind = FOCUS if mode[2] & 64 else OTHER
    elif mode[:1] and mode[0] in (2, 3, 4):
        kind = OTHER
    elif drive.number(0x308):
        kind = FOCUS
    return Bracketing(kind, mode[1] if kind and len(mode) > 1 else None, _positive(steps), stacked)


def _canon(data: Bytes, start: int, layout: Layout) -> Bracketing:
    wanted = (0x0004, 0x0093, 0x4053)
    head = data[start : start + 16]
    own = find_layout(head.ljust(16, b"\x00"))  # CR3 keeps the note as a block of its own
    if own is not None and not own[0].big:
        note = _Note(data, start, own[0], _pick(data, start + own[1], own[0], start, wanted))
    else:
        note = _Note(data, 0, layout, _pick(data, start, layout, 0, wanted))
    focus = note.numbers(0x4053)[1:2] == (1,)
    file = note.numbers(0x0093)
    shot = note.numbers(0x0004)
    kind = FOCUS if focus else OTHER if len(file) > 5 and file[3] in (1, 2, 3, 4) else ""
    distances = [value for value in shot[19:21] if 0 < value < 65535]
    position = sum(distances) / len(distances) if distances else None
    return Bracketing(kind, file[5] if len(file) > 5 and kind and file[5] > 0 else None, position)


def _panasonic(data: Bytes, start: int, layout: Layout) -> Bracketing:
    note = _Note(data, 0, layout, _pick(data, start + 12, layout, 0, (0x2A, 0x2B, 0xBD)))
    burst = note.number(0x2A)
    kind = FOCUS if burst == 3 else OTHER if burst in (2, 8, 18) else ""
    step = note.number(0xBD)
    signed = None if step is None else step - 65536 if step > 32767 else step
    return Bracketing(kind, note.number(0x2B) if kind else None, None if signed is None else float(signed))


def _nikon(data: Bytes, start: int, layout: Layout) -> Bracketing:
    own = find_layout(data[start + 10 : start + 26])
    if own is None or own[0].big:
        return Bracketing()
    base = start + 10
    note = _Note(data, base, own[0], _pick(data, base + own[1], own[0], base, (0x0034, 0x0085, 0x0089)))
    mode = note.number(0x0089) or 0
    _, value = note.found.get(0x0085, (0, b""))
    above, below = struct.unpack(own[0].order + "II", value) if len(value) == 8 else (0, 0)
    position = above / below if above and below else None
    place, size = _find(data, base + own[1], own[0], 0x0091)
    shot = read_focus_shift_shot(data, base + place, size)
    if shot is None or note.number(0x0034) == NIKON_HIGH_SPEED:
        return Bracketing(OTHER if mode & 0x150 else "", None, position)
    return Bracketing(FOCUS, shot, position)


NIKON_HIGH_SPEED = 96
"""The mode of the shutter in which a camera leaves its counters as they were."""


def _fujifilm(data: Bytes, start: int, layout: Layout) -> Bracketing:
    own = Layout("<")
    (first,) = struct.unpack("<I", data[start + 8 : start + 12])
    note = _Note(data, start, own, _pick(data, start + first, own, start, (0x1100, 0x1101)))
    return Bracketing("", _positive_whole(note.number(0x1101)))


def _sony(data: Bytes, start: int, layout: Layout) -> Bracketing:
    named = data[start : start + 5] == b"SONY "
    first = start + 12 if named else start
    note = _Note(data, 0, layout, _pick(data, first, layout, 0, (0xB049, 0xB04A, 0x9400)))
    kind = OTHER if note.number(0xB049) in (5, 6, 8) else ""
    shot = _positive_whole(note.number(0xB04A))
    _, hidden = note.found.get(0x9400, (0, b""))
    if hidden[:1] and hidden[0] in SONY_LATE and len(hidden) >= 0x16:
        plain = hidden.translate(SONY_PLAIN)
        kind = OTHER if plain[9] in (2, 3, 23) else kind
        shot = shot or int.from_bytes(plain[0x12:0x16], "little") + 1
    return Bracketing(kind, shot if shot is None or shot < 65535 else None)


SONY_LATE = b"\x23\x24\x26\x28\x31\x32"
"""First bytes of the entry 0x9400 of cameras from 2013 on."""
_CIPHER = bytes(byte**3 % 249 if byte < 249 else byte for byte in range(256))
SONY_PLAIN = bytes(_CIPHER.index(byte) for byte in range(256))
"""What each byte of an enciphered entry stands for: the cube modulo 249, undone."""


def _positive(value: int | None) -> float | None:
    return float(value) if value else None


def _positive_whole(value: int | None) -> int | None:
    return value if value else None


READERS: dict[bytes, Callable[[Bytes, int, Layout], Bracketing]] = {
    b"OLYMPUS\x00": _olympus,
    b"OM SYSTEM\x00": _olympus,
    b"Panasonic\x00": _panasonic,
    b"Nikon\x00\x02": _nikon,
    b"FUJIFILM": _fujifilm,
    b"SONY ": _sony,
}
"""How a note begins -> who reads it."""

BY_MAKER: dict[str, Callable[[Bytes, int, Layout], Bracketing]] = {"canon": _canon, "sony": _sony}
"""The first word of a maker whose notes begin with their entries -> who reads it."""
