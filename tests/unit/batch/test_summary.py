"""The table and the contact sheet of a batch."""

import csv

import numpy as np
import pytest

from allfocus.batch.manifest import FAILED, FUSED, StackRecord, parse_record
from allfocus.batch.stack_task import (
    StackTask,
    _write_thumbnail,
    fuse_stack,
    lost_thumbnail_path,
    thumbnail_path,
)
from allfocus.batch.summary import write_contact_sheet, write_summary
from allfocus.cli.batch_command import parse_memory
from allfocus.errors import InputError
from allfocus.images.reading import read_image
from allfocus.images.writing import write_image
from allfocus.scenes.rendering import render_scene
from allfocus.stack.options import FuseOptions

ROWS = [
    StackRecord("a/b", FUSED, "a/b.png", (("1", 2, 3),), width=8, height=6, notices=("one", "two")),
    StackRecord("=cmd|x", FAILED, "x.png", error="<script>alert(1)</script>"),
]


def test_the_table_has_one_row_for_each_stack_and_no_formula(tmp_path):
    with write_summary(tmp_path, ROWS).open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["stack"], first["frames"], first["width"], first["notices"]) == ("a/b", "1", "8", "one; two")
    assert second["stack"] == "'=cmd|x"
    assert second["status"] == "failed"


def test_the_page_shows_small_pictures_and_failures_and_lets_no_text_become_code(tmp_path):
    thumbnail = thumbnail_path(tmp_path, "a/b")
    thumbnail.parent.mkdir(parents=True)
    thumbnail.write_bytes(b"RIFF")
    page = write_contact_sheet(tmp_path, ROWS, title="Beetles & bees").read_text()
    assert "data:image/webp;base64,UklGRg==" in page
    assert 'href="a/b.png"' in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "1 of 2 stacks fused, 1 failed" in page


def test_stacks_that_lost_detail_are_flagged_with_the_worst_place(tmp_path):
    rows = [
        StackRecord("kept", FUSED, "kept.png", lost_percent=0.02),
        StackRecord("lost", FUSED, "lost.png", lost_percent=0.8412, lost_flag=True),
        StackRecord("older", FUSED, "older.png"),
    ]
    with write_summary(tmp_path, rows).open(newline="") as file:
        table = [(row["lost_percent"], row["lost_flag"]) for row in csv.DictReader(file)]
    assert table == [("0.02", ""), ("0.8412", "yes"), ("", "")]
    for name in ("kept", "lost"):
        path = lost_thumbnail_path(tmp_path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"RIFF")
    page = write_contact_sheet(tmp_path, rows, title="Beetles").read_text()
    assert page.count("detail lost in 0.84 % of the picture") == 1
    assert page.count("data:image/webp;base64,UklGRg==") == 1
    assert 'alt="lost: lost detail, the result and the frame that shows more"' in page


def test_a_worker_notes_what_was_lost_and_forgets_it_when_it_is_not(tmp_path):
    scene = render_scene("desk", frames=3, size=(96, 128))
    frames = tuple(str(write_image(frame, tmp_path / f"{n}.png")) for n, frame in enumerate(scene.frames))

    def run(method):
        options = FuseOptions(method=method, align=False)
        task = StackTask("desk", frames, str(tmp_path), str(tmp_path / "out"), "desk.png", options, "key", ("check",))
        record = fuse_stack(task)
        assert record.status == FUSED, record.error
        assert parse_record(record.to_line()) == record
        assert task.maps["check_map"].is_file()
        return record, task.lost_thumbnail

    record, thumbnail = run("average")
    assert record.lost_flag
    assert record.lost_percent > 0.3
    shown = read_image(thumbnail)
    assert (shown.width, shown.height) == (2 * 128, 96)  # the whole of a small picture, twice
    record, thumbnail = run("laplacian-pyramid")
    assert (record.lost_flag, record.lost_percent < 0.3) == (False, True)
    assert not thumbnail.exists()


def test_nothing_is_written_when_nothing_changed(tmp_path):
    path = write_summary(tmp_path, ROWS)
    before = path.stat().st_ino
    write_summary(tmp_path, ROWS)
    assert path.stat().st_ino == before
    write_summary(tmp_path, ROWS[:1])
    assert path.stat().st_ino != before


@pytest.mark.parametrize(("text", "size"), [("3GB", 3 * 10**9), ("2.5 GiB", 5 * 2**29), ("800mb", 8 * 10**8)])
def test_memory_is_read_as_people_write_it(text, size):
    assert parse_memory(None, None, text) == size


@pytest.mark.parametrize("text", ["3", "GB", "three GB", "10MB", "-1GB"])
def test_memory_that_makes_no_sense_is_refused(text):
    import click

    with pytest.raises((click.BadParameter, InputError), match=r"no size; write it like|100MB or more"):
        parse_memory(None, None, text)


def test_the_thumbnail_of_a_result_in_units_of_its_own_has_shades(tmp_path):
    ramp = np.linspace(-5, 3000, 64 * 64, dtype=np.float32).reshape(64, 64)
    _write_thumbnail(ramp, tmp_path / "small.webp")
    pixels = read_image(tmp_path / "small.webp").pixels
    assert pixels.min() < 0.1
    assert pixels.max() > 0.9
    assert 0.4 < pixels.mean() < 0.6
