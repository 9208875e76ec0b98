"""Options that fit a kind of picture, under a name: a start for those who have not yet tried what each option does."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from allfocus.errors import InputError
from allfocus.stack.options import FuseOptions


@dataclass(frozen=True)
class Preset:
    """Options under a name."""

    title: str
    """A word or two, as front ends label it."""
    about: str
    """What it is for, without a full stop."""
    values: dict[str, Any] = field(default_factory=dict)
    """The options that differ from their defaults, as ``FuseOptions`` takes them."""

    @property
    def options(self) -> FuseOptions:
        """All options of it."""
        return FuseOptions(**self.values)


PRESETS = {
    "macro": Preset(
        "Macro", "insects and flowers: hairs and feelers in front stay whole, bad frames are left out",
        {"prefer": "near", "skip_bad": True},
    ),
    "microscope": Preset(
        "Microscope", "the field keeps its size, and no brightness is changed by removing haze",
        {"crop": False, "unveil": False},
    ),
    "landscape": Preset(
        "Landscape", "a few frames from a tripod or by hand, with a calm background",
        {"prefer": "far"},
    ),
}  # fmt: skip
"""Every preset that comes with allfocus, by its name."""


def find_preset(name: str, own: Mapping[str, FuseOptions]) -> FuseOptions:
    """The options of a preset: of one that comes with allfocus, or of the user's own.

    Args:
        name: What it is called; of those that come with allfocus in any case.
        own: The user's own, by their names; see ``stack.kept_options``.

    Raises:
        InputError: there is none of this name.

    Example:
        >>> find_preset("Macro", {}).prefer
        'near'
    """
    if name in own:
        return own[name]
    if name.lower() in PRESETS:
        return PRESETS[name.lower()].options
    nearest = difflib.get_close_matches(name[:100], [*PRESETS, *own], n=1, cutoff=0.0)[0]
    raise InputError(
        f"there is no preset {name!r}; the nearest is {nearest!r}",
        hint=[
            "list them with `allfocus presets`",
            "name the folder of a studio that has others in ALLFOCUS_WORK",
        ],
        code="bad-option",
    )
