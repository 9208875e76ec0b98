"""What fusing a stack of files will read and write, checked before the long work begins.

The same plan serves the run and its rehearsal (``allfocus fuse --dry-run``), so both refuse the same things.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from allfocus.depth.units import read_length
from allfocus.errors import InputError
from allfocus.files.protection import InputFiles, name_key
from allfocus.fusion.channels import cannot_share
from allfocus.fusion.frames_on_disk import require_memory
from allfocus.fusion.method import Method
from allfocus.fusion.method_choice import require_method
from allfocus.images.calibrated_files import check_zarr_output, is_zarr_name
from allfocus.images.camera_colour import Development
from allfocus.images.dng_encoder import require_known_colours
from allfocus.images.stack_opening import open_stack
from allfocus.images.stack_reader import StackReader
from allfocus.images.writing import check_output, is_dng, require_name
from allfocus.stack.command_words import command_line
from allfocus.stack.corrections import check_dark
from allfocus.stack.options import FuseOptions
from allfocus.stack.outputs import MAPS, FuseOutputs, Paths
from allfocus.stack.selection import Selection, check_format, refuse_single_wishes, select_planes


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
        raise InputError(f"a slab of {size} has nothing to fuse; give 2 frames or more", code="bad-option")
    if not 0 <= overlap < size:
        raise InputError(f"slabs of {size} frames cannot overlap by {overlap}; give 0 to {size - 1}", code="bad-option")
    if size >= count:
        raise InputError(
            f"a slab of {size} holds all {count} frames",
            hint=[f"give fewer than {count}", "{slabs=default}"],
            code="bad-option",
        )
    starts = [*range(0, count - size, size - overlap), count - size]
    return [(start, start + size) for start in starts]


@dataclass(frozen=True, eq=False)
class StackPlan:
    """Frames that will be fused, and files that will be written."""

    reader: StackReader
    outputs: FuseOutputs
    options: FuseOptions
    method: Method
    shown: FuseOutputs
    """The outputs as settings and report call them: without folders where the frames have names of their own."""
    command: str
    """The command line that does the same."""
    selection: Selection | None = None
    """What of a file of a microscope is fused; None for plain pictures."""

    @property
    def picture(self) -> Path:
        """Where the fused picture goes."""
        return Path(self.outputs.picture)

    @property
    def is_series(self) -> bool:
        """Whether several times or positions are fused, into one file."""
        return self.selection is not None and len(self.selection.places) > 1

    @property
    def maps(self) -> dict[str, Path]:
        """Where maps and report go, by the name of their field; a series has no preview of its depth."""
        maps = self.outputs.maps()
        return {name: path for name, path in maps.items() if not (self.is_series and name == "depth_preview")}

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
                self.picture.with_stem(
                    f"{self.picture.stem}_slab{number:0{digits}}_frames{first + 1:0{wide}}-{last:0{wide}}"
                ),
            )
            for number, (first, last) in enumerate(ranges, start=1)
        ]

    def lengths(self, place: int = 0) -> dict[str, str | None]:
        """How far frames and pixels are apart, as ``z_step`` and ``pixel_size``: as asked for, or as the file says.

        Args:
            place: Which stack of a series.
        """
        held = None if self.selection is None else self.selection.held(self.selection.places[place][0])
        step = None if held is None or held.z_step is None else f"{abs(held.z_step):.9g}um"
        pixel = None if held is None or held.pixel_size is None else f"{held.pixel_size[1]:.9g}um"
        return {"z_step": self.options.z_step or step, "pixel_size": self.options.pixel_size or pixel}

    def files(self, count: int) -> list[Path]:
        """Every file that will be written for so many frames: the picture first."""
        return [self.picture, *self.maps.values(), *(slab.path for slab in self.slabs(count))]

    def check(self, count: int) -> None:
        """Raise an error when a file could not be written, is a frame of the stack, or is named twice.

        Args:
            count: How many frames will be fused; slabs depend on it.
        """
        options, overwrite = self.options, self.outputs.overwrite
        check_format(self.picture, self.selection, options.bit_depth)
        if is_dng(self.picture):
            for frame in self.reader.frames:
                if frame.header.camera is not None:
                    require_known_colours(frame.header.camera, channels=frame.header.channels)
        for path in (self.picture, *(slab.path for slab in self.slabs(count))):
            if is_zarr_name(path):
                check_zarr_output(path, overwrite=overwrite)
                continue
            check_output(
                path,
                overwrite=overwrite,
                in_camera_colours=all(frame.header.camera is not None for frame in self.reader.frames),
                **options.storing(),
            )
        for name, path in self.maps.items():
            if self.is_series and is_zarr_name(path):
                check_zarr_output(path, overwrite=overwrite)
            elif name == "report":
                from allfocus.stack_report import check_report_path  # only for those who want a report

                check_report_path(path, overwrite=overwrite)
            else:
                check_output(path, overwrite=overwrite, bit_depth=16 if name in ("depth_map", "error_map") else None)
        refuse_shared_paths(self.files(count), self.reader)
        if options.dark is not None:
            InputFiles([options.dark]).refuse(self.files(count))


def plan_stack(
    paths: Paths,
    outputs: FuseOutputs,
    options: FuseOptions,
    *,
    names: Sequence[str] | None = None,
    keep_bytes: int = 0,
    on_bad_frame: Callable[[str, InputError], None] | None = None,
) -> StackPlan:
    """The plan of a fusion, with everything checked that headers and names can tell; nothing is written.

    Args:
        paths: The frames: files, a folder, a pattern, or one multi-page TIFF.
        outputs: The files to write.
        options: How.
        names: How to call each file; by default by its own name.
        keep_bytes: How much of what is decoded may be kept in memory, so that it is not decoded twice.
        on_bad_frame: Called for each frame that is left out, when ``options.skip_bad`` allows it.

    Raises:
        InputError: the frames, the method or the options cannot be used.
        OutputError: a file cannot be written.
    """
    for path in (outputs.picture, *(getattr(outputs, name) for name in MAPS)):
        if path is not None:
            require_name(Path(path))  # before names are made from it, like that of a preview
    for name in ("z_step", "pixel_size"):
        if getattr(options, name) is not None:
            read_length(getattr(options, name), name=name)
    if options.reference is not None and not options.align:
        raise InputError(
            "a reference frame was named, but the frames are not to be aligned",
            hint=["{reference=default}", "{align=default}"],
            code="bad-option",
        )
    method = require_method(options.method, **options.demands(outputs))
    leave_out = (on_bad_frame or (lambda name, error: None)) if options.skip_bad else None
    selection = select_planes(paths, options, names)
    if selection is None:
        reader = open_stack(
            paths,
            names=names,
            max_pixels=options.max_pixels,
            keep_bytes=keep_bytes,
            on_bad_frame=leave_out,
            development=Development(options.demosaic, in_camera_colours=is_dng(Path(outputs.picture))),
            pairs=options.pairs,
        )
    else:
        reader = StackReader(selection.frames(0, 0), max_pixels=options.max_pixels, keep_bytes=keep_bytes)
    shown = outputs if names is None else outputs.without_folders()
    plan = StackPlan(reader, outputs, options, method, shown, command_line(names or paths, shown, options), selection)
    if selection is not None and not selection.is_one:
        refuse_single_wishes(selection, outputs, options)
        if selection.deciding and len(selection.channels or ()) > 1 and not method.decides:
            raise cannot_share(method)
    check_dark(options.dark, reader)
    plan.check(reader.count)
    require_memory(method, reader.count, (reader.frames[0].height, reader.frames[0].width, reader.channels))
    if options.linear_light:
        reader.blending_curve(next(_readable(reader)), options.linear_light)
    return plan


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
    """Raise InputError for an output that is a frame of the stack, left out or not, or two outputs in one place."""
    InputFiles(reader.files).refuse(outputs)
    folders = [os.path.realpath(path) + os.sep for path in reader.files if os.path.isdir(path)]
    for output in outputs:
        if any(os.path.realpath(output).startswith(folder) for folder in folders):
            raise InputError("lies in what is to be fused; choose another folder", where=output, code="is-an-input")
    taken: set[str] = set()
    for output in outputs:
        name = name_key(os.path.realpath(output))  # unlike Path.resolve, no error for a link that leads to itself
        if name in taken:
            raise InputError("is named for two outputs; give each a name of its own", where=output)
        taken.add(name)
    for output in outputs:  # an OME-Zarr is a folder, and replaced as a whole
        if taken & {name_key(str(folder)) for folder in Path(os.path.realpath(output)).parents}:
            raise InputError("lies in another of the outputs; choose another folder", where=output)
