"""Feed damaged files of every format to the decoders: each must end as a picture or as one of our errors.

    python benchmarks/fuzz_decoders.py --count 20000 --seed 1

Small valid files are mutated (bits flipped, cut short, parts copied, swapped or overwritten, numbers in the header
replaced by extreme ones, PNG checksums mended) and decoded in a worker process with a memory limit. A crash of the
worker, a case that takes too long, or an error that is not ours counts as a failure. Every case depends only on the
seed, the file and its number, so ``--only NAME:NUMBER`` repeats one. The exit code is 1 when anything failed.
"""

import argparse
import importlib.util
import io
import logging
import multiprocessing
import multiprocessing.connection
import os
import random
import struct
import sys
import tempfile
import time
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from allfocus.errors import AllfocusError
from allfocus.images.encoders import png_chunk
from allfocus.images.frame_file import read_headers
from allfocus.images.png_decoder import SIGNATURE
from allfocus.images.reading import decode_picture
from allfocus.images.writing import write_image

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


# --- valid files ----------------------------------------------------------------------------------------------------


def make_files() -> dict[str, bytes]:
    """A small valid file of each format and of each way to store pixels in it."""
    generator = np.random.default_rng(0)
    smooth = np.add.outer(np.arange(24), np.arange(32))[:, :, None] * 4 + generator.integers(0, 8, (24, 32, 3))
    levels8 = smooth.astype(np.uint8)
    levels16 = (smooth * 200).astype(np.uint16)
    return {
        **_pillow_files(levels8),
        **_png_files(levels16),
        **_tiff_files(levels8, levels16),
        **_optional_files(levels16),
    }


def _pillow_files(levels: Any) -> dict[str, bytes]:
    from PIL import Image, ImageCms

    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "Maker"
    adobe = Image.Exif()
    adobe.get_ifd(0x8769).update({0xA001: 65535, 0xA005: {1: "R03"}})
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    picture = Image.fromarray(levels)
    see_through = picture.copy()
    see_through.putalpha(Image.fromarray(levels[:, :, 0]))

    def save(image: Any, kind: str, **options: Any) -> bytes:
        file = io.BytesIO()
        image.save(file, kind, **options)
        return file.getvalue()

    return {
        "jpeg": save(picture, "JPEG", exif=exif, icc_profile=profile, dpi=(300, 300)),
        "jpeg progressive": save(picture, "JPEG", progressive=True),
        "jpeg adobe": save(picture, "JPEG", exif=adobe),
        "jpeg cmyk": save(picture.convert("CMYK"), "JPEG"),
        "webp": save(picture, "WEBP", exif=exif, icc_profile=profile),
        "webp lossless": save(see_through, "WEBP", lossless=True),
        "webp moving": save(picture, "WEBP", save_all=True, append_images=[see_through.convert("RGB")]),
        "bmp": save(picture, "BMP"),
        "bmp palette": save(picture.quantize(16), "BMP"),
        "png palette": save(picture.quantize(16), "PNG", transparency=3, exif=exif, icc_profile=profile),
        "png alpha": save(see_through, "PNG", dpi=(300, 300)),
        "png one bit": save(picture.convert("1"), "PNG"),
    }


def _png_files(levels: Any) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        plain = write_image(levels, Path(folder) / "a.png", history="made to be broken").read_bytes()
    gamma = png_chunk(b"gAMA", struct.pack(">I", 45455))
    primaries = png_chunk(b"cHRM", struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000))
    return {"png 16": plain, "png exponent": plain[:33] + gamma + primaries + plain[33:]}


def _tiff_files(levels8: Any, levels16: Any) -> dict[str, bytes]:
    import tifffile

    def save(samples: Any, **options: Any) -> bytes:
        file = io.BytesIO()
        tifffile.imwrite(file, samples, **{"photometric": "rgb", **options})
        return file.getvalue()

    grey = levels16[:, :, 0]
    palette = np.arange(768, dtype=np.uint16).reshape(3, 256)
    stack = np.stack([grey, grey, grey])
    cmyk = np.dstack([levels8, levels8[:, :, :1]])
    with tempfile.TemporaryDirectory() as folder:
        described = write_image(levels16, Path(folder) / "a.tif", history="made to be broken").read_bytes()
    return {
        "tiff exif": described,
        "tiff 16": save(levels16),
        "tiff big": bytes(save(levels16, bigtiff=True, byteorder=">")),
        "tiff lzw": save(levels16, compression="lzw", predictor=True, rowsperstrip=8),
        "tiff deflate": save(levels16, compression="zlib", predictor=True, tile=(16, 16)),
        "tiff zstd": save(levels8, compression="zstd", byteorder=">"),
        "tiff packbits": save(levels8, compression="packbits"),
        "tiff jpeg": save(levels8, compression="jpeg", tile=(16, 16)),
        "tiff planar": save(np.moveaxis(levels16, -1, 0), planarconfig="separate", compression="zlib"),
        "tiff float": save(
            (grey / 65535).astype(np.float32), photometric="minisblack", compression="zlib", predictor=3
        ),
        "tiff palette": save(levels8[:, :, 0], photometric="palette", colormap=palette),
        "tiff cmyk": save(cmyk, photometric="separated"),
        "tiff alpha": save(cmyk, extrasamples=["assocalpha"]),
        "tiff 12 bits": save(grey // 16, photometric="minisblack", bitspersample=12),
        "tiff pages": save(stack, photometric="minisblack"),
        "tiff ome": save(stack, photometric="minisblack", ome=True, metadata={"axes": "ZYX"}),
        "tiff imagej": save(stack, photometric="minisblack", imagej=True, metadata={"axes": "ZYX"}),
    }


def _optional_files(levels: Any) -> dict[str, bytes]:
    """HEIF and RAW, where their packages are installed."""
    found = {}
    if importlib.util.find_spec("pillow_heif"):
        import pillow_heif

        file = io.BytesIO()
        large = np.ascontiguousarray(np.tile(levels, (3, 2, 1)))
        pillow_heif.from_bytes("RGB;16", (large.shape[1], large.shape[0]), large.tobytes()).save(file)
        found["heif"] = file.getvalue()
    if importlib.util.find_spec("rawpy"):
        found["raw"] = _raw_file(levels[:, :, 0])
    return found


def _raw_file(levels: Any) -> bytes:
    """A DNG file: samples below a Bayer filter, a camera's name, and matrices that change nothing."""
    import tifffile

    ones = (1, 1, 1, 1, 1, 1)
    identity = (1, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 1)
    tags = [
        (271, "s", 0, "Maker", True),
        (272, "s", 0, "Model", True),
        (33421, "H", 2, (2, 2), True),
        (33422, "B", 4, bytes([0, 1, 1, 2]), True),
        (50706, "B", 4, bytes([1, 4, 0, 0]), True),
        (50708, "s", 0, "Maker Model", True),
        (50721, "2i", 9, identity, True),
        (50728, "2I", 3, ones, True),
    ]
    file = io.BytesIO()
    tifffile.imwrite(file, levels, photometric=32803, extratags=tags, metadata=None)
    return file.getvalue()


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
