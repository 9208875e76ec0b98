import io
import os
import struct
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageCms, ImageOps
from scripts import load_script

from allfocus.errors import InputError, MissingDependencyError
from allfocus.images import reading
from allfocus.images.colour_profile import make_profile, srgb_profile
from allfocus.images.conversion import from_integers
from allfocus.images.encoders import encode_png
from allfocus.images.exif import parse_block
from allfocus.images.frame_file import list_frames
from allfocus.images.image import Image, ImageStack
from allfocus.images.listing import natural_order
from allfocus.images.reading import read_image
from allfocus.images.stack_opening import open_stack, read_stack
from allfocus.images.writing import to_integers, write_image


@pytest.fixture
def pixels8() -> NDArray[np.uint8]:
    return np.random.default_rng(1).integers(0, 256, (24, 32, 3), dtype=np.uint8)


@pytest.fixture
def pixels16() -> NDArray[np.uint16]:
    return np.random.default_rng(2).integers(0, 65536, (24, 32, 3), dtype=np.uint16)


def as_levels(image: Image) -> NDArray[np.int64]:
    return np.rint(image.pixels.astype(np.float64) * (2**image.bit_depth - 1)).astype(np.int64)


@pytest.mark.parametrize(
    ("suffix", "mode"), [("png", "RGB"), ("png", "L"), ("bmp", "RGB"), ("tif", "RGB"), ("tif", "L")]
)
def test_lossless_8_bit_formats_written_by_pillow_are_read_exactly(tmp_path, pixels8, suffix, mode):
    picture = PillowImage.fromarray(pixels8).convert(mode)
    picture.save(tmp_path / f"a.{suffix}")
    image = read_image(tmp_path / f"a.{suffix}")
    assert image.bit_depth == 8
    np.testing.assert_array_equal(as_levels(image), np.asarray(picture))


def test_lossless_webp_is_read_exactly(tmp_path, pixels8):
    PillowImage.fromarray(pixels8).save(tmp_path / "a.webp", lossless=True)
    np.testing.assert_array_equal(as_levels(read_image(tmp_path / "a.webp")), pixels8)


def test_jpeg_is_read_as_pillow_decodes_it(tmp_path, pixels8):
    PillowImage.fromarray(pixels8).save(tmp_path / "a.jpg")
    with PillowImage.open(tmp_path / "a.jpg") as expected:
        np.testing.assert_array_equal(as_levels(read_image(tmp_path / "a.jpg")), np.asarray(expected))


