"""Folders as photographers bring them home, from rendered scenes, with the metadata that cameras write; and the truth.

Everything about the cameras is synthetic: entries and maker notes are laid out here as public tag tables describe them.
"""

import datetime
import io
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

import allfocus
from allfocus.images.exif import build_block
from allfocus.images.maker_notes import SONY_PLAIN
from allfocus.images.nikon_shot_info import mix_with_stream
from allfocus.images.tiff_directories import Directory, lay_out
from allfocus.images.tiff_layout import EXIF_DIRECTORY, Layout, TiffEntry

LITTLE = Layout("<")
Picture = NDArray[np.float32]


def short(tag: int, *values: int) -> TiffEntry:
    """An entry of whole numbers below 65536."""
    return tag, 3, len(values), struct.pack(f"<{len(values)}H", *values)


def long(tag: int, *values: int) -> TiffEntry:
    return tag, 4, len(values), struct.pack(f"<{len(values)}I", *values)


def text(tag: int, words: str) -> TiffEntry:
    return tag, 2, len(words) + 1, words.encode("ascii") + b"\x00"


def fraction(tag: int, above: int, below: int) -> TiffEntry:
    return tag, 5, 1, struct.pack("<II", above, below)


@dataclass(frozen=True)
class Note:
    """What a maker note is to tell."""

    bracketing: str = "focus"
    """"focus", "exposure", or "none"."""
    shot: int = 1
    position: int = 100
    composite: bool = False


def olympus_note(note: Note, start: int) -> bytes:
    head = b"OLYMPUS\x00II\x03\x00"
    return head + lay_out(_olympus_directory(note), len(head), LITTLE)


def om_system_note(note: Note, start: int) -> bytes:
    head = b"OM SYSTEM\x00\x00\x00II\x04\x00"
    return head + lay_out(_olympus_directory(note), len(head), LITTLE)


def _olympus_directory(note: Note) -> Directory:
    modes = {"focus": (5, note.shot, 64, 0, 4), "exposure": (5, note.shot, 1, 0, 0), "none": (0, 0, 0, 0, 0)}
    settings = [short(0x600, *modes[note.bracketing]), long(0x804, *((9, 8) if note.composite else (0, 0)))]
    if note.bracketing == "focus":
        settings.append((0x308, 1, 1, b"\x05"))
    focus = Directory([short(0x301, note.position)])
    return Directory([], {0x2020: Directory(settings), 0x2050: focus})


def canon_note(note: Note, start: int) -> bytes:
    bracket = {"focus": 0, "exposure": 1, "none": 0}[note.bracketing]
    shot_info = [0] * 34
    shot_info[0], shot_info[19], shot_info[20] = 68, note.position + 1, note.position
    file_info = [0] * 34
    file_info[0], file_info[3], file_info[5] = 68, bracket, note.shot if note.bracketing != "none" else 0
    entries = [short(0x0004, *shot_info), short(0x0093, *file_info)]
    entries.append(long(0x4053, 32, int(note.bracketing == "focus"), 8, 4, 0, 0, 0, 0))
    return lay_out(Directory(entries), start, LITTLE)


def panasonic_note(note: Note, start: int) -> bytes:
    head = b"Panasonic\x00\x00\x00"
    burst = {"focus": 3, "exposure": 2, "none": 0}[note.bracketing]
    entries = [short(0x2A, burst), long(0x2B, note.shot if burst else 0), short(0xBD, note.position % 65536)]
    return head + lay_out(Directory(entries), start + len(head), LITTLE)


NIKON_SERIAL, NIKON_COUNT, NIKON_FIRST, NIKON_STEP = "6000128", 257, 0xA7, 0xC1
"""A serial number and a count of shots, and what a camera makes of them for the stream that enciphers its notes."""


