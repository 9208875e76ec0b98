import errno
import json
import os
import shutil
import struct
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image as PillowImage
from PIL import ImageCms, JpegImagePlugin

from allfocus.errors import OutputError
from allfocus.files.placing import replace_file
from allfocus.images.encoders import encode_tiff
from allfocus.images.exif import add_history, parse_block
from allfocus.images.image import Image
from allfocus.images.reading import read_image
from allfocus.images.tiff_layout import EXIF_DIRECTORY, GPS_DIRECTORY
from allfocus.images.writing import check_output, to_integers, write_image


@pytest.fixture
def pixels():
    return np.random.default_rng(5).random((12, 16, 3), dtype=np.float32)


@pytest.fixture
def profile():
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


@pytest.fixture
def exif():
    block = PillowImage.Exif()
    block[0x010F] = "A maker of cameras"
    block[0x011A] = block[0x011B] = 300.0
    block[0x0128] = 2
    block.get_ifd(EXIF_DIRECTORY)[0x829A] = 0.01  # exposure time
    block.get_ifd(EXIF_DIRECTORY)[0x9003] = "2024:05:06 07:08:09"
    block.get_ifd(GPS_DIRECTORY)[1] = "N"
    return block.tobytes().removeprefix(b"Exif\x00\x00")


@pytest.mark.parametrize(("suffix", "kind"), [("png", "PNG"), ("tif", "TIFF"), ("jpg", "JPEG"), ("webp", "WEBP")])
def test_the_ending_gives_the_format(tmp_path, pixels, suffix, kind):
    with PillowImage.open(write_image(pixels, tmp_path / f"a.{suffix}")) as picture:
        assert picture.format == kind
        assert picture.size == (16, 12)


def test_values_are_rounded_and_clipped_not_cut():
    values = np.array([[-0.1, 0.49999 / 255, 0.50001 / 255, 254.6 / 255, 1.7]], np.float32)
    np.testing.assert_array_equal(to_integers(values, 8), [[0, 0, 1, 255, 255]])


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_16_bits_are_written_as_16_bits(tmp_path, pixels, suffix):
    path = write_image(Image(pixels, bit_depth=16), tmp_path / f"a.{suffix}")
    image = read_image(path)
    assert image.bit_depth == 16
    np.testing.assert_allclose(image.pixels, pixels, atol=0.5001 / 65535)


def test_16_bit_tiff_is_seen_as_16_bit_by_another_reader(tmp_path, pixels):
    cv2 = pytest.importorskip("cv2")
    for name in ("a.tif", "a.png"):
        write_image(Image(pixels, bit_depth=16), tmp_path / name)
        read = cv2.imread(str(tmp_path / name), cv2.IMREAD_UNCHANGED)
        np.testing.assert_array_equal(read[..., ::-1], to_integers(pixels, 16))


def test_integer_arrays_keep_their_depth(tmp_path):
    levels = np.arange(48, dtype=np.uint16).reshape(4, 4, 3) * 1000
    image = read_image(write_image(levels, tmp_path / "a.png"))
    assert image.bit_depth == 16
    np.testing.assert_array_equal(to_integers(image.pixels, 16), levels)


def test_float_tiff_is_exact(tmp_path, pixels):
    path = write_image(Image(pixels, bit_depth=32), tmp_path / "a.tif")
    np.testing.assert_array_equal(read_image(path).pixels, pixels)


def test_float_tiff_holds_any_range_and_integers_refuse_it(tmp_path, pixels):
    values = pixels * np.float32(3000) - np.float32(5)
    path = write_image(Image(values, bit_depth=32), tmp_path / "a.tif")
    np.testing.assert_array_equal(read_image(path).pixels, values)
    again = write_image(values, tmp_path / "b.tif", bit_depth=32)
    np.testing.assert_array_equal(read_image(again).pixels, values)
    for name, bits in (("a.png", None), ("a.jpg", None), ("c.tif", 16)):
        with pytest.raises(OutputError, match=r"values run from -4\.\d+ to 29\d\d.*\d+ bits holds 0\.\.1; scale them"):
            write_image(Image(values, bit_depth=32), tmp_path / name, bit_depth=bits)
        assert not (tmp_path / name).exists()