@pytest.mark.parametrize("compression", [None, "zlib", "lzw", "zstd", "packbits"])
@pytest.mark.parametrize("planar", ["contig", "separate"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_16_bit_colour_tiff_keeps_every_bit(tmp_path, pixels16, compression, planar, order):
    samples = pixels16 if planar == "contig" else np.moveaxis(pixels16, -1, 0)
    tifffile.imwrite(
        tmp_path / "a.tif", samples, photometric="rgb", planarconfig=planar, compression=compression, byteorder=order
    )
    image = read_image(tmp_path / "a.tif")
    assert image.bit_depth == 16
    np.testing.assert_array_equal(as_levels(image), pixels16)


@pytest.mark.parametrize("turned", [1, 6])
def test_a_picture_stays_the_integers_of_its_file_until_its_pixels_are_asked_for(tmp_path, pixels8, turned):
    exif = PillowImage.Exif()
    exif[0x0112] = turned
    PillowImage.fromarray(pixels8).save(tmp_path / "a.png", exif=exif)
    image = read_image(tmp_path / "a.png")
    expected = pixels8 if turned == 1 else np.rot90(pixels8, -1)
    assert (image.height, image.width, image.is_colour) == (*expected.shape[:2], True)
    np.testing.assert_array_equal(image.levels, expected)
    np.testing.assert_array_equal(image.pixels, expected.astype(np.float32) / np.float32(255))
    assert image.levels is None  # not held twice
    assert image.pixels is image.pixels
    assert (image.height, image.width, image.is_colour) == (*expected.shape[:2], True)


@pytest.mark.parametrize("change", [{"exif": None}, {"pixels": np.zeros((2, 3), np.float32)}])
def test_a_picture_that_is_still_integers_can_be_copied_with_changes(tmp_path, pixels8, change):
    write_image(to_image(pixels8), tmp_path / "a.png")
    image = read_image(tmp_path / "a.png")
    copied = replace(image, **change)
    expected = change.get("pixels", from_integers(pixels8))
    np.testing.assert_array_equal(copied.pixels, expected)
    assert (copied.height, copied.width, copied.levels) == (*expected.shape[:2], None)


def to_image(levels: NDArray[np.uint8]) -> Image:
    return Image(from_integers(levels))


def test_16_bit_colour_png_keeps_every_bit(tmp_path, pixels16):
    cv2 = pytest.importorskip("cv2")
    cv2.imwrite(str(tmp_path / "a.png"), pixels16[..., ::-1])
    image = read_image(tmp_path / "a.png")
    assert image.bit_depth == 16
    np.testing.assert_array_equal(as_levels(image), pixels16)


def test_tiled_tiff_and_float_tiff_are_read(tmp_path, pixels16):
    tifffile.imwrite(tmp_path / "tiles.tif", pixels16, photometric="rgb", tile=(16, 16), compression="zlib")
    np.testing.assert_array_equal(as_levels(read_image(tmp_path / "tiles.tif")), pixels16)
    values = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    tifffile.imwrite(tmp_path / "float.tif", values)
    image = read_image(tmp_path / "float.tif")
    assert image.bit_depth == 32
    np.testing.assert_array_equal(image.pixels, values)


@pytest.mark.parametrize(
    ("value", "words"),
    [(np.nan, "row 1, column 2 is nan"), (-np.inf, "row 1, column 2 is -inf")],
)
def test_float_tiff_that_is_not_finite_is_refused(tmp_path, value, words):
    values = np.zeros((3, 4), np.float32)
    values[1, 2] = value
    tifffile.imwrite(tmp_path / "float.tif", values)
    with pytest.raises(InputError, match=words):
        read_image(tmp_path / "float.tif")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_float_tiff_of_any_range_is_read_as_it_is(tmp_path, dtype):
    values = np.array([[-5, 0.25], [3000, 17.5]], dtype)
    tifffile.imwrite(tmp_path / "float.tif", values)
    image = read_image(tmp_path / "float.tif")
    assert image.bit_depth == 32
    np.testing.assert_array_equal(image.pixels, values.astype(np.float32))


def test_values_beyond_32_bits_are_refused(tmp_path):
    tifffile.imwrite(tmp_path / "float.tif", np.array([[0, 1e39]]))
    with pytest.raises(InputError, match=r"run from 0 to 1e\+39, beyond what 32 bits hold"):
        read_image(tmp_path / "float.tif")


def test_an_alpha_beyond_0_to_1_is_refused_and_colours_multiplied_by_alpha_may_be_bright(tmp_path):
    values = np.full((2, 3, 4), 100, np.float32)
    values[..., 3] = 0.5
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="rgb", extrasamples=["assocalpha"])
    image = read_image(tmp_path / "a.tif")
    np.testing.assert_array_equal(image.pixels, np.full((2, 3, 3), 200))
    values[..., 3] = 255
    tifffile.imwrite(tmp_path / "b.tif", values, photometric="rgb", extrasamples=["unassalpha"])
    with pytest.raises(InputError, match="alpha runs from 255 to 255"):
        read_image(tmp_path / "b.tif")


def float_stack(folder, *frames):
    for number, frame in enumerate(frames):
        tifffile.imwrite(folder / f"{number}.tif", np.asarray(frame, np.float32))
    return folder


def test_a_stack_of_float_frames_has_one_range_and_is_read_in_0_to_1(tmp_path):
    reader = open_stack(float_stack(tmp_path, [[-5, 10]], [[0, 3000]]))
    assert (reader.value_range.low, reader.value_range.high) == (-5, 3000)
    np.testing.assert_allclose(reader.read(0).pixels, [[0, 15 / 3005]], rtol=1e-6)
    np.testing.assert_allclose(reader.read(1).pixels, [[5 / 3005, 1]], rtol=1e-6)
    middle = np.full((1, 2), 0.5, np.float32)
    np.testing.assert_allclose(reader.result_image(middle).pixels, [[1497.5, 1497.5]])
    np.testing.assert_array_equal(reader.result_image(middle, own_units=False).pixels, middle)
    np.testing.assert_array_equal(read_stack(tmp_path)[1].pixels, [[0, 3000]])


def test_the_range_of_a_stack_passes_over_a_damaged_frame_and_what_a_mask_hides(tmp_path):
    float_stack(tmp_path, [[0, 10]], [[0, np.nan]])
    hidden = np.array([[[7, 7, 7, 1], [-9999, 0, 0, 0]]], np.float32)
    reader = open_stack(tmp_path)
    assert reader.value_range.high == 10
    with pytest.raises(InputError, match="is nan"):
        reader.read(1)
    masked = tmp_path / "masked"
    masked.mkdir()
    for name in "ab":
        tifffile.imwrite(masked / f"{name}.tif", hidden, photometric="rgb", extrasamples=["unassalpha"])
    assert (open_stack(masked).value_range.low, open_stack(masked).value_range.high) == (7, 7)


def test_integers_are_not_decoded_for_their_range(tmp_path, monkeypatch):
    stack = write_frames(tmp_path, ["a.png", "b.png"])
    reader = open_stack(stack)
    monkeypatch.setattr("allfocus.images.stack_reader.read_image", None)
    assert reader.value_range.is_unit


def test_integers_and_floating_point_of_another_range_are_no_stack(tmp_path):
    float_stack(tmp_path, [[0, 10]])
    tifffile.imwrite(tmp_path / "9.tif", np.zeros((1, 2), np.uint16))
    with pytest.raises(InputError, match=r"run from 0 to 10, but 9\.tif holds integers"):
        open_stack(tmp_path).read(0)


def test_format_is_recognised_by_content_when_the_name_lies(tmp_path, pixels8):
    PillowImage.fromarray(pixels8).save(tmp_path / "really_jpeg.png", "JPEG")
    with PillowImage.open(tmp_path / "really_jpeg.png") as expected:
        np.testing.assert_array_equal(as_levels(read_image(tmp_path / "really_jpeg.png")), np.asarray(expected))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
def test_orientation_is_applied_once(tmp_path, orientation, suffix):
    picture = PillowImage.fromarray(np.random.default_rng(3).integers(0, 256, (8, 16, 3), dtype=np.uint8))
    exif = PillowImage.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "Maker"
    options = {"lossless": True} if suffix == "webp" else {}
    picture.save(tmp_path / f"a.{suffix}", exif=exif, **options)
    with PillowImage.open(tmp_path / f"a.{suffix}") as stored:
        expected = np.asarray(ImageOps.exif_transpose(stored))
    image = read_image(tmp_path / f"a.{suffix}")
    np.testing.assert_array_equal(as_levels(image), expected)
    rewritten = write_image(image, tmp_path / "again.png")
    np.testing.assert_array_equal(as_levels(read_image(rewritten)), expected)
    with PillowImage.open(rewritten) as again:
        assert again.getexif().get(0x0112, 1) == 1
        assert again.getexif()[0x010F] == "Maker"


@pytest.mark.parametrize("mode", ["P", "1", "LA", "RGBA"])
def test_png_modes_become_grey_or_rgb(tmp_path, pixels8, mode):
    picture = PillowImage.fromarray(pixels8).convert(mode)
    picture.save(tmp_path / "a.png")
    image = read_image(tmp_path / "a.png")
    expected = picture.convert("RGB" if mode in ("P", "RGBA") else "L")
    np.testing.assert_array_equal(as_levels(image), np.asarray(expected))
    assert image.notices == (("palette expanded to RGB",) if mode == "P" else ())


def with_a_hole(samples: NDArray[np.generic]) -> NDArray[np.generic]:
    """The samples with alpha: transparent top left, half transparent beside it, opaque elsewhere."""
    largest = np.iinfo(samples.dtype).max
    alpha = np.full((*samples.shape[:2], 1), largest, samples.dtype)
    alpha[0, 0], alpha[0, 1] = 0, largest // 2
    return np.concatenate([samples, alpha], axis=2)


@pytest.mark.parametrize("suffix", ["png", "webp", "tif"])
def test_alpha_becomes_a_mask_and_is_written_again(tmp_path, pixels8, suffix):
    options = {"lossless": True, "exact": True} if suffix == "webp" else {}
    PillowImage.fromarray(with_a_hole(pixels8)).save(tmp_path / f"a.{suffix}", **options)
    image = read_image(tmp_path / f"a.{suffix}")
    np.testing.assert_array_equal(as_levels(image), pixels8)
    assert image.valid is not None
    # The pixel that is half transparent is on the side of those that show nothing.
    assert image.valid.sum() == image.valid.size - 2
    assert not image.valid[0, :2].any()
    for other in ("png", "webp", "tif"):
        again = read_image(write_image(image, tmp_path / f"{suffix}.{other}", quality=100))
        np.testing.assert_array_equal(again.alpha, image.alpha)
        np.testing.assert_array_equal(again.pixels, image.pixels)
    assert read_image(write_image(image, tmp_path / "opaque.jpg")).alpha is None


def test_16_bit_alpha_keeps_every_bit(tmp_path, pixels16):
    samples = with_a_hole(pixels16)
    tifffile.imwrite(tmp_path / "a.tif", samples, photometric="rgb", extrasamples=["unassalpha"])
    for path in (tmp_path / "a.tif", write_image(read_image(tmp_path / "a.tif"), tmp_path / "a.png")):
        image = read_image(path)
        np.testing.assert_array_equal(as_levels(image), pixels16)
        np.testing.assert_array_equal(to_integers(image.alpha, 16), samples[:, :, 3])


def test_colours_multiplied_by_alpha_are_divided_again(tmp_path):
    samples = np.full((3, 4, 4), 200, np.uint8)
    samples[1, 1] = (50, 60, 70, 100)
    samples[2, 2] = 0
    samples[:, :, 3][samples[:, :, 3] == 200] = 255
    tifffile.imwrite(tmp_path / "a.tif", samples, photometric="rgb", extrasamples=["assocalpha"])
    image = read_image(tmp_path / "a.tif")
    np.testing.assert_allclose(image.pixels[1, 1], [0.5, 0.6, 0.7], atol=1e-6)
    np.testing.assert_allclose(image.pixels[0, 0], 200 / 255, atol=1e-6)
    assert not image.valid[2, 2]


def test_an_extra_channel_that_is_no_alpha_is_left_out_with_a_notice(tmp_path, pixels8):
    tifffile.imwrite(tmp_path / "a.tif", with_a_hole(pixels8), photometric="rgb", extrasamples=["unspecified"])
    image = read_image(tmp_path / "a.tif")
    assert image.notices == ("1 extra channel left out",)
    np.testing.assert_array_equal(as_levels(image), pixels8)


def test_cmyk_jpeg_becomes_rgb_with_a_notice(tmp_path, pixels8):
    PillowImage.fromarray(pixels8).convert("CMYK").save(tmp_path / "a.jpg")
    image = read_image(tmp_path / "a.jpg")
    assert image.is_colour
    assert "CMYK" in image.notices[0]


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_cmyk_tiff_becomes_rgb_with_a_notice(tmp_path, kind):
    largest = np.iinfo(kind).max
    samples = np.zeros((2, 3, 4), kind)
    samples[0, 0] = (largest, 0, 0, 0)
    samples[0, 1] = (0, 0, 0, largest)
    tifffile.imwrite(tmp_path / "a.tif", samples, photometric="separated")
    image = read_image(tmp_path / "a.tif")
    assert "CMYK" in image.notices[0]
    np.testing.assert_array_equal(image.pixels[0], [[0, 1, 1], [0, 0, 0], [1, 1, 1]])


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_white_is_zero_tiff_is_inverted(tmp_path, kind):
    grey = np.arange(12, dtype=kind).reshape(3, 4)
    tifffile.imwrite(tmp_path / "a.tif", np.iinfo(kind).max - grey, photometric="miniswhite")
    np.testing.assert_array_equal(as_levels(read_image(tmp_path / "a.tif")), grey)


def test_palette_tiff_is_expanded_with_a_notice(tmp_path):
    palette = np.zeros((3, 256), np.uint16)
    palette[:, 7] = (65535, 1000, 0)
    tifffile.imwrite(tmp_path / "a.tif", np.full((3, 4), 7, np.uint8), photometric="palette", colormap=palette)
    image = read_image(tmp_path / "a.tif")
    assert image.notices == ("palette expanded to RGB",)
    np.testing.assert_array_equal(as_levels(image)[0, 0], [65535, 1000, 0])


@pytest.mark.parametrize("bits", [1, 4, 12])
def test_odd_bit_depths_reach_from_black_to_white(tmp_path, bits):
    levels = np.array([[0, 2**bits - 1]] * 2, bool if bits == 1 else np.uint8 if bits < 8 else np.uint16)
    tifffile.imwrite(tmp_path / "a.tif", levels, bitspersample=bits, photometric="minisblack", compression=None)
    image = read_image(tmp_path / "a.tif")
    np.testing.assert_array_equal(image.pixels[0], [0, 1])
    assert image.bit_depth == (8 if bits < 8 else 16)


@pytest.mark.parametrize(
    ("kind", "words"), [(np.int64, "int64"), (np.uint64, "64 bits"), (np.complex64, "complex")], ids=str
)
def test_types_that_are_no_picture_are_refused(tmp_path, kind, words):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((4, 4), kind), photometric="minisblack")
    with pytest.raises(InputError, match=words):
        read_image(tmp_path / "a.tif")


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.uint32, ">i2"])
def test_integers_with_a_unit_of_their_own_are_read_as_they_are(tmp_path, kind):
    values = np.array([[-100, 0, 7], [100, 99, 1]]) + (0 if np.dtype(kind).kind == "i" else 100)
    tifffile.imwrite(tmp_path / "a.tif", values.astype(kind), photometric="minisblack")
    image = read_image(tmp_path / "a.tif")
    np.testing.assert_array_equal(image.pixels, values)
    assert image.bit_depth == 32


