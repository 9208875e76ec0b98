"""The table of bad inputs: what ``allfocus fuse`` does with files, folders and moments that nobody wishes for.

Each case ends with exit code 2 and one line that says what is wrong and where, or with a correct picture. Never a
traceback, a partial output, or a changed input. Signals and permissions are tried in processes of their own, the rest
through the same function that the command calls, in this process, because that is faster.
"""

import hashlib
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image as PillowImage
from PIL import ImageCms

from allfocus.cli.main import run
from allfocus.images.image import Image
from allfocus.images.reading import read_image
from allfocus.images.writing import to_integers, write_image

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def frames(tmp_path, stack_folder) -> Path:
    """A folder with three good frames (frame_0.png ... of 128x96) that the test may damage."""
    return Path(shutil.copytree(stack_folder, tmp_path / "frames"))


@pytest.fixture
def fuse(tmp_path, capsys) -> Callable[..., "Outcome"]:
    """Runs ``allfocus fuse ... --method average`` and checks that inputs are unchanged and nothing partial is left."""

    def run_fuse(*arguments: object, output: Path | None = None) -> Outcome:
        target = output or tmp_path / "result.png"
        before = contents(tmp_path)
        code = run(["fuse", *map(str, arguments), "-o", str(target), "--method", "average"])
        printed = capsys.readouterr()
        after = contents(tmp_path)
        if code == 0:
            after.pop(str(target.relative_to(tmp_path)))
            before.pop(str(target.relative_to(tmp_path)), None)
        assert after == before
        return Outcome(code, printed.out, printed.err, target)

    return run_fuse


NOTICES = ("the frames ", "frames of ", "left out ", "detail lost ")
"""How the lines begin that tell what was noticed before a run failed."""


class Outcome:
    """How a run of the command ended."""

    def __init__(self, code: int, out: str, err: str, output: Path) -> None:
        self.code, self.out, self.err, self.output = code, out, err, output

    def assert_refused(self, *words: str, code: int = 2) -> None:
        assert self.code == code, self.err
        assert self.out == ""
        assert self.err.endswith("\n")
        # One line tells the error; before it only what was noticed on the way.
        *notices, error = self.err.splitlines()
        assert error.startswith("allfocus: ")
        assert all(line.startswith(NOTICES) for line in notices), self.err
        assert "Traceback" not in self.err
        assert "unexpected" not in self.err
        for word in words:
            assert word in error

    def assert_fused(self, *, bit_depth: int = 8) -> None:
        assert self.code == 0, self.err
        assert "Traceback" not in self.err
        image = read_image(self.output)
        assert (image.width, image.height, image.bit_depth) == (128, 96, bit_depth)


def contents(folder: Path) -> dict[str, str]:
    """Each name below a folder with a hash of what it holds."""
    found = {}
    for path in sorted(folder.rglob("*")):
        held = path.read_bytes() if path.is_file() and os.access(path, os.R_OK) else path.lstat().st_mode.to_bytes(4)
        found[str(path.relative_to(folder))] = hashlib.sha256(held).hexdigest()
    return found


# --- first of all, a good stack --------------------------------------------------------------------------------------


@pytest.mark.skipif(not shutil.which("exiftool"), reason="exiftool is not installed (Debian: libimage-exiftool-perl)")
def test_equal_16_bit_frames_come_back_bit_for_bit_with_their_metadata(fuse, tmp_path, small_stack):
    exif = PillowImage.Exif()
    exif[0x010F] = "A maker of cameras"
    exif.get_ifd(0x8769)[0x9003] = "2024:05:06 07:08:09"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    frame = Image(small_stack[0], bit_depth=16, icc_profile=profile, exif=exif.tobytes()[6:], resolution=(240, 240))
    paths = [write_image(frame, tmp_path / f"{number}.tif") for number in range(4)]
    fuse(*paths, output=tmp_path / "fused.tif").assert_fused(bit_depth=16)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "fused.tif"), tifffile.imread(paths[0]))
    shown = ["-Make", "-DateTimeOriginal", "-XResolution", "-BitsPerSample", "-icc_profile:all"]
    before, after = (
        subprocess.run(["exiftool", *shown, str(path)], capture_output=True, text=True, check=True).stdout
        for path in (paths[0], tmp_path / "fused.tif")
    )
    assert after == before
    assert before.count("\n") > 10