def test_a_depth_the_format_cannot_hold_is_refused_when_asked_for(tmp_path, pixels):
    with pytest.raises(OutputError, match=r"JPEG has 8 bits per channel, not 16; choose \.png or \.tif"):
        write_image(pixels, tmp_path / "a.jpg", bit_depth=16)
    assert read_image(write_image(Image(pixels, bit_depth=16), tmp_path / "a.jpg")).bit_depth == 8


@pytest.mark.parametrize("suffix", ["png", "tif", "jpg", "webp"])
def test_colour_profile_and_exif_are_seen_by_another_reader(tmp_path, pixels, profile, exif, suffix):
    path = write_image(Image(pixels, icc_profile=profile, exif=exif), tmp_path / f"a.{suffix}")
    with PillowImage.open(path) as picture:
        picture.load()
        assert picture.info["icc_profile"] == profile
        found = picture.getexif()
        assert found[0x010F] == "A maker of cameras"
        assert float(found[0x011A]) == 300
        assert found.get_ifd(EXIF_DIRECTORY)[0x9003] == "2024:05:06 07:08:09"
        assert float(found.get_ifd(EXIF_DIRECTORY)[0x829A]) == pytest.approx(0.01)
        assert found.get_ifd(GPS_DIRECTORY)[1] == "N"


@pytest.mark.parametrize("first", ["png", "tif", "jpg", "webp"])
@pytest.mark.parametrize("second", ["png", "tif", "jpg", "webp"])
def test_metadata_survives_from_any_format_to_any_other(tmp_path, pixels, profile, exif, first, second):
    one = write_image(Image(pixels, icc_profile=profile, exif=exif), tmp_path / f"one.{first}")
    two = read_image(write_image(read_image(one), tmp_path / f"two.{second}"))
    assert two.icc_profile == profile
    before, after = parse_block(exif), parse_block(two.exif)
    described = {0x010F, 0x011A, 0x011B, 0x0128}
    assert {e for e in after.entries if e[0] in described} == {e for e in before.entries if e[0] in described}
    assert after.children == before.children


def test_big_endian_exif_survives_in_a_tiff(tmp_path, pixels):
    block = PillowImage.Exif()
    block.endian = ">"
    block[0x010F] = "A maker of cameras"
    block.get_ifd(EXIF_DIRECTORY)[0x9003] = "2024:05:06 07:08:09"
    exif = block.tobytes().removeprefix(b"Exif\x00\x00")
    assert exif.startswith(b"MM")
    path = write_image(Image(pixels, bit_depth=16, exif=exif), tmp_path / "a.tif")
    with PillowImage.open(path) as picture:
        assert picture.getexif()[0x010F] == "A maker of cameras"
        assert picture.getexif().get_ifd(EXIF_DIRECTORY)[0x9003] == "2024:05:06 07:08:09"
    np.testing.assert_array_equal(tifffile.imread(path), to_integers(pixels, 16))


@pytest.mark.parametrize("suffix", ["png", "tif", "jpg", "webp"])
@pytest.mark.parametrize("with_exif", [False, True])
def test_history_and_software_are_added_and_the_rest_is_kept(tmp_path, pixels, exif, suffix, with_exif):
    picture = Image(pixels, exif=exif if with_exif else None)
    path = write_image(picture, tmp_path / f"a.{suffix}", history="fused by allfocus 1 from 3 frames")
    with PillowImage.open(path) as written:
        found = written.getexif()
        assert found[0x0131] == "allfocus"
        inner = found.get_ifd(EXIF_DIRECTORY)
        assert inner[0x9213] == "fused by allfocus 1 from 3 frames"
        if with_exif:
            assert found[0x010F] == "A maker of cameras"
            assert inner[0x9003] == "2024:05:06 07:08:09"
            assert found.get_ifd(GPS_DIRECTORY)[1] == "N"


