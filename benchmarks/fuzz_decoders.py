"""Feed damaged files of every format to the decoders: each must end as a picture or as one of our errors.

    python benchmarks/fuzz_decoders.py --count 20000 --seed 1

Small valid files are mutated (bits flipped, cut short, parts copied, swapped or overwritten, numbers in the header
replaced by extreme ones, PNG checksums mended) and decoded in a worker process with a memory limit. A crash of the
worker, a case that takes too long, or an error that is not ours counts as a failure. Every case depends only on the
seed, the file and its number, so ``--only NAME:NUMBER`` repeats one. The exit code is 1 when anything failed.
"""

import argparse
import io
import logging
import multiprocessing
import multiprocessing.connection
import os
import random
import struct
import sys
import time
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sample_files import make_files

from allfocus.errors import AllfocusError
from allfocus.images.frame_file import read_headers
from allfocus.images.png_decoder import SIGNATURE
from allfocus.images.reading import decode_picture

MAX_PIXELS = 1_000_000
MOST_PAGES = 4
MEMORY_LIMIT = 3 * 2**29
SECONDS_PER_CASE = 5
EXTREMES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


@dataclass
class Tally:
    """What happened to the mutated files of one kind."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """How many became a picture, how many one of our errors."""

    failures: list[str] = field(default_factory=list)
    """Each failure with its case number."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000, help="how many cases in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="NAME:NUMBER", help="repeat one case in this process and show its error")
    options = parser.parse_args()
    files = make_files()
    if options.only:
        name, _, number = options.only.partition(":")
        print(attempt(mutate(files[name], random.Random(f"{options.seed} {name} {number}"))))
        return 0
    started = time.perf_counter()
    each = -(-options.count // len(files))
    tallies = {name: run_kind(name, data, each, options.seed) for name, data in files.items()}
    return report(tallies, time.perf_counter() - started)


def report(tallies: dict[str, Tally], seconds: float) -> int:
    print(f"{'file':<18}{'cases':>8}{'picture':>9}{'error':>8}{'failed':>8}")
    total = failed = 0
    for name, tally in tallies.items():
        cases = tally.outcomes.total() + len(tally.failures)
        total, failed = total + cases, failed + len(tally.failures)
        numbers = (cases, tally.outcomes["picture"], tally.outcomes["error"], len(tally.failures))
        print(f"{name:<18}{numbers[0]:>8}{numbers[1]:>9}{numbers[2]:>8}{numbers[3]:>8}")
    for name, tally in tallies.items():
        for failure in tally.failures[:10]:
            print(f"FAILED {name}:{failure}")
    print(f"{total} cases, {failed} failed, {seconds:.0f} s")
    return 1 if failed else 0


# --- damage ---------------------------------------------------------------------------------------------------------


def mutate(data: bytes, generator: random.Random) -> bytes:
    """The file after one to four random kinds of damage."""
    changed = bytearray(data)
    for _ in range(generator.choice((1, 1, 2, 4))):
        generator.choice(DAMAGES)(changed, generator)
        if not changed:
            return b""
    if changed.startswith(SIGNATURE) and generator.random() < 0.7:
        return mend_checksums(bytes(changed))  # so that the damage reaches the decoder behind the checksums
    return bytes(changed)


def flip_bits(data: bytearray, generator: random.Random) -> None:
    for _ in range(generator.choice((1, 2, 8, 64))):
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)


def cut_short(data: bytearray, generator: random.Random) -> None:
    del data[generator.randrange(len(data)) :]


def cut_out(data: bytearray, generator: random.Random) -> None:
    start = generator.randrange(len(data))
    del data[start : start + generator.choice((1, 2, 4, 16, 256))]


def copy_part(data: bytearray, generator: random.Random) -> None:
    start, target, length = (
        generator.randrange(len(data)),
        generator.randrange(len(data)),
        generator.choice((2, 12, 64)),
    )
    part = data[start : start + length]
    if generator.random() < 0.5:
        data[target:target] = part
    else:
        data[target : target + length] = part


def overwrite_with_noise(data: bytearray, generator: random.Random) -> None:
    start, length = generator.randrange(len(data)), generator.choice((1, 4, 32, 256))
    data[start : start + length] = generator.randbytes(len(data[start : start + length]))


def place_extreme_number(data: bytearray, generator: random.Random) -> None:
    value = generator.choice(EXTREMES)
    code = generator.choice(("B", "<H", ">H", "<I", ">I"))
    number = struct.pack(code, value % 256 ** struct.calcsize(code))
    reach = len(data) if generator.random() < 0.5 else min(len(data), 160)  # most headers lie in the first bytes
    start = generator.randrange(reach)
    data[start : start + len(number)] = number