@pytest.mark.parametrize(("tag", "value"), [("StripByteCounts", 0), ("StripOffsets", 10**6)])
def test_a_tiff_whose_pixels_are_not_in_the_file_is_refused_not_filled_with_black(tmp_path, pixels8, tag, value):
    tifffile.imwrite(tmp_path / "a.tif", pixels8, photometric="rgb", compression="zlib")
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+") as tiff:
        tiff.pages[0].tags[tag].overwrite(value)
    with pytest.raises(InputError, match="ends too early"):
        read_image(tmp_path / "a.tif")


def test_ycbcr_tiff_that_no_decoder_converts_is_refused(tmp_path, pixels8):
    tifffile.imwrite(tmp_path / "a.tif", pixels8, photometric="ycbcr", subsampling=(1, 1), metadata=None)
    with pytest.raises(InputError, match="YCbCr"):
        read_image(tmp_path / "a.tif")


@pytest.mark.parametrize("compression", ["lerc", "png", "jpeg2000"])
def test_compressions_whose_size_cannot_be_limited_are_refused_with_a_cure(tmp_path, pixels8, compression):
    tifffile.imwrite(tmp_path / "a.tif", pixels8, photometric="rgb", compression=compression)
    with pytest.raises(InputError, match="cannot be read; save it with one of: JPEG, LZW"):
        read_image(tmp_path / "a.tif")