# --- damaged files --------------------------------------------------------------------------------------------------

PILLOW_OPTIONS = {"tif": {}, "deflate.tif": {"compression": "tiff_adobe_deflate"}, "jpeg.tif": {"compression": "jpeg"}}


def save_as(frame: Path, suffix: str) -> Path:
    """The frame in another format instead, with the same stem."""
    with PillowImage.open(frame) as picture:
        picture.load()
    target = frame.with_name(f"{frame.name.partition('.')[0]}.{suffix}")
    picture.save(target, **PILLOW_OPTIONS.get(suffix, {}))
    if target != frame:
        frame.unlink()
    return target


@pytest.mark.parametrize("share", [0.001, 0.05, 0.5, 0.95])
@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "deflate.tif", "jpeg.tif", "webp", "bmp"])
def test_a_truncated_frame_is_refused_by_name(fuse, frames, suffix, share):
    path = save_as(frames / "frame_1.png", suffix)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    fuse(frames).assert_refused(path.name)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_multi_page_file_is_refused(fuse, tmp_path, small_stack, share):
    path = tmp_path / "stack.tif"
    tifffile.imwrite(path, np.stack([to_integers(frame, 16) for frame in small_stack]), photometric="rgb")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    fuse(path).assert_refused("stack.tif")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"just words, no picture", "not a picture"),
        (b"<!DOCTYPE html><html>not found</html>", "not a picture"),
        (bytes(5000), "not a picture"),
        (bytes(range(256)) * 20, "not a picture"),
        (b"\x89PNG\r\n\x1a\n", "too early"),
        (b"\xff\xd8\xff", "damaged"),
        (b"II*\x00", "damaged"),
        (b"MM\x00+", "damaged"),
        (b"RIFF\x04\x00\x00\x00WEBP", "header is missing"),
        (b"BM", "damaged"),
        (b"II*\x00" + struct.pack("<IHI", 8, 0, 8), "cannot be read"),
        (b"\x00\x00\x00\x1cftypavif\x00\x00\x00\x00", "not a picture"),
    ],
    ids=lambda value: repr(value[:12]) if isinstance(value, bytes) else "",
)
def test_a_frame_that_is_no_picture_is_refused_by_name(fuse, frames, content, words):
    (frames / "frame_1.png").write_bytes(content)
    fuse(frames).assert_refused("frame_1.png", words)


def test_a_damaged_byte_in_a_png_is_found(fuse, frames):
    data = bytearray((frames / "frame_2.png").read_bytes())
    data[len(data) // 2] ^= 1
    (frames / "frame_2.png").write_bytes(data)
    fuse(frames).assert_refused("frame_2.png", "checksum")


# --- headers that promise too much ----------------------------------------------------------------------------------


def png_bomb() -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 16, 6, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")


def tiff_bomb() -> bytes:
    entries = [(256, 4, 1, 10**9), (257, 4, 1, 10**9), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1)]
    entries += [(273, 4, 1, 200), (277, 3, 1, 1), (278, 4, 1, 10**9), (279, 4, 1, 20)]
    body = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return (b"II*\x00" + struct.pack("<IH", 8, len(entries)) + body + bytes(4)).ljust(200, b"\x00") + bytes(20)


def jpeg_bomb() -> bytes:
    frame = b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", 65500, 65500) + bytes.fromhex("03012200021101031101")
    return b"\xff\xd8" + frame + b"\xff\xda\x00\x0c\x03\x01\x00\x02\x11\x03\x11\x00\x3f\x00" + bytes(30) + b"\xff\xd9"


