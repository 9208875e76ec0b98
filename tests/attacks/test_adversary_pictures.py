"""A second adversary on pictures: files of known content that are stored in unusual ways, read right or refused."""

import io
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image as PillowImage

from allfocus.errors import InputError
from allfocus.images.reading import read_image

HEIGHT, WIDTH = 24, 32
RANDOM = np.random.default_rng(0)
GREY8 = RANDOM.integers(0, 256, (HEIGHT, WIDTH), dtype=np.uint8)
COLOUR8 = RANDOM.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
COLOUR16 = RANDOM.integers(0, 65536, (HEIGHT, WIDTH, 3), dtype=np.uint16)
GREY16 = COLOUR16[..., 0]
FLOAT = (GREY16 / 65535).astype(np.float32)


def upright(picture: np.ndarray, orientation: int) -> np.ndarray:
    """What a picture stored with this orientation shows."""
    turned = {
        1: picture,
        2: picture[:, ::-1],
        3: picture[::-1, ::-1],
        4: picture[::-1],
        5: np.swapaxes(picture, 0, 1),
        6: np.rot90(picture, -1),
        7: np.swapaxes(picture, 0, 1)[::-1, ::-1],
        8: np.rot90(picture, 1),
    }
    return turned.get(orientation, picture)


def assert_reads(path: Path, truth: np.ndarray) -> None:
    found = read_image(path).pixels
    assert found.shape == truth.shape
    np.testing.assert_allclose(found, truth, atol=1e-6)


# --- TIFF -------------------------------------------------------------------------------------------------------------

RGB, BLACK, WHITE = {"photometric": "rgb"}, {"photometric": "minisblack"}, {"photometric": "miniswhite"}
ALPHA = np.dstack([COLOUR8, np.full((HEIGHT, WIDTH), 255, np.uint8)])
PLANAR = {"photometric": "rgb", "planarconfig": "separate"}
READ = {
    "white is zero": (GREY8, WHITE, 1 - GREY8 / 255),
    "white is zero, 16 bits": (GREY16, WHITE, 1 - GREY16 / 65535),
    "one bit": (GREY8 > 127, BLACK, (GREY8 > 127).astype(float)),
    "one bit, white is zero": (GREY8 > 127, WHITE, 1 - (GREY8 > 127).astype(float)),
    "double precision": (FLOAT.astype(np.float64), BLACK, FLOAT),
    "half precision": (FLOAT.astype(np.float16), BLACK, FLOAT.astype(np.float16).astype(np.float32)),
    "free alpha": (ALPHA, {**RGB, "extrasamples": ["unassalpha"]}, COLOUR8 / 255),
    "bound alpha": (ALPHA, {**RGB, "extrasamples": ["assocalpha"]}, COLOUR8 / 255),
    "no alpha": (ALPHA, {**RGB, "extrasamples": ["unspecified"]}, COLOUR8 / 255),
    "one row a strip": (COLOUR16, {**RGB, "rowsperstrip": 1}, COLOUR16 / 65535),
    "odd tiles": (COLOUR16, {**RGB, "tile": (16, 48)}, COLOUR16 / 65535),
    "planes": (np.moveaxis(COLOUR16, -1, 0), {**PLANAR, "tile": (16, 16)}, COLOUR16 / 65535),
    "large byte first": (COLOUR16, {**RGB, "byteorder": ">", "compression": "lzw", "predictor": 2}, COLOUR16 / 65535),
    "predicted numbers": (FLOAT, {**BLACK, "compression": "zlib", "predictor": 3}, FLOAT),
    "big": (COLOUR8, {**RGB, "bigtiff": True}, COLOUR8 / 255),
    "no resolution": (COLOUR8, {**RGB, "resolution": (0, 0)}, COLOUR8 / 255),
}


@pytest.mark.parametrize("kind", READ)
def test_a_tiff_stored_in_an_unusual_way_is_read_right(tmp_path, kind):
    samples, options, truth = READ[kind]
    tifffile.imwrite(tmp_path / "a.tif", samples, **options)
    assert_reads(tmp_path / "a.tif", truth)


@pytest.mark.parametrize("bits", [1, 2, 4, 6, 10, 12, 14])
def test_any_number_of_bits_is_scaled_to_white(tmp_path, bits):
    levels = GREY16 >> (16 - bits)
    kind = np.uint16 if bits > 8 else np.uint8
    tifffile.imwrite(tmp_path / "a.tif", levels.astype(kind), bitspersample=bits, **BLACK)
    assert_reads(tmp_path / "a.tif", levels / (2**bits - 1))


