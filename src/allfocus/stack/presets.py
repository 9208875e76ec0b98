"""Options that fit a kind of picture, under a name: a start for those who have not yet tried what each option does."""

from dataclasses import dataclass, field
from typing import Any

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