def nikon_note(note: Note, start: int) -> bytes:
    plain = bytearray(600)
    plain[:9] = b"080503.00"
    plain[0x0E:0x13] = plain[0x18:0x1D] = b"03.00"
    struct.pack_into("<I", plain, 0x24, 32)
    struct.pack_into("<I", plain, 0x30, 400)  # the section of sequences
    plain[400 + 0x20] = note.shot if note.bracketing == "focus" else 0
    hidden = mix_with_stream(bytes(plain), 0, NIKON_FIRST, NIKON_STEP)
    entries = [
        text(0x001D, NIKON_SERIAL),
        short(0x0034, 16),
        fraction(0x0085, note.position, 100),
        short(0x0089, 0x10 if note.bracketing == "exposure" else 0),
        (0x0091, 7, len(hidden), hidden),
        long(0x00A7, NIKON_COUNT),
    ]
    return b"Nikon\x00\x02\x10\x00\x00" + build_block(Directory(entries))


def fujifilm_note(note: Note, start: int) -> bytes:
    head = b"FUJIFILM" + struct.pack("<I", 12)
    sequence = note.shot if note.bracketing != "none" else 0
    entries = [short(0x1100, int(note.bracketing != "none")), short(0x1101, sequence)]
    return head + lay_out(Directory(entries), len(head), LITTLE)


def sony_note(note: Note, start: int) -> bytes:
    head = b"SONY DSC \x00\x00\x00"
    plain = bytearray(64)
    plain[0] = SONY_PLAIN[0x31]
    plain[9] = 2 if note.bracketing == "exposure" else 0
    plain[0x12:0x16] = struct.pack("<I", note.shot - 1 if note.bracketing != "none" else 0)
    hidden = bytes(SONY_PLAIN.index(byte) for byte in plain)
    release = {"focus": 2, "exposure": 5, "none": 0}[note.bracketing]
    entries = [short(0xB049, release), (0x9400, 7, len(hidden), hidden)]
    return head + lay_out(Directory(entries), start + len(head), LITTLE)


MAKERS: dict[str, tuple[str, Callable[[Note, int], bytes]]] = {
    "OLYMPUS CORPORATION": ("E-M1MarkIII", olympus_note),
    "OM Digital Solutions": ("OM-1", om_system_note),
    "Canon": ("Canon EOS R5", canon_note),
    "Panasonic": ("DC-S5M2", panasonic_note),
    "NIKON CORPORATION": ("NIKON Z 9", nikon_note),
    "FUJIFILM": ("X-T4", fujifilm_note),
    "SONY": ("ILCE-7M4", sony_note),
}
"""Makers as EXIF names them, with a model and the layout of their notes."""
COUNTED = ("OLYMPUS CORPORATION", "OM Digital Solutions", "Canon", "Panasonic", "NIKON CORPORATION")
"""Those that say that a bracketing is one of focus."""


class About(TypedDict, total=False):
    """What :func:`make_exif` can be told of a shot besides its time."""

    seconds: tuple[int, int]
    focal_length: int
    software: str
    serial: str


def make_exif(
    maker: str,
    time: datetime.datetime,
    note: Note | None,
    *,
    seconds: tuple[int, int] = (1, 125),
    focal_length: int = 90,
    software: str = "",
    serial: str = "1",
) -> bytes:
    """An EXIF block as a camera of that maker would write it."""
    model, write_note = MAKERS[maker]
    main = [text(0x010F, maker), text(0x0110, model), *([text(0x0131, software)] if software else [])]
    shot = [
        fraction(0x829A, *seconds),
        fraction(0x829D, 28, 10),
        short(0x8827, 200),
        text(0x9003, time.strftime("%Y:%m:%d %H:%M:%S")),
        text(0x9291, f"{time.microsecond // 10000:02}"),
        fraction(0x920A, focal_length, 1),
        text(0xA431, serial),
    ]
    if note is None:
        return build_block(Directory(main, {EXIF_DIRECTORY: Directory(shot)}))
    length = len(write_note(note, 0))
    mark = (b"place of the note" * (length // 17 + 1))[:length]
    block = build_block(Directory(main, {EXIF_DIRECTORY: Directory([*shot, (0x927C, 7, length, mark)])}))
    place = block.index(mark)  # some notes count positions from the beginning of the block
    return block.replace(mark, write_note(note, place))


def write_jpeg(path: Path, picture: Picture, exif: bytes) -> None:
    file = io.BytesIO()
    pixels = np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8)
    PillowImage.fromarray(pixels).save(file, "JPEG", quality=92, exif=b"Exif\x00\x00" + exif)
    path.write_bytes(file.getvalue())


@dataclass
class Folder:
    """What is in a folder: its stacks by the names of their frames, and what belongs to none."""

    stacks: list[list[str]] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)


