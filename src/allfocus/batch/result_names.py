"""What the results of a batch are called: a template such as ``{date}/{name}_{method}``."""

import re
from collections.abc import Callable
from pathlib import Path

from allfocus.batch.stacks import Stack
from allfocus.errors import InputError
from allfocus.files.names import is_portable, portable_name
from allfocus.images.photo_facts import read_photo_facts

PLACE = re.compile(r"\{([^{}]*)\}")
DEFAULT = "{stack}"
UNDATED = "undated"
"""In place of the date or time of a frame that says none."""

VALUES: dict[str, Callable[[Stack, str], str]] = {
    "stack": lambda stack, method: stack.name,
    "folder": lambda stack, method: stack.name.rpartition("/")[0],
    "name": lambda stack, method: stack.name.rpartition("/")[2],
    "first": lambda stack, method: portable_name(stack.frames[0].stem),
    "last": lambda stack, method: portable_name(stack.frames[-1].stem),
    "count": lambda stack, method: str(len(stack.frames)),
    "method": lambda stack, method: portable_name(Path(method).stem if method.endswith(".onnx") else method),
    "date": lambda stack, method: _taken(stack, "%Y-%m-%d"),
    "time": lambda stack, method: _taken(stack, "%H-%M-%S"),
}
"""What can stand in braces, and what is put there."""


def check_template(template: str) -> None:
    """Raises InputError where results cannot be called so.

    Example:
        >>> check_template("{date}/{name}_{method}")
    """
    for name in PLACE.findall(template):
        if name not in VALUES:
            raise InputError(
                f"there is no {{{name}}} to make a name of; there are {{{'}, {'.join(VALUES)}}}", code="bad-option"
            )
    plain = PLACE.sub("x", template)
    parts = plain.split("/")
    if "{" in plain or "}" in plain or not all(part not in (".", "..") and is_portable(part) for part in parts):
        raise InputError(
            f"results cannot be called {template!r} on every system; use plain words, with / between folders",
            code="bad-option",
        )


def name_result(template: str, stack: Stack, method: str) -> str:
    """The name of a result below the output folder, without its ending.

    Example:
        >>> stack = Stack("day1/beetle", (Path("a/DSC_1.tif"), Path("a/DSC_9.tif")))
        >>> name_result("{folder}/{first}-{last} {method}", stack, "ips")
        'day1/DSC_1-DSC_9 ips'
        >>> name_result("{folder}/{name}", Stack("beetle", stack.frames), "ips")
        'beetle'
    """
    name = PLACE.sub(lambda found: VALUES[found[1]](stack, method), template)
    return "/".join(part for part in name.split("/") if part)  # stacks at the top lie in no folder


def _taken(stack: Stack, pattern: str) -> str:
    try:
        time = read_photo_facts(stack.frames[0]).time
    except InputError:
        return UNDATED
    return UNDATED if time is None else time.strftime(pattern)
