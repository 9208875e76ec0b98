"""Every call to the file system fails once, or is the last one before a kill: no file is lost or mixed."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import allfocus.files.journal as journal
import allfocus.files.placing as placing
from allfocus.errors import OutputError
from allfocus.files.placing import StagedFiles, recover_folder

COUNTED = ("open", "write", "fsync", "link", "replace", "unlink")


class Killed(BaseException):
    """Stands for SIGKILL: from then on the process does nothing any more."""


class FaultyOs:
    """``os`` with one call that goes wrong."""

    def __init__(self, at: int = -1, how: str = "fail", *, links: bool = True) -> None:
        self.calls = 0
        self._links = links
        self._at, self._how = at, how
        self._dead = False
        self._opened: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if not callable(real) or isinstance(real, type) or name in ("fsencode", "fsdecode", "fspath"):
            return real

        def call(*values: Any, **options: Any) -> Any:
            if self._dead:
                raise Killed
            counted = name in COUNTED
            number = self.calls
            self.calls += counted
            if counted and number == self._at:
                if self._how == "kill before":
                    self._die()
                if self._how in ("fail", "fail from then on"):
                    raise OSError(errno.EIO, "Input/output error")
            if counted and self._how == "fail from then on" and number > self._at >= 0:
                raise OSError(errno.EIO, "Input/output error")
            try:
                if name == "link" and not self._links:
                    raise OSError(errno.EPERM, "Operation not permitted")
                result = real(*values, **options)
            except OSError:
                if counted and number == self._at and self._how == "kill after":
                    self._die()
                raise
            if name == "open":
                self._opened.add(result)
            elif name == "close":
                self._opened.discard(values[0])
            if counted and number == self._at and self._how == "kill after":
                self._die()
            return result

        return call

    def _die(self) -> None:
        self._dead = True
        for descriptor in self._opened:  # as the system does for a process that ends; locks go with them
            os.close(descriptor)
        raise Killed


SCENARIOS = {
    "three new files": ([], ["a", "b", "c"], False),
    "three files replaced": (["a", "b", "c"], ["a", "b", "c"], True),
    "some replaced, some new": (["a", "c"], ["a", "b", "c", "d"], True),
    "one new file": ([], ["a"], False),
    "one file replaced": (["a"], ["a"], True),
    "two folders": (["one/a", "two/b"], ["one/a", "two/b", "two/c"], True),
    "two folders, all new": ([], ["one/a", "two/b", "two/c"], False),
}


def run(folder: Path, scenario: str, faulty: Any, monkeypatch: pytest.MonkeyPatch, *, named: bool) -> None:
    _, new, overwrite = SCENARIOS[scenario]
    with monkeypatch.context() as patched:
        patched.setattr(placing, "os", faulty)
        patched.setattr(journal, "os", faulty)
        if named:
            patched.setattr(placing, "open_nameless", lambda folder: None)
        with StagedFiles(overwrite=overwrite) as files:
            for name in new:
                files.add(folder / name, b"new " + name.encode())


def prepare(folder: Path, scenario: str) -> None:
    for name in ("one", "two"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in SCENARIOS[scenario][0]:
        (folder / name).write_bytes(b"old " + name.encode())


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def expected(scenario: str) -> tuple[dict[str, bytes], dict[str, bytes]]:
    old, new, _ = SCENARIOS[scenario]
    before = {name: b"old " + name.encode() for name in old}
    return before, {**before, **{name: b"new " + name.encode() for name in new}}


POINTS: list[int] = []


@pytest.mark.parametrize(
    ("named", "links"), [(False, True), (True, True), (True, False)], ids=["Linux", "named", "FAT"]
)
@pytest.mark.parametrize("how", ["fail", "fail from then on", "kill before", "kill after"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_files_are_all_old_or_all_new_whatever_call_goes_wrong(tmp_path, monkeypatch, scenario, how, named, links):
    counting = FaultyOs(links=links)
    prepare(tmp_path / "counting", scenario)
    run(tmp_path / "counting", scenario, counting, monkeypatch, named=named)
    old, new = expected(scenario)
    assert content(tmp_path / "counting") == new
    POINTS.append(counting.calls)
    for point in range(counting.calls):
        folder = tmp_path / str(point)
        prepare(folder, scenario)
        try:
            run(folder, scenario, FaultyOs(point, how, links=links), monkeypatch, named=named)
            assert how.startswith("fail"), f"call {point} of {counting.calls}"  # fails where it only tidies up
        except OutputError:
            assert how.startswith("fail")
            if how == "fail":
                shown = {name: data for name, data in content(folder).items() if not Path(name).name.startswith(".")}
                assert shown in (old, new), f"call {point}"
        except Killed:
            assert how.startswith("kill")
        for place in (folder, folder / "two", folder / "one"):
            recover_folder(place)
        assert content(folder) in (old, new), f"call {point}"
        run(folder, scenario if content(folder) == old else "some replaced, some new", os, monkeypatch, named=named)
        assert not [name for name in content(folder) if Path(name).name.startswith(".")]


def test_the_faults_are_at_least_two_hundred():
    if len(POINTS) < 3 * 4 * len(SCENARIOS):
        pytest.skip("only part of the faults were tried in this process")
    assert sum(POINTS) >= 200


def test_a_file_edited_after_a_kill_is_not_rolled_back(tmp_path, monkeypatch):
    scenario = "three files replaced"
    counting = FaultyOs()
    prepare(tmp_path / "counting", scenario)
    run(tmp_path / "counting", scenario, counting, monkeypatch, named=False)
    tried = 0
    for point in range(counting.calls):
        folder = tmp_path / str(point)
        prepare(folder, scenario)
        with pytest.raises(Killed):
            run(folder, scenario, FaultyOs(point, "kill after"), monkeypatch, named=False)
        if (folder / "a").read_bytes() == b"new a":
            tried += 1
            with (folder / "a").open("ab") as file:
                file.write(b", edited")
            recover_folder(folder)
            assert (folder / "a").read_bytes() == b"new a, edited"
            assert not [name for name in content(folder) if name.startswith(".")]
    assert tried


def test_a_journal_of_a_run_that_lives_is_left_alone(tmp_path):
    with StagedFiles(overwrite=True) as files:
        (tmp_path / "a").write_bytes(b"old")
        files._new_name(tmp_path / "a", "part").write_bytes(b"on its way")
        before = content(tmp_path)
        recover_folder(tmp_path)
        assert content(tmp_path) == before
    assert content(tmp_path) == {"a": b"old"}


@pytest.mark.parametrize(
    "line",
    [
        '{"temporary": "../precious"}',
        '{"temporary": "precious"}',
        '{"file": "precious", "state": [1, 2, 3, 4], "old": null, "in_one_step": false}',
        '{"file": "precious", "state": [1, 2, 3, 4], "old": ".x.01234567.old", "in_one_step": false}',
        '{"file": "../precious", "state": [1, 2, 3, 4], "old": null, "in_one_step": false}',
        '{"file": "precious", "state": "x"}',
        '{"other": "."}',
        '{"master": ".allfocus-0123456789ab.journal"}',
        "[1]",
        "\x00",
    ],
)
def test_a_planted_journal_takes_nothing_away(tmp_path, line):
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in (tmp_path / "precious", folder / "precious"):
        path.write_text("precious")
    (folder / ".x.01234567.old").write_text("planted")
    (folder / ".allfocus-0123456789ab.journal").write_text(f'{{"allfocus": 1}}\n{line}\n')
    recover_folder(folder)
    assert (folder / "precious").read_text() == (tmp_path / "precious").read_text() == "precious"
