"""What people who stack type without looking it up: quiet, verbose, threads, reference, hooks, names, wrong places."""

import gc
import json
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import allfocus
from allfocus.errors import InputError
from allfocus.images.listing import list_files
from allfocus.machine import limited_cores, processor_count, usable_cores

FAST = ("--method", "average")


def test_quiet_prints_nothing_but_errors(run_command, stack_folder, tmp_path):
    done = run_command("fuse", stack_folder, "-o", tmp_path / "o.png", "-q", *FAST)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    again = run_command("fuse", stack_folder, "-o", tmp_path / "o.png", "--quiet", *FAST)
    assert again.returncode == 2
    assert "--overwrite" in again.stderr


def test_verbose_tells_the_steps_on_stderr_and_leaves_stdout_as_it_was(run_command, stack_folder, tmp_path):
    plain = run_command("fuse", stack_folder, "-o", tmp_path / "o.png", *FAST)
    more = run_command("fuse", stack_folder, "-o", tmp_path / "o.png", "--overwrite", "-v", *FAST)
    assert plain.stdout.rsplit(",", 1)[0] == more.stdout.rsplit(",", 1)[0]
    assert len(more.stderr.splitlines()) > len(plain.stderr.splitlines())
    assert "seconds" in more.stderr
    assert "onto frame 2" in more.stderr
    detailed = run_command("fuse", stack_folder, "-o", tmp_path / "o.png", "--overwrite", "-v", "--json", *FAST)
    json.loads(detailed.stdout)


def test_align_knows_quiet_too(run_command, stack_folder, tmp_path):
    done = run_command("align", stack_folder, "-o", tmp_path / "aligned", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_threads_limit_what_is_used_and_end_with_the_run(stack_folder, tmp_path, monkeypatch):
    import cv2

    from allfocus.stack import pipeline

    before, seen, honest = cv2.getNumThreads(), [], pipeline.fuse

    def fuse(*arguments, **options):
        seen.append((processor_count(), cv2.getNumThreads()))
        return honest(*arguments, **options)

    monkeypatch.setattr(pipeline, "fuse", fuse)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    allfocus.fuse_files(stack_folder, tmp_path / "o.png", method="average", threads=3)
    assert seen == [(3, 3)]
    assert cv2.getNumThreads() == before
    assert processor_count() == 7
    with limited_cores(None):
        assert cv2.getNumThreads() == before
    assert usable_cores() >= 1


@pytest.fixture
def moved_stack(tmp_path):
    """Three frames that move to the right and grow brighter."""
    picture = allfocus.render_scene("desk", frames=2, size=(160, 200)).truth
    folder = tmp_path / "moved"
    folder.mkdir()
    for number in range(3):
        frame = np.clip(picture[:, 4 * number : 180 + 4 * number] * (0.8 + 0.08 * number), 0, 1)
        allfocus.write_image(frame.astype(np.float32), folder / f"{number}.png")
    return folder


def test_the_reference_is_the_frame_that_stays(moved_stack, tmp_path):
    for number in (1, 3):
        result = allfocus.fuse_files(
            moved_stack, tmp_path / f"{number}.png", reference=number, crop=False, method="average"
        )
        assert result.alignment.reference == number - 1
        assert np.array_equal(result.alignment.transforms[number - 1], np.eye(3))
    assert allfocus.fuse_files(moved_stack, tmp_path / "m.png", method="average").alignment.reference == 1


def test_brightness_is_matched_unless_told_otherwise(moved_stack, tmp_path):
    matched = allfocus.fuse_files(moved_stack, tmp_path / "a.png", reference=1, method="average")
    left = allfocus.fuse_files(moved_stack, tmp_path / "b.png", reference=1, method="average", brightness=False)
    assert max(max(gains) for gains in left.alignment.brightness) == 1
    assert min(min(gains) for gains in matched.alignment.brightness) < 0.95
    assert left.image.mean() > matched.image.mean() * 1.03


@pytest.mark.parametrize(
    ("options", "words"),
    [({"reference": 4}, "the stack has 3"), ({"reference": 2, "align": False}, "not to be aligned")],
)
def test_a_reference_that_makes_no_sense_is_refused(moved_stack, tmp_path, options, words):
    with pytest.raises(allfocus.InputError, match=words) as caught:
        allfocus.fuse_files(moved_stack, tmp_path / "o.png", **options)
    assert caught.value.code == "bad-option"


def test_a_reference_that_is_left_out_is_named(moved_stack, tmp_path):
    (moved_stack / "0.png").write_bytes((moved_stack / "0.png").read_bytes()[:500])
    with pytest.raises(allfocus.InputError, match="left out") as caught:
        allfocus.fuse_files(moved_stack, tmp_path / "o.png", reference=1, skip_bad=True)
    assert caught.value.where.endswith("0.png")
    kept = allfocus.fuse_files(moved_stack, tmp_path / "o.png", reference=3, skip_bad=True, method="average")
    assert kept.alignment.reference == 1  # the third frame is the second of those that are left


def test_a_command_after_fuse_runs_and_its_failure_is_told(run_command, stack_folder, tmp_path):
    copy = f'"{sys.executable}" -c "import shutil, sys; shutil.copy(*sys.argv[1:])" {{output}} {{folder}}/copy.png'
    done = run_command("fuse", stack_folder, "-o", tmp_path / "o.png", "--after", copy, *FAST)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "copy.png").read_bytes() == (tmp_path / "o.png").read_bytes()
    fail = f'"{sys.executable}" -c "import sys; sys.exit(\'no room\')"'
    done = run_command("fuse", stack_folder, "-o", tmp_path / "p.png", "--after", fail, *FAST)
    assert done.returncode == 1
    assert "exit code 1: no room" in done.stderr
    assert (tmp_path / "p.png").exists()
    done = run_command("fuse", stack_folder, "-o", tmp_path / "q.png", "--after", "cp {nowhere}", *FAST)
    assert done.returncode == 2
    assert not (tmp_path / "q.png").exists()


