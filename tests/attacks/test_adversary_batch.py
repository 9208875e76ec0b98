"""A second adversary on batches: odd lists, names, numbers, addresses, and things planted where it keeps its own."""

import json
import math
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from allfocus.batch.cluster import Cluster
from allfocus.batch.manifest import StackRecord, parse_record
from allfocus.batch.running import fuse_stacks
from allfocus.batch.stacks import find_stacks
from allfocus.cli.main import run
from allfocus.errors import AllfocusError, InputError
from allfocus.images.listing import natural_order
from allfocus.images.writing import write_image
from allfocus.stack.options import FuseOptions

QUICK = FuseOptions(method="average", align=False)
BATCH = ["--method", "average", "--no-align"]


@pytest.fixture
def shots(tmp_path) -> Path:
    """Two stacks of two frames."""
    random = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / "shots" / name).mkdir(parents=True)
        for number in range(2):
            frame = random.random((24, 24, 3)).astype(np.float32)
            write_image(frame, tmp_path / "shots" / name / f"{number}.png")
    return tmp_path / "shots"


@pytest.fixture(autouse=True)
def impatience():
    """What hangs fails, in place of holding up all other tests."""

    def give_up(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def attempt(shots: Path, out: Path) -> str:
    """Why the batch, or a stack of it, failed; empty when all stacks were fused."""
    try:
        return " ".join(row.error for row in fuse_stacks(shots, out, options=QUICK).failed)
    except AllfocusError as error:
        return str(error)


# --- numbers and addresses --------------------------------------------------------------------------------------------

ODD_NUMBERS = ["nan", "inf", "-inf", "-1", "1e999", "1e18", "", "x"]


@pytest.mark.parametrize("value", [*ODD_NUMBERS, "0"])
def test_no_odd_gap_is_a_gap(shots, tmp_path, capsys, value):
    assert run(["batch", str(shots), "-o", str(tmp_path / "out"), *BATCH, "--by", "time", "--gap", value]) == 2
    assert "unexpected" not in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--settle", "--patience", "--stop-after"])
@pytest.mark.parametrize("value", ["nan", "-1", "-inf", "x"])
def test_no_odd_number_of_seconds_is_waited(shots, tmp_path, capsys, option, value):
    assert run(["batch", str(shots), "-o", str(tmp_path / "out"), *BATCH, option, value]) == 2
    assert "unexpected" not in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value", ["infGB", "1e400GB", "nanGB", "-3GB", "0GB", "3XB", "", "1B", "9999999999GB", "GB"])
def test_no_odd_memory_is_a_limit(shots, tmp_path, capsys, value):
    assert run(["batch", str(shots), "-o", str(tmp_path / "out"), *BATCH, "--memory", value]) == 2
    assert "unexpected" not in capsys.readouterr().err


ADDRESSES = [
    "", "x", "tcp://", "tcp://[::1", "tcp://host", "tcp://host:0", "tcp://host:99999", "tcp://a b:1", "http://host:1",
    "inproc://host:1", "file:///etc/passwd", "tcp://host:1/path", "\x00", "/dev/zero", ".", "host:port", "tls://host:1",
    "missing.json",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_is_no_address_is_refused_at_once(address):
    with pytest.raises(InputError), Cluster(address, patience=0.1):
        pass


def test_a_scheduler_that_does_not_answer_spoils_no_later_try():
    for _ in range(2):
        with pytest.raises(InputError, match="no Dask scheduler answers"), Cluster("tcp://127.0.0.1:1", patience=0.1):
            pass


def test_a_pipe_is_no_scheduler_file(tmp_path):
    os.mkfifo(tmp_path / "scheduler.json")
    with pytest.raises(InputError, match="pipe"), Cluster(str(tmp_path / "scheduler.json"), patience=0.1):
        pass


# --- names in a list --------------------------------------------------------------------------------------------------

NAMES = {
    "long": "x" * 300, "digits": "9" * 5000, "very long": "a" * 70_000, "deep": "c/" * 200 + "d", "back": "a\\b",
    "device": "con", "drive": "a:b", "dot": "a.", "accent": "é", "other accent": "e\u0301", "turned": "a\u202eb",
    "formula": "=1+1", "ours": "manifest", "summary": "summary.csv", "sheet": "contact_sheet.html",
    "lines": "a\nb", "quotes": "'\"", "percent": "%00", "star": "*", "pipe": "|", "hidden": "a/.hid", "snow": "☃",
    "spaces": "a b", "tab": "a\tb", "zeros": "0" * 4000, "list": "manifest.jsonl",
}  # fmt: skip


@pytest.mark.parametrize("kind", NAMES)
def test_no_name_in_a_list_ends_a_batch(shots, tmp_path, without_cluster, kind):
    name = NAMES[kind].replace('"', '""')
    rows = [f'"{name}",a/0.png', f'"{name}",a/1.png', "good,b/0.png", "good,b/1.png"]
    (tmp_path / "list.csv").write_text("stack,frame\n" + "\n".join(rows), "utf-8")
    before = contents(shots)
    result = fuse_stacks(shots, tmp_path / "out", manifest=tmp_path / "list.csv", options=QUICK)
    assert "good" in [row.stack for row in result.fused]
    assert all("unexpected" not in row.error for row in result.failed)
    assert contents(shots) == before
    assert (tmp_path / "list.csv").exists()
    for line in (tmp_path / "out/manifest.jsonl").read_bytes().splitlines():
        json.loads(line)


LISTS = {
    "empty": b"", "a head alone": b"stack,frame\n", "no columns": b"a,b\nx,a/0.png", "semicolons": b"stack;frame\nx;a",
    "one column": b"stack,frame\nx\n", "nothing": b"stack,frame\n,\n", "UTF-16": "stack,frame\nx,y".encode("utf-16"),
    "Latin": b"stack,frame\n\xff,a/0.png\n", "zeros": bytes(1000), "open quote": b'stack,frame\n"x,a/0.png\n',
    "a huge cell": b"stack,frame\nx," + b"y" * 200_000, "outside": b"stack,frame\n../x,a/0.png\n../x,a/1.png\n",
    "absolute": b"stack,frame\n/x,a/0.png\n/x,a/1.png\n", "empty part": b"stack,frame\na//b,a/0.png\na//b,a/1.png\n",
}  # fmt: skip


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_that_is_none_is_one_sentence(shots, tmp_path, without_cluster, kind):
    (tmp_path / "list.csv").write_bytes(LISTS[kind])
    with pytest.raises(InputError):
        fuse_stacks(shots, tmp_path / "out", manifest=tmp_path / "list.csv", options=QUICK)
    assert not (tmp_path / "out").exists()


FRAMES = ["/etc/passwd", "../../../etc/passwd", "/dev/zero", "/dev/random", "a", "a/*.png", "n" * 300, "n/" * 3000, "."]


@pytest.mark.parametrize("frame", FRAMES)
def test_what_is_no_frame_in_a_list_is_a_stack_that_fails(shots, tmp_path, without_cluster, frame):
    rows = f"stack,frame\nbad,{frame}\nbad,a/1.png\ngood,b/0.png\ngood,b/1.png\n"
    (tmp_path / "list.csv").write_text(rows)
    result = fuse_stacks(shots, tmp_path / "out", manifest=tmp_path / "list.csv", options=QUICK)
    assert [row.stack for row in result.fused] == ["good"]
    assert "unexpected" not in result.failed[0].error
    assert "root:" not in result.failed[0].error


@pytest.mark.parametrize(("one", "two"), [("A", "a"), ("é", "e\u0301"), ("É", "e\u0301"), ("ß", "SS"), ("ﬁ", "FI")])
def test_names_that_are_one_on_other_file_systems_are_two_results_or_an_error(shots, tmp_path, one, two):
    rows = [f"{name},{place}/{number}.png" for name, place in ((one, "a"), (two, "b")) for number in range(2)]
    (tmp_path / "list.csv").write_text("stack,frame\n" + "\n".join(rows), "utf-8")
    with pytest.raises(InputError, match="one name"):
        find_stacks(shots, manifest=tmp_path / "list.csv")


def test_the_map_of_one_stack_is_not_the_result_of_another(shots, tmp_path, without_cluster):
    rows = [f"{name},{place}/{number}.png" for name, place in (("É", "a"), ("e\u0301_depth", "b")) for number in (0, 1)]
    (tmp_path / "list.csv").write_text("stack,frame\n" + "\n".join(rows), "utf-8")
    options = FuseOptions(method="dsift", align=False)
    result = fuse_stacks(shots, tmp_path / "out", manifest=tmp_path / "list.csv", options=options, maps=["depth"])
    assert [row.stack for row in result.fused] == ["e\u0301_depth"]
    assert "is a file of the stack" in result.failed[0].error


def test_names_are_counted_however_many_digits_they_have():
    names = ["a" + "9" * 5000, "a10", "a9", "a" + "1" + "0" * 5000, "a010", "a0"]
    assert [len(name) for name in sorted(names, key=natural_order)] == [2, 2, 4, 3, 5001, 5002]


# --- what is planted in the output folder -----------------------------------------------------------------------------

PLANTS = {
    "pipe": os.mkfifo,
    "folder": lambda path: path.mkdir(),
    "loop": lambda path: path.symlink_to(path),
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "full": lambda path: path.symlink_to("/dev/full"),
    "nowhere": lambda path: path.symlink_to(path.with_name("elsewhere")),
    "a frame": lambda path: path.symlink_to(path.parents[1] / "shots/a/0.png"),
    "a note": lambda path: path.write_text("my own notes"),
}


@pytest.mark.parametrize("kind", PLANTS)
@pytest.mark.parametrize("name", ["manifest.jsonl", "summary.csv", "contact_sheet.html", "a.png", ".thumbnails"])
def test_nothing_that_lies_in_the_way_is_lost_or_holds_a_batch_up(shots, tmp_path, without_cluster, name, kind):
    out = tmp_path / "out"
    out.mkdir()
    PLANTS[kind](out / name)
    kept, status = contents(shots), os.lstat(out / name)
    told = attempt(shots, out)
    assert name in told or not told
    assert "unexpected" not in told
    assert contents(shots) == kept
    ours = kind == "nowhere" and name in ("manifest.jsonl", "summary.csv", "contact_sheet.html")
    if not (ours or (kind == "folder" and name == ".thumbnails")):
        assert os.lstat(out / name).st_ino == status.st_ino


LINE = StackRecord("a", "fused", "a.png", (("0.png", 1, 2),)).to_line().decode()
STATES = {
    "an infinite size": LINE.replace('"0.png", 1', '"0.png", Infinity'),
    "a huge size": LINE.replace('"0.png", 1', '"0.png", 1e999'),
    "a long size": LINE.replace('"0.png", 1', '"0.png", ' + "9" * 5000),
    "lists": "[" * 100_000 + "\n",
    "objects": '{"a":' * 50_000 + "\n",
    "numbers for names": LINE.replace('"a"', "5"),
    "an output outside": LINE.replace('"a.png"', '"../shots/a/0.png"'),
    "an output at the root": LINE.replace('"a.png"', '"/etc/passwd"'),
    "a zero byte": LINE.replace('"a.png"', '"\\u0000"'),
    "maps outside": LINE.replace('"maps": []', '"maps": ["../shots/a/0.png"]'),
    "files outside": LINE.replace('"files": []', '"files": [["../shots/a/0.png", 1, 1]]'),
    "words for numbers": LINE.replace('"width": 0', '"width": "x"'),
    "no seconds": LINE.replace('"seconds": 0.0', '"seconds": NaN'),
    "a list for an error": LINE.replace('"error": ""', '"error": [1]'),
    "more fields": LINE.replace('"stack"', '"evil": 1, "stack"'),
    "a page": '{"stack": "", "status": "page", "page": "../../x", "state": [1e999, 2]}\n',
    "empty lines": "\n\n\n",
}


@pytest.mark.parametrize("kind", STATES)
def test_no_record_that_is_not_ours_is_believed(shots, tmp_path, without_cluster, kind):
    out = tmp_path / "out"
    out.mkdir()
    assert STATES[kind] != LINE
    (out / "manifest.jsonl").write_text(STATES[kind])
    for line in STATES[kind].encode().splitlines():
        assert parse_record(line) is None
    before = contents(shots)
    told = attempt(shots, out)
    assert "was not made by a batch" in told or not told
    assert contents(shots) == before


@pytest.mark.parametrize(
    "receipt",
    ["[" * 100_000, '{"files": [["a.png", 1e999, 1]]}', '{"files": 5}', "null", '{"files": [["a.png"]]}', "\x00"],
)
def test_no_receipt_that_is_not_ours_is_believed(shots, tmp_path, without_cluster, receipt):
    out = tmp_path / "out"
    (out / ".thumbnails").mkdir(parents=True)
    (out / "a.png").write_bytes(b"my own picture")
    (out / ".thumbnails/a.receipt.json").write_text(receipt)
    result = fuse_stacks(shots, out, options=QUICK)
    assert [row.stack for row in result.fused] == ["b"]
    assert (out / "a.png").read_bytes() == b"my own picture"
    assert math.isfinite(result.failed[0].seconds)


@pytest.mark.parametrize("line", ["[" * 100_000, '{"file": "a.png", "state": [1e999, 1, 1, 1], "old": null}'])
def test_a_planted_journal_is_no_error(shots, tmp_path, line):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f".allfocus-{'a' * 12}.journal").write_text(f'{{"allfocus": 1}}\n{line}\n')
    words = ["fuse", str(shots / "a"), "-o", str(tmp_path / "out/a.png"), *BATCH]
    assert run(words) == 0