def damage_directory(data: bytearray, generator: random.Random) -> None:
    """Change the type, count or value of one entry of a TIFF directory; other files get a bit flipped."""
    order = ">" if data.startswith(b"MM") else "<"
    if len(data) < 16 or bytes(data[:4]) not in (b"II*\x00", b"MM\x00*"):
        flip_bits(data, generator)
        return
    start = struct.unpack_from(order + "I", data, 4)[0]
    if start + 14 > len(data):
        return
    number = struct.unpack_from(order + "H", data, start)[0]
    entry = start + 2 + 12 * generator.randrange(max(number, 1))
    field_start, code = generator.choice(((entry, "H"), (entry + 2, "H"), (entry + 4, "I"), (entry + 8, "I")))
    value = generator.choice((*EXTREMES, generator.randrange(64), generator.randrange(len(data))))
    packed = struct.pack(order + code, value % 256 ** struct.calcsize(code))
    if field_start + len(packed) <= len(data):
        data[field_start : field_start + len(packed)] = packed


def damage_png_pixels(data: bytearray, generator: random.Random) -> None:
    """Damage what lies packed in a PNG file, and pack it again; other files get noise."""
    start = data.find(b"IDAT")
    length = int.from_bytes(data[max(start - 4, 0) : max(start, 0)], "big")
    try:
        pixels = bytearray(zlib.decompress(data[start + 4 : start + 4 + length]))
        generator.choice((flip_bits, cut_short, cut_out, copy_part))(pixels, generator)
    except (zlib.error, ValueError):
        overwrite_with_noise(data, generator)
        return
    packed = zlib.compress(bytes(pixels))
    data[start - 4 : start + 4 + length] = struct.pack(">I", len(packed)) + b"IDAT" + packed


DAMAGES = (
    flip_bits,
    cut_short,
    cut_out,
    copy_part,
    overwrite_with_noise,
    place_extreme_number,
    place_extreme_number,
    damage_directory,
    damage_directory,
    damage_png_pixels,
)


def mend_checksums(data: bytes) -> bytes:
    """A PNG file with the checksum of every chunk made right."""
    mended, position = bytearray(data), len(SIGNATURE)
    while position + 12 <= len(mended):
        end = position + 8 + int.from_bytes(mended[position : position + 4], "big")
        if end + 4 > len(mended):
            break
        mended[end : end + 4] = struct.pack(">I", zlib.crc32(mended[position + 4 : end]))
        position = end + 4
    return bytes(mended)


# --- running --------------------------------------------------------------------------------------------------------


def attempt(data: bytes) -> str:
    """The word "picture", or "error" for one of ours; whatever else the decoders raise is raised.

    An error of ours that covers a lack of memory is a failure too: the header was believed without a check.
    """
    path = Path("mutated")
    try:
        frames = read_headers(io.BytesIO(data), path)
        for frame in frames[:MOST_PAGES]:
            image = decode_picture(io.BytesIO(data), path, page=frame.page, max_pixels=MAX_PIXELS)
            low, high = image.pixels.min(), image.pixels.max()
            if not (np.isfinite([low, high]).all() if image.bit_depth == 32 else 0 <= low <= high <= 1):
                raise ValueError("pixels outside 0..1, or not finite")
    except AllfocusError as error:
        if isinstance(error.__cause__, MemoryError):
            raise error.__cause__ from error
        if "\n" in str(error):
            raise ValueError(f"an error of more than one line: {error}") from error
        return "error"
    return "picture"


def run_kind(name: str, data: bytes, count: int, seed: int) -> Tally:
    """Run the cases of one file in worker processes, a new one after each crash."""
    tally = Tally()
    following = 0
    while following < count:
        following = _run_worker(name, data, range(following, count), seed, tally)
    return tally


def _run_worker(name: str, data: bytes, cases: range, seed: int, tally: Tally) -> int:
    """Run cases in one worker until it ends; returns the number of the case to go on with."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    worker = context.Process(target=_work, args=(name, data, cases, seed, sender), daemon=True)
    worker.start()
    sender.close()
    current = cases.start
    try:
        while current < cases.stop:
            if not receiver.poll(SECONDS_PER_CASE):
                tally.failures.append(f"{current} takes more than {SECONDS_PER_CASE} s")
                return current + 1
            outcome = receiver.recv()
            if outcome in ("picture", "error"):
                tally.outcomes[outcome] += 1
            else:
                tally.failures.append(f"{current} {outcome}")
            current += 1
    except EOFError:
        worker.join()
        tally.failures.append(f"{current} ends the process (exit code {worker.exitcode})")
        current += 1
    finally:
        worker.kill()
        worker.join()
        receiver.close()
    return current


def _work(name: str, data: bytes, cases: range, seed: int, sender: multiprocessing.connection.Connection) -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # native libraries comment on each file there
    _limit_memory()
    for number in cases:
        try:
            outcome = attempt(mutate(data, random.Random(f"{seed} {name} {number}")))
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"[:200]
        sender.send(outcome)


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(main())
