"""Names, places and sizes that nobody expects: each a clear sentence, or it simply works; one stack ends no batch."""

import csv
import io
import json
import os
import re
import resource
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as PillowImage

import allfocus
from allfocus.batch.running import fuse_stacks
from allfocus.batch.stacks import find_stacks
from allfocus.batch.summary import _plain
from allfocus.cli.main import run
from allfocus.cli.printing import printable
from allfocus.errors import AllfocusError, InputError
from allfocus.images.image import Image
from allfocus.images.reading import read_image
from allfocus.images.writing import write_image
from allfocus.stack.options import FuseOptions

QUICK = FuseOptions(method="average", align=False)
SOURCE = Path(__file__).resolve().parents[2] / "src"


def make_stack(folder: Path, *, frames: int = 2, seed: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    for number in range(frames):
        write_image(random.random((40, 40, 3)).astype(np.float32), folder / f"{number}.png", overwrite=True)
    return folder


# --- pipes, devices, links --------------------------------------------------------------------------------------------

ODD_FILES = {
    "pipe": lambda path: os.mkfifo(path),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path),
    "broken link": lambda path: path.symlink_to(path.with_name("nowhere")),
    "folder": lambda path: path.mkdir(),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
}


@pytest.mark.parametrize("by", ["folder", "time", "number", "file"])
@pytest.mark.parametrize("kind", ODD_FILES)
def test_no_odd_file_holds_a_batch_up_or_ends_it(tmp_path, without_cluster, kind, by):
    shots = tmp_path / "shots"
    make_stack(shots / "good")
    make_stack(shots / "bad")
    ODD_FILES[kind](shots / "bad/2.png")
    result = fuse_stacks(shots, tmp_path / "out", by=by, options=QUICK)
    if by == "folder":
        assert [row.stack for row in result.fused] == (["bad", "good"] if kind == "folder" else ["good"])
        assert kind == "folder" or "2.png" in result.failed[0].error


@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "broken link"])
def test_an_odd_file_among_the_frames_is_named(tmp_path, capsys, kind):
    frames = make_stack(tmp_path / "frames")
    ODD_FILES[kind](frames / "2.png")
    assert run(["fuse", str(frames), "-o", str(tmp_path / "out.png"), "--no-align", "--method", "average"]) == 2
    assert "2.png" in capsys.readouterr().err
    words = ["fuse", str(frames), "-o", str(tmp_path / "o.png"), "--no-align", "--method", "average", "--skip-bad"]
    assert run(words) == 0


def test_a_pipe_as_the_list_of_stacks_is_refused(tmp_path):
    os.mkfifo(tmp_path / "stacks.csv")
    with pytest.raises(InputError, match="pipe"):
        find_stacks(tmp_path, manifest=tmp_path / "stacks.csv")


# --- names ------------------------------------------------------------------------------------------------------------

NAMES = {
    "not UTF-8": os.fsdecode(b"caf\xe9"),
    "255 bytes": "n" * 255,
    "255 bytes of other letters": "山" * 85,
    "escapes": "a\x1b[31mred\x07",
    "new line": "a\nallfocus: done",
    "formula": "\t=1+1",
    "direction": "a\u202egnp.exe",
    "quotes": "a'b\"c<d>&e",
    "dash": "-rf",
    "percent": "100%s{}",
}


@pytest.mark.parametrize("kind", NAMES)
def test_no_name_of_a_stack_ends_a_batch(tmp_path, without_cluster, capfdbinary, kind):
    shots, out = tmp_path / "shots", tmp_path / "out"
    make_stack(shots / NAMES[kind])
    make_stack(shots / "good")
    maps = dict(options=FuseOptions(method="dsift", align=False), maps=["depth"])
    for _ in range(2):
        result = fuse_stacks(shots, out, **maps)
        assert {row.stack for row in (*result.fused, *result.unchanged)} >= {"good"}
        if "bytes" in kind:
            assert "longer than 255 bytes" in result.failed[0].error
        else:
            assert not result.failed
    (out / "summary.csv").read_text("utf-8")
    (out / "contact_sheet.html").read_text("utf-8")
    code = run(["batch", str(shots), "-o", str(out), "--method", "dsift", "--no-align", "--depth-maps", "--json"])
    assert code == (2 if "bytes" in kind else 0)
    printed = capfdbinary.readouterr()
    assert json.loads(printed.out.decode("utf-8"))["stacks"]
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", printed.out + printed.err)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("options", [["--json"], ["--dry-run"], ["--dry-run", "--json"], []])
def test_no_name_of_a_frame_reaches_the_terminal_raw(tmp_path, capfdbinary, kind, options):
    frames = make_stack(tmp_path / "frames")
    name = NAMES[kind].encode("utf-8", "surrogateescape")[:240].decode("utf-8", "surrogateescape")
    for number in (0, 1):
        (frames / f"{number}.png").rename(frames / f"{name}{number}.png")
    (frames / f"{name}2.png").write_bytes(b"no picture")
    words = ["fuse", str(frames), "-o", str(tmp_path / "out.png"), "--no-align", "--method", "average", "--skip-bad"]
    assert run([*words, *options]) == 0
    printed = capfdbinary.readouterr()
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", printed.out + printed.err)
    (printed.out + printed.err).decode("utf-8")
    assert "\u202e" not in (printed.out + printed.err).decode("utf-8")
    if "--json" in options:
        assert json.loads(printed.out)["frames"]


