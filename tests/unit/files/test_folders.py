"""A folder as a result appears whole or not at all, and what a killed run left is taken away."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from allfocus.errors import OutputError
from allfocus.files.placing import StagedFiles

KILLED = """
import os, signal, sys
from pathlib import Path
from allfocus.files.placing import StagedFiles

def build(folder):
    folder.mkdir()
    (folder / "half").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)

with StagedFiles(overwrite=True) as files:
    files.add_folder(Path(sys.argv[1]), build)
"""


def build(text):
    def make(folder):
        folder.mkdir()
        (folder / "content").write_text(text)

    return make


def build_half(folder):
    build("new")(folder)
    raise ZeroDivisionError


def test_a_folder_gets_its_name_at_the_end_and_nothing_else_is_left(tmp_path):
    with StagedFiles() as files:
        files.add_folder(tmp_path / "a.zarr", build("new"))
        files.add(tmp_path / "b.txt", b"beside")
        assert not (tmp_path / "a.zarr").exists()
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.txt"]
    assert (tmp_path / "a.zarr/content").read_text() == "new"


def test_a_run_that_fails_leaves_the_old_folder_and_no_new_one(tmp_path):
    with StagedFiles() as files:
        files.add_folder(tmp_path / "a.zarr", build("old"))
    with pytest.raises(ZeroDivisionError), StagedFiles(overwrite=True) as files:
        files.add_folder(tmp_path / "a.zarr", build_half)
    assert os.listdir(tmp_path) == ["a.zarr"]
    assert (tmp_path / "a.zarr/content").read_text() == "old"


def test_a_folder_is_replaced_only_when_that_is_allowed(tmp_path):
    (tmp_path / "a.zarr").mkdir()
    with pytest.raises(OutputError, match="appeared in the meantime"), StagedFiles() as files:
        files.add_folder(tmp_path / "a.zarr", build("new"))
    assert os.listdir(tmp_path / "a.zarr") == []
    with StagedFiles(overwrite=True) as files:
        files.add_folder(tmp_path / "a.zarr", build("new"))
    assert os.listdir(tmp_path) == ["a.zarr"]
    assert os.listdir(tmp_path / "a.zarr") == ["content"]


def test_the_old_folder_comes_back_when_the_new_one_cannot_take_its_place(tmp_path):
    with StagedFiles() as files:
        files.add_folder(tmp_path / "a.zarr", build("old"))
    with pytest.raises(OutputError, match="could not be written"), StagedFiles(overwrite=True) as files:
        files.add_folder(tmp_path / "a.zarr", lambda folder: None)  # nothing was built
    assert os.listdir(tmp_path) == ["a.zarr"]
    assert (tmp_path / "a.zarr/content").read_text() == "old"


@pytest.mark.skipif(sys.platform == "win32", reason="locks of files are known on POSIX alone")
def test_what_a_killed_run_left_is_taken_away_by_the_next_and_foreign_folders_are_not(tmp_path):
    target = tmp_path / "a.zarr"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(".a.zarr.*.partial"))) == 1
    foreign = tmp_path / ".a.zarr.mine.partial"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("years of work")
    with StagedFiles() as files:
        files.add_folder(Path(target), build("new"))
    assert sorted(os.listdir(tmp_path)) == [".a.zarr.mine.partial", "a.zarr"]
    assert (foreign / "thesis.txt").exists()
