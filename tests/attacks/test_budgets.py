"""Headers made to do harm cost neither memory nor time; telemetry is off; decoding time is known beforehand."""

import io
import os
import shutil
import struct
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image as PillowImage

from allfocus.errors import AllfocusError, InputError
from allfocus.images.frame_file import list_frames
from allfocus.images.photo_facts import read_photo_facts
from allfocus.images.reading import read_image

ROOT = Path(__file__).resolve().parents[2]


def bomb(entries: int, size: int, *, tags: int = 0x010E, kind: int = 7, order: str = "<") -> bytes:
    """A block whose entries all hold the same bytes."""
    head = (b"II*\x00" if order == "<" else b"MM\x00*") + struct.pack(order + "I", 8)
    start = 8 + 2 + 12 * entries + 4
    table = b"".join(struct.pack(order + "HHII", tags + n % 1, kind, size, start) for n in range(entries))
    return head + struct.pack(order + "H", entries) + table + bytes(4) + bytes(size)


def in_jpeg(block: bytes) -> bytes:
    file = io.BytesIO()
    PillowImage.new("RGB", (16, 16)).save(file, "JPEG")
    data = file.getvalue()
    segments = b""
    for start in range(0, len(block), 65000):
        body = b"Exif\x00\x00" + block[start : start + 65000]
        segments += b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body
    # Without the density of JFIF, Pillow looks into EXIF for one.
    return data[:2] + segments + data[20:]


def in_webp(block: bytes) -> bytes:
    file = io.BytesIO()
    PillowImage.new("RGB", (16, 16)).save(file, "WEBP", exif=b"Exif\x00\x00" + block)
    return file.getvalue()


def in_png(block: bytes) -> bytes:
    file = io.BytesIO()
    PillowImage.new("RGB", (16, 16)).save(file, "PNG", exif=b"Exif\x00\x00" + block)
    return file.getvalue()


def in_tiff(block: bytes) -> bytes:
    return block


def chained(directories: int, entries: int) -> bytes:
    """A TIFF of many directories that overlap, so that a small file has millions of entries."""
    data = bytearray(b"II*\x00" + struct.pack("<I", 8))
    data += struct.pack("<H", entries) * (6 * entries + 2 * directories)
    return bytes(data)


BLOCKS = {
    "many large": lambda: bomb(60_000, 400_000),
    "large": lambda: bomb(5000, 1_000_000),
    "small": lambda: bomb(2500, 30_000),
    "big endian": lambda: bomb(5000, 500_000, order=">"),
    "numbers": lambda: bomb(5000, 7_000, kind=5),
    "one tag": lambda: bomb(3000, 500_000, tags=0x8298),
}


@pytest.mark.parametrize("wrap", [in_jpeg, in_webp, in_png, in_tiff])
@pytest.mark.parametrize("kind", BLOCKS)
def test_entries_that_share_bytes_fill_no_memory(tmp_path, wrap, kind):
    path = tmp_path / "a.bin"
    path.write_bytes(wrap(BLOCKS[kind]()))
    tracemalloc.start()
    began = time.process_time()
    for action in (list_frames, read_image, read_photo_facts):
        with pytest.raises(InputError):
            action(path) if action is not list_frames else action([path])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000_000
    assert time.process_time() - began < 5


def test_directories_that_overlap_take_no_time(tmp_path):
    path = tmp_path / "a.tif"
    path.write_bytes(chained(20_000, 1000))
    began = time.monotonic()
    with pytest.raises(InputError):
        list_frames([path])
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_millions_of_small_chunks_take_no_time(tmp_path, kind):
    file = io.BytesIO()
    PillowImage.new("RGB", (16, 16)).save(file, kind)
    data = file.getvalue()
    if kind == "PNG":
        from allfocus.images.encoders import png_chunk

        data = data[:33] + png_chunk(b"teSt", b"") * 1_500_000 + data[33:]
    else:
        more = b"TEST" + bytes(4)
        data = data[:4] + struct.pack("<I", len(data) - 8 + 8 * 500_000) + data[8:] + more * 500_000
    (tmp_path / "a.bin").write_bytes(data)
    began = time.monotonic()
    with pytest.raises(InputError, match="more than"):
        list_frames([tmp_path / "a.bin"])
    assert time.monotonic() - began < 15


