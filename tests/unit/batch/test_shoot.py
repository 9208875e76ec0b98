"""Stacks that are found by themselves in rendered shoots, with the metadata that cameras write."""

import datetime
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scripts import load_script

from allfocus.batch.shoot import Shot, group_shots, likeness
from allfocus.batch.stacks import find_stacks
from allfocus.cli.main import allfocus as command
from allfocus.errors import InputError
from allfocus.images.photo_facts import PhotoFacts

shoot = load_script("benchmarks/rendered_shoot.py")
compare = load_script("benchmarks/stack_finding.py").compare
Note = shoot.Note
NOON = datetime.datetime(2026, 5, 1, 12)


@pytest.fixture(scope="module")
def pool():
    return shoot.Pool.render(5)


def take(folder, frames, notes, *, prefix="IMG", start=0.0, wait=1.0, maker="Canon", first=1, **about):
    """Writes frames as JPEG files; gives their names."""
    folder.mkdir(exist_ok=True, parents=True)
    names = []
    for number, (frame, note) in enumerate(zip(frames, notes, strict=True)):
        time = NOON + datetime.timedelta(seconds=start + wait * number)
        names.append(f"{prefix}_{first + number:04}.JPG")
        shoot.write_jpeg(folder / names[-1], frame, shoot.make_exif(maker, time, note, **about))
    return names


def found(folder, **options):
    left_out = {}
    stacks = find_stacks(folder, by="auto", on_left_out=lambda path, why: left_out.update({path.name: why}), **options)
    return [[path.name for path in stack.frames] for stack in stacks], left_out


@pytest.mark.parametrize("seed", range(12))
def test_mixed_folders_are_grouped_as_they_were_shot(tmp_path, pool, seed):
    truth = shoot.shoot(tmp_path / "day", pool, seed)
    assert compare(tmp_path / "day", truth) == []


@pytest.mark.parametrize("maker", shoot.MAKERS)
def test_two_stacks_in_a_row_are_told_apart_for_each_maker(tmp_path, pool, maker):
    """The same scene twice, without a pause: only the camera knows that it began anew."""
    frames = pool.stacks[0][0]
    notes = [Note("focus", shot, 100 + 20 * shot) for shot in range(1, 7)]
    one = take(tmp_path, frames, notes, maker=maker)
    two = take(tmp_path, frames, notes, maker=maker, start=6, first=7)
    assert found(tmp_path)[0] == [one, two]


def test_frames_that_a_camera_counts_as_one_bracketing_wait_for_the_flash(tmp_path, pool):
    notes = [Note("focus", shot, 100 + 20 * shot) for shot in range(1, 7)]
    names = take(tmp_path, pool.stacks[0][0], notes, wait=25)
    assert found(tmp_path)[0] == [names]
    later = take(tmp_path / "slow", pool.stacks[0][0], [Note("none")] * 6, wait=25)
    assert found(tmp_path / "slow") == ([], dict.fromkeys(later, "stands alone"))
    assert found(tmp_path / "slow", gap=30)[0] == [later]


def test_a_frame_of_another_scene_in_the_midst_is_left_out_with_a_word(tmp_path, pool):
    frames = list(pool.stacks[0][0])
    frames.insert(3, pool.stacks[1][0][0])
    names = take(tmp_path, frames, [Note("none")] * 7)
    stacks, left_out = found(tmp_path)
    assert stacks == [[*names[:3], *names[4:]]]
    assert left_out == {names[3]: "shows another scene than the frames before and after it"}


@pytest.mark.parametrize(
    ("about", "name", "reason"),
    [
        ({"software": "Helicon Focus 8.2.0"}, "x", "is a finished composite (Helicon Focus)"),
        ({}, "2026-05-01 ZS PMax", "is a finished composite (Zerene Stacker)"),
        ({}, "allfocus_IMG", "is a finished composite (allfocus)"),
        ({}, "IMG", "is sharp wherever any frame is: a finished composite, by all appearance"),
    ],
)
def test_finished_composites_are_left_out_with_a_word(tmp_path, pool, about, name, reason):
    frames, fused = pool.stacks[0]
    names = take(tmp_path, frames, [Note("none")] * 6)
    composite = take(tmp_path, [fused], [Note("none")], prefix=name, start=6, first=7, **about)
    stacks, left_out = found(tmp_path)
    assert stacks == [names]
    assert left_out == {composite[0]: reason}


def test_the_composite_of_the_camera_is_left_out(tmp_path, pool):
    frames, fused = pool.stacks[0]
    notes = [Note("focus", shot) for shot in range(1, 7)]
    names = take(tmp_path, frames, notes, maker="OM Digital Solutions")
    take(tmp_path, [fused], [Note("none", composite=True)], maker="OM Digital Solutions", start=6, first=7)
    assert found(tmp_path) == ([names], {"IMG_0007.JPG": "was fused by the camera"})


