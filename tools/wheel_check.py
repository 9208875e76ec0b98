"""Whether a wheel can be handed out: built twice it has the same bytes, and alone in an empty environment it works.

    python tools/wheel_check.py reproduce OUT          builds sdist and wheel twice, compares, leaves one pair in OUT
    python tools/wheel_check.py try WHEEL              installs it into a new environment and fuses a first stack there
    python tools/wheel_check.py try WHEEL --python PROGRAM --constraints constraints.txt

`reproduce` needs the packages `build`, `hatchling` and `click`; `try` needs nothing. The second build runs in a folder
of another name and length, with other dates, permissions, time zone and locale.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGEST_WHEEL = 8_000_000
"""Bytes; the weights of the networks are most of them."""
MUST_HAVE = (
    "allfocus/__main__.py",
    "allfocus/py.typed",
    "allfocus/recipes/ips.toml",
    "allfocus/weights/ips.onnx",
    "allfocus/web/static/index.html",
    "share/man/man1/allfocus-fuse.1",
    "licenses/LICENSE",
)
"""How the names of files end that every wheel has."""
LEFT_OUT = (
    ".git",
    ".venv",
    "build",
    "dist",
    "demo",
    "reports",
    "runs",
    "carry",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
)
FIRST_STEPS = (
    ("--version",),
    ("scene", "desk", "-o", "stack", "--frames", "4", "--size", "320x240"),
    ("fuse", "stack/frames", "-o", "sharp.png"),
    ("demo", "-o", "demo"),
    ("completion", "bash"),
    ("doctor",),
)


def build(source: Path, target: Path, **changes: str) -> list[Path]:
    """Builds sdist and wheel of a copy of the tree; returns them by name."""
    environment = {**os.environ, **changes}
    command = [sys.executable, "-m", "build", "--quiet", "--no-isolation", "--outdir", str(target), str(source)]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return sorted(target.iterdir())


def copy_tree(target: Path) -> Path:
    """A copy of the source tree without what is made from it."""
    shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(*LEFT_OUT))
    return target


def reproduce(target: Path) -> None:
    """Builds twice, compares, and puts the first pair into a folder."""
    with tempfile.TemporaryDirectory() as place:
        first = build(copy_tree(Path(place, "a")), Path(place, "first"))
        other = copy_tree(Path(place, "a-much-longer-name", "b"))
        for path in other.rglob("*"):
            os.utime(path, (1e9, 1e9))
            path.chmod(0o700 if path.stat().st_mode & 0o100 else 0o600)
        second = build(other, Path(place, "second"), TZ="Pacific/Auckland", LC_ALL="C", PYTHONHASHSEED="7")
        if [path.name for path in first] != [path.name for path in second]:
            sys.exit(f"the builds have other names: {first}, {second}")
        for one, two in zip(first, second, strict=True):
            if one.read_bytes() != two.read_bytes():
                sys.exit(f"{one.name}: two builds differ{_what_differs(one, two)}")
        target.mkdir(parents=True, exist_ok=True)
        for path in first:
            require_contents(path)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            print(f"{path.name}  {path.stat().st_size} bytes  sha256 {digest}  the same in two builds")
            shutil.copy(path, target / path.name)


def _what_differs(one: Path, two: Path) -> str:
    if one.suffix != ".whl":
        return ""
    with zipfile.ZipFile(one) as first, zipfile.ZipFile(two) as second:
        own, other = (
            {item.filename: (item.CRC, item.external_attr) for item in file.infolist()} for file in (first, second)
        )
    return ": " + ", ".join(sorted(name for name in own.keys() | other.keys() if own.get(name) != other.get(name)))


def require_contents(path: Path) -> None:
    """Ends with a message when a wheel is too large, lacks what it must have, or has what belongs to developers."""
    if path.suffix != ".whl":
        return
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    missing = [ending for ending in MUST_HAVE if not any(name.endswith(ending) for name in names)]
    strange = [name for name in names if not name.startswith("allfocus")]
    if missing or strange:
        sys.exit(f"{path.name}: lacks {missing}, and has {strange} that do not belong there")
    if path.stat().st_size > LARGEST_WHEEL:
        sys.exit(f"{path.name}: has {path.stat().st_size} bytes, more than {LARGEST_WHEEL}")


def try_wheel(wheel: Path, python: str, constraints: Path | None) -> None:
    """Installs a wheel where nothing else is, and does what a new user does first."""
    print(f"wheel: {wheel.stat().st_size / 1e6:.1f} MB")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        timed("make the environment", [python, "-m", "venv", str(folder / "venv")], folder)
        programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        pins = ["-c", str(constraints.resolve())] if constraints else []
        install = [str(programs / "python"), "-m", "pip", "install", "-q", *pins, str(wheel.resolve())]
        timed("pip install", install, folder, bare=False)
        print(f"installed: {folder_size(folder / 'venv') / 1e6:.0f} MB")
        for words in FIRST_STEPS:
            timed(f"allfocus {' '.join(words)}", [str(programs / "allfocus"), *words], folder)
        timed("python -m allfocus", [str(programs / "python"), "-m", "allfocus"], folder)
        where = [str(programs / "python"), "-c", "import allfocus; print(allfocus.__file__)"]
        if "venv" not in timed("import allfocus", where, folder):
            sys.exit("the source tree was used, not the wheel")


def timed(title: str, command: list[str], folder: Path, *, bare: bool = True) -> str:
    """Runs a command, with nothing of this environment where `bare`; prints its time, returns its output."""
    kept = ("SYSTEMROOT", "TEMP", "TMP", "USERPROFILE")  # without which Windows cannot start a program
    own = {name: os.environ[name] for name in kept if name in os.environ}
    path = {"PATH": os.environ["PATH"]} if os.name == "nt" else {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    environment = {**own, **path} if bare else {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    print(f"{time.perf_counter() - began:6.1f} s  {title}")
    if done.returncode:
        sys.exit(f"{title}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def folder_size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def main() -> None:
    """Runs the command line."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("reproduce").add_argument("out", type=Path)
    trying = commands.add_parser("try")
    trying.add_argument("wheel", type=Path)
    trying.add_argument("--python", default=sys.executable)
    trying.add_argument("--constraints", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "reproduce":
        reproduce(chosen.out)
    else:
        try_wheel(chosen.wheel, chosen.python, chosen.constraints)


if __name__ == "__main__":
    main()