@dataclass
class Pool:
    """Rendered stacks to make folders of: each scene is shot once in a folder."""

    stacks: list[tuple[list[Picture], Picture]]
    """Frames and truth."""

    @classmethod
    def render(cls, count: int, *, size: tuple[int, int] = (240, 320), frames: int = 6) -> "Pool":
        """So many stacks, of each scene in turn."""
        names = ("desk", "insect", "foliage", "circuit", "slope")
        scenes = [
            allfocus.render_scene(
                names[number % len(names)],
                frames=frames,
                size=size,
                seed=number,
                breathing=0.02,
                shake=1.0,
                noise=0.004,
            )
            for number in range(count)
        ]
        return cls([(scene.frames, scene.truth) for scene in scenes])


def shoot(folder: Path, pool: Pool, seed: int) -> Folder:
    """Fills a folder with a part of a shoot: stacks, and all that lies between them."""
    chance = random.Random(seed)
    folder.mkdir(parents=True)
    truth, clock = Folder(), datetime.datetime(2026, 5, 1, 9, 0) + datetime.timedelta(days=seed)
    maker = chance.choice(list(MAKERS))
    number = chance.choice((17, 480, 9993))
    scenes = chance.sample(range(len(pool.stacks)), chance.randint(2, 4))

    def save(picture: Picture, note: Note | None, *, wait: float, prefix: str = "IMG_", **about: Unpack[About]) -> str:
        nonlocal clock, number
        clock += datetime.timedelta(seconds=wait)
        number = number % 9999 + 1
        name = f"{prefix}{number:04}.JPG"
        write_jpeg(folder / name, picture, make_exif(maker, clock, note, **about))
        return name

    for place, scene in enumerate(scenes):
        frames, fused = pool.stacks[scene]
        bracketing = "focus" if chance.random() < 0.6 else "none"
        wait, between = chance.uniform(0.2, 4.0), chance.choice((2.0, 5.0, 40.0)) if place else 0.0
        stray = chance.randrange(2, len(frames) - 1) if chance.random() < 0.2 and bracketing == "none" else None
        stack = []
        for shot, frame in enumerate(frames, start=1):
            note = Note(bracketing, shot, 100 + 10 * shot)
            if shot - 1 == stray:
                other = pool.stacks[scenes[place - 1]][0][0]
                truth.left_out.add(save(other, Note("none", 1, note.position), wait=wait))
            stack.append(save(frame, note, wait=between if shot == 1 else wait))
        truth.stacks.append(stack)
        extra = chance.choice(("nothing", "composite", "camera", "exposure", "burst", "snapshot"))
        if extra == "composite":
            truth.left_out.add(
                save(
                    fused,
                    None,
                    wait=1.0,
                    prefix="stacked_",
                    software=chance.choice(("Helicon Focus 8", "allfocus 0.2")),
                )
            )
        elif extra == "camera" and bracketing == "none":
            truth.left_out.add(save(fused, Note("none", 1, 100), wait=wait))
        elif extra == "exposure":
            for step, speed in enumerate(((1, 125), (1, 500), (1, 30)), start=1):
                light = np.clip(frames[2] * (125 / speed[1]) ** 0.45, 0, 1)
                truth.left_out.add(save(light, Note("exposure", step), wait=15.0 if step == 1 else 0.3, seconds=speed))
        elif extra == "burst":
            still = pool.stacks[scene][0][len(frames) // 2]
            noise = np.random.default_rng(seed)
            for step in range(3):
                noisy = still + noise.normal(0, 0.004, still.shape).astype(np.float32)
                truth.left_out.add(save(noisy, Note("none"), wait=30.0 if step == 0 else 0.3))
        elif extra == "snapshot":
            view = pool.stacks[scenes[place - 1]][1][::-1]
            truth.left_out.add(save(view, Note("none"), wait=25.0, focal_length=35))
    return truth
