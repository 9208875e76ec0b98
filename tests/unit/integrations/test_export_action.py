"""The export action, run as a photo program or a file manager runs it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile

SCRIPT = Path(__file__).resolve().parents[3] / "integrations" / "export-action" / "allfocus_fuse.pyw"


def act(*files, program, **environment):
    words = [sys.executable, "-I", str(SCRIPT), "--no-windows", *map(str, files)]
    environment = {**os.environ, "ALLFOCUS": str(program), **environment}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment)


def test_files_in_any_order_are_fused_beside_the_first(frames, program, expected):
    done = act(frames[1], frames[2], frames[0], program=program)
    output = frames[0].with_name(f"{frames[0].stem}-{frames[2].stem}_allfocus.tif")
    assert (done.returncode, done.stdout) == (0, f"{output}\n"), done.stderr
    assert np.array_equal(tifffile.imread(output), np.rint(expected * 255).astype(np.uint8))


def test_a_file_that_has_the_name_of_the_result_is_kept(frames, program):
    kept = frames[0].with_name(f"{frames[0].stem}-{frames[2].stem}_allfocus.tif")
    kept.write_text("mine")
    done = act(*frames, program=program)
    assert done.stdout.endswith("_allfocus_2.tif\n")
    assert kept.read_text() == "mine"


def test_the_complaint_of_the_program_is_told(frames, program):
    frames[1].write_bytes(frames[1].read_bytes()[:200])
    done = act(*frames, program=program)
    assert done.returncode == 2
    assert frames[1].name in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert len(list(frames[0].parent.iterdir())) == 3


@pytest.mark.parametrize(
    ("count", "program", "told"), [(1, "allfocus", "two pictures or more"), (2, "/nowhere/allfocus", "pip install")]
)
def test_what_cannot_work_is_told(frames, count, program, told):
    done = act(*frames[:count], program=program)
    assert done.returncode == 2
    assert told in done.stderr


def test_a_program_that_is_killed_is_told(frames, tmp_path):
    program = tmp_path / "allfocus"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    assert "ended before" in act(*frames, program=program).stderr


def test_the_program_is_found_where_installers_put_it(frames, program, tmp_path):
    home = tmp_path / "home" / ".local" / "bin"
    home.mkdir(parents=True)
    (home / "allfocus").symlink_to(program)
    done = act(*frames, program="", HOME=str(home.parents[1]), PATH="/usr/bin:/bin")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("xvfb-run") is None, reason="Xvfb is not installed")
def test_with_windows_it_shows_that_it_works_and_opens_the_result(frames, program, tmp_path):
    pytest.importorskip("tkinter", reason="this Python has no windows")
    opened, viewer = tmp_path / "opened.txt", tmp_path / "bin" / "xdg-open"
    viewer.parent.mkdir()
    viewer.write_text(f'#!/bin/sh\necho "$1" > "{opened}.new" && mv "{opened}.new" "{opened}"\n')
    viewer.chmod(0o755)
    environment = {**os.environ, "ALLFOCUS": str(program), "PATH": f"{viewer.parent}:{os.environ['PATH']}"}
    words = ["xvfb-run", "-a", sys.executable, "-I", str(SCRIPT), *map(str, frames)]
    # The viewer has the same output, so that this waits for its end too.
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.endswith("_allfocus.tif\n"), done.stderr
    assert opened.read_text() == done.stdout