def test_a_report_about_odd_names_is_valid(tmp_path):
    frames = make_stack(tmp_path / "frames")
    for number in (0, 1):
        (frames / f"{number}.png").rename(frames / f"{NAMES['not UTF-8']}{number}.png")
    allfocus.fuse_files(frames, tmp_path / "o.png", method="average", align=False, report=tmp_path / "report.html")
    (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.parametrize("line", ["a\x00b,{good}", "a,x\x00y.png", "\x00,\x00"])
def test_a_zero_byte_in_the_list_is_one_stack_that_fails(tmp_path, without_cluster, line):
    shots = tmp_path / "shots"
    make_stack(shots / "good")
    rows = ["stack,frame", line.format(good="good/0.png"), "good,good/0.png", "good,good/1.png"]
    (tmp_path / "stacks.csv").write_text("\n".join(rows))
    result = fuse_stacks(shots, tmp_path / "out", manifest=tmp_path / "stacks.csv", options=QUICK)
    assert [row.stack for row in result.fused] == ["good"]
    assert "zero byte" in result.failed[0].error


def test_a_folder_that_cannot_be_listed_is_one_stack_that_fails(tmp_path, without_cluster, monkeypatch):
    shots = tmp_path / "shots"
    make_stack(shots / "good")
    make_stack(shots / "locked")
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    result = fuse_stacks(shots, tmp_path / "out", options=QUICK)
    assert [row.stack for row in result.fused] == ["good"]
    assert "cannot be listed" in result.failed[0].error


@pytest.mark.parametrize("language", ["C", "POSIX", "C.UTF-8"])
def test_every_language_of_the_system_will_do(tmp_path, language):
    frames = make_stack(tmp_path / "Käfer")
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "LANG": language, "LC_ALL": language}
    environment |= {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    words = [sys.executable, "-m", "allfocus.cli", "fuse", str(frames), "--no-align", "--method", "average"]
    done = subprocess.run(words, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "allfocus_Käfer.png").exists()


@pytest.mark.parametrize(
    "text",
    ["=1", "+1", "-1", "@x", "\t=1", "\r=1", " =1", "\n=1", "\x00=1", "\u00a0=1", "\ufeff=1", "\uff1d1", "\t+1", "\tx"],
)
def test_no_cell_of_the_summary_is_a_formula(text):
    shown = _plain(text)
    assert shown.startswith("'")
    file = io.StringIO(newline="")
    csv.writer(file).writerow([shown])
    assert next(csv.reader(io.StringIO(file.getvalue(), newline="")))[0][0] == "'"
    assert _plain("beetle = 1") == "beetle = 1"
    assert _plain(-3) == -3


def test_what_a_terminal_would_obey_is_shown():
    assert printable("\x1b]0;x\x07\x9b31m\u202e\u2066é山") == "\\x1b]0;x\\x07\\x9b31m\\u202e\\u2066é山"


# --- sizes and kinds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5000, 1), (1, 5000), (100_000, 3), (3, 100_000), (1, 1), (20_000, 1)])
@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_pictures_of_any_shape_are_fused(tmp_path, shape, ending):
    random = np.random.default_rng(0)
    paths = []
    for number in range(2):
        pixels = random.integers(0, 65536, (*shape, 3)).astype(np.uint16)
        paths.append(write_image(pixels, tmp_path / f"{number}{ending}"))
    allfocus.fuse_files(paths, tmp_path / f"out{ending}", method="average", align=False)
    assert read_image(tmp_path / f"out{ending}").pixels.shape == (*shape, 3)


@pytest.mark.parametrize("dtype", [">u2", "<u2", ">f4", ">f8", "<f4"])
def test_the_order_of_bytes_in_an_array_does_not_matter(tmp_path, dtype):
    random = np.random.default_rng(0)
    native = np.dtype(dtype).newbyteorder("=")
    frames = [(random.random((40, 40, 3)) * (65535 if native.kind == "u" else 1)).astype(native) for _ in range(2)]
    other = [frame.astype(dtype) for frame in frames]
    for method in ("average", "laplacian-pyramid"):
        one, two = (allfocus.fuse(stack, method=method).image for stack in (frames, other))
        np.testing.assert_array_equal(one, two)
    allfocus.align(other)
    write_image(other[0], tmp_path / "a.png")


def test_a_jpeg_of_twelve_bits_is_called_so(tmp_path):
    file = io.BytesIO()
    PillowImage.new("RGB", (16, 16)).save(file, "JPEG")
    data = bytearray(file.getvalue())
    start = data.index(b"\xff\xc0")
    data[start + 1], data[start + 4] = 0xC1, 12
    (tmp_path / "a.jpg").write_bytes(data)
    with pytest.raises(InputError, match="JPEG of 12 bits"):
        read_image(tmp_path / "a.jpg")


def test_a_huge_picture_among_those_sorted_by_time_does_not_end_the_batch(tmp_path, without_cluster):
    shots = tmp_path / "shots"
    make_stack(shots)
    exif = PillowImage.Exif()
    exif[0x0132] = "2024:05:01 10:00:00"
    for number in range(2):
        PillowImage.open(shots / f"{number}.png").save(shots / f"{number}.jpg", exif=exif)
        (shots / f"{number}.png").unlink()
    data = bytearray((shots / "1.jpg").read_bytes())
    start = data.index(b"\xff\xc0")
    data[start + 5 : start + 9] = struct.pack(">HH", 65000, 65000)
    (shots / "2.jpg").write_bytes(data)
    result = fuse_stacks(shots, tmp_path / "out", by="time", options=QUICK)
    assert len(result.failed) == 1
    assert "unexpected" not in result.failed[0].error


def test_many_frames_are_aligned_with_few_open_files(tmp_path):
    frames = tmp_path / "frames"
    frames.mkdir()
    rendered = allfocus.render_scene("desk", frames=2, size=(64, 80)).frames
    for number in range(80):
        write_image(rendered[number % 2], frames / f"{number}.png")
    words = [sys.executable, "-m", "allfocus.cli", "align", str(frames), "-o", str(tmp_path / "out")]
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))  # noqa: E731
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=environment, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out").iterdir())) == 81