def test_a_jpeg_inside_a_tiff_that_is_larger_than_its_tile_is_refused(tmp_path, pixels8):
    tifffile.imwrite(tmp_path / "a.tif", pixels8, photometric="rgb", compression="jpeg")
    data = (tmp_path / "a.tif").read_bytes()
    start = data.index(b"\xff\xc0")
    (tmp_path / "a.tif").write_bytes(data[: start + 5] + struct.pack(">HH", 65500, 65500) + data[start + 9 :])
    with pytest.raises(InputError, match="65500"):
        read_image(tmp_path / "a.tif")


def test_big_tiff_is_read_with_its_exif(tmp_path, pixels16):
    tifffile.imwrite(tmp_path / "a.tif", pixels16, photometric="rgb", bigtiff=True, software="a microscope")
    image = read_image(tmp_path / "a.tif")
    np.testing.assert_array_equal(as_levels(image), pixels16)
    assert (0x0131, b"a microscope\x00") in [(entry[0], entry[3]) for entry in parse_block(image.exif).entries]


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "bmp"])
def test_resolution_is_carried_from_file_to_file(tmp_path, pixels8, suffix):
    PillowImage.fromarray(pixels8).save(tmp_path / f"a.{suffix}", dpi=(300, 300))
    image = read_image(tmp_path / f"a.{suffix}")
    assert image.resolution == pytest.approx((300, 300), abs=0.02)
    for other in ("png", "jpg", "tif"):
        with PillowImage.open(write_image(image, tmp_path / f"{suffix}.{other}")) as again:
            assert tuple(map(float, again.info["dpi"])) == pytest.approx((300, 300), abs=0.02)


