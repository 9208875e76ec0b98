"""Files of one run get their names together or not at all, and what they were to replace stays when they do not."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import allfocus.files.placing as placing
from allfocus.errors import OutputError
from allfocus.files.placing import StagedFiles, made_folder, replace_file


@pytest.fixture(params=["nameless", "named"])
def folder(request, tmp_path, monkeypatch) -> Path:
    """An empty folder, on a system with and on one without files that need no name."""
    if request.param == "named":
        monkeypatch.setattr(placing, "open_nameless", lambda folder: None)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def stage(*paths: Path, overwrite: bool = False, then: Callable[[], object] = lambda: None) -> None:
    """Writes "new" to each path; ``then`` happens before they get their names."""
    with StagedFiles(overwrite=overwrite) as files:
        for path in paths:
            files.add(path, b"new")
        then()


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_get_their_names_at_the_end(folder, overwrite):
    with StagedFiles(overwrite=overwrite) as files:
        for number in range(3):
            files.add(folder / f"{number}.bin", bytes([number]))
        assert not any(name.endswith(".bin") for name in names(folder))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {f"{n}.bin": bytes([n]) for n in range(3)}


@pytest.mark.parametrize("problem", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device")])
def test_a_block_that_fails_leaves_everything_as_it_was(folder, problem):
    (folder / "0.bin").write_text("older")

    def fail() -> None:
        raise problem

    with pytest.raises((KeyboardInterrupt, OSError)):
        stage(folder / "0.bin", folder / "1.bin", overwrite=True, then=fail)
    assert names(folder) == ["0.bin"]
    assert (folder / "0.bin").read_text() == "older"


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_names_that_cannot_all_be_given_are_taken_back(folder, monkeypatch, place):
    for number in (0, 1, 3):
        (folder / f"{number}.bin").write_text("older")
    give_name = StagedFiles._give_name

    def fail(self, staged):
        if staged.path.name == f"{place}.bin":
            raise OSError(errno.EIO, "Input/output error")
        give_name(self, staged)

    monkeypatch.setattr(StagedFiles, "_give_name", fail)
    with pytest.raises(OutputError, match=rf"{place}\.bin: could not be written \(Input"):
        stage(*(folder / f"{number}.bin" for number in range(4)), overwrite=True)
    assert names(folder) == ["0.bin", "1.bin", "3.bin"]
    assert {path.read_text() for path in folder.iterdir()} == {"older"}


def test_an_interruption_after_the_last_name_keeps_all_of_them(folder, monkeypatch):
    (folder / "a.bin").write_text("older")
    give_name = StagedFiles._give_name

    def stop_afterwards(self, staged):
        give_name(self, staged)
        if staged.path.name == "b.bin":
            raise KeyboardInterrupt

    monkeypatch.setattr(StagedFiles, "_give_name", stop_afterwards)
    with pytest.raises(KeyboardInterrupt):
        stage(folder / "a.bin", folder / "b.bin", overwrite=True)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a.bin": "new", "b.bin": "new"}


def test_a_file_that_appears_meanwhile_is_kept_and_the_others_go(folder):
    with pytest.raises(OutputError, match=r"b\.bin: appeared in the meantime"):
        stage(folder / "a.bin", folder / "b.bin", then=lambda: (folder / "b.bin").write_text("precious"))
    assert names(folder) == ["b.bin"]
    assert (folder / "b.bin").read_text() == "precious"


def test_many_files_do_not_use_up_what_a_process_may_open(tmp_path, monkeypatch):
    monkeypatch.setattr(placing, "MOST_NAMELESS", 2)
    with StagedFiles() as files:
        for number in range(5):
            files.add(tmp_path / f"{number}.bin", b"new")
        assert len(files._open) <= 2
    assert names(tmp_path) == [f"{number}.bin" for number in range(5)]


@pytest.mark.parametrize("name", ["M" * 255, "山" * 85], ids=["one byte each", "three bytes each"])
def test_a_name_as_long_as_can_be_is_written_and_replaced(folder, name):
    for content in (b"first", b"second"):
        replace_file(folder / name, content, overwrite=True)
        assert (folder / name).read_bytes() == content
    assert names(folder) == [name]


@pytest.mark.skipif(os.name != "posix", reason="links need no privilege on POSIX systems")
def test_a_link_is_replaced_and_what_it_points_to_stays(folder):
    (folder / "target").write_text("precious")
    (folder / "link").symlink_to(folder / "target")
    replace_file(folder / "link", b"new", overwrite=True)
    assert (folder / "target").read_text() == "precious"
    assert (folder / "link").read_bytes() == b"new"


def test_a_folder_made_for_nothing_goes_again(tmp_path):
    (tmp_path / "there").mkdir()

    def fail_in(folder: Path) -> None:
        with made_folder(folder):
            assert folder.is_dir()
            raise KeyboardInterrupt

    for folder in (tmp_path / "there", tmp_path / "a" / "b"):
        with pytest.raises(KeyboardInterrupt):
            fail_in(folder)
    assert names(tmp_path) == ["there"]
    with made_folder(tmp_path / "a" / "b") as made:
        pass
    assert made.is_dir()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(OutputError, match=r"file.deep: cannot be made"), made_folder(tmp_path / "file" / "deep"):
        pass
    assert names(tmp_path) == ["file"]
