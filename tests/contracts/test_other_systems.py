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


def run_poor(code: str, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs code in a process as poor as on Windows, where text without a named encoding is an error."""
    search = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT / "src"))))
    environment = {**os.environ, "PYTHONPATH": search, "PYTHONIOENCODING": "cp1252:strict", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-c", PREAMBLE + code, *map(str, arguments)],
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


def test_the_stacks_of_a_batch_are_found_and_fused(tmp_path, stack_folder):
    """Without Dask's processes, which are not ours to make poor."""
    pytest.importorskip("distributed")
    shoot = tmp_path / "shoot"
    for name in ("one", "two"):
        (shoot / name).mkdir(parents=True)
        for frame in sorted(stack_folder.iterdir())[:2]:
            (shoot / name / frame.name).write_bytes(frame.read_bytes())
    code = """
import sys
import allfocus
from allfocus.batch.stack_task import StackTask, fuse_stack
from allfocus.batch.stacks import find_stacks

for again in range(2):
    for stack in find_stacks("shoot"):
        options = allfocus.FuseOptions(method="average")
        frames = tuple(map(str, stack.frames))
        record = fuse_stack(StackTask(stack.name, frames, "shoot", "fused", f"{stack.name}.png", options, "key"))
        print(record.stack, record.status, record.error)
"""
    done = run_poor(code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == ["one fused ", "two fused "] * 2


def test_the_studio_can_be_loaded(tmp_path):
    pytest.importorskip("fastapi")
    done = run_poor("import allfocus.web.server", folder=tmp_path)
    assert done.returncode == 0, done.stderr
