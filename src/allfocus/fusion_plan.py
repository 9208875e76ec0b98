"""What fusing a stack of files will read and write, checked before the long work begins.

The same plan serves the run and its rehearsal (``allfocus fuse --dry-run``), so both refuse the same things.
"""

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from allfocus.errors import InputError
from allfocus.fusion.methods import require_method
from allfocus.images.protection import InputFiles, name_key
from allfocus.images.reading import MAX_PIXELS, Paths, StackReader, open_stack
from allfocus.images.transfer import Curve, find_curve
from allfocus.images.writing import Compression, check_output, require_name

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True)
class FuseOptions:
    """How one stack is fused and what is written; :func:`allfocus.fuse_files` says what each option means."""

    method: str = "ips"
    align: bool = True
    crop: bool = True
    prefer: str | None = None
    skip_bad: bool = False
    linear_light: bool | None = None
    unveil: bool = True
    decision_map: AnyPath | None = None
    depth_map: AnyPath | None = None
    confidence_map: AnyPath | None = None
    check_map: AnyPath | None = None
    veil_map: AnyPath | None = None
    slabs: tuple[int, int] | None = None
    report: AnyPath | None = None
    bit_depth: int | None = None
    quality: int = 95
    compression: Compression = None
    overwrite: bool = False
    device: str = "auto"
    max_pixels: int = MAX_PIXELS

    def settings(self) -> dict[str, object]:
        """Every option with its value, paths as text."""
        values = {own.name: getattr(self, own.name) for own in fields(self)}
        return {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in values.items()}

    def command(self, paths: Paths, output: AnyPath) -> str:
        """The command line that does the same.

        Example:
            >>> FuseOptions(method="dsift", align=False, slabs=(8, 2)).command("shots", "a b.tif")
            "allfocus fuse shots -o 'a b.tif' --method dsift --no-align --slab 8,2"
        """
        given = [os.fspath(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
        # A name that begins with a dash would pass for an option.
        frames = [os.path.join(".", path) if path.startswith("-") else path for path in given]
        words = ["allfocus", "fuse", *frames, "-o", os.fspath(output)]
        standard = FuseOptions()
        for name, value in self.settings().items():
            if value != getattr(standard, name):
                words += _option_words(name, value)
        return shlex.join(words)


def _option_words(name: str, value: object) -> list[str]:
    option = "--" + {"slabs": "slab"}.get(name, name).replace("_", "-")
    if name == "crop":
        return ["--keep-size"]
    if isinstance(value, bool):
        return [option if value else f"--no-{option[2:]}"]
    return [option, ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]


@dataclass(frozen=True)
class Slab:
    """Some neighbouring frames of a stack that are also fused by themselves, for retouching."""

    first: int
    """Index of its first frame, from 0."""
    last: int
    """Index after its last frame."""
    path: Path
    """Where the result goes."""


def cut_slabs(count: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """The first frame of each slab and the one after its last; each slab has ``size`` frames.

    Neighbours share ``overlap`` frames; the last slab ends with the last frame and may share more.

    Raises:
        InputError: the size is below 2, the overlap is negative or not below the size, or a slab would hold the stack.

    Example:
        >>> cut_slabs(10, 4, 1)
        [(0, 4), (3, 7), (6, 10)]
    """
    if size < 2:
        raise InputError(f"a slab of {size} has nothing to fuse; give 2 frames or more (--slab SIZE,OVERLAP)")
    if not 0 <= overlap < size:
        raise InputError(f"slabs of {size} frames cannot overlap by {overlap}; give 0 to {size - 1}")
    if size >= count:
        raise InputError(f"a slab of {size} holds all {count} frames; give fewer than {count}, or leave out --slab")
    starts = [*range(0, count - size, size - overlap), count - size]
    return [(start, start + size) for start in starts]


@dataclass(frozen=True, eq=False)
class FusionPlan:
    """Frames that will be fused, and files that will be written."""

    reader: StackReader
    output: Path
    options: FuseOptions

    @property
    def maps(self) -> dict[str, Path]:
        """Where maps and report go, by the name of their option; the preview of the depth lies beside it."""
        found = {}
        for name in ("decision_map", "depth_map", "confidence_map", "check_map", "veil_map", "report"):
            path = getattr(self.options, name)
            if path is not None:
                found[name] = Path(path)
        if "depth_map" in found:
            found["depth_preview"] = preview_path(found["depth_map"])
        return found

    def slabs(self, count: int) -> list[Slab]:
        """The slabs of a stack of so many frames.

        Names count frames from 1: ``out_slab01_frames001-010.tif``.

        Raises:
            InputError: the stack cannot be cut like that.
        """
        if self.options.slabs is None:
            return []
        ranges = cut_slabs(count, *self.options.slabs)
        digits, wide = max(2, len(str(len(ranges)))), max(3, len(str(count)))
        return [
            Slab(
                first,
                last,
                self.output.with_stem(
                    f"{self.output.stem}_slab{number:0{digits}}_frames{first + 1:0{wide}}-{last:0{wide}}"
                ),
            )
            for number, (first, last) in enumerate(ranges, start=1)
        ]

    def outputs(self, count: int) -> list[Path]:
        """Every file that will be written for so many frames: the picture first."""
        return [self.output, *self.maps.values(), *(slab.path for slab in self.slabs(count))]

    def check(self, count: int) -> None:
        """Raise an error when a file could not be written, is a frame of the stack, or is named twice.

        Args:
            count: How many frames will be fused; slabs depend on it.
        """
        options, overwrite = self.options, self.options.overwrite
        quality, compression = options.quality, options.compression
        for path in (self.output, *(slab.path for slab in self.slabs(count))):
            check_output(
                path, overwrite=overwrite, bit_depth=options.bit_depth, quality=quality, compression=compression
            )
        for name, path in self.maps.items():
            if name == "report":
                _check_report(path, overwrite=overwrite)
            else:
                check_output(path, overwrite=overwrite, bit_depth=16 if name == "depth_map" else None)
        refuse_shared_paths(self.outputs(count), self.reader)


def preview_path(depth_map: Path) -> Path:
    """Where the coloured preview of a depth map goes.

    Example:
        >>> preview_path(Path("depth.png")).name
        'depth_preview.png'
    """
    return depth_map.with_stem(f"{depth_map.stem}_preview")


def plan_fusion(
    paths: Paths,
    output: AnyPath,
    options: FuseOptions,
    *,
    on_bad_frame: Callable[[str, Exception], None] | None = None,
) -> FusionPlan:
    """The plan of a fusion, with everything checked that headers and names can tell; nothing is written.

    Args:
        paths: The frames: files, a folder, a pattern, or one multi-page TIFF.
        output: The file to write.
        options: How.
        on_bad_frame: Called for each frame that is left out, when ``options.skip_bad`` allows it.

    Raises:
        InputError: the frames, the method or the options cannot be used.
        OutputError: a file cannot be written.
    """
    maps = any(path is not None for path in (options.decision_map, options.depth_map, options.confidence_map))
    method = require_method(
        options.method,
        device=options.device,
        prefer=options.prefer,
        maps=maps,
        linear_light=options.linear_light,
    )
    if options.veil_map is not None and not method.selects:
        raise InputError(f"{options.method} takes no veils off, so there is no map of them; leave it out or use ips")
    if options.veil_map is not None and not options.unveil:
        raise InputError("a map of veils was asked for, but they are to be left on; leave out --no-unveil or the map")
    for path in (output, options.decision_map, options.depth_map, options.confidence_map, options.check_map):
        if path is not None:
            require_name(Path(path))
    leave_out = (on_bad_frame or (lambda name, error: None)) if options.skip_bad else None
    reader = open_stack(paths, max_pixels=options.max_pixels, on_bad_frame=leave_out)
    plan = FusionPlan(reader, Path(output), options)
    plan.check(reader.count)
    if options.linear_light:
        choose_curve(reader, options, next(_readable(reader)))
    return plan


def choose_curve(reader: StackReader, options: FuseOptions, index: int) -> Curve | None:
    """The transfer curve to blend with, of the frame with this index; None when values are blended as they are.

    Raises:
        InputError: linear light was asked for, but the frame does not tell its curve.
    """
    method = require_method(options.method)
    if options.linear_light is False or not method.selects:
        return None
    described = reader.describe(index)
    if not reader.value_range.is_unit:  # a profile tells of 0..1 alone
        if options.linear_light:
            raise InputError(
                f"{reader.names[index]}: its values run beyond 0..1, which no colour profile describes; leave out "
                "--linear-light"
            )
        return None
    curve = find_curve(described.icc_profile, described.exif, channels=reader.channels)
    if curve is None and options.linear_light:
        raise InputError(
            f"{reader.names[index]}: has no colour profile that tells how its values relate to light; attach one, or "
            "leave out --linear-light"
        )
    return None if curve is None or curve.is_linear else curve


def _readable(reader: StackReader) -> Iterator[int]:
    """The frames that can be decoded, in order; the first that cannot is an error if there is no other."""
    problem: InputError | None = None
    for index in range(reader.count):
        try:
            reader.describe(index)
        except InputError as error:
            problem = problem or error
            continue
        yield index
    if problem is not None:
        raise problem


def refuse_shared_paths(outputs: Sequence[Path], reader: StackReader) -> None:
    """Raise InputError for an output that is a frame of the stack, left out or not, or two outputs with one name."""
    InputFiles(reader.files).refuse(outputs)
    taken: set[str] = set()
    for output in outputs:
        name = name_key(os.path.realpath(output))  # unlike Path.resolve, no error for a link that leads to itself
        if name in taken:
            raise InputError(f"{output}: is named for two outputs; give each a name of its own")
        taken.add(name)


def _check_report(path: Path, *, overwrite: bool) -> None:
    # Loaded only for those who want a report.
    from allfocus.stack_report import check_report_path

    check_report_path(path, overwrite=overwrite)
