"""Pictures -> files: PNG, TIFF, JPEG or WebP by the ending of the name, whole or not at all."""

import errno
import io
import os
import secrets
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import OutputError
from allfocus.images.exif import (
    DESCRIPTIVE_TAGS,
    PREFIX,
    Directory,
    FileSlices,
    Layout,
    add_history,
    find_layout,
    lay_out,
    parse_block,
)
from allfocus.images.image import Image

Samples = NDArray[Any]
Compression = str | int | None
"""How to pack: a level 0 to 9 (PNG), or "none", "deflate", "lzw" or "zstd" (TIFF); None leaves it to the format."""

METRES_PER_INCH = 0.0254
ROWS_AT_ONCE = 256

LARGEST_JPEG_SEGMENT = 65533
"""Bytes that fit into one JPEG segment, which is all that EXIF may take there."""


def write_image(
    image: Image | NDArray[Any],
    path: str | os.PathLike[str],
    *,
    bit_depth: int | None = None,
    quality: int = 95,
    compression: Compression = None,
    history: str | None = None,
    software: str = "allfocus",
    overwrite: bool = False,
) -> Path:
    """The path of the file, which now holds the picture with its alpha, colour profile, EXIF and resolution.

    The file gets its name only when all of it is on the disk, so it appears whole or not at all.

    Args:
        image: An Image, or an array ``(H, W)`` or ``(H, W, 3)``: float in 0..1 (values outside are clipped), uint8 or
            uint16.
        path: Where to; the ending gives the format: .png, .tif, .tiff, .jpg, .jpeg or .webp.
        bit_depth: 8 or 16 (TIFF also 32, floating point); None keeps that of the picture as far as the format can:
            JPEG and WebP have 8 bits, PNG has 16 at most.
        quality: Of JPEG (always with full colour resolution) and WebP (lossless at 100), 1 to 100.
        compression: Of PNG a level from 0 (fast) to 9 (small); of TIFF "none", "deflate", "lzw" or
            "zstd" (small and fast, but not every program reads it). Lossless, all.
        history: A sentence for the EXIF history, such as "fused by allfocus 1.0 from 12 frames"; None leaves EXIF as
            it is.
        software: For the software entry of EXIF, when there is a history to write.
        overwrite: Replace an existing file.

    Raises:
        OutputError: the file exists, the folder is missing or read-only, the disk is full, or the format cannot hold
            the picture.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_image(np.zeros((4, 6, 3), np.float32), folder + "/black.png").name
        'black.png'
    """
    path = Path(path)
    check_output(path, overwrite=overwrite)
    kind = ENCODERS[path.suffix.lower()]
    _check_options(path, kind, quality, compression)
    picture = image if isinstance(image, Image) else _image_of_array(image)
    if bit_depth is None:
        bit_depth = min(picture.bit_depth, max(kind.bit_depths))
    _check_bit_depth(path, kind, bit_depth)
    if kind.largest_side and max(picture.width, picture.height) > kind.largest_side:
        raise OutputError(
            f"{path}: {kind.name} ends at {kind.largest_side} pixels a side, the picture has "
            f"{picture.width}x{picture.height}; choose .png or .tif"
        )
    if history is not None:
        size = {"width": picture.width, "height": picture.height}
        picture = replace(picture, exif=add_history(picture.exif, software=software, history=history, **size))
    samples = _file_samples(picture, bit_depth, with_alpha=kind.has_alpha)
    replace_file(path, kind.encode(samples, picture, quality, compression), overwrite=overwrite)
    return path


def _check_options(path: Path, kind: "Encoder", quality: int, compression: Compression) -> None:
    if not 1 <= quality <= 100:
        raise OutputError(f"quality is 1 to 100; found {quality}")
    if compression is not None and compression not in kind.compressions:
        known = ", ".join(map(str, kind.compressions)) or "none: use quality"
        raise OutputError(f"{path}: {kind.name} cannot be written with compression {compression}; it knows {known}")


def _check_bit_depth(path: Path, kind: "Encoder", bit_depth: int | None) -> None:
    if bit_depth is not None and bit_depth not in kind.bit_depths:
        depths = " or ".join(map(str, kind.bit_depths))
        raise OutputError(f"{path}: {kind.name} has {depths} bits per channel, not {bit_depth}; choose .tif")


