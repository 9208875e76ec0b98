"""Kill fuse, align, batch, planes and the studio at random moments: after one more run all is right, nothing is left.

    python benchmarks/random_kills.py --count 200

Each command writes a small stack once, undisturbed. Then it is started again and again, killed with all its processes
(SIGKILL) at a random moment, half of them in the last fifth of its time, when files get their names, and started once
more. What is in the output folder must then be, byte for byte, what the undisturbed run left: nothing lost, mixed or
hidden. With ``--alone`` only the process that was started is killed, as the system does that lacks memory, and its
workers are left to find out. How long a command takes is measured anew with every run that is let through, because
other work on the machine comes and goes; it is printed how many of the kills came before the end.

The studio is killed while a client uploads, fuses, paints, undoes, tries another method, saves and deletes, and while
it starts, in a new folder too. The next one must show no job that runs, results and strokes that are exactly what they
were, and no file that no job names; jobs that were broken off are started again and must give the same picture; when
all are deleted the folder must be empty.
The exit code is 1 when anything was not as it must be.
"""

import argparse
import contextlib
import io
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import allfocus
from allfocus.web.door import DOOR
from allfocus.web.work_folder import LOCK, MARKER

CHANGING = ("manifest.jsonl", "summary.csv", "contact_sheet.html", "report.html")
"""Files that hold times."""


def make_inputs(folder: Path) -> None:
    import tifffile

    frames = allfocus.render_scene("desk", frames=4, size=(96, 128)).frames
    (folder / "planes").mkdir(parents=True)
    for place in ("frames", *(f"shots/stack_{number}" for number in range(4))):
        (folder / place).mkdir(parents=True)
        for number, frame in enumerate(frames):
            allfocus.write_image(frame, folder / place / f"{number}.png")
    for number, frame in enumerate(frames):
        levels = np.rint(frame * 255).astype(np.uint8)
        tifffile.imwrite(folder / "planes" / f"{number}.tif", levels, photometric="rgb", tile=(64, 64))


def commands(folder: Path) -> dict[str, list[str]]:
    out = folder / "out"
    maps = ["--depth-map", out / "depth.png", "--decision-map", out / "decision.png", "--report", out / "report.html"]
    found = {
        "fuse": ["fuse", folder / "frames", "-o", out / "o.png", "--method", "dsift", "--slab", "2,1", *maps],
        "align": ["align", folder / "frames", "-o", out],
        "batch": ["batch", folder / "shots", "-o", out, "--method", "dsift", "--depth-maps", "--workers", "1"],
        "planes": ["batch", folder / "planes", "-o", out / "o.zarr", "--workers", "1"],
    }
    overwriting = ("fuse", "align", "planes")
    return {
        name: [
            sys.executable,
            "-m",
            "allfocus.cli",
            *map(str, words),
            *(["--overwrite"] if name in overwriting else []),
        ]
        for name, words in found.items()
    }


def contents(folder: Path) -> dict[str, bytes | None]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): None if path.name in CHANGING else path.read_bytes() for path in sorted(files)
    }


def run(words: list[str]) -> int:
    return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode


