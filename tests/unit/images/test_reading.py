import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageCms, ImageOps

from allfocus.errors import InputError
from allfocus.images.image import Image, ImageStack
from allfocus.images.reading import list_frames, natural_order, read_image, read_stack
from allfocus.images.writing import encode_png, write_image


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


@pytest.mark.parametrize("compression", [None, "zlib", "lzw"])
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


@pytest.mark.parametrize(("value", "words"), [(np.nan, "nan"), (600.0, "0 to 600")])
def test_float_tiff_outside_the_range_is_refused(tmp_path, value, words):
    values = np.zeros((3, 4), np.float32)
    values[1, 1] = value
    tifffile.imwrite(tmp_path / "float.tif", values)
    with pytest.raises(InputError, match=words):
        read_image(tmp_path / "float.tif")


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


def test_alpha_that_hides_something_gives_a_notice(tmp_path, pixels8):
    alpha = np.full((24, 32, 1), 255, np.uint8)
    alpha[0, 0] = 0
    PillowImage.fromarray(np.concatenate([pixels8, alpha], axis=2)).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").notices == ("alpha channel left out",)


def test_cmyk_jpeg_becomes_rgb_with_a_notice(tmp_path, pixels8):
    PillowImage.fromarray(pixels8).convert("CMYK").save(tmp_path / "a.jpg")
    image = read_image(tmp_path / "a.jpg")
    assert image.is_colour
    assert "CMYK" in image.notices[0]


def test_white_is_zero_tiff_is_inverted(tmp_path):
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    tifffile.imwrite(tmp_path / "a.tif", 255 - grey, photometric="miniswhite")
    np.testing.assert_array_equal(as_levels(read_image(tmp_path / "a.tif")), grey)


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
    monkeypatch.setattr("allfocus.images.decoders.LARGEST_PROFILE", 1000)
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