def _file_samples(picture: Image, bit_depth: int, *, with_alpha: bool) -> Samples:
    samples = to_integers(picture.pixels, bit_depth)
    if picture.alpha is None or not with_alpha:
        return samples
    return np.dstack([samples, to_integers(picture.alpha, bit_depth)])


def check_output(
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    picture: bool = True,
    bit_depth: int | None = None,
    quality: int = 95,
    compression: Compression = None,
) -> None:
    """Raise OutputError when a file could not be written there: meant to be asked before the long work begins.

    Args:
        path: The file that will be written.
        overwrite: Whether an existing file may be replaced.
        picture: Whether the ending must be that of a picture format that can be written.
        bit_depth: Bits per channel that the format must be able to hold; None takes any.
        quality: Of JPEG and WebP, 1 to 100.
        compression: Of PNG or TIFF, which the format must know; see :func:`write_image`.
    """
    path = Path(path)
    # os.path instead of Path: it answers "no" where permissions forbid to look, and the folder is checked below.
    if os.path.isdir(path):
        raise OutputError(f"{path}: is a folder; name a file in it")
    if picture and path.suffix.lower() not in ENCODERS:
        raise OutputError(f"{path}: cannot tell the format from the ending; use one of {', '.join(ENCODERS)}")
    if picture:
        kind = ENCODERS[path.suffix.lower()]
        _check_options(path, kind, quality, compression)
        _check_bit_depth(path, kind, bit_depth)
    if not os.path.isdir(path.parent):
        raise OutputError(f"{path}: the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: the folder {path.parent} is read-only; choose another")
    if os.path.lexists(path) and not overwrite:
        raise OutputError(f"{path}: exists already; choose another name or allow it to be overwritten (--overwrite)")


def to_integers(pixels: NDArray[np.float32], bit_depth: int) -> Samples:
    """The samples a file stores: 0..1 scaled, rounded to the nearest and clipped; 32 keeps floating point.

    Example:
        >>> to_integers(np.array([[0.0, 0.5, 1.5]], np.float32), 8)
        array([[  0, 128, 255]], dtype=uint8)
    """
    if bit_depth == 32:
        clipped: Samples = np.clip(pixels, 0, 1)
        return clipped
    largest, kind = (255, np.uint8) if bit_depth == 8 else (65535, np.uint16)
    rounded: Samples = np.empty(pixels.shape, kind)
    for start in range(0, pixels.shape[0], ROWS_AT_ONCE):  # not all at once: the steps between would take the most room
        part = slice(start, start + ROWS_AT_ONCE)
        rounded[part] = np.rint(np.clip(pixels[part], 0, 1) * np.float32(largest))
    return rounded


def replace_file(path: Path, data: bytes | memoryview, *, overwrite: bool = False) -> None:
    """Put a file in place in one step, so that no reader ever sees a part of it.

    Raises:
        OutputError: the file exists and may not be overwritten, or the system refused; nothing is left behind.
    """
    try:
        descriptor = _open_nameless(path.parent)
        if descriptor is None:
            _write_under_other_name(path, data, overwrite=overwrite)
            return
        with open(descriptor, "wb") as file:
            _write_to_disk(file, data)
            _give_name(file.fileno(), path, overwrite=overwrite)
    except FileExistsError as error:
        raise OutputError(f"{path}: appeared in the meantime; choose another name") from error
    except OSError as error:
        raise OutputError(f"{path}: could not be written ({error.strerror}); choose another folder") from error


def _open_nameless(folder: Path) -> int | None:
    """A new file without a name, which vanishes with the process even when that is killed; None where there are none.

    Linux has them, on most file systems.
    """
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(folder, flag | os.O_WRONLY, 0o666)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            return None
        raise