def kill_at(words: list[str], seconds: float, *, alone: bool) -> bool:
    """Whether it was still running when it was killed."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        if alone:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def try_command(name: str, folder: Path, count: int, chance: random.Random, *, alone: bool) -> tuple[int, list[str]]:
    """How many kills came before the end, and the moments after which something was wrong."""
    words, out = commands(folder)[name], folder / "out"
    out.mkdir()
    began = time.monotonic()
    if run(words):
        return 0, [f"{name}: fails undisturbed"]
    whole = time.monotonic() - began
    right, wrong, hits = contents(out), list[str](), 0
    for number in range(count):
        if number and number % 20 == 0:
            print(f"{name}: {number} of {count}, {len(wrong)} wrong so far", file=sys.stderr, flush=True)
        if name == "batch":  # which finds everything done otherwise
            shutil.rmtree(out)
        moment = chance.uniform(0.8, 1.0) if chance.random() < 0.5 else chance.uniform(0.2, 1.02)
        hits += kill_at(words, whole * moment, alone=alone)
        began = time.monotonic()
        code, now = run(words), contents(out)
        lasted = time.monotonic() - began
        if code or now != right:
            odd = sorted(file for file in {*now, *right} if now.get(file, 0) != right.get(file, 0))
            wrong.append(f"{name}: killed after {whole * moment:.3f} s of {whole:.3f}: exit code {code}, {odd[:6]}")
        if name != "batch":  # which does only the rest after a kill
            whole = lasted
    shutil.rmtree(out)
    return hits, wrong


# --- the studio -------------------------------------------------------------------------------------------------------

METHOD, OTHER_METHOD = "dsift", "average"
STROKES = (
    {"points": [[20.0, 20.0], [60.0, 50.0]], "radius": 12.0, "hardness": 0.5},
    {"points": [[90.0, 70.0]], "radius": 25.0, "hardness": 0.0},
)


class Studio:
    """``allfocus serve`` in a process of its own, and a client of it."""

    def __init__(self, work: Path) -> None:
        words = [sys.executable, "-m", "allfocus.cli", "serve", "--no-browser", "--port", "0", "--work", str(work)]
        self.work = work
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, start_new_session=True)
        self.client: httpx.Client | None = None
        self.log: list[str] = []

    def connect(self) -> None:
        """Wait until it listens.

        Raises:
            EOFError: it ended before.
        """
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line.decode(errors="replace"))
            if found := re.search(r"http://\S+?:([0-9]+)/", self.log[-1]):
                address = f"http://127.0.0.1:{found[1]}/api"
                self.client = httpx.Client(base_url=address, timeout=120, trust_env=False)
                threading.Thread(target=self._listen, daemon=True).start()
                return
        raise EOFError("".join(self.log))

    def _listen(self) -> None:
        assert self.process.stderr is not None
        self.log += [line.decode(errors="replace") for line in self.process.stderr]

    def ask(self, kind: str, path: str, **values: object) -> httpx.Response:
        """The answer to a request, which must be a good one."""
        assert self.client is not None
        answer = self.client.request(kind, path, **values)  # type: ignore[arg-type]  # each value has a type of its own
        if answer.is_error:
            raise AssertionError(f"{kind} {path}: {answer.status_code} {answer.text}")
        return answer

    def wait(self, job_id: str) -> dict[str, Any]:
        """The job once nothing runs for it."""
        while True:
            job: dict[str, Any] = self.ask("GET", f"/jobs/{job_id}").json()
            if job["state"] not in ("queued", "running") and job["alternative"] is None:
                return job
            time.sleep(0.01)

    def picture(self, job_id: str) -> bytes:
        """The pixels that are downloaded; the file tells when it was made."""
        import tifffile

        content = self.ask("GET", f"/jobs/{job_id}/download").content
        return bytes(tifffile.imread(io.BytesIO(content)).tobytes())

    def kill(self, *, alone: bool) -> None:
        """End it at once, with its workers unless alone."""
        with contextlib.suppress(ProcessLookupError):
            if alone:
                self.process.kill()
            else:
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Wait for its end."""
        self.process.wait()
        if self.client is not None:
            self.client.close()


def use_studio(studio: Studio, frames: list[Path]) -> list[bytes]:
    """All that a client does with a stack; the pictures without a stroke, with one and with two come back."""
    job = studio.ask("POST", "/jobs", json={"name": "stack"}).json()["id"]
    for frame in [*frames, frames[0]]:
        studio.ask("POST", f"/jobs/{job}/frames", params={"name": frame.name}, content=frame.read_bytes())
    ids = [frame["id"] for frame in studio.ask("GET", f"/jobs/{job}").json()["frames"]]
    studio.ask("GET", f"/jobs/{job}/frames/{ids[-1]}/thumbnail")
    studio.ask("DELETE", f"/jobs/{job}/frames/{ids[-1]}")
    studio.ask("POST", f"/jobs/{job}/start", json={"method": METHOD, "align": False})
    assert studio.wait(job)["state"] == "done"
    pictures = [studio.picture(job)]
    for stroke in STROKES:
        studio.ask("POST", f"/jobs/{job}/strokes", json={"source": f"frame-{ids[0]}", **stroke})
        pictures.append(studio.picture(job))
    studio.ask("POST", f"/jobs/{job}/undo")
    studio.ask("POST", f"/jobs/{job}/redo")
    studio.ask("GET", f"/jobs/{job}/tiles/difference-{ids[1]}/0/0/0")
    studio.ask("POST", f"/jobs/{job}/alternatives", json={"method": OTHER_METHOD})
    studio.wait(job)
    studio.ask("POST", f"/jobs/{job}/start", json={"method": METHOD, "align": False})
    studio.wait(job)
    studio.ask("DELETE", f"/jobs/{job}")
    return pictures