# --- metadata ---------------------------------------------------------------------------------------------------------


def block(kind: int, count: int, value: bytes, extra: bytes = b"") -> bytes:
    """EXIF with a unit of resolution and an odd resolution."""
    entries = struct.pack("<HHI", 0x011A, kind, count) + value + struct.pack("<HHIHH", 0x0128, 3, 1, 2, 0)
    return b"II*\x00" + struct.pack("<IH", 8, 2) + entries + bytes(4) + extra


@pytest.mark.parametrize("ending", [".jpg", ".png", ".webp", ".tif"])
@pytest.mark.parametrize(
    "exif",
    [
        block(2, 2, b"7\x00\x00\x00"),
        block(2, 1, b"\x00\x00\x00\x00"),
        block(2, 9, struct.pack("<I", 38), b"seventy2\x00"),
        block(3, 1, b"\x48\x00\x00\x00"),
        block(5, 1, struct.pack("<I", 9999)),
        block(5, 1, struct.pack("<I", 38), bytes(8)),
        block(5, 3, struct.pack("<I", 38), bytes(24)),
        block(7, 4, b"abcd"),
        block(12, 1, struct.pack("<I", 38), struct.pack("<d", float("nan"))),
        block(0, 1, b"abcd"),
        block(99, 1, b"abcd"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_malformed_resolution_is_not_handed_on(tmp_path, ending, exif):
    for history in (None, "fused"):
        path = tmp_path / f"a{ending}"
        write_image(Image(np.zeros((16, 16, 3), np.float32), exif=exif), path, history=history, overwrite=True)
        PillowImage.open(path).load()
        dict(PillowImage.open(path).getexif())
        read_image(path)


def test_a_missing_picture_is_our_error_whatever_it_is_called():
    for name in ("\x00", "a\x00b", "x" * 5000, "\udcff"):
        with pytest.raises(AllfocusError):
            read_image(name)


@pytest.mark.parametrize("option", ["-o", "--depth-map", "--report"])
def test_a_pipe_is_never_replaced(tmp_path, option):
    frames = make_stack(tmp_path / "frames")
    name = tmp_path / ("pipe.html" if option == "--report" else "pipe.png")
    os.mkfifo(name)
    outputs = ["-o", name] if option == "-o" else ["-o", tmp_path / "o.png", option, name]
    words = ["fuse", frames, *outputs, "--overwrite", "--no-align", "--method", "dsift"]
    assert run([str(word) for word in words]) == 2
    assert name.is_fifo()
    assert not (tmp_path / "o.png").exists()
