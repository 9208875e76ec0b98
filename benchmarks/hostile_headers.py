"""Measure what headers made to do harm cost: 100,000 bytes of them may take no more than 200 MB and 5 s.

    python benchmarks/hostile_headers.py --count 400

Each file has at most 100,000 bytes: directories whose entries share their bytes, point at each other or in circles, and
hold random numbers; chunks and profiles that unpack to a thousand times as much; descriptions nested or filled with
entities. Each is listed and read as a user would, in a process of its own, whose highest memory beyond that of a sound
file of the same kind is noted. The exit code is 1 when a limit is passed or an error comes out that is not ours.
"""

import argparse
import io
import multiprocessing
import os
import random
import resource
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from allfocus.errors import AllfocusError
from allfocus.images.frame_file import list_frames
from allfocus.images.photo_facts import read_photo_facts
from allfocus.images.reading import read_image

MOST_BYTES = 100_000
MOST_MEMORY = 200_000_000
MOST_SECONDS = 5.0


# --- files ------------------------------------------------------------------------------------------------------------


def directory(chance: random.Random) -> bytes:
    """A TIFF block of many entries, all as large as they can be, in few bytes."""
    order = chance.choice("<>")
    entries = chance.choice((1, 50, 500, 4000, 8000))
    start = 10 + 12 * entries
    room = MOST_BYTES - start - 4
    table = b""
    for _ in range(entries):
        tag = chance.choice(
            (254, 256, 257, 258, 262, 270, 273, 279, 282, 320, 330, 700, 33723, 34665, 34853, 37500, 50706)
        )
        kind = chance.choice((1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 13, 16, 18))
        count = chance.choice((room, room // 8, 2**31 - 1, 2**32 - 1, 1, 0, 1000))
        place = chance.choice((start, 8, 0, start + room // 2, 2**32 - 1, chance.randrange(MOST_BYTES)))
        table += struct.pack(order + "HHII", tag, kind, count, place)
    head = (b"II*\x00" if order == "<" else b"MM\x00*") + struct.pack(order + "I", 8)
    following = struct.pack(order + "I", chance.choice((0, 8, start, chance.randrange(MOST_BYTES))))
    filling = chance.choice(
        (bytes(room), b"\x01" * room, chance.randbytes(room), struct.pack(order + "H", 40) * (room // 2))
    )
    return (head + struct.pack(order + "H", entries) + table + following + filling)[:MOST_BYTES]


def pillow_file(kind: str, **options: object) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (16, 16)).save(file, kind, **options)
    return file.getvalue()


def in_jpeg(chance: random.Random) -> bytes:
    data, block = pillow_file("JPEG"), directory(chance)
    segments = b""
    for start in range(0, len(block), 65_000):
        body = b"Exif\x00\x00" + block[start : start + 65_000]
        segments += b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body
    return (data[:2] + segments)[: MOST_BYTES - len(data)] + data[20:]


def in_webp(chance: random.Random) -> bytes:
    return pillow_file("WEBP", exif=b"Exif\x00\x00" + directory(chance)[: MOST_BYTES - 500])


def in_png(chance: random.Random) -> bytes:
    data = pillow_file("PNG")
    bursting = zlib.compress(bytes(chance.choice((10**6, 60_000_000, 95_000_000))), 9)
    body, kind = chance.choice(
        (
            (directory(chance), b"eXIf"),
            (b"a\x00\x00" + bursting, b"iCCP"),
            (b"a\x00\x00" + bursting, b"zTXt"),
            (b"a\x00\x01\x00\x00\x00" + bursting, b"iTXt"),
            (bytes(MOST_BYTES), b"PLTE"),
            (bytes(MOST_BYTES), b"tRNS"),
        )
    )
    body = body[: MOST_BYTES - len(data) - 12]
    chunk = struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return data[:33] + chunk + data[33:]


def in_description(chance: random.Random) -> bytes:
    """A TIFF whose description is that of a microscope, made to grow."""
    import tifffile

    filling = chance.choice(
        (
            "<a>" * 20_000,
            '<Image ID="Image:0"><Pixels SizeX="999999999" SizeY="999999999" SizeZ="999999" SizeC="999" SizeT="999" '
            'Type="uint16" DimensionOrder="XYZCT"><TiffData/></Pixels></Image>' * 400,
            '<Image ID="Image:0"><Pixels SizeX="16" SizeY="16" SizeZ="1" SizeC="1" SizeT="1" Type="uint8" '
            'DimensionOrder="XYZCT">' + '<TiffData IFD="0" PlaneCount="999999999"/>' * 1500 + "</Pixels></Image>",
            "&lol;" * 10_000,
        )
    )
    entities = '<!DOCTYPE l [<!ENTITY lol "' + "x" * 1000 + '">' + '<!ENTITY lol2 "' + "&lol;" * 500 + '">]>'
    head = '<?xml version="1.0"?>' + (entities if "&" in filling else "")
    ome = f'{head}<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">{filling}</OME>'
    imagej = "ImageJ=1.53\nimages=999999999\nslices=999999999\nhyperstack=true\n" + "min=0\n" * 10_000
    shaped = '{"shape": [' + "9999999, " * 9000 + "16, 16]}"
    text = chance.choice((ome, imagej, shaped, '{"shape": ' + "[" * 90_000))
    file = io.BytesIO()
    tifffile.imwrite(
        file, np.zeros((16, 16), np.uint8), description=text[: MOST_BYTES - 1500].encode("ascii"), metadata=None
    )
    return file.getvalue()


KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "tiff": directory,
    "jpeg": in_jpeg,
    "webp": in_webp,
    "png": in_png,
    "description": in_description,
}


# --- measuring --------------------------------------------------------------------------------------------------------


def attempt(data: bytes, answers: "multiprocessing.SimpleQueue[tuple[str, float, int]]") -> None:
    """Look at a file in every way that reads headers, and tell the outcome, the seconds and the highest memory."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    outcome, began = "picture", time.perf_counter()
    with tempfile.NamedTemporaryFile(suffix=".tif") as file:
        file.write(data)
        file.flush()
        path = Path(file.name)
        for look in (lambda: list_frames([path]), lambda: read_image(path), lambda: read_photo_facts(path)):
            try:
                look()
            except AllfocusError:
                outcome = "error"
            except BaseException as error:
                answers.put((f"{type(error).__name__}: {error}"[:150], time.perf_counter() - began, 0))
                return
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    answers.put((outcome, time.perf_counter() - began, highest))


def measure(data: bytes) -> tuple[str, float, int]:
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.SimpleQueue[tuple[str, float, int]] = context.SimpleQueue()
    process = context.Process(target=attempt, args=(data, answers))
    process.start()
    process.join(60)
    if process.is_alive():
        process.kill()
        return "takes more than a minute", 60.0, 0
    return answers.get() if not answers.empty() else (f"exit code {process.exitcode}", 0.0, 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400, help="files of each kind")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # What every reader loads once counts for none of the files.
    sound = max(measure(pillow_file(kind))[2] for kind in ("TIFF", "JPEG", "WEBP", "PNG"))
    failed = 0
    print(f"{'kind':<14}{'files':>7}{'most MB':>9}{'most s':>8}{'failed':>8}")
    for name, make in KINDS.items():
        worst, slowest, wrong = 0, 0.0, []
        for number in range(options.count):
            data = make(random.Random(f"{options.seed} {name} {number}"))
            assert len(data) <= MOST_BYTES, (name, len(data))
            outcome, seconds, highest = measure(data)
            worst, slowest = max(worst, highest - sound), max(slowest, seconds)
            if outcome not in ("picture", "error") or highest - sound > MOST_MEMORY or seconds > MOST_SECONDS:
                wrong.append(f"{name}:{number} {outcome}, {(highest - sound) / 1e6:.0f} MB, {seconds:.1f} s")
        print(f"{name:<14}{options.count:>7}{worst / 1e6:>9.0f}{slowest:>8.2f}{len(wrong):>8}", flush=True)
        print("\n".join(wrong[:10]), end="\n" if wrong else "")
        failed += len(wrong)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
