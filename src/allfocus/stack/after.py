"""A command that runs after a stack is fused, such as one that copies, tags or opens the result.

No shell is involved: the command is cut into words first, and names are put into the words after that, so no file name
can become an option, a second word or a command of its own.
"""

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from allfocus.errors import AllfocusError, InputError

PLACES = {
    "output": "the fused picture",
    "folder": "the folder it lies in",
    "name": "its name without the ending",
    "report": "the page about it, empty without one",
    "first": "the first frame",
    "count": "how many frames there were",
}
"""What stands in braces in a command, and what is put there."""
MOST_TOLD = 2000
"""Letters of what a command said that are told."""


def split_command(text: str, *, windows: bool | None = None) -> list[str]:
    r"""The words of a command line, with places in braces as they are.

    Args:
        text: The command.
        windows: Whether a backslash is a letter, as in names there; None for as on this system.

    Raises:
        InputError: it is empty, a quote is open, or there is no such place.

    Example:
        >>> split_command("cp {output} 'my results/'")
        ['cp', '{output}', 'my results/']
        >>> split_command(r'"C:\Program Files\x.exe" {output}', windows=True)
        ['C:\\Program Files\\x.exe', '{output}']
    """
    reader = shlex.shlex(text, posix=True, punctuation_chars=False)
    reader.whitespace_split, reader.commenters = True, ""
    if os.name == "nt" if windows is None else windows:
        reader.escape = ""
    try:
        words = list(reader)
    except ValueError as error:
        raise InputError(f"the command cannot be read ({error}): {text}", code="bad-option") from error
    if not words:
        raise InputError("the command to run afterwards is empty", code="bad-option")
    for name in re.findall(r"\{(\w*)\}", text):
        if name not in PLACES:
            raise InputError(
                f"there is no {{{name}}} to put into the command; there are {{{'}, {'.join(PLACES)}}}",
                code="bad-option",
            )
    return words


def fill_command(words: Sequence[str], values: dict[str, str]) -> list[str]:
    """The words with values in their places; without any place, the output is the last word.

    Example:
        >>> fill_command(["cp", "{output}", "/backup/{name}.bak"], {"output": "a b.tif", "name": "a b"})
        ['cp', 'a b.tif', '/backup/a b.bak']
        >>> fill_command(["open"], {"output": "a.tif"})
        ['open', 'a.tif']
    """
    place = re.compile(r"\{(\w+)\}")
    if not any(place.search(word) for word in words):
        words = [*words, "{output}"]
    return [place.sub(lambda found: values[found[1]], word) for word in words]


def run_after(
    command: str,
    output: Path,
    *,
    report: Path | None = None,
    frames: Sequence[Path | str] = (),
    name: str | None = None,
) -> str:
    """What a command printed that was run after a stack.

    Args:
        command: Its words, with places of :data:`PLACES`.
        output: The fused picture.
        report: The page about it.
        frames: The frames.
        name: How the result is called; by default the name of the output without its ending.

    Raises:
        InputError: the command cannot be read.
        AllfocusError: it cannot be started, or failed; the picture is written all the same.
    """
    import subprocess  # here, because the help of the command line loads this file

    picture = Path(os.path.abspath(output))
    values = {
        "output": str(picture),
        "folder": str(picture.parent),
        "name": name or re.sub(r"(?i)(\.ome)?\.[^.]*$", "", picture.name),
        "report": "" if report is None else os.path.abspath(report),
        "first": os.path.abspath(frames[0]) if frames else "",
        "count": str(len(frames)),
    }
    words = fill_command(split_command(command), values)
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except (OSError, ValueError) as error:
        raise AllfocusError(
            f"the picture is written, but {words[0]!r} could not be started after it ({error})",
            where=output,
            code="after-failed",
        ) from error
    said = done.stdout.strip()[-MOST_TOLD:]
    if done.returncode:
        last = f": {said.splitlines()[-1]}" if said else ""
        raise AllfocusError(
            f"the picture is written, but {words[0]!r}, run after it, failed with exit code {done.returncode}{last}",
            where=output,
            code="after-failed",
        )
    return said