def test_colour_profile_is_read_from_every_format_that_has_one(tmp_path, pixels8):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for suffix in ("png", "jpg", "tif", "webp"):
        PillowImage.fromarray(pixels8).save(tmp_path / f"a.{suffix}", icc_profile=profile)
        assert read_image(tmp_path / f"a.{suffix}").icc_profile == profile


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "webp", "bmp", "deflate.tif", "jpeg.tif"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.98])
def test_a_truncated_file_is_refused(tmp_path, pixels8, suffix, share):
    path = tmp_path / f"a.{suffix}"
    compression = {"deflate.tif": "tiff_adobe_deflate", "jpeg.tif": "jpeg"}.get(suffix)
    PillowImage.fromarray(pixels8).save(path, **({"compression": compression} if compression else {}))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(InputError, match=r"a\.") as caught:
        read_image(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.6, 0.99])
def test_a_tiff_whose_jpeg_data_is_cut_off_is_refused_not_filled_with_grey(tmp_path, pixels8, share):
    tifffile.imwrite(tmp_path / "a.tif", pixels8, photometric="rgb", compression="jpeg")  # its directory comes first
    data = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(data[: int(len(data) * share)])
    with pytest.raises(InputError, match="ends too early"):
        read_image(tmp_path / "a.tif")


def test_a_damaged_png_is_refused_by_its_checksum(tmp_path, pixels8):
    PillowImage.fromarray(pixels8).save(tmp_path / "a.png")
    data = bytearray((tmp_path / "a.png").read_bytes())
    data[len(data) // 2] ^= 255
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(InputError, match="checksum"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "empty"), (b"just words, no picture", "not a picture"), (b"BM", "damaged"), (b"II*\x00", "damaged")],
)
def test_what_is_no_picture_is_refused_with_its_name(tmp_path, content, words):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_image(tmp_path / "a.png")
    assert "a.png" in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.png: no such file"):
        read_image(tmp_path / "nothing.png")
    with pytest.raises(InputError, match="cannot be read"):
        read_image(tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file_is_refused(tmp_path, pixels8):
    PillowImage.fromarray(pixels8).save(tmp_path / "a.png")
    (tmp_path / "a.png").chmod(0)
    with pytest.raises(InputError, match="cannot be read"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "webp", "bmp"])
def test_more_pixels_than_the_limit_are_refused_before_decoding(tmp_path, pixels8, suffix):
    PillowImage.fromarray(pixels8).save(tmp_path / f"a.{suffix}")
    with pytest.raises(InputError, match=r"32x24.*limit of 700 pixels"):
        read_image(tmp_path / f"a.{suffix}", max_pixels=700)
    assert read_image(tmp_path / f"a.{suffix}", max_pixels=768).width == 32


def test_a_header_with_absurd_size_is_refused_without_making_room_for_it(tmp_path):
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 8, 2, 0, 0, 0))
    (tmp_path / "bomb.png").write_bytes(
        b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    )
    with pytest.raises(InputError, match="2147483647x2147483647"):
        read_image(tmp_path / "bomb.png")


def test_pictures_larger_than_pillows_own_limit_are_read(tmp_path, pixels8, monkeypatch):
    PillowImage.fromarray(pixels8).save(tmp_path / "a.jpg")
    monkeypatch.setattr(PillowImage, "MAX_IMAGE_PIXELS", 10)
    assert read_image(tmp_path / "a.jpg").width == 32


def test_pillow_set_to_fill_up_truncated_files_is_refused(tmp_path, pixels8, monkeypatch):
    PillowImage.fromarray(pixels8).save(tmp_path / "a.jpg")
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(InputError, match="LOAD_TRUNCATED_IMAGES"):
        read_image(tmp_path / "a.jpg")


def test_a_colour_profile_that_explodes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("allfocus.images.png_decoder.LARGEST_PROFILE", 1000)
    data = encode_png(np.zeros((4, 4), np.uint8), Image(np.zeros((4, 4), np.float32), icc_profile=bytes(5000)), 95)
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(InputError, match="profile"):
        read_image(tmp_path / "a.png")


# --- stacks ---------------------------------------------------------------------------------------------------------


def write_frames(folder: Path, names: list[str], size: tuple[int, int] = (6, 8)) -> list[Path]:
    return [write_image(np.full((*size, 3), 0.5, np.float32), folder / name) for name in names]


def test_a_folder_is_read_in_natural_order_and_ignores_other_files(tmp_path):
    write_frames(tmp_path, ["img10.png", "img9.png", "IMG8.tif"])
    (tmp_path / "notes.txt").write_text("sharp at f/2.8")
    (tmp_path / ".hidden.png").write_bytes(b"")
    assert read_stack(tmp_path).names == ["IMG8.tif", "img9.png", "img10.png"]


def test_files_keep_the_order_they_are_named_in(tmp_path):
    first, second = write_frames(tmp_path, ["b.png", "a.png"])
    assert read_stack([first, second]).names == ["b.png", "a.png"]


