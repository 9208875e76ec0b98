"""``allfocus open`` and ``export-project`` as other programs call them: the real command, the real server."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the studio needs the extra: pip install 'allfocus[web]'")

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/(\?token=\S+)?#/(\w+)/?(\w*)")


def start(*words: Any, **environment: str) -> "subprocess.Popen[str]":
    search = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-m", "allfocus.cli", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": search, **environment},
    )


def run(*words: Any) -> str:
    """What a command prints, which ends by itself."""
    process = start(*words)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.strip()


def get(address: str, path: str, headers: dict[str, str] | None = None, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"content-type": "application/json", **(headers or {})})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


class Running:
    """A studio that ``allfocus open`` started."""

    def __init__(self, work: Path, *words: Any) -> None:
        self.work = work
        self.process = start("open", *words, "--no-browser", "--port", 0, "--work", work)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = ADDRESS.search(line)
        assert found, line + self.process.communicate(timeout=10)[1]
        self.address, self.kind, self.own = found[1], found[3], found[4]

    def job(self, own: str) -> Any:
        return get(self.address, f"/api/jobs/{own}")

    def stop(self, how: int = signal.SIGINT) -> None:
        self.process.send_signal(how)
        self.process.communicate(timeout=60)


@pytest.fixture(scope="module")
def shoot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stacks of two pictures each."""
    folder = tmp_path_factory.mktemp("shoot")
    random = np.random.default_rng(3)
    for name in ("a/DSC_9.png", "a/DSC_10.png", "b/DSC_1.png", "b/DSC_2.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        Image.fromarray(random.integers(0, 255, (40, 60, 3), np.uint8)).save(folder / name)
    return folder


@pytest.fixture(scope="module")
def running(shoot: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Started by opening two pictures, the later one first."""
    studio = Running(tmp_path_factory.mktemp("home") / "work", shoot / "a/DSC_10.png", shoot / "a/DSC_9.png")
    yield studio
    studio.stop()


def test_pictures_are_one_stack_in_natural_order_and_stay_where_they_are(running, shoot):
    job = running.job(running.own)
    assert (running.kind, job["name"]) == ("stack", "DSC_9 to DSC_10")
    assert [frame["name"] for frame in job["frames"]] == ["DSC_9.png", "DSC_10.png"]
    assert list((running.work / "jobs" / running.own / "frames").iterdir()) == []


def test_a_second_call_finds_the_running_studio_and_ends(running, shoot):
    found = ADDRESS.search(run("open", shoot, "--no-browser", "--work", running.work))
    assert (found[1], found[3]) == (running.address, "intake")
    cut = get(running.address, f"/api/intakes/{found[4]}/stacks?by=folder")
    assert [stack["name"] for stack in cut["stacks"]] == ["a", "b"]
    found = ADDRESS.search(run("open", shoot / "b", "--no-browser", "--work", running.work))
    assert found[3] == "stack"
    assert len(running.job(found[4])["frames"]) == 2


@pytest.mark.parametrize("key", [None, "", "wrong", "\u00e9"])
def test_without_the_key_no_file_of_the_machine_is_opened(running, shoot, key):
    headers = {} if key is None else {"x-allfocus-key": key}
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(running.address, "/api/open", headers, {"paths": [str(shoot / "a/DSC_9.png")]})
    assert caught.value.code == 403
    caught.value.close()


def test_the_key_is_for_the_user_alone_and_no_page_gets_it(running):
    door = running.work / "door.json"
    assert stat.S_IMODE(door.stat().st_mode) == 0o600
    key = json.loads(door.read_text())["key"]
    for path in ("/api/limits", "/api/library", "/api/health", "/openapi.json"):
        assert key not in json.dumps(get(running.address, path))


def test_what_is_not_there_is_one_line_and_exit_code_2(running):
    process = start("open", "/nowhere/x.png", "--no-browser", "--work", running.work)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (2, "allfocus: /nowhere/x.png: no such file or folder; check the name\n")


def test_a_project_goes_to_another_machine_and_finds_its_frames_there(running, shoot, tmp_path):
    work, project = running.work, tmp_path / "p.allfocus"
    printed = json.loads(run("export-project", running.own, "-o", project, "--linked", "--work", work, "--json"))
    assert printed["bytes"] == project.stat().st_size
    with zipfile.ZipFile(project) as archive:
        assert archive.namelist() == ["project.json"]
    again = start("export-project", running.own, "-o", project, "--work", work)
    assert "exists already; add --overwrite" in again.communicate(timeout=60)[1]
    assert again.returncode == 2 or again.returncode == 1
    # On this machine the frames are where they were.
    found = ADDRESS.search(run("open", project, "--no-browser", "--work", work))
    assert not any(frame["absent"] for frame in running.job(found[4])["frames"])
    # On another one they are not, until somebody says where.
    with zipfile.ZipFile(project) as archive:
        text = archive.read("project.json")
    moved = tmp_path / "elsewhere"
    shutil.copytree(shoot / "a", moved / "photos")
    assert str(shoot).encode() in text
    with zipfile.ZipFile(project, "w") as archive:
        archive.writestr("project.json", text.replace(str(shoot).encode(), b"/" + b"x" * (len(str(shoot)) - 1)))
    found = ADDRESS.search(run("open", project, "--no-browser", "--work", work))
    assert all(frame["absent"] for frame in running.job(found[4])["frames"])
    found = ADDRESS.search(run("open", project, "--frames", moved, "--no-browser", "--work", work))
    assert not any(frame["absent"] for frame in running.job(found[4])["frames"])


def test_a_studio_that_rests_exports_what_the_running_one_does(shoot, tmp_path):
    work = tmp_path / "work"
    studio = Running(work, shoot / "a")
    run("export-project", "a", "-o", tmp_path / "running.allfocus", "--work", work)
    studio.stop()
    assert not (work / "door.json").exists()
    run("export-project", "a", "-o", tmp_path / "resting.allfocus", "--work", work)
    assert (tmp_path / "running.allfocus").read_bytes() == (tmp_path / "resting.allfocus").read_bytes()
    assert studio.own in run("export-project", "--work", work)


def test_the_door_of_a_killed_studio_opens_nothing(shoot, tmp_path):
    work = tmp_path / "work"
    studio = Running(work, shoot / "a")
    studio.stop(signal.SIGKILL)
    assert (work / "door.json").exists()
    again = Running(work, shoot / "b")  # starts one of its own
    assert len(again.job(again.own)["frames"]) == 2
    assert len(get(again.address, "/api/jobs")) == 2
    again.stop()
