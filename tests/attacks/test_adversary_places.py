"""A second adversary on the disk: it is full, several runs write to one place, outputs are links."""

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from folder_contents import contents

from allfocus.errors import AllfocusError
from allfocus.files.placing import StagedFiles, replace_file
from allfocus.images.reading import read_image
from allfocus.images.writing import write_image

SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture(scope="module")
def frames(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("places") / "frames"
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(3):
        write_image(random.random((96, 96, 3)).astype(np.float32), folder / f"{number}.png")
    return folder


def command(*words: object, largest_file: int | None = None) -> "subprocess.Popen[str]":
    limit = None if largest_file is None else (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file,) * 2))
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-m", "allfocus.cli", *map(str, words)]
    return subprocess.Popen(line, env=environment, preexec_fn=limit, stderr=subprocess.PIPE, text=True)


COMMANDS = {
    "fuse": ["-o", "{out}/o.png", "--method", "dsift", "--no-align", "--depth-map", "{out}/d.png"],
    "align": ["-o", "{out}/aligned"],
    "overwriting": ["-o", "{out}/old.png", "--method", "average", "--no-align", "--overwrite"],
}


@pytest.mark.parametrize("limit", [0, 4096])
@pytest.mark.parametrize("kind", COMMANDS)
def test_a_disk_that_is_full_is_one_sentence_and_loses_nothing(frames, tmp_path, kind, limit):
    (tmp_path / "old.png").write_bytes(b"an older picture")
    before, kept = contents(frames), contents(tmp_path)
    words = [word.format(out=tmp_path) for word in COMMANDS[kind]]
    process = command("align" if kind == "align" else "fuse", frames, *words, largest_file=limit)
    told = process.communicate(timeout=120)[1]
    assert process.returncode in (1, 2), told
    assert "Traceback" not in told
    assert "unexpected" not in told
    assert contents(frames) == before
    assert contents(tmp_path) == kept


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("runs", [2, 8, 24])
def test_of_several_that_write_one_file_each_writes_it_whole_or_not_at_all(tmp_path, runs, overwrite):
    texts = [bytes([65 + number]) * 50_000 for number in range(runs)]
    refused: list[AllfocusError] = []
    ready = threading.Barrier(runs)

    def write(text: bytes) -> None:
        ready.wait()
        try:
            replace_file(tmp_path / "a.bin", text, overwrite=overwrite)
        except AllfocusError as error:
            refused.append(error)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "a.bin").read_bytes() in texts
    assert os.listdir(tmp_path) == ["a.bin"]
    assert overwrite or len(refused) == runs - 1


@pytest.mark.parametrize("overwrite", [False, True])
def test_several_outputs_of_two_runs_are_not_mixed_without_a_word(tmp_path, overwrite):
    done: list[int] = []
    ready = threading.Barrier(4)

    def write(number: int) -> None:
        ready.wait()
        try:
            with StagedFiles(overwrite=overwrite) as files:
                for name in ("a", "b", "c"):
                    files.add(tmp_path / name, bytes([65 + number]) * 1000)
            done.append(number)
        except AllfocusError:
            pass

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(os.listdir(tmp_path)) in ({"a", "b", "c"}, set())
    written = {(tmp_path / name).read_bytes()[:1] for name in os.listdir(tmp_path)}
    assert overwrite or len(written) <= 1
    assert overwrite or len(done) <= 1


def test_two_commands_with_one_output_give_one_picture(frames, tmp_path):
    words = ["fuse", frames, "-o", tmp_path / "o.png", "--method", "average", "--no-align"]
    processes = [command(*words) for _ in range(2)]
    told = [process.communicate(timeout=120)[1] for process in processes]
    assert sorted(process.returncode for process in processes) in ([0, 0], [0, 2]), told
    assert [process.returncode for process in processes].count(0) == 1
    assert os.listdir(tmp_path) == ["o.png"]
    read_image(tmp_path / "o.png")


@pytest.mark.parametrize("target", ["a file", "nowhere", "itself", "a folder", "a frame"])
def test_an_output_that_is_a_link_is_replaced_itself_and_not_what_it_leads_to(frames, tmp_path, target):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/mine.png").write_bytes(b"mine")
    places = {
        "a file": tmp_path / "other/mine.png",
        "nowhere": tmp_path / "other/missing.png",
        "itself": tmp_path / "o.png",
        "a folder": tmp_path / "other",
        "a frame": frames / "0.png",
    }
    (tmp_path / "o.png").symlink_to(places[target])
    before = contents(frames)
    words = ["fuse", frames, "-o", tmp_path / "o.png", "--method", "average", "--no-align"]
    with command(*words) as process:
        process.communicate(timeout=120)
    assert process.returncode == 2
    process = command(*words, "--overwrite")
    assert "unexpected" not in process.communicate(timeout=120)[1]
    assert process.returncode == (2 if target in ("a folder", "a frame") else 0)
    assert contents(frames) == before
    assert contents(tmp_path / "other") == {"mine.png": b"mine"}


def test_a_folder_that_leads_to_itself_is_no_output_of_a_batch(frames, tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "out")
    words = ["batch", frames.parent, "-o", tmp_path / "out", "--method", "average", "--no-align"]
    with command(*words) as process:
        told = process.communicate(timeout=120)[1]
    assert process.returncode == 2
    assert "unexpected" not in told


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_closed_or_full_terminal_costs_no_picture(frames, tmp_path, stream):
    words = [sys.executable, "-m", "allfocus.cli", "fuse", frames, "-o", tmp_path / "o.png", "--method", "average"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    with open("/dev/full", "wb") as full:
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: full}
        subprocess.run([*map(str, words), "--no-align", "--json"], env=environment, check=False, timeout=120, **options)
    read_image(tmp_path / "o.png")
    assert os.listdir(tmp_path) == ["o.png"]
