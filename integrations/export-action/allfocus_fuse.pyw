#!/usr/bin/env python3
"""Fuses the pictures that it is given, for programs that hand exported files to another program, and for file managers.

    allfocus_fuse.pyw [--no-windows] FILES...

The result lies beside the first file, under a name that no file has, and is opened; complaints are shown in a window.
Needs the command `allfocus` (pip install allfocus) and nothing else: Python's own library is enough. A program that is
not found can be named by the variable ALLFOCUS.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

USUAL_PLACES = ("~/.local/bin", "/opt/homebrew/bin", "/usr/local/bin")
"""Where installers put programs and programs with windows do not look."""


def find_program() -> str:
    """Returns the command, or its bare name where it is nowhere."""
    beside = str(Path(sys.executable).parent)
    usual = [os.path.expanduser(place) for place in USUAL_PLACES]
    search = os.pathsep.join([os.environ.get("PATH", ""), beside, *usual])
    return os.environ.get("ALLFOCUS") or shutil.which("allfocus", path=search) or "allfocus"


def in_order(files: list[str]) -> list[Path]:
    """Returns the files as people count them: a9 before a10."""

    def key(path: Path) -> list[tuple[int, int, str]]:
        parts = [part for part in re.split("([0-9]+)", path.name.casefold()) if part]
        return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]

    return sorted((Path(file) for file in files), key=lambda path: (key(path), str(path)))


def free_name(first: Path, last: Path) -> Path:
    """Returns a name for the result that no file has."""
    ending = first.suffix if first.suffix.lower() in (".tif", ".tiff", ".png", ".jpg", ".jpeg", ".webp") else ".tif"
    base = f"{first.stem}-{last.stem}_allfocus"
    name, number = first.with_name(base + ending), 1
    while name.exists():
        number += 1
        name = first.with_name(f"{base}_{number}{ending}")
    return name


def start(program: str, files: list[Path], output: Path) -> "subprocess.Popen[str]":
    """Starts the fusion; words are handed over as they are, so no name needs quoting."""
    hidden = {"creationflags": subprocess.CREATE_NO_WINDOW} if sys.platform == "win32" else {}
    words = [program, "fuse", "-o", str(output), "--", *map(str, files)]
    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8",
        errors="replace", env={**os.environ, "PYTHONIOENCODING": "utf-8"}, **hidden,
    )  # fmt: skip


def complaint(said: str) -> str:
    """Returns the sentence that tells what went wrong."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    own = [line.removeprefix("allfocus: ") for line in lines if line.startswith("allfocus: ")]
    return (own or lines or ["it said nothing"])[-1]


def wait_in_window(running: "subprocess.Popen[str]", title: str) -> str:
    """Shows that there is work until it ends, with a button that ends it; returns what the program said."""
    import threading
    import tkinter
    from tkinter import ttk

    said: list[str] = []
    reader = threading.Thread(target=lambda: said.append(running.communicate()[1]))
    reader.start()
    window = tkinter.Tk()
    window.title("allfocus")
    ttk.Label(window, text=title, padding=12).pack()
    bar = ttk.Progressbar(window, mode="indeterminate", length=320)
    bar.pack(padx=12)
    bar.start()
    ttk.Button(window, text="Cancel", command=running.terminate).pack(pady=12)
    window.protocol("WM_DELETE_WINDOW", running.terminate)

    def look() -> None:
        if reader.is_alive():
            window.after(100, look)
        else:
            window.destroy()

    look()
    window.mainloop()
    reader.join()
    return said[0]


def show(title: str, text: str) -> None:
    """Shows a complaint."""
    import tkinter
    from tkinter import messagebox

    tkinter.Tk().withdraw()
    messagebox.showerror(title, text)


def open_picture(path: Path) -> None:
    """Opens the result with the program that the user opens pictures with."""
    if sys.platform == "win32":
        os.startfile(path)
    else:
        with contextlib.suppress(OSError):  # without such a program, the file lies where it was said to
            subprocess.Popen(["open" if sys.platform == "darwin" else "xdg-open", str(path)], stderr=subprocess.DEVNULL)


def fuse(files: list[Path], *, windows: bool) -> tuple[Path, str | None]:
    """Returns the result and what went wrong, if anything."""
    output = free_name(files[0], files[-1])
    program = find_program()
    try:
        running = start(program, files, output)
    except OSError as error:
        return output, f"{program}: {error.strerror}. Is allfocus installed? Type in a terminal: pip install allfocus"
    said = wait_in_window(running, f"Fusing {len(files)} frames") if windows else running.communicate()[1]
    if running.returncode < 0 or (running.returncode and not said.strip()):
        return output, "it was ended before it was done"
    return output, complaint(said) if running.returncode else None


def main(words: list[str]) -> int:
    """Fuses, opens the result, and tells what went wrong; returns the exit code."""
    windows = "--no-windows" not in words
    files = in_order([word for word in words if word != "--no-windows"])
    if len(files) < 2:
        output, wrong = None, "A stack needs two pictures or more: select them all."
    else:
        output, wrong = fuse(files, windows=windows)
    if wrong:
        print(f"allfocus: {wrong}", file=sys.stderr)
        if windows:
            show("allfocus could not fuse the pictures", wrong)
        return 2
    print(output)
    if windows and output:
        open_picture(output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