def bmp_bomb() -> bytes:
    return b"BM" + struct.pack("<IHHI", 200, 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, 10**9, 10**9, 1, 24, *[0] * 6)


def webp_bomb() -> bytes:
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + b"\xff" * 6
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize("make", [png_bomb, tiff_bomb, jpeg_bomb, bmp_bomb, webp_bomb])
def test_absurd_dimensions_are_refused_before_room_is_made_for_them(fuse, frames, make, monkeypatch):
    def decode(*arguments, **options):
        pytest.fail("a frame was decoded, where the headers told enough")

    monkeypatch.setattr("allfocus.images.reading.decode_picture", decode)
    (frames / "frame_1.png").write_bytes(make())
    fuse(frames).assert_refused("frame_1.png", "more than the limit")


def test_a_picture_without_pixels_is_refused(fuse, frames):
    data = png_bomb()
    header = struct.pack(">IIBBBBB", 0, 96, 8, 2, 0, 0, 0)
    fixed = data[:16] + header + struct.pack(">I", zlib.crc32(b"IHDR" + header)) + data[33:]
    (frames / "frame_0.png").write_bytes(fixed)
    fuse(frames).assert_refused("frame_0.png", "0x96")


# --- frames that do not fit together --------------------------------------------------------------------------------


def test_frames_of_different_size_are_both_named(fuse, frames):
    write_image(np.zeros((50, 60, 3), np.float32), frames / "frame_1.png", overwrite=True)
    fuse(frames).assert_refused("frame_0.png is 128x96", "frame_1.png is 60x50")


def test_grey_among_colour_is_named(fuse, frames):
    write_image(np.zeros((96, 128), np.float32), frames / "frame_1.png", overwrite=True)
    fuse(frames).assert_refused("frame_0.png is colour", "frame_1.png is grey")


def test_frames_turned_differently_are_named(fuse, frames):
    with PillowImage.open(frames / "frame_1.png") as picture:
        exif = picture.getexif()
        exif[0x0112] = 6
        picture.save(frames / "frame_1.png", exif=exif)
    fuse(frames).assert_refused("frame_0.png is 128x96", "frame_1.png is 96x128")


def test_a_palette_frame_among_colour_is_fused(fuse, frames):
    save_as(frames / "frame_1.png", "png")
    with PillowImage.open(frames / "frame_1.png") as picture:
        picture.quantize(256).save(frames / "frame_1.png")
    fuse(frames).assert_fused()


def test_16_bits_among_8_are_fused_to_16(fuse, frames):
    image = read_image(frames / "frame_1.png")
    write_image(image, frames / "frame_1.png", bit_depth=16, overwrite=True)
    fuse(frames).assert_fused(bit_depth=16)


def test_a_wrong_ending_is_no_matter(fuse, frames):
    data = {path: path.read_bytes() for path in frames.iterdir()}
    for path, held in data.items():
        path.unlink()
        path.with_suffix(".jpg").write_bytes(held)
    fuse(frames).assert_fused()


def test_one_frame_is_no_stack(fuse, frames):
    fuse(frames / "frame_0.png").assert_refused("only one frame", "frame_0.png")


# --- values that are no brightness ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "words"), [(np.nan, "row 5, column 6 is nan"), (np.inf, "is inf")])
def test_floating_point_values_that_are_not_finite_are_refused(fuse, tmp_path, value, words):
    for name in ("a.tif", "b.tif"):
        values = np.full((96, 128), 0.5, np.float32)
        if name == "b.tif":
            values[5, 6] = value
        tifffile.imwrite(tmp_path / name, values)
    fuse(tmp_path / "a.tif", tmp_path / "b.tif").assert_refused("b.tif", words)


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.complex64])
def test_samples_of_other_types_are_refused(fuse, tmp_path, kind):
    tifffile.imwrite(tmp_path / "stack.tif", np.zeros((3, 96, 128), kind), photometric="minisblack")
    fuse(tmp_path / "stack.tif").assert_refused("stack.tif", "up to 32 bits")


