"""Modes taking turns, failures as rows, and results that survive an interruption."""

import json
import os
import runpy
import stat
from pathlib import Path

import pytest

from allfocus.benchmarking import measuring
from allfocus.benchmarking.inputs import StackRecipe
from allfocus.benchmarking.measuring import measure_mode, read_benchmark, run_benchmark
from allfocus.benchmarking.summary import summarise_modes
from allfocus.benchmarking.tools import Mode, describe_versions, find_peer_modes, load_peers, own_modes
from allfocus.errors import InputError

RIVALS = Path(__file__).resolve().parents[3] / "benchmarks" / "rivals"
PEERS = load_peers(RIVALS / "peers.py")
check_goals = runpy.run_path(str(RIVALS / "goals.py"))["check_goals"]
RECIPE = StackRecipe("small", "for tests", "slope", 3, (48, 64), aperture=0.01)
MOVED = StackRecipe("moving", "for tests", "slope", 3, (64, 80), aperture=0.01, shake=1.0)


def copying(name: str, peer: str = "enfuse", *, fails: bool = False, aligns: bool | None = False) -> Mode:
    """A tool that takes the first frame for the result, or fails."""
    script = "echo broken lens >&2; exit 3" if fails else 'cp "$0" "$1"; echo done'
    return Mode(name, peer, (), aligns, lambda stack, out, work: [["sh", "-c", script, str(stack.frames[0]), str(out)]])


@pytest.fixture
def programs(tmp_path, monkeypatch) -> Path:
    """An empty PATH to put programs on."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def add_program(folder: Path, name: str, says: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_peers_that_are_not_installed_are_told(programs):
    add_program(programs, "enfuse", "enfuse 4.2")
    found, missing = find_peer_modes(PEERS, ())
    assert [mode.name for mode in found] == ["enfuse"]
    assert "align_image_stack not installed" in missing["align_image_stack + enfuse"]
    assert "github.com" in missing["focus-stack"]
    assert "pip install shinestacker" in missing["shinestacker pyramid"]


def test_an_option_that_a_version_lacks_is_told(programs):
    add_program(programs, "focus-stack", "--output --threads")
    assert find_peer_modes(PEERS, ["focus-stack"])[1] == {
        "focus-stack --no-align": "this version of focus-stack has no --no-align"
    }
    add_program(programs, "focus-stack", "--output --no-align")
    assert find_peer_modes(PEERS, ["focus-stack"])[1] == {}


def test_only_the_peers_asked_for_are_looked_for(programs):
    assert find_peer_modes(PEERS, ["none"]) == ([], {})
    assert {name.split()[0] for name in find_peer_modes(PEERS, ["shinestacker"])[1]} == {"shinestacker"}
    with pytest.raises(InputError, match="choose from: enfuse, focus-stack, shinestacker, none"):
        find_peer_modes(PEERS, ["enfuze"])


def test_versions_are_one_line(programs):
    add_program(programs, "enfuse", "enfuse 4.2\\nmore")
    modes = [*PEERS["enfuse"].modes[:1], *PEERS["focus-stack"].modes]
    assert describe_versions(PEERS, modes) == {"enfuse": "enfuse 4.2", "focus-stack": "unknown"}


@pytest.mark.parametrize(("text", "words"), [(None, "cannot be read"), ("PEERS = 3", "describes no other programs")])
def test_a_file_that_describes_no_peers_is_refused(tmp_path, text, words):
    path = tmp_path / "peers.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=words):
        load_peers(path)


def test_modes_take_turns_and_every_other_round_goes_backwards(tmp_path):
    modes = [copying("one"), copying("two"), copying("for moved stacks only", aligns=True)]
    result = run_benchmark([RECIPE], modes, cache=tmp_path / "cache", output=tmp_path / "out.json", repeats=3)
    assert [(entry.mode, entry.repeat) for entry in result.measurements] == [
        ("one", 0),
        ("two", 0),
        ("two", 1),
        ("one", 1),
        ("one", 2),
        ("two", 2),
    ]
    assert result.finished


def test_a_mode_that_aligns_is_run_on_moved_stacks_only():
    modes = {mode.name: mode for mode in own_modes(["ips"])}
    assert [name for name, mode in modes.items() if mode.suits(RECIPE)] == ["allfocus ips --no-align"]
    assert [name for name, mode in modes.items() if mode.suits(MOVED)] == ["allfocus ips"]


def test_a_failure_is_a_row(tmp_path):
    modes = [copying("ours", "allfocus"), copying("theirs", fails=True)]
    result = run_benchmark([RECIPE], modes, cache=tmp_path / "cache", output=tmp_path / "out.json", repeats=2)
    failed = [row for row in summarise_modes(result) if row.mode == "theirs"]
    assert check_goals(summarise_modes(result), [RECIPE]) == []
    assert len(failed) == 1
    assert failed[0].cpu_seconds is None
    assert "broken lens" in failed[0].error


def test_what_was_measured_survives_an_interruption(tmp_path, monkeypatch):
    done = []

    def interrupted(mode, stack, *, repeat, score):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(mode)
        return measure_mode(mode, stack, repeat=repeat, score=score)

    monkeypatch.setattr(measuring, "measure_mode", interrupted)
    told = []
    result = run_benchmark(
        [RECIPE],
        [copying("one")],
        cache=tmp_path / "cache",
        output=tmp_path / "out.json",
        repeats=5,
        notice=told.append,
    )
    kept = json.loads((tmp_path / "out.json").read_text())
    assert len(result.measurements) == len(kept["measurements"]) == 2
    assert kept["finished"] is False
    assert "interrupted" in told[-1]


def test_our_own_run_tells_its_steps_and_scores(tmp_path):
    [mode] = [mode for mode in own_modes(["laplacian-pyramid"]) if mode.suits(RECIPE)]
    result = run_benchmark([RECIPE], [mode], cache=tmp_path / "cache", output=tmp_path / "out.json", repeats=1)
    [entry] = result.measurements
    assert not entry.error
    assert entry.steps["writing"] > 0
    assert entry.quality is not None
    assert entry.quality.psnr > 20
    assert entry.peak_megabytes > 20


def test_the_file_tells_machine_and_versions(tmp_path):
    run_benchmark([RECIPE], [copying("one")], cache=tmp_path / "cache", output=tmp_path / "out.json", repeats=1)
    kept = json.loads((tmp_path / "out.json").read_text())
    assert kept["format_version"] == 1
    assert set(kept["origin"]) >= {"commit", "machine", "versions", "peers", "began"}
    assert kept["recipes"][0]["scene"] == "slope"
    assert set(kept["measurements"][0]) == {
        *("set", "mode", "peer", "repeat", "cpu_seconds", "wall_seconds", "peak_megabytes", "quality", "steps", "error")
    }
    assert os.listdir(tmp_path / "cache")


def test_what_was_written_reads_back(tmp_path):
    modes = [copying("one"), copying("broken", fails=True)]
    result = run_benchmark([RECIPE], modes, cache=tmp_path / "cache", output=tmp_path / "out.json", repeats=1)
    assert read_benchmark(tmp_path / "out.json") == result


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format_version": 99}', '{"format_version": 1}'])
def test_another_file_is_told(tmp_path, text):
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(InputError, match=r"other\.json"):
        read_benchmark(tmp_path / "other.json")