def test_a_batch_names_its_results_and_runs_a_command_after_each(run_command, stack_folder, tmp_path):
    pytest.importorskip("distributed")
    for name in ("day/one", "two"):
        shutil.copytree(stack_folder, tmp_path / "shoot" / name)
    (tmp_path / "log").mkdir()
    note = f'"{sys.executable}" -c "import sys; from pathlib import Path; Path(sys.argv[1], sys.argv[2]).touch()"'
    done = run_command(
        *("batch", tmp_path / "shoot", "-o", tmp_path / "out", "--workers", "1", *FAST, "--reports", "-q"),
        *("--name", "{folder}/{name}-{count}_{method}", "--after", f"{note} {tmp_path / 'log'} {{name}}"),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    written = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*-3_*")}
    assert written == {f"{name}-3_average{end}" for name in ("day/one", "two") for end in (".png", "_report.html")}
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == ["one-3_average", "two-3_average"]


def test_looking_for_pictures_in_folders_leaves_none_open(stack_folder, tmp_path):
    shutil.copytree(stack_folder, tmp_path / "shoot" / "beetle")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with pytest.raises(InputError, match="no pictures in this folder"):
            list_files([tmp_path / "shoot"])
        gc.collect()
    assert [str(warning.message) for warning in heard] == []


def test_a_folder_of_folders_says_where_the_pictures_are(run_command, stack_folder, tmp_path):
    shutil.copytree(stack_folder, tmp_path / "shoot" / "DCIM" / "beetle")  # two deep, as on cards
    done = run_command("fuse", tmp_path / "shoot", "-o", tmp_path / "o.png")
    assert done.returncode == 2
    assert str(Path("DCIM", "beetle")) in done.stderr
    assert "batch" in done.stderr


def test_a_name_that_results_cannot_have_is_refused_in_a_dry_run_too(run_command, stack_folder, tmp_path):
    done = run_command("batch", stack_folder, "-o", tmp_path / "out", "--dry-run", "--name", "{nme}")
    assert done.returncode == 2
    assert "there is no {nme}" in done.stderr