def test_channels_are_refused_by_a_method_that_makes_no_decision_for_them(fuse, tmp_path):
    tifffile.imwrite(tmp_path / "a.ome.tif", np.zeros((2, 3, 96, 128), np.uint16), metadata={"axes": "CZYX"})
    fuse(tmp_path / "a.ome.tif").assert_refused("channels could share", "set --decide-by to each")


def test_thumbnails_alone_are_refused(fuse, tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as tiff:
        tiff.write(np.zeros((4, 4), np.uint8), photometric="minisblack", subfiletype=1)
    fuse(tmp_path / "a.tif").assert_refused("a.tif", "reduced")


# --- names that lead nowhere ----------------------------------------------------------------------------------------


def test_no_frames_at_all_is_wrong_usage(capsys):
    assert run(["fuse"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [("nothing.png", "no such file"), ("nowhere/a.png", "no such file"), ("DSC*.tif", "no file matches")],
)
def test_a_missing_frame_is_named(fuse, frames, name, words):
    fuse(frames / "frame_0.png", frames / name).assert_refused(name, words)


def test_a_folder_without_pictures_is_named(fuse, tmp_path):
    (tmp_path / "empty").mkdir()
    fuse(tmp_path / "empty").assert_refused("empty", "no pictures")
    (tmp_path / "empty" / "notes.txt").write_text("sharp at f/2.8")
    fuse(tmp_path / "empty").assert_refused("empty", "no pictures")


def test_a_link_to_nothing_is_named(fuse, frames):
    (frames / "frame_1.png").unlink()
    (frames / "frame_1.png").symlink_to(frames / "gone.png")
    fuse(frames / "frame_0.png", frames / "frame_1.png").assert_refused("frame_1.png", "no such file")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_instead_of_waited_for(fuse, frames):
    os.mkfifo(frames / "pipe.png")
    fuse(frames / "frame_0.png", frames / "pipe.png").assert_refused("pipe.png", "cannot be read")


def test_a_line_break_in_a_name_does_not_break_the_message(fuse, frames):
    (frames / "two\nlines.png").write_bytes(b"no picture")
    fuse(frames).assert_refused("lines.png")


def test_names_in_any_script_are_fused(fuse, frames):
    (frames / "frame_1.png").rename(frames / "écran 花 #2 %d.png")
    fuse(frames).assert_fused()


# --- outputs that cannot be -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [("nowhere/o.png", "does not exist"), ("o.xyz", ".tif"), ("o", ".png"), ("frames", "folder"), ("o.jpg/", "o.jpg")],
)
def test_an_impossible_output_is_refused(fuse, tmp_path, frames, name, words):
    if name.endswith("/"):
        (tmp_path / name).mkdir()
    outcome = fuse(frames, output=tmp_path / name)
    outcome.assert_refused(words)


def test_an_existing_output_is_kept(fuse, tmp_path, frames):
    (tmp_path / "result.png").write_text("precious")
    fuse(frames).assert_refused("result.png", "exists", "--overwrite")
    fuse(frames, "--overwrite").assert_fused()


def test_a_frame_is_never_overwritten(fuse, frames):
    fuse(frames, "--overwrite", output=frames / "frame_1.png").assert_refused("frame_1.png", "frame of the stack")


def test_a_link_to_a_frame_is_not_overwritten_either(fuse, tmp_path, frames):
    (tmp_path / "result.png").symlink_to(frames / "frame_1.png")
    fuse(frames, "--overwrite").assert_refused("frame of the stack")


BAD_OPTIONS = [
    (("--slab", "1,0"), "nothing to fuse"),
    (("--slab", "2,2"), "overlap by 2"),
    (("--slab", "3,1"), "holds all 3 frames"),
    (("--slab", "99,1"), "holds all 3 frames"),
    (("--slab", "two,1"), "SIZE,OVERLAP"),
    (("--slab", "2"), "SIZE,OVERLAP"),
    (("--slab", "2,-1"), "SIZE,OVERLAP"),
    (("--slab", "2,1,0"), "SIZE,OVERLAP"),
    (("--compression", "lzw"), "PNG cannot be written with compression lzw"),
    (("--compression", "10"), "compression 10"),
    (("--compression", "fast"), "compression fast"),
    (("--linear-light",), "not in linear light; leave out --linear-light"),
    (("--depth-map", "d.png"), "makes no decision or depth map"),
    (("--confidence-map", "c.png"), "makes no decision or depth map"),
    (("--report", "report.pdf"), ".html"),
    (("--report", "nowhere/report.html"), "does not exist"),
    (("--report", "result.png"), ".html"),
    (("--bit-depth", "12"), "12"),
    (("--quality", "0"), "0"),
]
"""Options that the method average and a stack of three PNG frames cannot satisfy."""


@pytest.mark.parametrize(("options", "words"), BAD_OPTIONS, ids=lambda value: str(value))
@pytest.mark.parametrize("rehearsal", [(), ("--dry-run",)], ids=["run", "dry-run"])
def test_what_cannot_be_done_is_refused_by_the_run_and_by_its_rehearsal(
    fuse, tmp_path, monkeypatch, frames, options, words, rehearsal
):
    monkeypatch.chdir(tmp_path)
    fuse(frames, *options, *rehearsal).assert_refused(words)


OUTPUT_OPTIONS = ("--depth-map", "--decision-map", "--confidence-map")


@pytest.mark.parametrize("option", OUTPUT_OPTIONS)
@pytest.mark.parametrize("rehearsal", [(), ("--dry-run",)], ids=["run", "dry-run"])
def test_a_map_that_is_a_frame_or_the_output_or_exists_is_refused(tmp_path, capsys, frames, option, rehearsal):
    (tmp_path / "older.png").write_text("precious")
    wrong = {
        frames / "frame_1.png": "frame of the stack",
        tmp_path / "result.png": "two outputs",
        tmp_path / "nowhere" / "map.png": "does not exist",
        tmp_path / "map.xyz": "ending",
    }
    before = contents(tmp_path)
    for path, words in wrong.items():
        code = run(
            ["fuse", str(frames), "-o", str(tmp_path / "result.png"), "--overwrite", option, str(path), *rehearsal]
        )
        printed = capsys.readouterr()
        Outcome(code, printed.out, printed.err, path).assert_refused(words)
    code = run(["fuse", str(frames), "-o", str(tmp_path / "r.png"), option, str(tmp_path / "older.png"), *rehearsal])
    printed = capsys.readouterr()
    Outcome(code, printed.out, printed.err, tmp_path).assert_refused("older.png", "exists", "--overwrite")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("rehearsal", [(), ("--dry-run",)], ids=["run", "dry-run"])
def test_an_output_that_is_a_frame_is_refused_by_the_rehearsal_too(fuse, frames, rehearsal):
    outcome = fuse(frames, "--overwrite", *rehearsal, output=frames / "frame_0.png")
    outcome.assert_refused("frame_0.png", "frame of the stack")


def test_a_slab_that_exists_is_kept(fuse, tmp_path, frames):
    (tmp_path / "result_slab02_frames002-003.png").write_text("precious")
    fuse(frames, "--slab", "2,1").assert_refused("result_slab02_frames002-003.png", "exists", "--overwrite")


def test_when_skipping_leaves_one_frame_the_line_says_which_and_why(fuse, frames):
    (frames / "frame_0.png").write_text("no picture")
    (frames / "frame_2.png").write_bytes((frames / "frame_2.png").read_bytes()[:500])
    outcome = fuse(frames, "--skip-bad")
    outcome.assert_refused("of 3 frames only frame_1.png can be used", "frame_0.png: not a picture", "frame_2.png: ")


def test_linear_light_of_frames_without_a_profile_is_refused_with_a_cure(tmp_path, capsys, frames):
    code = run(["fuse", str(frames), "-o", str(tmp_path / "r.png"), "--linear-light"])
    printed = capsys.readouterr()
    Outcome(code, printed.out, printed.err, tmp_path).assert_refused("frame_0.png", "colour profile", "--linear-light")
    assert not (tmp_path / "r.png").exists()


def test_a_damaged_profile_is_no_obstacle(fuse, tmp_path, small_stack):
    for number, frame in enumerate(small_stack):
        write_image(Image(frame, icc_profile=bytes(range(200))), tmp_path / f"{number}.tif")
    paths = [tmp_path / f"{number}.tif" for number in range(3)]
    fuse(*paths, output=tmp_path / "o.tif").assert_fused()


def test_frames_that_show_nothing_at_all_make_a_transparent_picture(fuse, tmp_path, small_stack):
    for number, frame in enumerate(small_stack):
        write_image(Image(frame, alpha=np.zeros((96, 128), np.float32)), tmp_path / f"{number}.png")
    outcome = fuse(*(tmp_path / f"{number}.png" for number in range(3)), "--no-align")
    outcome.assert_fused()
    assert (read_image(outcome.output).alpha == 0).all()


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 16 kB, less than a fused picture."""
    folder = tmp_path / "small_disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if (
        not mount
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_a_full_disk_is_named_and_holds_no_part_of_the_picture(fuse, small_disk, frames, suffix):
    fuse(frames, output=small_disk / f"o.{suffix}").assert_refused(f"o.{suffix}", "No space left")
    assert list(small_disk.iterdir()) == []


def test_a_full_disk_leaves_none_of_the_files_of_a_run(fuse, small_disk, tmp_path, frames):
    """The first slab fits, what comes after it does not."""
    for path in frames.iterdir():
        image = read_image(path)
        write_image(np.ascontiguousarray(image.pixels[:24, :32]), path, overwrite=True)
    (small_disk / "filler").write_bytes(bytes(7000))
    outcome = fuse(frames, "--slab", "2,1", "--bit-depth", "16", output=small_disk / "o.tif")
    outcome.assert_refused("o", "No space left")
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


# --- permissions ----------------------------------------------------------------------------------------------------


def without_privileges() -> list[str]:
    """What to put before a command so that it obeys permissions even when root runs it."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root may do everything, and setpriv, which could change that, is not installed")
    taken = "-dac_override,-dac_read_search"
    return [setpriv, f"--bounding-set={taken}", f"--inh-caps={taken}"]