def test_history_grows_and_remembers_the_software_before(tmp_path, pixels):
    block = PillowImage.Exif()
    block[0x0131] = "Camera 2.1"
    picture = Image(pixels, exif=block.tobytes().removeprefix(b"Exif\x00\x00"))
    once = read_image(write_image(picture, tmp_path / "a.tif", history="fused once", software="allfocus 1"))
    write_image(once, tmp_path / "b.tif", history="fused twice")
    with PillowImage.open(tmp_path / "b.tif") as written:
        words = written.getexif().get_ifd(EXIF_DIRECTORY)[0x9213]
    assert words == "Camera 2.1; fused once; allfocus 1; fused twice"


def test_history_leaves_maker_notes_where_they_point():
    block = PillowImage.Exif()
    block.get_ifd(EXIF_DIRECTORY)[0x927C] = bytes(range(200))
    block.get_ifd(EXIF_DIRECTORY)[0xA002] = 4000
    before = block.tobytes().removeprefix(b"Exif\x00\x00")
    after = add_history(before, software="allfocus", history="fused", width=16, height=12)
    position = before.find(bytes(range(200)))
    assert after.find(bytes(range(200))) == position > 0
    assert after.count(struct.pack(">HHII", 0x927C, 1, 200, position)) == 2  # the directory that was and the new one
    assert after.count(bytes(range(200))) == 1
    inner = {entry[0]: entry for entry in parse_block(after).children[EXIF_DIRECTORY].entries}
    assert inner[0x927C][3] == bytes(range(200))
    assert inner[0xA002][3] == struct.pack(">I", 16)  # the size was that of another picture
    assert 0xA003 not in inner


def test_big_tiff_takes_exif_and_profile_too(tmp_path, pixels, profile, exif):
    picture = Image(pixels, bit_depth=16, icc_profile=profile, exif=exif)
    (tmp_path / "a.tif").write_bytes(encode_tiff(to_integers(pixels, 16), picture, big=True))
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        assert tiff.is_bigtiff
        assert tiff.pages[0].tags["Make"].value == "A maker of cameras"
        assert tiff.pages[0].tags["ExifTag"].value["DateTimeOriginal"] == "2024:05:06 07:08:09"
        np.testing.assert_array_equal(tiff.asarray(), to_integers(pixels, 16))
    image = read_image(tmp_path / "a.tif")
    assert image.icc_profile == profile
    assert parse_block(image.exif).children == parse_block(exif).children


def test_more_pixels_than_classic_tiff_can_hold_make_a_big_tiff(tmp_path, pixels, monkeypatch):
    monkeypatch.setattr("allfocus.images.encoders.LARGEST_CLASSIC_TIFF", pixels.size - 1)
    with tifffile.TiffFile(write_image(pixels, tmp_path / "a.tif")) as tiff:
        assert tiff.is_bigtiff


@pytest.mark.parametrize(
    ("compression", "found"), [(None, "ADOBE_DEFLATE"), ("none", "NONE"), ("deflate", "ADOBE_DEFLATE"), ("lzw", "LZW")]
)
@pytest.mark.parametrize("depth", [8, 16, 32])
def test_tiff_compression_can_be_chosen_and_loses_nothing(tmp_path, pixels, compression, found, depth):
    path = write_image(pixels, tmp_path / "a.tif", compression=compression, bit_depth=depth)
    with tifffile.TiffFile(path) as tiff:
        assert tiff.pages[0].compression.name == found
        np.testing.assert_array_equal(tiff.asarray(), to_integers(pixels, depth))


def test_png_compression_can_be_chosen_and_loses_nothing(tmp_path):
    levels = np.tile(np.arange(256, dtype=np.uint8), (64, 1))
    sizes = [write_image(levels, tmp_path / f"{n}.png", compression=n).stat().st_size for n in (0, 9)]
    assert sizes[1] < sizes[0] / 4
    for number in (0, 9):
        np.testing.assert_array_equal(to_integers(read_image(tmp_path / f"{number}.png").pixels, 8), levels)


