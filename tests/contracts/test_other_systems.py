"""Windows and macOS by construction: the core does without POSIX, and without files that can be moved while open."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAGE = Path(__file__).with_name("without_posix.py")
PREAMBLE = f"exec(compile(open({str(STAGE)!r}, encoding='utf-8').read(), 'without_posix', 'exec'))\nmake_poor()\n"

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc to see which files are open")


def run_poor(code: str, *arguments: object, folder: Path, poor: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs code in a process as poor as on Windows, where text without a named encoding is an error.

    With ``poor`` false something else makes it so.
    """
    search = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT / "src"))))
    environment = {**os.environ, "PYTHONPATH": search, "PYTHONIOENCODING": "cp1252:strict", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-c", PREAMBLE * poor + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**environment, "XDG_CACHE_HOME": str(folder / "cache")},
        timeout=300,
        check=False,
    )


COMMAND = """
import sys, warnings
warnings.filterwarnings("error", category=EncodingWarning, module="allfocus")
from allfocus.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def run_command(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    done = run_poor(COMMAND, *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done


def test_the_stage_is_as_poor_as_it_says(tmp_path):
    code = """
import os, sys
try:
    import fcntl
except ImportError:
    print("no fcntl")
assert not hasattr(os, "fork") and not hasattr(os, "sysconf")
assert not os.path.isdir("x")
with open("a.txt", "w", encoding="utf-8") as file:
    file.write("a")
    file.flush()
    for change in (lambda: os.unlink("a.txt"), lambda: os.replace("a.txt", "b.txt")):
        try:
            change()
        except PermissionError:
            print("in use")
os.replace("a.txt", "b.txt")
"""
    done = run_poor(code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:3] == ["no fcntl", "in use", "in use"]


def test_frames_are_fused_from_python(tmp_path):
    code = """
import allfocus
frames = allfocus.render_scene("desk", frames=2, size=(64, 80)).frames
for method in ("ips", "laplacian-pyramid"):
    assert allfocus.fuse(frames, method=method).image.shape == (64, 80, 3)
names = [allfocus.write_image(frame, f"{number}.png") for number, frame in enumerate(frames)]
for again in range(2):
    allfocus.fuse_files(names, "out.tif", overwrite=bool(again), depth_map="depth.png")
import os
print(sorted(name for name in os.listdir(".") if name != "cache"))
"""
    done = run_poor(code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['0.png', '1.png', 'depth.png', 'depth_preview.png', 'out.tif']"


def test_the_commands_of_a_first_day_run(tmp_path, stack_folder):
    run_command("fuse", stack_folder, "-o", "a.png", "--report", "a.html", "--slab", "2,1", folder=tmp_path)
    run_command("fuse", stack_folder, "-o", "a.png", "--overwrite", folder=tmp_path)
    run_command("fuse", stack_folder, "-o", "b.ome.tif", "--method", "average", folder=tmp_path)
    run_command("align", stack_folder, "-o", "aligned", folder=tmp_path)
    run_command("doctor", folder=tmp_path)
    hidden = [path.name for path in tmp_path.rglob("*") if path.name.startswith(".")]
    assert hidden == []


@pytest.fixture
def poor_processes(tmp_path, monkeypatch):
    """Every Python that is started from here on is poor, those that other processes start too."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(PREAMBLE + "open('poor.txt', 'a', encoding='utf-8').write('p')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(hooks), os.environ.get("PYTHONPATH", ""))))


def test_a_batch_fuses_its_stacks_in_processes_of_its_own(tmp_path, stack_folder, poor_processes):
    pytest.importorskip("distributed")
    for name in ("one", "two"):
        (tmp_path / "shoot" / name).mkdir(parents=True)
        for frame in sorted(stack_folder.iterdir())[:2]:
            (tmp_path / "shoot" / name / frame.name).write_bytes(frame.read_bytes())
    batch = ("batch", "shoot", "-o", "fused", "--method", "average", "--workers", "1")
    assert "2 fused" in run_poor(COMMAND, *batch, folder=tmp_path, poor=False).stdout
    assert "2 unchanged" in run_poor(COMMAND, *batch, folder=tmp_path, poor=False).stdout
    assert len((tmp_path / "poor.txt").read_text()) > 2, "the workers were not poor"
    assert not [path for path in (tmp_path / "fused").rglob("*") if path.suffix in (".journal", ".new", ".lock")]


STUDIO = """
import sys, time
from pathlib import Path
import httpx, socket, threading, uvicorn
from allfocus.web.server import create_app
from allfocus.web.settings import ServerSettings

listener = socket.create_server(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(create_app(ServerSettings(work=Path("work"))), log_level="error"))
thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
thread.start()
with httpx.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=120, trust_env=False) as client:
    job = client.post("/api/jobs", json={"name": "aux"}).json()["id"]
    for path in sorted(Path(sys.argv[1]).iterdir())[:2]:
        client.post(f"/api/jobs/{job}/frames", params={"name": path.name}, content=path.read_bytes()).raise_for_status()
    client.post(f"/api/jobs/{job}/start", json={"method": "average"}).raise_for_status()
    while (shown := client.get(f"/api/jobs/{job}").json())["state"] in ("queued", "running"):
        time.sleep(0.02)
    print(shown["state"])
    print(client.get(f"/api/jobs/{job}/download").raise_for_status().content[:4])
    client.delete(f"/api/jobs/{job}").raise_for_status()
server.should_exit = True
thread.join()
"""


def test_the_studio_fuses_and_deletes(tmp_path, stack_folder, poor_processes):
    pytest.importorskip("fastapi")
    done = run_poor(STUDIO, stack_folder, folder=tmp_path, poor=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.split("\n")[:2] == ["done", "b'II*\\x00'"]
    assert len((tmp_path / "poor.txt").read_text()) > 1, "the workers were not poor"