def test_a_burst_with_one_focus_is_no_stack(tmp_path, pool):
    names = take(tmp_path, [pool.stacks[0][0][2]] * 4, [Note("none")] * 4)
    assert found(tmp_path) == ([], dict.fromkeys(names, "is one of 4 shots with the same focus"))


def test_two_cameras_at_once_are_two_stacks(tmp_path, pool):
    one = take(tmp_path, pool.stacks[0][0], [None] * 6, prefix="A", serial="1")
    two = take(tmp_path, pool.stacks[0][0], [None] * 6, prefix="B", serial="2", start=0.5)
    assert found(tmp_path)[0] == [one, two]


def test_pictures_without_any_metadata_are_grouped_by_what_they_show(tmp_path, pool):
    for number, frame in enumerate([*pool.stacks[0][0], *pool.stacks[1][0]], start=1):
        shoot.write_jpeg(tmp_path / f"{number}.jpg", frame, shoot.build_block(shoot.Directory()))
    assert [len(stack) for stack in found(tmp_path)[0]] == [6, 6]


def test_a_damaged_picture_is_a_problem_of_its_own(tmp_path, pool):
    names = take(tmp_path, pool.stacks[0][0], [Note("none")] * 6)
    (tmp_path / "IMG_0009.JPG").write_bytes((tmp_path / names[0]).read_bytes()[:400])
    stacks = find_stacks(tmp_path, by="auto")
    assert [bool(stack.problem) for stack in stacks] == [False, True]


def test_views_of_blank_pictures_are_alike_only_with_each_other():
    blank, other = np.zeros((72, 96), np.float32), np.random.default_rng(0).random((72, 96), np.float32)
    assert (likeness(blank, blank), likeness(blank, other)) == (1.0, 0.0)
    assert likeness(other, other[:48]) == 0.0


def test_the_command_shows_what_was_found_and_what_was_left_out(tmp_path, pool):
    names = take(tmp_path / "shots", pool.stacks[0][0], [Note("none")] * 6)
    take(tmp_path / "shots", [pool.stacks[1][0][0]], [Note("none")], start=60, first=7)
    words = ["batch", str(tmp_path / "shots"), "-o", str(tmp_path / "out"), "--by", "auto", "--dry-run"]
    told = CliRunner().invoke(command, words)
    assert "left out IMG_0007.JPG: stands alone" in told.output
    plain = json.loads(CliRunner().invoke(command, [*words, "--json"]).output)
    assert [len(stack["frames"]) for stack in plain["stacks"]] == [len(names)]
    assert list(plain["left_out"].values()) == ["stands alone"]


def test_a_batch_of_single_pictures_says_that_there_is_no_stack(tmp_path, pool):
    pytest.importorskip("distributed")
    from allfocus.batch.running import fuse_stacks

    take(tmp_path / "shots", [pool.stacks[0][0][0]], [Note("none")])
    with pytest.raises(InputError, match=r"none of its 1 pictures belongs to a stack; the first: IMG_0001\.JPG"):
        fuse_stacks(tmp_path / "shots", tmp_path / "out", by="auto")


def test_a_lens_that_goes_back_to_where_it_began_begins_a_new_stack():
    """The same view each time, no time and no count of the camera: only the focus distance tells."""
    view = np.random.default_rng(0).random((72, 96), np.float32)

    def shot(number, metres):
        sharpness = np.ones((18, 24), np.float32)
        sharpness[:, number * 4 : number * 4 + 4] = 9
        return Shot(Path(f"{number}_{metres}.jpg"), PhotoFacts(focus=metres), (72, 96), view, sharpness)

    shots = [shot(number, metres) for number, metres in enumerate((1.0, 1.2, 1.5, 2.0))]
    again = [replace(own, path=Path("z" + own.path.name)) for own in shots]
    assert group_shots([*shots, *again], gap=10).stacks == [[own.path for own in run] for run in (shots, again)]


def test_a_batch_fuses_what_was_found_and_tells_what_was_left_out(tmp_path, pool):
    pytest.importorskip("distributed")
    from allfocus.batch.running import fuse_stacks
    from allfocus.stack.options import FuseOptions

    take(tmp_path / "shots", pool.stacks[0][0], [Note("focus", shot) for shot in range(1, 7)])
    take(tmp_path / "shots", [pool.stacks[1][0][0]], [Note("none")], start=60, first=7)
    told = []
    result = fuse_stacks(
        tmp_path / "shots",
        tmp_path / "out",
        by="auto",
        options=FuseOptions(method="average", align=False),
        workers=1,
        notice=told.append,
    )
    assert [row.output for row in result.fused] == ["IMG_0001.jpg"]
    assert told == ["left out IMG_0007.JPG: stands alone"]
    assert {path.name: why for path, why in result.left_out.items()} == {"IMG_0007.JPG": "stands alone"}