@pytest.mark.parametrize(("name", "compression"), [("a.png", "lzw"), ("a.png", 10), ("a.tif", 4), ("a.jpg", "none")])
def test_a_compression_that_the_format_lacks_is_refused(tmp_path, pixels, name, compression):
    with pytest.raises(OutputError, match=f"cannot be written with compression {compression}; it knows"):
        write_image(pixels, tmp_path / name, compression=compression)


@pytest.mark.parametrize("quality", [75, 95])
def test_jpeg_keeps_full_colour_resolution(tmp_path, pixels, quality):
    with PillowImage.open(write_image(pixels, tmp_path / "a.jpg", quality=quality)) as picture:
        assert JpegImagePlugin.get_sampling(picture) == 0


EXIFTOOL = shutil.which("exiftool")


@pytest.mark.skipif(EXIFTOOL is None, reason="exiftool is not installed (Debian: libimage-exiftool-perl)")
@pytest.mark.parametrize("suffix", ["tif", "png", "jpg", "webp"])
def test_exiftool_finds_profile_and_exif_unchanged(tmp_path, pixels, profile, exif, suffix):
    source = Image(pixels, bit_depth=16, icc_profile=profile, exif=exif, resolution=(300, 300))
    one = write_image(source, tmp_path / "one.tif")
    two = write_image(read_image(one), tmp_path / f"two.{suffix}", history="fused by allfocus 1 from 3 frames")
    before, after = read_tags(one), read_tags(two)
    kept = (
        "Make",
        "XResolution",
        "YResolution",
        "ResolutionUnit",
        "DateTimeOriginal",
        "ExposureTime",
        "GPSLatitudeRef",
    )
    assert {tag: after.get(tag) for tag in kept} == {tag: before[tag] for tag in kept}
    assert len({tag for tag in before if tag.startswith("ICC")}) > 5
    assert {t: v for t, v in after.items() if t.startswith("ICC")} == {
        t: v for t, v in before.items() if t.startswith("ICC")
    }
    assert after["ImageHistory"] == "fused by allfocus 1 from 3 frames"
    assert after["Software"].startswith("allfocus")
    assert "Warning" not in after
    assert "Error" not in after
    if suffix == "tif":
        assert after["BitsPerSample"] == "16 16 16"
        check = subprocess.run([EXIFTOOL, "-validate", "-s3", "-warning", str(two)], capture_output=True, text=True)
        assert "offset" not in check.stdout.lower()


def read_tags(path: Path) -> dict[str, str]:
    """What exiftool says about a file; tags of the colour profile begin with ICC."""
    command = [EXIFTOOL, "-json", "-G0", str(path)]
    (found,) = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    tags: dict[str, str] = {}
    for name, value in found.items():
        group, _, tag = name.rpartition(":")
        tags[f"ICC {tag}" if group == "ICC_Profile" else tag] = str(value)
    return tags


def test_exif_too_long_for_jpeg_is_an_error_not_a_loss(tmp_path, pixels, exif):
    with pytest.raises(OutputError, match=r"too long for JPEG.*choose \.png or \.tif"):
        write_image(Image(pixels, exif=exif + bytes(70000)), tmp_path / "a.jpg")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept_unless_overwriting_is_allowed(tmp_path, pixels):
    path = tmp_path / "a.png"
    path.write_text("precious")
    with pytest.raises(OutputError, match=r"a\.png: exists already.*pass overwrite=True"):
        write_image(pixels, path)
    assert path.read_text() == "precious"
    write_image(pixels, path, overwrite=True)
    assert read_image(path).width == 16


