"""A fourth adversary, on what users name: places that the system does not take, disks that fail, files of another kind.

Also results that would lie where a batch keeps its own, depth that is none, and arrays that are no pictures.
"""

import errno
import json
import os
import struct
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import tifffile

import allfocus
from allfocus.batch.cluster import Cluster
from allfocus.batch.running import fuse_stacks
from allfocus.cli.export_command import weights_of_run
from allfocus.cli.main import allfocus as commands
from allfocus.cli.main import run
from allfocus.depth.units import read_length
from allfocus.errors import InputError
from allfocus.files.opening import open_plain
from allfocus.images.colour_profile import SRGB_PRIMARIES, make_profile
from allfocus.images.transfer import find_curve, profile_tags
from allfocus.images.writing import write_image
from allfocus.stack.options import FuseOptions

FRAME = np.random.default_rng(0).random((24, 28, 3)).astype(np.float32)


@pytest.fixture
def frames(tmp_path) -> Path:
    for number in range(2):
        (tmp_path / "frames").mkdir(exist_ok=True)
        write_image(FRAME, tmp_path / "frames" / f"{number}.png")
    return tmp_path / "frames"


# --- names and disks --------------------------------------------------------------------------------------------------

COMMANDS: dict[str, list[str]] = {
    "dark": ["fuse", "FRAMES", "-o", "OUT", "--dark", "NAME"],
    "weights": ["fuse", "FRAMES", "-o", "OUT", "--method", "cnn", "--weights", "NAME"],
    "network": ["fuse", "FRAMES", "-o", "OUT", "--method", "NAME.onnx"],
    "folder": ["batch", "NAME", "-o", "OUT"],
    "results": ["batch", "FRAMES", "-o", "NAME", "--method", "average"],
    "work": ["export-project", "x", "--work", "NAME"],
    "opened": ["open", "NAME"],
    "recipe": ["train", "NAME"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["n" * 300, "n/" * 2500 + "n"], ids=["long", "deep"])
def test_a_name_that_the_system_does_not_take_is_one_sentence(frames, tmp_path, capsys, command, name):
    known = {"FRAMES": str(frames), "OUT": str(tmp_path / "out.png")}
    words = [known.get(word, word).replace("NAME", name) for word in COMMANDS[command]]
    assert run(words) == 2
    assert "unexpected" not in capsys.readouterr().err


def test_no_empty_name_is_the_current_folder(frames, tmp_path, capsys, monkeypatch):
    paths = [
        own for command in commands.commands.values() for own in command.params if isinstance(own.type, click.Path)
    ]
    assert len(paths) > 30
    for parameter in paths:
        with pytest.raises(click.BadParameter, match="empty"):
            parameter.type.convert("", parameter, None)
    monkeypatch.chdir(frames)
    assert run(["align", "0.png", "1.png", "-o", ""]) == 2
    assert run(["fuse", "0.png", "1.png", "-o", "out.png", "--dark", ""]) == 2
    assert capsys.readouterr().err.count("empty") == 2
    for call, given in (
        (allfocus.align_files, (".", "")),
        (fuse_stacks, (".", "")),
        (allfocus.fuse_files, ("", "o.png")),
    ):
        with pytest.raises(InputError, match="empty"):
            call(*given)
    assert sorted(os.listdir()) == ["0.png", "1.png"]


def test_a_name_that_the_system_does_not_take_is_no_run_to_export():
    with pytest.raises(InputError):
        weights_of_run(Path("n" * 300))


def test_a_name_with_a_zero_byte_is_no_folder_of_stacks(tmp_path):
    with pytest.raises(InputError):
        fuse_stacks("a\0b", tmp_path / "out")


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs a file that cannot be read at its beginning")
def test_a_disk_that_fails_while_a_file_is_read_is_one_sentence(frames, tmp_path, capsys):
    with open_plain(Path("/proc/self/mem")) as file, pytest.raises(InputError) as caught:
        file.read(16)
    assert caught.value.code == "unreadable-file"
    assert os.strerror(errno.EIO) in str(caught.value)
    words = ["fuse", "/proc/self/mem", str(frames / "0.png"), "-o", str(tmp_path / "out.png")]
    assert run(words) == 2
    assert "unexpected" not in capsys.readouterr().err


SCHEDULERS = [
    b"",
    b"hello",
    b"[]",
    b"{}",
    b'{"address": 5}',
    b'{"address": "http://host:1"}',
    b"[" * 100_000,
    b"\0" * 9,
]


@pytest.mark.parametrize("content", SCHEDULERS)
def test_a_file_that_is_no_schedulers_is_one_sentence(tmp_path, content):
    (tmp_path / "scheduler.json").write_bytes(content)
    with pytest.raises(InputError), Cluster(str(tmp_path / "scheduler.json"), patience=0.1):
        pass


def test_the_address_in_the_file_of_a_scheduler_is_called(tmp_path):
    (tmp_path / "scheduler.json").write_text(json.dumps({"address": "tcp://127.0.0.1:1"}))
    with pytest.raises(InputError, match="no Dask scheduler answers"):
        Cluster(str(tmp_path / "scheduler.json"), patience=0.1).__enter__()


# --- where a batch keeps its own --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [".thumbnails", ".Thumbnails", "summary.csv", "manifest.jsonl", "contact_sheet.html"])
def test_no_result_lies_where_a_batch_keeps_its_own_files(frames, tmp_path, without_cluster, place):
    options = FuseOptions(method="average", align=False)
    out = tmp_path / "out"
    result = fuse_stacks(frames, out, options=options, name=f"{place}/{{stack}}", ending=".webp")
    assert [row.status for row in result.rows] == ["failed"]
    assert "files of its own" in result.failed[0].error
    assert (out / "summary.csv").is_file()
    assert not list(out.rglob("*.webp"))


# --- depth that is none, arrays that are no pictures ------------------------------------------------------------------


@pytest.mark.parametrize("length", ["1e300m", "1e-300um", "1e13m", "1e-20m"])
def test_no_length_that_nothing_has_is_taken(length):
    with pytest.raises(InputError) as caught:
        read_length(length)
    assert caught.value.code == "bad-option"


def write_depth(path: Path, depth: np.ndarray[Any, Any]) -> None:
    """As a fusion writes it, in micrometres."""
    tifffile.imwrite(path, depth, description="ImageJ=1.54f\nunit=um\nvunit=um\nstep=2\n", metadata=None)


@pytest.mark.parametrize("ending", ["glb", "stl", "png"])
def test_values_that_are_no_depth_make_no_relief(tmp_path, ending):
    write_image(FRAME, tmp_path / "picture.png")
    depth = np.linspace(-3e38, 3e38, 24 * 28).reshape(24, 28).astype(np.float32)
    write_depth(tmp_path / "depth.tif", depth)
    with pytest.raises(InputError, match="which is no depth"):
        allfocus.write_relief(tmp_path / "picture.png", tmp_path / "depth.tif", tmp_path / f"relief.{ending}")


def test_a_depth_map_of_edges_alone_says_so(tmp_path):
    write_image(FRAME, tmp_path / "picture.png")
    depth = (np.indices((24, 28)).sum(axis=0) % 2 * 100).astype(np.float32)
    write_depth(tmp_path / "depth.tif", depth)
    with pytest.raises(InputError, match="make a surface"):
        allfocus.write_relief(tmp_path / "picture.png", tmp_path / "depth.tif", tmp_path / "relief.glb")


NO_PICTURES: dict[str, Any] = {
    "a number": np.float32(1),
    "a line": np.ones(5, np.float32),
    "four axes": np.ones((2, 2, 2, 2), np.float32),
    "two channels": np.ones((24, 28, 2), np.float32),
    "nothing": np.ones((0, 28, 3), np.float32),
    "integers": np.ones((24, 28, 3), np.uint8),
    "another size": FRAME[:-1],
    "not a number": np.where(np.arange(28)[None, :, None] == 3, np.float32(np.nan), FRAME),
    "infinite": np.full_like(FRAME, np.inf),
}


@pytest.mark.parametrize("kind", NO_PICTURES)
def test_what_is_no_picture_beside_the_frames_is_one_sentence(kind):
    odd, decision = NO_PICTURES[kind], np.zeros((24, 28), np.int16)
    with pytest.raises(InputError):
        allfocus.measure_depth([FRAME, FRAME], decision, odd)
    with pytest.raises(InputError):
        allfocus.measure_lost_detail(odd, [FRAME, FRAME])
    with pytest.raises(InputError):
        allfocus.measure_lost_detail(FRAME, [FRAME, odd])


@pytest.mark.parametrize(
    "decision", [np.zeros(5, np.int16), np.zeros((24, 28)), np.int16(1)], ids=["line", "float", "0"]
)
def test_what_is_no_decision_is_one_sentence(decision):
    with pytest.raises(InputError):
        allfocus.measure_depth([FRAME, FRAME], decision, FRAME)


# --- colour profiles of no camera -------------------------------------------------------------------------------------


def formula(*numbers: float) -> bytes:
    """A curve of the third kind of formula: exponent, scale, offset, slope, start."""
    return b"para" + bytes(4) + struct.pack(">HH5i", 3, 0, *(round(number * 65536) for number in numbers))


CURVES = {
    "an exponent in which shades are lost": b"curv" + bytes(4) + struct.pack(">IH", 1, 200 * 256),
    "beyond all numbers": formula(30_000, 30_000, 1, 1, 0.04),
    "far beyond white": formula(2.4, 9, 0.05, 0.08, 0.04),
    "from white to white": formula(1, 0.001, 1, 1, 0),
    "a step in the middle": formula(2.4, 0.948, 0.052, 5, 0.5),
}


@pytest.mark.parametrize("kind", CURVES)
def test_a_profile_from_whose_light_no_value_comes_back_tells_nothing(kind):
    sound = make_profile("sound", 2.2, SRGB_PRIMARIES)
    (old,) = {body for name, body in profile_tags(sound).items() if name.endswith(b"TRC")}
    body = CURVES[kind]
    assert find_curve(sound, None) is not None
    assert find_curve(put_curve(sound, body), None) is None
    assert find_curve(put_curve(sound, old), None) is not None


def put_curve(profile: bytes, body: bytes) -> bytes:
    """The profile with another curve, at its end."""
    found = bytearray(profile + body)
    for at in range(132, 132 + 12 * int.from_bytes(profile[128:132], "big"), 12):
        if found[at + 1 : at + 4] == b"TRC":
            struct.pack_into(">II", found, at + 4, len(profile), len(body))
    return bytes(found)