def run_unprivileged(tmp_path: Path, *arguments: object) -> Outcome:
    before = contents(tmp_path)
    command = [*without_privileges(), sys.executable, "-m", "allfocus.cli", "fuse", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": search_path()}
    done = subprocess.run(
        [*command, "--method", "average"], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert contents(tmp_path) == before
    return Outcome(done.returncode, done.stdout, done.stderr, tmp_path)


def search_path() -> str:
    return os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT / "src"))))


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX systems")
def test_an_unreadable_frame_is_named(tmp_path, frames):
    (frames / "frame_1.png").chmod(0)
    outcome = run_unprivileged(tmp_path, frames, "-o", tmp_path / "o.png")
    outcome.assert_refused("frame_1.png", "Permission denied")


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX systems")
@pytest.mark.parametrize("mode", [0o500, 0o000])
def test_a_read_only_output_folder_is_named(tmp_path, frames, mode):
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(mode)
    try:
        run_unprivileged(tmp_path, frames, "-o", folder / "o.png").assert_refused("locked", "read-only")
    finally:
        folder.chmod(0o700)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX systems")
def test_an_unreadable_folder_is_named(tmp_path, frames):
    frames.chmod(0o000)
    try:
        run_unprivileged(tmp_path, frames, "-o", tmp_path / "o.png").assert_refused("frames", "read")
    finally:
        frames.chmod(0o700)