def test_a_huge_number_of_scans_is_refused_before_it_is_decoded(tmp_path):
    file = io.BytesIO()
    PillowImage.new("L", (4000, 4000)).save(file, "JPEG", progressive=True)
    data = file.getvalue()
    start = data.index(b"\xff\xda")
    end = data.index(b"\xff", start + 2 + int.from_bytes(data[start + 2 : start + 4], "big"))
    while data[end + 1] == 0:
        end = data.index(b"\xff", end + 1)
    scan = data[start:end]
    (tmp_path / "a.jpg").write_bytes(data[:start] + scan * 2000 + data[start:])
    began = time.monotonic()
    with pytest.raises(InputError, match="scans"):
        read_image(tmp_path / "a.jpg")
    assert time.monotonic() - began < 5
    (tmp_path / "sound.jpg").write_bytes(data)
    assert read_image(tmp_path / "sound.jpg").width == 4000


def test_ordinary_files_are_within_every_budget(tmp_path):
    tifffile.imwrite(tmp_path / "many.tif", np.zeros((800, 8, 8), np.uint8), metadata=None)
    assert len(list_frames([tmp_path / "many.tif"])) == 800
    exif = PillowImage.Exif()
    exif[0x010E] = "a" * 30_000
    exif[0x0132] = "2024:05:01 10:00:00"
    PillowImage.new("RGB", (16, 16)).save(tmp_path / "a.jpg", exif=exif)
    assert read_image(tmp_path / "a.jpg").exif
    assert read_photo_facts(tmp_path / "a.jpg").time.year == 2024


# --- telemetry --------------------------------------------------------------------------------------------------------

SESSION = """
import sys, numpy as np
import allfocus
allfocus.fuse([np.zeros((16, 16, 3), np.float32), np.ones((16, 16, 3), np.float32)], method="ips", device="cpu")
"""


def run_session(tmp_path: Path, *prefix: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [*prefix, sys.executable, "-c", SESSION],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )


def test_no_device_id_is_made(tmp_path):
    run_session(tmp_path)
    assert [path for path in tmp_path.rglob("*") if "onnxruntime" in path.name or "deviceid" in path.name] == []


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_no_connection_is_tried(tmp_path):
    log = tmp_path / "log"
    try:
        run_session(tmp_path, "strace", "-f", "-e", "trace=connect,sendto,sendmsg,socket", "-o", str(log))
    except subprocess.CalledProcessError as error:
        if "ptrace" in error.stderr or "Operation not permitted" in error.stderr:
            pytest.skip("strace may not be used here")
        raise
    assert [line for line in log.read_text().splitlines() if "AF_INET" in line] == []


@pytest.mark.parametrize(
    "module", ["allfocus", "allfocus.web.worker", "allfocus.batch.worker_setup", "allfocus.cli.start"]
)
def test_telemetry_is_off_in_every_kind_of_process(module):
    name = "ORT_DISABLE_TELEMETRY"
    code = f"import os; os.environ.pop({name!r}, None); import {module}; print(os.environ[{name!r}])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_errors_are_ours_for_a_thousand_random_headers(tmp_path):
    random = np.random.default_rng(1)
    block = bytearray(bomb(20, 200))
    for number in range(1000):
        broken = bytearray(block)
        for _ in range(8):
            broken[int(random.integers(len(broken)))] = int(random.integers(256))
        path = tmp_path / f"{number % 4}.tif"
        path.write_bytes(broken)
        try:
            read_image(path)
        except AllfocusError:
            continue
