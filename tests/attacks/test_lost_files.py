"""Nothing that we did not make is deleted or replaced: inputs, edited results, other people's files."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from folder_contents import contents

import allfocus
from allfocus.batch.manifest import FAILED, FUSED, PLANNED, BatchManifest, StackRecord
from allfocus.batch.outcome import BatchResult
from allfocus.batch.running import fuse_stacks
from allfocus.batch.stack_task import StackTask, fuse_stack
from allfocus.cli.main import run
from allfocus.errors import InputError, OutputError
from allfocus.images.writing import write_image
from allfocus.stack.options import FuseOptions

QUICK = FuseOptions(method="average", align=False)


@pytest.fixture(autouse=True)
def _in_this_process(without_cluster):
    """A batch takes milliseconds."""


def make_stack(folder: Path, *, frames: int = 3, seed: int = 0, side: int = 48) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    for number in range(frames):
        pixels = random.random((side, side, 3)).astype(np.float32)
        write_image(pixels, folder / f"{number}.png", overwrite=True)
    return folder


# --- inputs are never outputs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["-o", "--depth-map", "--decision-map", "--confidence-map"])
@pytest.mark.parametrize("bad", ["other size", "no picture", "through a link"])
def test_a_frame_that_is_left_out_is_not_replaced_either(tmp_path, option, bad):
    frames = make_stack(tmp_path / "frames")
    odd = frames / "3.png"
    write_image(np.zeros((20, 20, 3), np.float32), odd)
    if bad == "no picture":
        odd.write_bytes(b"notes")
    before = contents(frames)
    named = odd
    if bad == "through a link":
        named = tmp_path / "link.png"
        named.symlink_to(odd)
    outputs = ["-o", named] if option == "-o" else ["-o", tmp_path / "out.png", option, named]
    arguments = ["fuse", frames, *outputs, "--skip-bad", "--overwrite", "--no-align"]
    assert run([str(word) for word in arguments]) == 2
    assert contents(frames) == before


def test_align_never_writes_over_a_frame_it_left_out(tmp_path):
    frames = make_stack(tmp_path / "frames")
    write_image(np.zeros((20, 20, 3), np.float32), frames / "3.png")
    before = contents(frames)
    assert run(["align", str(frames), "-o", str(frames), "--skip-bad", "--overwrite"]) == 2
    assert contents(frames) == before


def test_no_stack_of_a_batch_is_written_over_a_frame_of_another(tmp_path):
    shots, out = tmp_path / "shots", tmp_path / "out"
    make_stack(shots / "a")
    make_stack(out, frames=2, seed=1)
    lines = [f"0,{out}/0.png", f"0,{out}/1.png", *(f"1,a/{n}.png" for n in range(3))]
    table = tmp_path / "stacks.csv"
    table.write_text("\n".join(["stack,frame", *lines]))
    before = {name: (out / name).read_bytes() for name in ("0.png", "1.png")}
    result = fuse_stacks(shots, out, manifest=table, options=QUICK, overwrite=True)
    assert {name: (out / name).read_bytes() for name in before} == before
    assert len(result.failed) == 2
    assert all("will not be replaced" in row.error for row in result.failed)


def test_the_list_of_stacks_is_not_replaced_by_the_summary(tmp_path):
    shots, out = tmp_path / "shots", tmp_path / "out"
    make_stack(shots / "a")
    out.mkdir()
    table = out / "summary.csv"
    table.write_text("stack,frame\n" + "".join(f"a,a/{n}.png\n" for n in range(3)))
    before = table.read_text()
    with pytest.raises((InputError, OutputError), match="summary"):
        fuse_stacks(shots, out, manifest=table, options=QUICK, overwrite=True)
    assert table.read_text() == before


# --- edited results ---------------------------------------------------------------------------------------------------


def edit(path: Path) -> bytes:
    path.write_bytes(path.read_bytes() + b"retouched by hand")
    return path.read_bytes()


def batch(shots: Path, out: Path, **options: object) -> BatchResult:
    maps = dict(options=FuseOptions(method="dsift", align=False), maps=["depth", "decision"])
    return fuse_stacks(shots, out, **maps, **options)


@pytest.mark.parametrize("name", ["a.png", "a_depth.png", "a_depth_preview.png", "a_decision.png"])
@pytest.mark.parametrize("between", ["nothing", "a failed run", "a killed run", "a lost result"])
def test_a_result_edited_by_hand_is_replaced_by_no_later_run(tmp_path, name, between):
    shots, out = tmp_path / "shots", tmp_path / "out"
    make_stack(shots / "a")
    assert len(batch(shots, out).fused) == 1
    if between == "a failed run":
        good = (shots / "a/1.png").read_bytes()
        (shots / "a/1.png").write_bytes(b"no picture")
        assert len(batch(shots, out).failed) == 1
        (shots / "a/1.png").write_bytes(good)
    edited = edit(out / name)
    make_stack(shots / "a", seed=5)
    if between == "a killed run":
        with BatchManifest(out).opened() as manifest:
            known = manifest.records["a"]
            manifest.append([StackRecord("a", PLANNED, "a.png", maps=known.maps, files=known.files)])
    if between == "a lost result":
        (out / ("a.png" if name != "a.png" else "a_depth.png")).unlink()
    result = batch(shots, out)
    assert (out / name).read_bytes() == edited
    assert "edited" in result.failed[0].error
    assert len(batch(shots, out, overwrite=True).fused) == 1
    assert (out / name).read_bytes() != edited


def test_a_result_edited_while_the_stack_waits_is_not_replaced(tmp_path):
    shots, out = tmp_path / "shots", tmp_path / "out"
    make_stack(shots / "a")
    fuse_stacks(shots, out, options=QUICK)
    with BatchManifest(out).opened() as manifest:
        known = manifest.records["a"].files
    frames = tuple(str(shots / f"a/{n}.png") for n in range(3))
    task = StackTask("a", frames, str(shots), str(out), "a.png", QUICK, "key", replaceable=known)
    edited = edit(out / "a.png")
    record = fuse_stack(task)
    assert record.status == FAILED
    assert "edited" in record.error
    assert (out / "a.png").read_bytes() == edited


def test_a_run_killed_between_writing_and_recording_knows_its_files_again(tmp_path):
    shots, out = tmp_path / "shots", tmp_path / "out"
    make_stack(shots / "a")
    out.mkdir()
    frames = tuple(str(shots / f"a/{n}.png") for n in range(3))
    with BatchManifest(out).opened() as manifest:
        manifest.append([StackRecord("a", PLANNED, "a.png")])
    assert (
        fuse_stack(StackTask("a", frames, str(shots), str(out), "a.png", QUICK, "key", replaceable=())).status == FUSED
    )
    assert len(fuse_stacks(shots, out, options=QUICK).fused) == 1
    assert sorted(contents(out)) == [
        ".thumbnails/a.webp",
        "a.png",
        "contact_sheet.html",
        "manifest.jsonl",
        "summary.csv",
    ]


@pytest.mark.parametrize("name", ["a.png", ".thumbnails/a.webp", "manifest.jsonl", "summary.csv", "contact_sheet.html"])
def test_what_lies_in_the_output_folder_already_is_not_replaced(tmp_path, name):
    shots, out = tmp_path / "shots", tmp_path / "out"
    make_stack(shots / "a")
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text('{"mine": 1}\n')
    if name in ("a.png", ".thumbnails/a.webp"):
        assert len(fuse_stacks(shots, out, options=QUICK).failed) == 1
    else:
        with pytest.raises(OutputError, match=name):
            fuse_stacks(shots, out, options=QUICK)
    assert (out / name).read_text() == '{"mine": 1}\n'


@pytest.mark.parametrize("name", ["summary.csv", "contact_sheet.html"])
def test_a_summary_with_notes_in_it_is_kept_under_another_name(tmp_path, name):
    shots, out = tmp_path / "shots", tmp_path / "out"
    make_stack(shots / "a")
    fuse_stacks(shots, out, options=QUICK)
    edited = edit(out / name)
    make_stack(shots / "b")
    fuse_stacks(shots, out, options=QUICK)
    stem, ending = name.split(".")
    assert (out / f"{stem}.edited-1.{ending}").read_bytes() == edited
    fuse_stacks(shots, out, options=QUICK)
    assert not (out / f"{stem}.edited-2.{ending}").exists()


# --- all or nothing ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_outputs_of_a_fusion_killed_while_they_get_their_names_are_not_mixed(tmp_path):
    frames = make_stack(tmp_path / "frames")
    out = tmp_path / "out"
    out.mkdir()
    program = """
