"""What a field of :class:`FuseOptions` and :class:`FuseOutputs` says about itself, for every front end to show."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

FUSE, BATCH, STUDIO = "fuse", "batch", "studio"
"""The front ends that offer options."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class About:
    """What front ends show of an option besides its name, type and value by default."""

    help: str
    """A sentence for people, without a full stop; the same on the command line, in the studio and in the docs."""
    title: str = ""
    """A few words, as the studio labels it."""
    flags: str = ""
    """On the command line, ``--on/--off`` for what can be switched; made from the name when empty."""
    choices: Mapping[Any, str] = field(default_factory=dict)
    """Each value that it can have, with what that means; empty for any."""
    limits: tuple[int | None, int | None] = (None, None)
    """The least and the most that a number can be."""
    metavar: str | None = None
    """How the command line shows a value that is made of several."""
    ability: str = ""
    """What the method must be able to do (a field of ``fusion.method.Abilities``); empty for options of all."""
    rare: bool = False
    """Whether the studio shows it behind "More options"."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Front ends that do not offer it, with the reason."""


def option(default: Value, help: str, **about: Any) -> Value:
    """A field with this default; typed as its value, as ``dataclasses.field`` is."""
    value: Value = field(default=default, metadata={"about": About(help, **about)})
    return value


def described(kind: type) -> dict[str, About]:
    """What there is to show of each field of a class that was made by :func:`option`, in order.

    Example:
        >>> from allfocus.stack.outputs import FuseOutputs
        >>> described(FuseOutputs)["overwrite"].help
        'Replace output files that exist'
    """
    return {own.name: own.metadata["about"] for own in fields(kind) if "about" in own.metadata}


def document(kind: type) -> None:
    """Adds what each field is for to the docstring of its class, so that ``help`` shows it."""
    lines = (f"    {name}: {about.help}." for name, about in described(kind).items())
    kind.__doc__ = "\n".join([(kind.__doc__ or "").rstrip(), "", "Fields:", *lines, ""])