def test_a_multi_page_tiff_is_a_stack(tmp_path):
    pages = np.random.default_rng(4).integers(0, 65536, (3, 6, 8), dtype=np.uint16)
    tifffile.imwrite(tmp_path / "stack.tif", pages, photometric="minisblack")
    stack = read_stack(tmp_path / "stack.tif")
    assert stack.names == ["stack.tif page 1", "stack.tif page 2", "stack.tif page 3"]
    assert stack.bit_depth == 16
    for image, page in zip(stack, pages, strict=True):
        np.testing.assert_array_equal(as_levels(image), page)


def test_thumbnails_in_a_tiff_are_no_frames(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as tiff:
        tiff.write(np.zeros((16, 16), np.uint8), photometric="minisblack")
        tiff.write(np.zeros((4, 4), np.uint8), photometric="minisblack", subfiletype=1)
    assert [frame.page for frame in list_frames(tmp_path / "a.tif")] == [0]


def test_an_ome_z_stack_is_read_plane_by_plane(tmp_path):
    planes = np.random.default_rng(4).integers(0, 65536, (3, 6, 8), dtype=np.uint16)
    tifffile.imwrite(tmp_path / "a.ome.tif", planes, metadata={"axes": "ZYX"})
    stack = open_stack(tmp_path / "a.ome.tif")
    assert (stack.count, stack.size, stack.channels, stack.bit_depth) == (3, (6, 8), 1, 16)
    for index in (2, 0, 1):
        np.testing.assert_array_equal(as_levels(stack.read(index)), planes[index])


def test_the_description_of_planes_is_not_carried_to_the_result(tmp_path):
    for name, options in (("a.ome.tif", {}), ("b.tif", {"imagej": True})):
        tifffile.imwrite(tmp_path / name, np.zeros((3, 6, 8), np.uint16), metadata={"axes": "ZYX"}, **options)
        tags = parse_block(read_image(tmp_path / name).exif or b"").entries
        assert not [entry for entry in tags if entry[0] == 0x010E]


@pytest.mark.parametrize(("axes", "words"), [("CZYX", "2 channels.*Split"), ("TZYX", "2 points in time")])
@pytest.mark.parametrize("imagej", [False, True])
def test_channels_and_times_of_microscope_files_are_refused_with_a_cure(tmp_path, axes, words, imagej):
    name = "a.tif" if imagej else "a.ome.tif"
    planes = np.zeros((2, 3, 6, 8), np.uint16)
    if imagej and axes == "CZYX":
        planes, axes = planes.swapaxes(0, 1), "ZCYX"
    tifffile.imwrite(tmp_path / name, planes, metadata={"axes": axes}, imagej=imagej)
    with pytest.raises(InputError, match=words):
        open_stack(tmp_path / name)


def test_an_ome_file_that_points_to_others_is_refused(tmp_path):
    tifffile.imwrite(tmp_path / "a.ome.tif", np.zeros((3, 6, 8), np.uint8), metadata={"axes": "ZYX"})
    data = (tmp_path / "a.ome.tif").read_bytes().replace(b'SizeZ="3"', b'SizeZ="9"')
    (tmp_path / "a.ome.tif").write_bytes(data)
    with pytest.raises(InputError, match="9 planes but the file holds 3"):
        open_stack(tmp_path / "a.ome.tif")


def test_a_pattern_is_a_stack_in_natural_order(tmp_path):
    write_frames(tmp_path, ["img10.png", "img9.png", "other1.png"])
    assert open_stack(str(tmp_path / "img*.png")).names == ["img9.png", "img10.png"]
    with pytest.raises(InputError, match="no file matches"):
        open_stack(str(tmp_path / "IMAGE?.jpg"))


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(tmp_path):
    paths = write_frames(tmp_path, ["a[1].png", "a[2].png"])
    assert open_stack(paths).names == ["a[1].png", "a[2].png"]


def test_frames_are_decoded_one_at_a_time_and_the_last_is_kept(tmp_path, monkeypatch):
    paths = write_frames(tmp_path, ["a.png", "b.png", "c.png"])
    decoded: list[str] = []
    original = reading.decode_picture

    def counting(file, path, **options):
        decoded.append(path.name)
        return original(file, path, **options)

    monkeypatch.setattr(reading, "decode_picture", counting)
    stack = open_stack(paths)
    assert decoded == []
    assert stack.read(1) is stack.read(1)
    assert [image.name for image in stack] == ["a.png", "b.png", "c.png"]
    assert decoded == ["b.png", "a.png", "b.png", "c.png"]


def test_a_frame_that_does_not_fit_is_found_before_any_is_decoded(tmp_path, monkeypatch):
    paths = write_frames(tmp_path, ["a.png"]) + write_frames(tmp_path, ["b.png"], size=(6, 9))
    monkeypatch.setattr(reading, "decode_picture", None)
    with pytest.raises(InputError, match="differ in size"):
        open_stack(paths)
    with pytest.raises(InputError, match="limit of 10 pixels"):
        open_stack(paths, max_pixels=10)


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
def test_the_size_of_a_stack_is_that_of_the_upright_frames(tmp_path, suffix):
    exif = PillowImage.Exif()
    exif[0x0112] = 6
    for name in ("a", "b"):
        PillowImage.new("RGB", (16, 8)).save(tmp_path / f"{name}.{suffix}", exif=exif)
    stack = open_stack(tmp_path)
    assert stack.size == stack.read(0).pixels.shape[:2] == (16, 8)


def test_bad_frames_can_be_left_out_and_are_reported(tmp_path):
    write_frames(tmp_path, ["a.png", "c.png"])
    write_frames(tmp_path, ["b.png"], size=(6, 9))
    (tmp_path / "d.png").write_bytes(b"no picture")
    bad: list[str] = []
    stack = open_stack(tmp_path, on_bad_frame=lambda name, error: bad.append(f"{name}: {error}"))
    assert stack.names == ["a.png", "c.png"]
    assert bad[0].startswith("b.png: frames differ in size")
    assert bad[1].startswith("d.png: ")
    assert len(bad) == 2


def test_a_file_changed_since_its_header_was_read_is_refused(tmp_path):
    paths = write_frames(tmp_path, ["a.png", "b.png"])
    stack = open_stack(paths)
    write_image(np.zeros((9, 9, 3), np.float32), paths[1], overwrite=True)
    with pytest.raises(InputError, match=r"b\.png.*8x6.*9x9.*changed"):
        stack.read(1)


def test_a_frame_that_is_named_twice_is_told(tmp_path):
    paths = write_frames(tmp_path, ["a.png", "b.png"])
    assert open_stack(paths).notices == ()
    assert open_stack([*paths, paths[0]]).notices == ("a.png is given more than once, and counts as a frame each time",)


def test_the_result_has_the_metadata_of_the_first_frame_and_the_largest_depth(tmp_path):
    first = Image(np.zeros((4, 6), np.float32), icc_profile=b"profile of the first", resolution=(300, 300))
    write_image(first, tmp_path / "a.tif")
    write_image(Image(np.zeros((4, 6), np.float32), bit_depth=16), tmp_path / "b.tif")
    stack = open_stack(tmp_path)
    result = stack.result_image(np.ones((3, 3), np.float32))
    assert (result.bit_depth, result.icc_profile, result.resolution) == (16, b"profile of the first", (300, 300))
    assert result.path is None


LAB = srgb_profile()[:16] + b"Lab " + srgb_profile()[20:]


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.jpg"])
@pytest.mark.parametrize(
    ("shape", "profile", "told"),
    [
        ((4, 6, 3), LAB, "for Lab, its pixels are RGB"),
        ((4, 6, 3), make_profile("grey", 2.2, None), "for grey, its pixels are RGB"),
        ((4, 6), srgb_profile(), "for RGB, its pixels are grey"),
        ((4, 6, 3), srgb_profile(), ""),
        ((4, 6), make_profile("grey", 2.2, None), ""),
    ],
)
def test_a_profile_for_other_values_is_left_out_with_a_word(tmp_path, name, shape, profile, told):
    write_image(Image(np.zeros(shape, np.float32), icc_profile=profile), tmp_path / name)
    image = read_image(tmp_path / name)
    assert (image.icc_profile is None) == bool(told)
    assert told in "".join(image.notices)
    assert bool(image.notices) == bool(told)


# --- formats that need another package ------------------------------------------------------------------------------


sample_files = load_script("benchmarks/sample_files.py")


def write_dng(path: Path) -> None:
    """A small raw photo as tifffile can make it: a grey ramp below a Bayer filter."""
    ramp = np.tile(np.linspace(1000, 60000, 64, dtype=np.uint16), (48, 1))
    path.write_bytes(sample_files.raw_file(ramp))


def test_raw_without_its_package_names_the_extra(tmp_path, monkeypatch):
    write_dng(tmp_path / "a.tif")  # recognised by content, whatever the name
    monkeypatch.setitem(sys.modules, "rawpy", None)
    with pytest.raises(MissingDependencyError, match=r"a\.tif: .*pip install 'allfocus\[raw\]'"):
        read_image(tmp_path / "a.tif")


def test_raw_is_developed_to_16_bits(tmp_path):
    pytest.importorskip("rawpy", reason="rawpy is not installed (pip install 'allfocus[raw]')")
    for name in ("a.dng", "b.dng"):
        write_dng(tmp_path / name)
    stack = open_stack(tmp_path)
    assert (stack.size, stack.channels, stack.bit_depth) == ((48, 64), 3, 16)
    image = stack.read(0)
    assert image.icc_profile
    assert (np.diff(image.pixels[24, 4:-4, 1]) > 0).all()


@pytest.mark.parametrize("share", [0.2, 0.6, 0.98])
def test_a_truncated_raw_file_is_refused_not_filled_with_black(tmp_path, share, capfd):
    pytest.importorskip("rawpy", reason="rawpy is not installed (pip install 'allfocus[raw]')")
    write_dng(tmp_path / "a.dng")
    data = (tmp_path / "a.dng").read_bytes()
    (tmp_path / "a.dng").write_bytes(data[: int(len(data) * share)])
    with pytest.raises(InputError, match="too early"):
        read_image(tmp_path / "a.dng")
    assert capfd.readouterr().err == ""


HEIF_HEAD = b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic"


def test_heif_without_its_package_names_it(tmp_path, monkeypatch):
    (tmp_path / "a.heic").write_bytes(HEIF_HEAD)
    for name in ("pillow_heif", "pi_heif"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=r"a\.heic: .*pip install 'allfocus\[heif\]'"):
        read_image(tmp_path / "a.heic")


def test_heif_keeps_10_bits(tmp_path):
    pillow_heif = pytest.importorskip("pillow_heif", reason="pillow-heif is not installed")
    levels = np.random.default_rng(7).integers(0, 1024, (64, 64, 3)).astype(np.uint16) * 64
    encoded = pillow_heif.from_bytes("RGB;16", (64, 64), levels.tobytes())
    encoded.save(tmp_path / "a.heic", quality=-1, chroma=444, matrix_coefficients=0)
    image = read_image(tmp_path / "a.heic")
    assert image.bit_depth == 16
    np.testing.assert_allclose(image.pixels, levels / 65535, atol=2 / 1023)


# --- what is refused ------------------------------------------------------------------------------------------------


def test_different_sizes_are_refused_naming_both_files_and_sizes(tmp_path):
    paths = write_frames(tmp_path, ["a.png"]) + write_frames(tmp_path, ["b.png"], size=(6, 9))
    with pytest.raises(InputError, match=r"a\.png is 8x6, b\.png is 9x6"):
        read_stack(paths)


def test_grey_and_colour_together_are_refused_naming_both(tmp_path):
    paths = write_frames(tmp_path, ["a.png"])
    paths.append(write_image(np.zeros((6, 8), np.float32), tmp_path / "b.png"))
    with pytest.raises(InputError, match=r"a\.png is colour, b\.png is grey"):
        read_stack(paths)


def test_no_frame_and_one_frame_are_refused(tmp_path):
    with pytest.raises(InputError, match="no frames"):
        read_stack([])
    with pytest.raises(InputError, match="no pictures in this folder"):
        read_stack(tmp_path)
    with pytest.raises(InputError, match=r"only one frame \(a\.png\)"):
        read_stack(write_frames(tmp_path, ["a.png"]))


def test_progress_counts_the_frames(tmp_path):
    seen: list[tuple[int, int]] = []
    read_stack(write_frames(tmp_path, ["a.png", "b.png"]), progress=lambda done, count: seen.append((done, count)))
    assert seen == [(1, 2), (2, 2)]


def test_natural_order_counts_as_people_do():
    names = ["z1.png", "a100.png", "A20.png", "a3.png", "a03.png"]
    assert sorted(names, key=natural_order) == ["a03.png", "a3.png", "A20.png", "a100.png", "z1.png"]


def test_images_and_stacks_refuse_what_is_no_picture():
    with pytest.raises(InputError, match="float64"):
        Image(np.zeros((4, 4)))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"\(4, 4, 2\)"):
        Image(np.zeros((4, 4, 2), np.float32))
    with pytest.raises(InputError, match="bit_depth"):
        Image(np.zeros((4, 4), np.float32), bit_depth=12)
    with pytest.raises(InputError, match="only one frame"):
        ImageStack([Image(np.zeros((4, 4), np.float32))])