@pytest.mark.parametrize("orientation", range(11))
def test_every_orientation_of_a_tiff_is_upright(tmp_path, orientation):
    tag = [(274, "H", 1, orientation, True)]
    tifffile.imwrite(tmp_path / "a.tif", COLOUR8, extratags=tag, **RGB)
    assert_reads(tmp_path / "a.tif", upright(COLOUR8 / 255, orientation))


@pytest.mark.parametrize("factor", [1, 256, 257])
def test_a_palette_is_right_whether_its_colours_have_8_bits_or_16(tmp_path, factor):
    colours = np.tile(np.arange(256, dtype=np.uint16) * np.uint16(factor), (3, 1))
    tifffile.imwrite(tmp_path / "a.tif", GREY8, photometric="palette", colormap=colours)
    assert_reads(tmp_path / "a.tif", np.dstack([GREY8 / 255] * 3))


def test_a_palette_of_dark_colours_of_16_bits_stays_dark(tmp_path):
    colours = np.tile(np.arange(256, dtype=np.uint16) * np.uint16(3), (3, 1))
    tifffile.imwrite(tmp_path / "a.tif", GREY8, photometric="palette", colormap=colours)
    assert_reads(tmp_path / "a.tif", np.dstack([GREY8.astype(float) * 3 / 65535] * 3))