def test_a_file_that_appears_meanwhile_is_kept(tmp_path):
    (tmp_path / "a.png").write_text("precious")
    with pytest.raises(OutputError, match="appeared in the meantime"):
        replace_file(tmp_path / "a.png", b"new")
    assert (tmp_path / "a.png").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_a_full_disk_leaves_nothing_behind(tmp_path, pixels, monkeypatch):
    def no_space(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OutputError, match=r"a\.png: could not be written \(No space left"):
        write_image(pixels, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_writing_leaves_nothing_behind(tmp_path, pixels, monkeypatch):
    def interrupted(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_image(pixels, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_systems_without_nameless_files_write_whole_files_too(tmp_path, pixels, monkeypatch, overwrite):
    monkeypatch.setattr("allfocus.files.placing.open_nameless", lambda folder: None)
    write_image(pixels, tmp_path / "a.png", overwrite=overwrite)
    assert read_image(tmp_path / "a.png").width == 16
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_image(pixels, tmp_path / "b.png")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_a_file_has_no_name_before_it_is_whole(tmp_path, pixels, monkeypatch):
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY))
    except (AttributeError, OSError):
        pytest.skip("this system has no files without a name")
    seen: list[list[str]] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: seen.append([path.name for path in tmp_path.iterdir()]))
    write_image(pixels, tmp_path / "a.png")
    assert seen == [[]]
    write_image(pixels, tmp_path / "a.png", overwrite=True)
    assert seen == [[], ["a.png"]]
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_a_reader_never_sees_half_a_file(tmp_path):
    path = tmp_path / "a.bin"
    contents = [bytes([value]) * 200_000 for value in (1, 2)]
    replace_file(path, contents[0])
    lengths: set[tuple[int, int]] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            data = path.read_bytes()
            lengths.add((len(data), len(set(data))))

    watcher = threading.Thread(target=watch)
    watcher.start()
    for turn in range(20):
        replace_file(path, contents[turn % 2], overwrite=True)
    done.set()
    watcher.join()
    assert lengths == {(200_000, 1)}


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_named(tmp_path, pixels):
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="read-only"):
        write_image(pixels, tmp_path / "a.png")


@pytest.mark.parametrize(
    ("name", "words"),
    [("a.gif", "cannot tell the format"), ("a", "cannot tell the format"), ("missing/a.png", "does not exist")],
)
def test_impossible_outputs_are_refused_before_the_work(tmp_path, name, words):
    with pytest.raises(OutputError, match=words):
        check_output(tmp_path / name)


def test_a_folder_is_no_output_file(tmp_path):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(OutputError, match="is a folder"):
        check_output(tmp_path / "a.png", overwrite=True)


def test_what_is_no_picture_is_not_written(tmp_path):
    with pytest.raises(OutputError, match="not a number"):
        write_image(np.full((4, 4), np.nan, np.float32), tmp_path / "a.png")
    with pytest.raises(OutputError, match="int64"):
        write_image(np.zeros((4, 4), np.int64), tmp_path / "a.png")
    with pytest.raises(OutputError, match="quality"):
        write_image(np.zeros((4, 4), np.float32), tmp_path / "a.jpg", quality=0)
    with pytest.raises(OutputError, match="16383"):
        write_image(np.zeros((1, 16384), np.float32), tmp_path / "a.webp")
    assert list(tmp_path.iterdir()) == []


def test_the_new_file_has_ordinary_permissions(tmp_path, pixels):
    (tmp_path / "ordinary").write_text("")
    path = write_image(pixels, tmp_path / "a.png")
    assert path.stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@pytest.mark.parametrize(
    ("name", "compression", "words"),
    [("a.png", "lzw", "0, 1, 2"), ("a.png", 10, "0, 1, 2"), ("a.tif", 6, "zstd"), ("a.jpg", "none", "use quality")],
)
def test_a_compression_that_the_format_does_not_know_is_refused_before_the_work(tmp_path, name, compression, words):
    with pytest.raises(OutputError, match=words):
        check_output(tmp_path / name, compression=compression)
    check_output(tmp_path / "b.tif", compression="zstd")


@pytest.mark.parametrize("compression", ["none", "lzw", "deflate", "zstd"])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_no_compression_of_tiff_loses_anything(tmp_path, pixels, compression, bits):
    image = Image(pixels, bit_depth=bits)
    path = write_image(image, tmp_path / "a.tif", compression=compression)
    np.testing.assert_array_equal(to_integers(read_image(path).pixels, bits), to_integers(pixels, bits))
