"""Where the files of one fusion go: the only home of what can be written besides the picture."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from allfocus.errors import InputError
from allfocus.stack.option_fields import About, described, document, option

AnyPath = str | os.PathLike[str]
Paths = Sequence[AnyPath] | AnyPath


def _file(help: str, **about: Any) -> AnyPath | None:
    return option(None, help, **about)


@dataclass(frozen=True)
class FuseOutputs:
    """Where the files of one fusion go.

    Example:
        >>> FuseOutputs("out.tif", depth_map="depth.png").maps()
        {'depth_map': PosixPath('depth.png'), 'depth_preview': PosixPath('depth_preview.png')}
    """

    picture: AnyPath
    """The fused picture; its ending gives the format."""
    depth_map: AnyPath | None = _file(
        "Also write the depth, and a preview in colours beside it: .png as 16-bit grey, the first frame black; .tif in "
        "steps or units, in 32 bits; empty where nothing can be told"
    )
    error_map: AnyPath | None = _file(
        "Also write the standard error of the depth: .tif in steps or units, .png with white for a whole step"
    )
    confidence_map: AnyPath | None = _file("Also write how sure the depth is, as grey: a guess is black")
    check_map: AnyPath | None = _file(
        "Also write the result in grey with a warm colour where detail of some frame is lost"
    )
    veil_map: AnyPath | None = _file("Also write how opaque the haze was that was removed, as grey: none is black")
    decision_map: AnyPath | None = _file(
        "Also write which frame each pixel came from, as grey: the first black, the last white"
    )
    report: AnyPath | None = _file("Also write a page (.html) about frames, alignment, decisions, depth and times")
    overwrite: bool = option(False, "Replace output files that exist", flags="--overwrite")

    def maps(self) -> dict[str, Path]:
        """Where maps and report go, by the name of their field; the preview of the depth lies beside it."""
        found = {name: Path(path) for name in MAPS if (path := getattr(self, name)) is not None}
        if "depth_map" in found:
            found["depth_preview"] = preview_path(found["depth_map"])
        return found

    @property
    def shows_depth(self) -> bool:
        """Whether something is to be written that shows the depth."""
        return any(path is not None for path in (self.depth_map, self.error_map, self.report))

    def settings(self) -> dict[str, object]:
        """Every output but the picture, paths as text."""
        values = {own.name: getattr(self, own.name) for own in fields(self) if own.name != "picture"}
        return {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in values.items()}

    def without_folders(self) -> "FuseOutputs":
        """The same by their names alone, for people who do not know where they lie."""
        files: dict[str, Any] = {name: Path(path).name for name in MAPS if (path := getattr(self, name)) is not None}
        return replace(self, picture=Path(self.picture).name, **files)

    @classmethod
    def beside(cls, picture: Path, name: str, kinds: Collection[str], *, overwrite: bool = False) -> "FuseOutputs":
        """The outputs of one stack of many: maps lie beside the picture as ``NAME_depth.png``.

        Args:
            picture: The fused picture.
            name: Of the stack.
            kinds: Out of :data:`KINDS`.
            overwrite: Replace files that exist.

        Raises:
            InputError: there is no such kind.
        """
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown:
            raise InputError(f"there are no {unknown[0]} maps; there are {', '.join(KINDS)}", code="bad-option")
        files = {KINDS[kind]: picture.with_name(f"{name}_{kind}{ENDINGS.get(kind, '.png')}") for kind in kinds}
        return cls(picture, overwrite=overwrite, **files)


document(FuseOutputs)

MAPS = tuple(own.name for own in fields(FuseOutputs) if own.name not in ("picture", "overwrite"))
"""The names of the files that can be written besides the picture."""
KINDS = {name.removesuffix("_map"): name for name in MAPS}
"""Short names of those, as a batch has them: "depth" for depth_map."""
ENDINGS = {"report": ".html"}
"""Of files that are no pictures."""


@cache
def describe_outputs() -> dict[str, About]:
    """What there is to show of each output of :class:`FuseOutputs` but the picture, in order."""
    return described(FuseOutputs)


def preview_path(depth_map: Path) -> Path:
    """Where the coloured preview of a depth map goes.

    Example:
        >>> preview_path(Path("depth.png")).name
        'depth_preview.png'
    """
    return depth_map.with_stem(f"{depth_map.stem}_preview")