STACK = np.stack([GREY16] * 3)
REFUSED = {
    "signed 64": (GREY16.astype(np.int64), BLACK),
    "64": (GREY16.astype(np.uint64), BLACK),
    "complex": (GREY16.astype(np.complex64), BLACK),
    "not a number": (np.where(FLOAT > 0.9, np.nan, FLOAT), BLACK),
    "infinite": (np.where(FLOAT > 0.9, np.inf, FLOAT), BLACK),
    "Lab": (COLOUR8, {"photometric": "cielab"}),
    "YCbCr": (COLOUR8, {"photometric": "ycbcr"}),
    "a mask": (GREY8 > 9, {"photometric": "mask"}),
    "a volume": (np.stack([GREY16] * 16), {**BLACK, "volumetric": True, "tile": (16, 16, 16)}),
    "JPEG 2000": (COLOUR8, {**RGB, "compression": "jpeg2000"}),
    "LZMA": (COLOUR8, {**RGB, "compression": "lzma"}),
    "channels of ImageJ": (STACK, {"imagej": True, "metadata": {"axes": "CYX"}}),
    "times of ImageJ": (STACK, {"imagej": True, "metadata": {"axes": "TYX"}}),
    "channels of OME": (STACK, {"ome": True, "metadata": {"axes": "CYX"}}),
    "two axes": (np.stack([np.stack([GREY8] * 3)] * 2), BLACK),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_tiff_that_is_not_understood_is_refused(tmp_path, kind):
    from allfocus.images.frame_file import list_frames

    samples, options = REFUSED[kind]
    tifffile.imwrite(tmp_path / "a.tif", samples, **options)
    with pytest.raises(InputError):
        [read_image(frame.path, page=frame.page) for frame in list_frames([tmp_path / "a.tif"])]


@pytest.mark.parametrize("tag", [254, 255])
def test_text_in_place_of_a_number_is_told_in_one_line(tmp_path, tag):
    tifffile.imwrite(tmp_path / "a.tif", GREY8, extratags=[(tag, "s", 0, "one\ntwo\nthree", True)], **BLACK)
    with pytest.raises(InputError) as told:
        read_image(tmp_path / "a.tif")
    assert "\n" not in str(told.value)


PROMISES = {
    "planes": '<Pixels {size} SizeZ="60000000" SizeC="1" SizeT="1"><TiffData/></Pixels>',
    "times and channels": '<Pixels {size} SizeZ="400" SizeC="400" SizeT="400"><TiffData/></Pixels>',
    "planes of a part": '<Pixels {size} SizeZ="1" SizeC="1" SizeT="1"><TiffData PlaneCount="60000000"/></Pixels>',
    "planes of an old part": '<Pixels {size} SizeZ="1" SizeC="1" SizeT="1"><TiffData NumPlanes="60000000"/></Pixels>',
    "digits by another name": '<Pixels {size} SizeZ="6&#48;000000" SizeC="1" SizeT="1"><TiffData/></Pixels>',
    "fewer than none": '<Pixels {size} SizeZ="-60000000" SizeC="1" SizeT="1"><TiffData/></Pixels>',
    "words": '<Pixels {size} SizeZ="many" SizeC="1" SizeT="1"><TiffData/></Pixels>',
}


@pytest.mark.parametrize("kind", PROMISES)
def test_a_description_that_promises_millions_of_planes_takes_no_memory(tmp_path, kind):
    from allfocus.images.frame_file import list_frames

    pixels = PROMISES[kind].format(size='SizeX="16" SizeY="16" Type="uint8" DimensionOrder="XYZCT"')
    ome = f'<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image ID="Image:0">{pixels}</Image></OME>'
    samples = np.zeros((16, 16), np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", samples, description=f'<?xml version="1.0"?>{ome}', metadata=None)
    tracemalloc.start()
    try:
        with pytest.raises(InputError):
            list_frames([tmp_path / "a.tif"])
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


# --- PNG --------------------------------------------------------------------------------------------------------------


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(depth: int, colour: int, rows: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + header + before + pixels + after + chunk(b"IEND", b"")


def rows_of(levels: np.ndarray, kind: int = 0) -> bytes:
    return b"".join(bytes([kind]) + row.tobytes() for row in levels)


PALETTE = chunk(b"PLTE", bytes(range(30)))
BURSTING = b"a\0\0" + zlib.compress(bytes(99_000_000))
"""A name, and zeros that unpack to a thousand times as many."""
FEW = GREY16 >> 4
DAMAGED = {
    "no palette": png(8, 3, rows_of(GREY8)),
    "colours beyond the palette": png(8, 3, rows_of(GREY8), PALETTE),
    "one colour beyond the palette": png(
        8, 3, rows_of(np.where(GREY8[3, 4] == GREY8, 10, 9).astype(np.uint8)), PALETTE
    ),
    "4 bits beyond the palette": png(4, 3, rows_of(GREY8[:, ::2]), PALETTE),
    "half a colour": png(8, 3, rows_of(GREY8), chunk(b"PLTE", bytes(31))),
    "3 bits": png(3, 0, rows_of(GREY8)),
    "an unknown type": png(8, 5, rows_of(GREY8)),
    "16 bits of a palette": png(16, 3, rows_of(GREY16)),
    "an unknown filter": png(8, 0, rows_of(GREY8, 9)),
    "a row too few": png(8, 0, rows_of(GREY8)[:-WIDTH]),
    "an unknown chunk": png(8, 0, rows_of(GREY8), chunk(b"ZZZZ", b"x")),
    "two headers": png(8, 0, rows_of(GREY8), chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 0, 0, 0, 0))),
    "a profile that bursts": png(8, 0, rows_of(GREY8), chunk(b"iCCP", BURSTING)),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_png_that_is_damaged_is_refused(tmp_path, kind):
    (tmp_path / "a.png").write_bytes(DAMAGED[kind])
    with pytest.raises(InputError):
        read_image(tmp_path / "a.png")


FULL_PALETTE = chunk(b"PLTE", np.repeat(np.arange(256, dtype=np.uint8), 3).tobytes())
SOUND = {
    "a palette": (png(8, 3, rows_of(GREY8), FULL_PALETTE), np.dstack([GREY8 / 255] * 3)),
    "a short palette": (png(8, 3, rows_of(GREY8 % 10), PALETTE), np.arange(30).reshape(10, 3)[GREY8 % 10] / 255),
    "an unused palette": (png(8, 2, rows_of(COLOUR8), PALETTE), COLOUR8 / 255),
    "a see-through colour": (png(8, 2, rows_of(COLOUR8), chunk(b"tRNS", bytes(6))), COLOUR8 / 255),
    "few of 16 bits": (png(16, 0, rows_of(FEW.astype(">u2")), chunk(b"sBIT", b"\x0c")), FEW / 65535),
    "text that bursts": (png(8, 0, rows_of(GREY8), chunk(b"zTXt", BURSTING)), GREY8 / 255),
    "a chunk behind": (png(8, 0, rows_of(GREY8), after=chunk(b"zzZz", b"x")), GREY8 / 255),
}  # fmt: skip


@pytest.mark.parametrize("kind", SOUND)
def test_a_png_stored_in_an_unusual_way_is_read_right(tmp_path, kind):
    data, truth = SOUND[kind]
    (tmp_path / "a.png").write_bytes(data)
    assert_reads(tmp_path / "a.png", truth)


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("ending", [".png", ".webp"])
def test_every_orientation_is_upright(tmp_path, orientation, ending):
    exif = PillowImage.Exif()
    exif[0x0112] = orientation
    PillowImage.fromarray(COLOUR8).save(tmp_path / f"a{ending}", exif=exif, lossless=True)
    assert_reads(tmp_path / f"a{ending}", upright(COLOUR8 / 255, orientation))


# --- BMP and JPEG -----------------------------------------------------------------------------------------------------


def bmp(height: int, bits: int, data: bytes, palette: bytes = b"", packed: int = 0, colours: int = 0) -> bytes:
    start = 54 + len(palette)
    file = b"BM" + struct.pack("<IHHI", start + len(data), 0, 0, start)
    about = struct.pack("<IiiHHIIiiII", 40, WIDTH, height, 1, bits, packed, len(data), 2835, 2835, colours, 0)
    return file + about + palette + data


def test_a_bmp_is_right_from_the_top_and_from_the_bottom(tmp_path):
    (tmp_path / "a.bmp").write_bytes(bmp(HEIGHT, 24, COLOUR8[::-1, :, ::-1].tobytes()))
    (tmp_path / "b.bmp").write_bytes(bmp(-HEIGHT, 24, COLOUR8[:, :, ::-1].tobytes()))
    for name in ("a.bmp", "b.bmp"):
        assert_reads(tmp_path / name, COLOUR8 / 255)


PACKED = COLOUR8[::-1, :, ::-1].tobytes()
ODD_BMP = {
    "colours beyond the palette": bmp(HEIGHT, 8, GREY8.tobytes(), palette=bytes(range(40)), colours=10),
    "no rows": bmp(0, 24, PACKED),
    "the lowest number of rows": bmp(-(2**31), 24, PACKED),
    "cut short": bmp(HEIGHT, 24, PACKED[:-WIDTH]),
    "an unknown packing": bmp(HEIGHT, 24, PACKED, packed=9),
    "runs that end early": bmp(HEIGHT, 8, bytes([WIDTH, 5, 0, 0]) * 3 + b"\0\1", palette=bytes(1024), packed=1),
}


@pytest.mark.parametrize("kind", ODD_BMP)
def test_a_bmp_that_is_damaged_is_refused(tmp_path, kind):
    (tmp_path / "a.bmp").write_bytes(ODD_BMP[kind])
    with pytest.raises(InputError):
        read_image(tmp_path / "a.bmp")


SMOOTH = (np.add.outer(np.arange(HEIGHT), np.arange(WIDTH))[..., None] * np.array([3, 2, 1])).astype(np.uint8)


def jpeg(**options) -> bytes:
    file = io.BytesIO()
    PillowImage.fromarray(SMOOTH).save(file, "JPEG", quality=98, **options)
    return file.getvalue()


def with_size(height: int, width: int) -> bytes:
    data = bytearray(jpeg())
    start = data.index(b"\xff\xc0")
    data[start + 5 : start + 9] = struct.pack(">HH", height, width)
    return bytes(data)


ODD_JPEG = {
    "leading zeros": bytes(10) + jpeg(),
    "no end": jpeg()[:-2],
    "no tables": jpeg().replace(b"\xff\xdb", b"\xff\xfe", 1),
    "no height": with_size(0, WIDTH),
    "taller": with_size(HEIGHT + 16, WIDTH),
    "wider": with_size(HEIGHT, WIDTH + 16),
    "lower": with_size(HEIGHT - 16, WIDTH),
    "narrower": with_size(HEIGHT, WIDTH - 16),
    "arithmetic": jpeg().replace(b"\xff\xc0", b"\xff\xc9", 1),
    "lossless": jpeg().replace(b"\xff\xc0", b"\xff\xc3", 1),
}


@pytest.mark.parametrize("kind", ODD_JPEG)
def test_a_jpeg_that_is_damaged_is_refused(tmp_path, kind):
    (tmp_path / "a.jpg").write_bytes(ODD_JPEG[kind])
    with pytest.raises(InputError):
        read_image(tmp_path / "a.jpg")


def after_start(segment: bytes) -> bytes:
    data = jpeg()
    return data[:2] + segment + data[2:]


@pytest.mark.parametrize(
    "data",
    [
        jpeg(progressive=True),
        jpeg() + b"x" * 5000,
        jpeg() + jpeg(),
        after_start(b"\xff\xe1\x00\x08Exif\0\0"),
        after_start(b"\xff\xe1\x00\x18Exif\0\0II*\0\xff\xff\xff\xff12345678"),
        after_start(b"\xff\xe2\x00\x14ICC_PROFILE\0\1\3abcd"),
        after_start(b"\xff\xfe\x00\x06\0\0\0\0"),
    ],
)
def test_what_lies_around_a_jpeg_does_not_change_it(tmp_path, data):
    (tmp_path / "a.jpg").write_bytes(data)
    found = read_image(tmp_path / "a.jpg").pixels
    assert np.abs(found - SMOOTH / 255).max() < 0.05


@pytest.mark.parametrize("ending", ["jpg", "png", "tif", "webp", "bmp"])
@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF"])
def test_the_name_of_a_file_does_not_matter(tmp_path, kind, ending):
    PillowImage.fromarray(COLOUR8).save(tmp_path / f"a.{ending}", kind)
    assert_reads(tmp_path / f"a.{ending}", COLOUR8 / 255)
