"""A small valid file of each format and of each way to store pixels in it, for scripts that damage them."""

import importlib.util
import io
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from numpy.typing import NDArray
from PIL import Image, ImageCms

from allfocus.images.encoders import png_chunk
from allfocus.images.writing import write_image


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


def _pillow_files(levels: NDArray[Any]) -> dict[str, bytes]:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "Maker"
    adobe = Image.Exif()
    adobe.get_ifd(0x8769).update({0xA001: 65535, 0xA005: {1: "R03"}})
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    picture = Image.fromarray(levels)
    see_through = picture.copy()
    see_through.putalpha(Image.fromarray(levels[:, :, 0]))

    def save(image: Image.Image, kind: str, **options: Any) -> bytes:
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


def _png_files(levels: NDArray[Any]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        plain = write_image(levels, Path(folder) / "a.png", history="made to be broken").read_bytes()
    gamma = png_chunk(b"gAMA", struct.pack(">I", 45455))
    primaries = png_chunk(b"cHRM", struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000))
    return {"png 16": plain, "png exponent": plain[:33] + gamma + primaries + plain[33:]}


def _tiff_files(levels8: NDArray[Any], levels16: NDArray[Any]) -> dict[str, bytes]:
    def save(samples: NDArray[Any], **options: Any) -> bytes:
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


def _optional_files(levels: NDArray[Any]) -> dict[str, bytes]:
    """HEIF and RAW, where their packages are installed."""
    found = {}
    if importlib.util.find_spec("pillow_heif"):
        import pillow_heif

        file = io.BytesIO()
        large = np.ascontiguousarray(np.tile(levels, (3, 2, 1)))
        pillow_heif.from_bytes("RGB;16", (large.shape[1], large.shape[0]), large.tobytes()).save(file)
        found["heif"] = file.getvalue()
    if importlib.util.find_spec("rawpy"):
        found["raw"] = raw_file(levels[:, :, 0])
    return found


def raw_file(levels: NDArray[Any]) -> bytes:
    """A DNG file: samples below a Bayer filter, a camera's name, and matrices that change nothing."""
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