# --- signals --------------------------------------------------------------------------------------------------------

DRIVER = """
import os, sys, time

step, marker = sys.argv[1:3]

def pausing(original):
    def paused(*arguments, **options):
        result = original(*arguments, **options)
        open(marker, "w").close()
        time.sleep(600)
        return result
    return paused

if step == "reading":
    import allfocus.images.reading as module
    module.decode_picture = pausing(module.decode_picture)
elif step == "fusing":
    import allfocus.stack.pipeline as module
    module.fuse = pausing(module.fuse)
elif step == "importing":
    import importlib.abc
    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name == "allfocus.stack.pipeline":
                open(marker, "w").close()
                try:
                    time.sleep(600)
                except KeyboardInterrupt:
                    pass  # lost, as it is while some libraries written in C are loaded
    sys.meta_path.insert(0, Finder())
elif step == "writing":
    os.fsync = pausing(os.fsync)
from allfocus.cli.main import run
sys.exit(run(sys.argv[3:]))
"""
"""The command, stopped in the middle of one step for longer than any test waits; it makes a file when it gets there."""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")
@pytest.mark.parametrize("step", ["importing", "reading", "fusing", "writing"])
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_run_stopped_in_the_middle_leaves_nothing_behind(tmp_path, frames, step, stop):
    if (step, stop) == ("writing", signal.SIGKILL) and not has_nameless_files(tmp_path):
        pytest.skip("a killed process can clean up only where files need no name")
    work, marker = tmp_path / "work", tmp_path / "marker"
    work.mkdir()
    (work / "o.tif").write_text("precious")
    command = [sys.executable, "-c", DRIVER, step, str(marker), "fuse", str(frames), "-o", str(work / "o.tif")]
    environment = {**os.environ, "PYTHONPATH": search_path(), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [*command, "--method", "average", "--overwrite"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    before = contents(frames)
    try:
        wait_for(marker, process)
        process.send_signal(stop)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert out == ""
    assert (work / "o.tif").read_text() == "precious"
    assert [path.name for path in work.iterdir()] == ["o.tif"]
    assert contents(frames) == before
    if stop == signal.SIGINT:
        # The line begins anew, because the terminal has written ^C on the old one.
        Outcome(process.returncode, out, err.replace("\n\n", "\n").removeprefix("\n"), work).assert_refused(
            "interrupted", code=130
        )
        assert sorted(path.name for path in tmp_path.iterdir()) == ["frames", "marker", "work"]
    else:
        assert process.returncode == -signal.SIGKILL
        assert all(line.startswith(NOTICES) for line in err.splitlines())


def test_an_interrupt_that_a_library_turned_into_another_error_is_still_one(fuse, monkeypatch, frames):
    def load_late(*arguments, **options):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise ImportError("a part failed to load")  # noqa: B904 (as libraries written in C do)

    monkeypatch.setattr("allfocus.stack.pipeline.fuse", load_late)
    fuse(frames).assert_refused("interrupted", code=130)


def has_nameless_files(folder: Path) -> bool:
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
    except (AttributeError, OSError):
        return False
    return True


def wait_for(marker: Path, process: subprocess.Popen[str]) -> None:
    for _ in range(6000):
        if marker.exists():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    pytest.fail("the command did not get to the step")


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["-o", "--depth-map", "--slab"])
def test_a_name_that_is_too_long_for_the_disk_is_refused_before_the_work(tmp_path, capsys, frames, option):
    arguments = {"-o": ["-o", "M" * 252 + ".png"], "--depth-map": ["-o", "a.png", "--depth-map", "M" * 248 + ".png"]}
    given = arguments.get(option, ["-o", "M" * 240 + ".png", "--slab", "2,1"])
    before = contents(tmp_path)
    code = run(["fuse", str(frames), *[str(tmp_path / word) if word.endswith(".png") else word for word in given]])
    printed = capsys.readouterr()
    Outcome(code, printed.out, printed.err, tmp_path).assert_refused("longer than 255 bytes", "shorter")
    assert contents(tmp_path) == before


def test_a_frame_whose_name_is_too_long_for_the_disk_is_refused(fuse, frames):
    fuse(frames, frames / ("M" * 300 + ".png")).assert_refused("MMM", "File name too long")
