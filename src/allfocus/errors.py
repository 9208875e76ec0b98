"""Every error that allfocus raises on purpose.

An error says what was wrong (``message``), where (``where``: a file, a frame), and what would work (``hints``), with a
``code`` that programs can rely on and the values in question (``parameters``). Hints name options as ``{skip_bad=on}``:
Python, the command line and the studio each say in their own words how such an option is set, and leave out a hint
whose option they do not have. ``docs/errors.md`` lists the codes; ``python tools/error_table.py`` writes it.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

Words = Callable[[str, str], str | None]
"""How a front end says that an option is switched ``on`` or ``off``, left at its ``default``, or ``set``; None where it
has no such option."""

CODES = {
    "failed": "The work could not be done",
    "input": "A file, frame, folder or option cannot be used",
    "bad-option": "An option has a value that it cannot have",
    "unknown-method": "There is no method of that name",
    "method-cannot": "The method cannot do what an option asks of it",
    "no-gpu": "A GPU was asked for and none can be used",
    "missing-extra": "A package that is needed for this is not installed",
    "missing-weights": "The weights of a network are not part of allfocus and not at hand",
    "bad-weights": "A file holds no weights that can be read, or those of another network",
    "no-such-file": "There is no file or folder of that name",
    "unreadable-file": "A file cannot be opened: permissions, a pipe, a device",
    "not-a-picture": "A file holds no picture of a format that can be read",
    "damaged-picture": "A file is truncated or damaged",
    "unsupported-picture": "A picture of a kind that cannot be read or fused",
    "too-many-pixels": "A picture has more pixels than the limit",
    "too-many-pictures": "A file holds more pictures than the limit",
    "too-many-bytes": "A file needs more room than there is",
    "too-few-frames": "Fewer than two frames of a stack can be used",
    "unequal-frames": "The frames of a stack differ in size or channels",
    "several-stacks": "A file holds several stacks (positions, times), and none was chosen",
    "no-such-plane": "A file has no such position, time or channel",
    "incomplete-stack": "Planes of a stack are missing",
    "stranger-frame": "A frame does not belong to its stack",
    "no-common-area": "Aligned frames have no area in common",
    "no-colour-profile": "Linear light was asked for, but the frames do not tell their transfer curve",
    "changed-meanwhile": "A file was changed while it was worked on",
    "is-an-input": "A file to be written is one of those that are read",
    "output": "A result cannot be written",
    "output-exists": "A file exists and was not to be overwritten",
    "unwritable-format": "The format of the output cannot hold the result",
    "bad-project": "A file is no project file, or was changed since it was saved",
    "in-use": "Another run or server is using the folder",
    "name-taken": "A plug-in has the name of something that is there already; it is passed over",
    "after-failed": "A command that was to run after a stack failed; the picture is written",
    "memory": "There is not enough memory",
    "training": "Training cannot go on",
    "export": "An exported model does not reproduce its network",
}
"""What each code means; ``tests/contracts/test_errors.py`` sees to it that there are no others."""

_OPTION = re.compile(r"\{(\w+)(?:=(on|off|default))?\}")


def python_words(name: str, state: str) -> str:
    """How an option is set in Python.

    Example:
        >>> python_words("align", "off"), python_words("linear_light", "default")
        ('pass align=False', 'leave out linear_light')
    """
    return {
        "on": f"pass {name}=True",
        "off": f"pass {name}=False",
        "default": f"leave out {name}",
    }.get(state, f"set {name}")


class AllfocusError(Exception):
    """Base of all errors raised on purpose.

    Args:
        message: What was wrong, without the place and without the cure.
        where: The file or frame that is at fault, as it shall be shown.
        hint: What would work: one way, or several of which any will do. Options stand in braces.
        code: One of :data:`CODES`; by default that of the class.
        parameters: The values in question, for programs.

    Example:
        >>> error = InputError("does not belong", where="a.png", hint=["take it out", "{skip_bad=on} to leave it out"])
        >>> print(error)
        a.png: does not belong; take it out, or pass skip_bad=True to leave it out
        >>> error.told(lambda name, state: f"add --{name.replace('_', '-')}")
        'a.png: does not belong; take it out, or add --skip-bad to leave it out'
    """

    exit_code = 1
    """What the command line leaves with."""
    code = "failed"

    def __init__(
        self,
        message: str = "",
        *,
        where: object = None,
        hint: str | Sequence[str] = (),
        code: str | None = None,
        **parameters: object,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = None if where is None else str(where)
        self.hints = (hint,) if isinstance(hint, str) else tuple(hint)
        self.code = code or type(self).code
        self.parameters = parameters

    def __str__(self) -> str:
        return self.told(python_words)

    def told(self, words: Words) -> str:
        """The whole sentence, with options as a front end calls them."""
        hints = [said for hint in self.hints if (said := _say(hint, words)) is not None]
        cure = f"{', '.join(hints[:-1])}, or {hints[-1]}" if len(hints) > 1 else "".join(hints)
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}; {cure}" if cure else text

    def set_place(self, where: object) -> None:
        """Say where it happened, if that is not known yet."""
        if self.where is None:
            self.where = str(where)

    def to_plain(self) -> dict[str, Any]:
        """All of it as plain values, for another process."""
        return {
            "kind": type(self).__name__,
            "message": self.message,
            "where": self.where,
            "hints": list(self.hints),
            "code": self.code,
            "parameters": {name: _plain(value) for name, value in self.parameters.items()},
        }


def _say(hint: str, words: Words) -> str | None:
    """A hint in the words of a front end; None when it lacks an option of it."""
    missing = False

    def name(found: re.Match[str]) -> str:
        nonlocal missing
        said = words(found[1], found[2] or "set")
        missing = missing or said is None
        return said or ""

    text = _OPTION.sub(name, hint)
    return None if missing else text


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


class InputError(AllfocusError):
    """A file, frame, folder or option that cannot be used; the user can mend it."""

    exit_code = 2
    code = "input"


class MissingDependencyError(AllfocusError):
    """An optional package is not installed; the message names the extra that brings it."""

    exit_code = 2
    code = "missing-extra"


class MemoryShortageError(AllfocusError):
    """There is not enough memory for the work; no file is at fault."""

    code = "memory"


class OutputError(AllfocusError):
    """A result could not be written; nothing half-written is left behind."""

    exit_code = 2
    code = "output"


class TrainingError(AllfocusError):
    """Training cannot go on, for example because the loss is no longer a number."""

    code = "training"


class ExportError(AllfocusError):
    """An exported model does not reproduce the network it was made from."""

    code = "export"


KINDS: dict[str, type[AllfocusError]] = {
    kind.__name__: kind
    for kind in (
        AllfocusError,
        InputError,
        MissingDependencyError,
        MemoryShortageError,
        OutputError,
        TrainingError,
        ExportError,
    )
}
"""Every class by its name."""


def error_from_plain(content: dict[str, Any]) -> AllfocusError:
    """The error that :meth:`AllfocusError.to_plain` described.

    Example:
        >>> str(error_from_plain(InputError("is empty", where="a.png").to_plain()))
        'a.png: is empty'
    """
    return KINDS[content["kind"]](
        content["message"],
        where=content["where"],
        hint=content["hints"],
        code=content["code"],
        **content["parameters"],
    )