def test_every_real_stack_can_be_read(shared_data):
    folders = sorted(path for path in (shared_data / "stacks").iterdir() if path.is_dir())
    assert folders
    for folder in folders:
        frames = list_frames(folder)
        image = read_image(frames[0].path, page=frames[0].page)
        assert 0 <= image.pixels.min() < image.pixels.max() <= 1


def test_bytes_that_pillow_writes_without_a_file_name_are_read_too(tmp_path, pixels8):
    buffer = io.BytesIO()
    PillowImage.fromarray(pixels8).save(buffer, "PNG")
    (tmp_path / "no_ending").write_bytes(buffer.getvalue())
    np.testing.assert_array_equal(as_levels(read_image(tmp_path / "no_ending")), pixels8)


# What the stack says of its frames


def write_named(folder, names):
    for name in names:
        write_image(Image(np.zeros((4, 6), np.float32), resolution=(ord(name), ord(name))), folder / f"{name}.png")
    return open_stack([folder / f"{name}.png" for name in names])


def test_a_result_has_the_metadata_of_the_frame_asked_for(tmp_path):
    reader = write_named(tmp_path, "abc")
    result = reader.result_image(np.zeros((2, 3), np.float32), frame=1)
    assert round(result.resolution[0]) == ord("b")
    assert result.pixels.shape == (2, 3)
    reader.read(2)
    assert round(reader.describe(0).resolution[0]) == ord("a")
    assert reader.describe(0).path == tmp_path / "a.png"


def test_a_stack_of_which_one_frame_is_left_names_it_and_the_others(tmp_path):
    for name in "abcd":
        (tmp_path / f"{name}.png").write_text("no picture")
    write_image(np.zeros((4, 6), np.float32), tmp_path / "b.png", overwrite=True)
    heard = []
    with pytest.raises(InputError, match=r"of 4 frames only b\.png can be used.*a\.png: .*c\.png: .*; and 1 more"):
        open_stack(tmp_path, on_bad_frame=lambda name, error: heard.append(name))
    assert heard == ["a.png", "c.png", "d.png"]
    (tmp_path / "b.png").write_text("no picture")
    with pytest.raises(InputError, match="of 4 frames none can be used"):
        open_stack(tmp_path, on_bad_frame=lambda name, error: None)