def _give_name(descriptor: int, path: Path, *, overwrite: bool) -> None:
    # A link, unlike a rename, fails when the name has been taken since we looked.
    source = f"/proc/self/fd/{descriptor}"
    if not overwrite or not os.path.lexists(path):
        _link(source, path)
        return
    temporary = _other_name(path)
    try:
        _link(source, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _link(source: str, path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # With a folder to start from, Python asks the system to follow the link in /proc to the nameless file itself.
        os.link(source, path.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _write_under_other_name(path: Path, data: bytes | memoryview, *, overwrite: bool) -> None:
    temporary = _other_name(path)
    try:
        with open(temporary, "xb") as file:
            _write_to_disk(file, data)
        _move(temporary, path, overwrite=overwrite)
    finally:
        temporary.unlink(missing_ok=True)


def _write_to_disk(file: BinaryIO, data: bytes | memoryview) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _other_name(path: Path) -> Path:
    return path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}.part")


def _move(temporary: Path, path: Path, *, overwrite: bool) -> None:
    if not overwrite:
        try:
            os.link(temporary, path)
            return
        except FileExistsError:
            raise
        except OSError:  # FAT, some network drives: no links there
            if path.exists():
                raise FileExistsError(str(path)) from None
    os.replace(temporary, path)


def _image_of_array(array: NDArray[Any]) -> Image:
    if array.dtype == np.uint8:
        return Image(array.astype(np.float32) / np.float32(255), bit_depth=8)
    if array.dtype == np.uint16:
        return Image(array.astype(np.float32) / np.float32(65535), bit_depth=16)
    if array.dtype.kind != "f":
        raise OutputError(f"an array of {array.dtype} is no picture; give float in 0..1, uint8 or uint16")
    if not np.isfinite(array).all():
        raise OutputError("the picture has values that are not a number; nothing was written")
    return Image(array.astype(np.float32), bit_depth=8)


# --- one encoder per format -----------------------------------------------------------------------------------------


def encode_png(samples: Samples, picture: Image, quality: int = 95, compression: Compression = None) -> bytes:
    """A PNG file of 8 or 16 bits. Pillow cannot write 16-bit colour, so the chunks it would add are added here."""
    import imagecodecs

    # Level 6 takes four times as long for a file 5 % smaller (measured on a photo of 20 megapixels).
    level = 4 if compression is None else int(compression)
    data = bytes(imagecodecs.png_encode(np.ascontiguousarray(samples), level=level))
    extra = b""
    if picture.icc_profile:
        extra += png_chunk(b"iCCP", b"ICC profile\x00\x00" + zlib.compress(picture.icc_profile))
    if picture.resolution:
        across, down = (round(dots / METRES_PER_INCH) for dots in picture.resolution)
        extra += png_chunk(b"pHYs", struct.pack(">IIB", across, down, 1))
    if picture.exif:
        extra += png_chunk(b"eXIf", picture.exif)
    header_end = 8 + 12 + 13
    return data[:header_end] + extra + data[header_end:]


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """One PNG chunk: length, kind, body, checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def encode_jpeg(samples: Samples, picture: Image, quality: int = 95, compression: Compression = None) -> bytes:
    """A JPEG file with full colour resolution."""
    if picture.exif and len(picture.exif) + len(PREFIX) > LARGEST_JPEG_SEGMENT:
        raise OutputError(
            f"the EXIF data ({len(picture.exif)} bytes) is too long for JPEG, which holds {LARGEST_JPEG_SEGMENT}; "
            "choose .png or .tif"
        )
    options: dict[str, Any] = {"dpi": picture.resolution} if picture.resolution else {}
    # Subsampled colour would blur the edges that the stack was shot to keep.
    return _encode_with_pillow(samples, picture, "JPEG", quality=quality, subsampling=0, optimize=True, **options)


def encode_webp(samples: Samples, picture: Image, quality: int = 95, compression: Compression = None) -> bytes:
    """A WebP file, lossless at quality 100."""
    # "exact" keeps the colours below transparent pixels.
    return _encode_with_pillow(samples, picture, "WEBP", quality=quality, lossless=quality == 100, exact=True)


def _encode_with_pillow(samples: Samples, picture: Image, kind: str, **options: Any) -> bytes:
    from PIL import Image as PillowImage

    if picture.icc_profile:
        options["icc_profile"] = picture.icc_profile
    if picture.exif:
        options["exif"] = PREFIX + picture.exif
    file = io.BytesIO()
    PillowImage.fromarray(samples).save(file, kind, **options)
    return file.getvalue()


def encode_tiff(
    samples: Samples,
    picture: Image,
    quality: int = 95,
    compression: Compression = None,
    *,
    big: bool | None = None,
) -> memoryview:
    """A TIFF file of 8, 16 or 32 (floating point) bits, packed without loss.

    ``big`` asks for BigTIFF; None chooses it where the pixels may need more than the 4 GiB of classic TIFF.
    """
    import tifffile

    packing = TIFF_COMPRESSIONS["deflate" if compression is None else str(compression)]
    channels = 1 if samples.ndim == 2 else samples.shape[2]
    file = io.BytesIO()
    tifffile.imwrite(
        file,
        samples,
        bigtiff=samples.nbytes > LARGEST_CLASSIC_TIFF if big is None else big,
        # The EXIF entries are in the byte order of their block; a file in that order can take them as they are.
        byteorder=">" if (picture.exif or b"").startswith(b"MM") else "<",
        photometric="rgb" if channels >= 3 else "minisblack",
        planarconfig="contig" if channels > 1 else None,
        extrasamples=["unassalpha"] if channels in (2, 4) else None,
        compression=packing,
        predictor=packing is not None,
        resolution=picture.resolution,
        resolutionunit=2 if picture.resolution else None,
        metadata=None,
        software=False,
        iccprofile=picture.icc_profile,
    )
    if picture.exif:
        _add_to_tiff(file, parse_block(picture.exif))
    return file.getbuffer()


def _add_to_tiff(file: BinaryIO, extra: Directory) -> None:
    """Give the TIFF file a new first directory at its end that also holds the EXIF entries.

    tifffile does not write EXIF and GPS directories. What its own directory points to (the pixels) stays where it is.
    """
    data = FileSlices(file)
    found = find_layout(data)
    directory = parse_block(data)
    start = len(data) + len(data) % 2
    layout: Layout = found[0] if found else Layout()
    if not directory.entries or (start > 2**32 - 2**24 and not layout.big):
        raise OutputError("the picture is too large for this TIFF file with EXIF; choose .png")
    described = [entry for entry in extra.entries if entry[0] in DESCRIPTIVE_TAGS]
    replaced = {entry[0] for entry in described}
    merged = Directory([entry for entry in directory.entries if entry[0] not in replaced] + described, extra.children)
    file.seek(0, os.SEEK_END)
    file.write(b"\x00" * (len(data) % 2) + lay_out(merged, start, layout))
    file.seek(8 if layout.big else 4)
    file.write(layout.position.pack(start))


LARGEST_CLASSIC_TIFF = 2**32 - 2**26
"""Bytes of pixels; compression seldom makes them more, and the rest is left for that and for metadata."""

TIFF_COMPRESSIONS: dict[str, str | None] = {"none": None, "deflate": "zlib", "lzw": "lzw", "zstd": "zstd"}


@dataclass(frozen=True)
class Encoder:
    """A kind of file that can be written."""

    name: str
    """How messages call it."""

    bit_depths: tuple[int, ...]
    """Bits per channel it can hold."""

    encode: Callable[[Samples, Image, int, Compression], bytes | memoryview]
    """(samples, picture with its metadata, quality, compression) -> file bytes."""

    has_alpha: bool = True
    """Whether it can hold alpha; where it cannot, alpha is left out."""

    compressions: tuple[str | int, ...] = ()
    """What its compression can be; empty when there is no choice."""

    largest_side: int | None = None
    """Pixels along one side that the format can count; None when no picture comes near."""


_JPEG = Encoder("JPEG", (8,), encode_jpeg, has_alpha=False, largest_side=65535)
_TIFF = Encoder("TIFF", (8, 16, 32), encode_tiff, compressions=tuple(TIFF_COMPRESSIONS))
ENCODERS: dict[str, Encoder] = {
    ".png": Encoder("PNG", (8, 16), encode_png, compressions=tuple(range(10))),
    ".tif": _TIFF,
    ".tiff": _TIFF,
    ".jpg": _JPEG,
    ".jpeg": _JPEG,
    ".webp": Encoder("WebP", (8,), encode_webp, largest_side=16383),
}
"""Every ending that can be written."""