import os, signal, sys, allfocus
from allfocus.files import placing
calls = 0
real = os.link
def link(*values, **options):
    global calls
    real(*values, **options)
    calls += 1
    if calls == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
os.link = link
options = {name: f"{sys.argv[2]}/{name}.png" for name in ("depth_map", "decision_map")}
allfocus.fuse_files(sys.argv[1], f"{sys.argv[2]}/out.png", method="dsift", align=False, overwrite=True, **options)
"""
    names = ["decision_map.png", "depth_map.png", "depth_map_preview.png", "out.png"]

    def fuse(stop: int) -> int:
        words = [sys.executable, "-c", program, str(frames), str(out), str(stop)]
        return subprocess.run(words, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False).returncode

    assert fuse(-1) == 0
    first = contents(out)
    assert sorted(first) == names
    make_stack(frames, seed=9)
    for stop in (2, 5):
        assert fuse(stop) == -signal.SIGKILL
        assert contents(out) != first  # something hidden is left for the next run
    assert run(["fuse", str(frames), "-o", str(out / "out.png"), "--no-align"]) == 2  # exists already
    assert contents(out) == first
    assert fuse(-1) == 0
    assert sorted(contents(out)) == names
    assert all(contents(out)[name] != first[name] for name in ("decision_map.png", "out.png"))


# --- frames that change meanwhile -------------------------------------------------------------------------------------


def test_a_batch_passes_over_no_stack_whose_folder_is_named_for_the_results(tmp_path, without_cluster):
    for name in ("a", "b"):
        (tmp_path / "shoot" / name).mkdir(parents=True)
        for number in range(2):
            write_image(np.full((24, 28, 3), 0.2 * (number + 1), np.float32), tmp_path / f"shoot/{name}/{number}.png")
    options = FuseOptions(method="average", align=False)
    with pytest.raises(OutputError, match=r"holds pictures among the frames"):
        fuse_stacks(tmp_path / "shoot", tmp_path / "shoot/a", options=options)
    assert sorted(os.listdir(tmp_path / "shoot/a")) == ["0.png", "1.png"]
    for unchanged in (0, 2):  # a new folder will do, and so will that of an earlier run
        result = fuse_stacks(tmp_path / "shoot", tmp_path / "shoot/fused", options=options)
        assert len(result.unchanged) == unchanged


@pytest.mark.parametrize("step", ["aligning", "reading", "fusing", "writing"])
@pytest.mark.parametrize("time_kept", [False, True])
def test_a_frame_that_changes_while_the_stack_is_fused_is_an_error(tmp_path, stack_folder, step, time_kept):
    frames = tmp_path / "frames"
    frames.mkdir()
    for path in stack_folder.iterdir():
        (frames / path.name).write_bytes(path.read_bytes())
    victim = sorted(frames.iterdir())[1]
    changed = []

    def change(now: str, done: int, count: int) -> None:
        if now == step and not changed:
            status = victim.stat()
            time.sleep(0.01)
            data = sorted(frames.iterdir())[0].read_bytes()
            victim.write_bytes(data)
            if time_kept:
                os.utime(victim, ns=(status.st_atime_ns, status.st_mtime_ns))
            changed.append(now)

    with pytest.raises(InputError, match=r"frame_1.png: was changed"):
        allfocus.fuse_files(frames, tmp_path / "out.png", method="average", progress=change)
    assert not (tmp_path / "out.png").exists()


# --- the other commands -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["notes.txt", "fused/desk/average/1.png", "results.json", "report.html"])
def test_an_evaluation_writes_into_no_folder_of_somebody_else(tmp_path, name):
    make_stack(tmp_path / "sets/desk/one")
    out = tmp_path / "out"
    (out / name).parent.mkdir(parents=True)
    (out / "fused").mkdir(exist_ok=True)
    (out / name).write_text("precious")
    with pytest.raises(OutputError, match="something else"):
        allfocus.evaluate({"folder": tmp_path / "sets/desk"}, ["average"], output=out)
    assert contents(out) == {name: b"precious"}


@pytest.mark.parametrize("name", ["benchmark.json", "benchmark.svg"])
def test_a_benchmark_replaces_no_file_of_somebody_else(tmp_path, name):
    (tmp_path / name).write_text("precious")
    words = ["benchmark", "--quick", "--peers", "none", "-o", str(tmp_path), "--cache", str(tmp_path / "cache")]
    assert run(words) == 2
    assert (tmp_path / name).read_text() == "precious"