def check_studio(studio: Studio, frames: list[Path], right: list[bytes]) -> list[str]:
    """What is wrong with a studio that was started after another had been killed; no job is left in it."""
    wrong = unnamed_files(studio)
    for name in [job["id"] for job in studio.ask("GET", "/jobs").json()]:
        job = studio.wait(name)  # what waited goes on by itself
        if job["result"] is not None and studio.picture(name) != right[len(job["strokes"])]:
            wrong.append(f"a {job['state']} job shows another picture, with {len(job['strokes'])} strokes")
        for frame in job["frames"]:
            studio.ask("GET", f"/jobs/{name}/frames/{frame['id']}/thumbnail")
        if len(job["frames"]) in (len(frames), len(frames) + 1):
            order = [{"id": frame["id"], "included": at < len(frames)} for at, frame in enumerate(job["frames"])]
            studio.ask("PUT", f"/jobs/{name}/frames", json={"frames": order})
            studio.ask("POST", f"/jobs/{name}/start", json={"method": METHOD, "align": False})
            studio.wait(name)
            if studio.picture(name) != right[0]:
                wrong.append("a job that was started again gives another picture")
        studio.ask("DELETE", f"/jobs/{name}")
    left = {str(path.relative_to(studio.work)) for path in studio.work.rglob("*")}
    if left != {"jobs", "temporary", LOCK, MARKER, DOOR}:
        wrong.append(f"after all jobs were deleted there is {sorted(left)}")
    return wrong + [line for line in studio.log if "Traceback" in line]


def unnamed_files(studio: Studio) -> list[str]:
    """Files in the work folder that are hidden, on their way, or of frames that no job has."""
    odd = []
    frames = {frame["id"] for job in studio.ask("GET", "/jobs").json() for frame in job["frames"]}
    for path in studio.work.rglob("*"):
        place = path.relative_to(studio.work)
        hidden = path.name.startswith(".") or path.suffix in (".part", ".old")
        unknown = place.parts[-2:-1] in (("frames",), ("thumbnails",)) and path.stem not in frames
        if hidden or unknown or (place.parts[0] == "temporary" and len(place.parts) > 1):
            odd.append(f"left behind: {place}")
    return odd


def try_studio(folder: Path, count: int, chance: random.Random, *, alone: bool) -> list[str]:
    """What was wrong after the studio was killed; each one is looked at by the next, which is killed in turn."""
    frames, work = sorted((folder / "frames").iterdir()), folder / "work"
    studio = Studio(work)
    studio.connect()
    began = time.monotonic()
    right = use_studio(studio, frames)
    whole = time.monotonic() - began
    wrong, killed = check_studio(studio, frames, right), 0
    studio.kill(alone=alone)
    studio.close()
    while killed <= count:  # the last one only looks
        if killed and killed % 20 == 0:
            print(f"studio: {killed} of {count}, {len(wrong)} wrong so far", file=sys.stderr, flush=True)
        if killed < count and chance.random() < 0.1:
            wrong += _kill_at_start(folder / "new" if chance.random() < 0.5 else work, frames, right, chance)
            killed += 1
            continue
        studio = Studio(work)
        studio.connect()
        found = check_studio(studio, frames, right)
        wrong += [f"studio: after {killed} kills: {text}" for text in found]
        if killed == count:
            break
        timer = threading.Timer(whole * chance.uniform(0, 1.02), studio.kill, kwargs={"alone": alone})
        timer.start()
        try:
            use_studio(studio, frames)
        except (httpx.TransportError, AssertionError) as error:
            if isinstance(error, AssertionError) and studio.process.poll() is None:
                wrong.append(f"studio: {error}")
        timer.join()
        studio.kill(alone=alone)
        studio.close()
        killed += 1
    studio.kill(alone=False)
    studio.close()
    shutil.rmtree(work)
    return wrong


def _kill_at_start(work: Path, frames: list[Path], right: list[bytes], chance: random.Random) -> list[str]:
    """What was wrong after a studio was killed while it started; one in a new folder is looked at here."""
    is_new = not work.exists()
    studio = Studio(work)
    time.sleep(chance.uniform(0.3, 1.5))
    studio.kill(alone=False)
    studio.close()
    if not is_new:
        return []
    studio = Studio(work)
    studio.connect()
    wrong = check_studio(studio, frames, right)
    studio.kill(alone=False)
    studio.close()
    shutil.rmtree(work)
    return [f"studio: killed while it started in a new folder: {text}" for text in wrong]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="kills of each command")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["fuse", "align", "batch", "planes", "studio"])
    parser.add_argument("--alone", action="store_true", help="kill only the process that was started")
    options = parser.parse_args()
    chance, failures = random.Random(options.seed), []
    with tempfile.TemporaryDirectory() as place:
        make_inputs(Path(place))
        for name in (*commands(Path(place)), "studio"):
            if options.only in (None, name):
                before_the_end = ""
                if name == "studio":
                    wrong = try_studio(Path(place), options.count, chance, alone=options.alone)
                else:
                    hits, wrong = try_command(name, Path(place), options.count, chance, alone=options.alone)
                    before_the_end = f", {hits} before the end"
                print(f"{name}: {options.count} kills{before_the_end}, {len(wrong)} wrong", flush=True)
                failures += wrong
    print("\n".join(failures))
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
