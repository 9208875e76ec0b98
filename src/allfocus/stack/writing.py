"""A fused stack -> its files: the picture, the slabs, the maps and the report."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.depth.stack_depth import DEPTH_FILES
from allfocus.images.calibrated_files import ReadPlane, imagej_cannot, is_ome_tiff, is_zarr_name
from allfocus.images.conversion import to_integers
from allfocus.images.dimensions import Dimensions
from allfocus.images.image import Image
from allfocus.images.listing import TIFF_SUFFIXES
from allfocus.images.picture_files import PictureFiles
from allfocus.images.spool import FrameSpool
from allfocus.images.stack_reader import StackReader
from allfocus.images.tiff_decoder import OWN_UNITS
from allfocus.images.writing import ENCODERS, encode_image
from allfocus.progress import Notice
from allfocus.stack.notes import RunNotes
from allfocus.stack.plan import StackPlan
from allfocus.stack.result import MAP_PICTURES, StackFusion


def stored_samples(pixels: NDArray[np.float32], reader: StackReader, bit_depth: int | None, dtype: str) -> NDArray[Any]:
    """Fused pixels in 0..1 as a file of a microscope stores them: in the type and units of its stack.

    Args:
        pixels: (H, W) or (H, W, 3).
        reader: Of the frames.
        bit_depth: That was asked for; None for that of the frames.
        dtype: Of the frames.
    """
    depth = bit_depth or reader.bit_depth
    if depth < 32:
        return to_integers(pixels, depth)
    kind = np.dtype(dtype) if bit_depth is None and dtype in OWN_UNITS else None
    return reader.value_range.from_unit(pixels, kind)


class ResultWriter:
    """The files of one run, which get their names together at its end, or not at all when the run fails."""

    def __init__(
        self,
        plan: StackPlan,
        notes: RunNotes,
        kept: list[int],
        files: PictureFiles,
        opacity: NDArray[np.float32] | None,
    ) -> None:
        self.outputs: dict[str, Path] = {}
        """What was written, by the name of its option; in the order of writing."""
        self._plan = plan
        self._notes = notes
        self._kept = kept
        self._files = files
        self._most_opaque = opacity

    def write_picture(
        self, path: Path, pixels: NDArray[Any], covered: NDArray[np.bool_] | None, *, frames: int | None = None
    ) -> None:
        """Writes a fused picture with the metadata of the first frame, transparent where no frame has a pixel."""
        options = self._plan.options
        kind = ENCODERS[".tif" if is_zarr_name(path) else path.suffix.lower()]
        if covered is not None and not kind.has_alpha:
            self._notes.say(
                Notice(
                    f"parts of the picture that no frame shows are filled in, because {kind.name} has no transparency"
                )
            )
        if options.bit_depth is None and self._plan.reader.bit_depth > max(kind.bit_depths):
            self._notes.say(
                Notice(
                    f"the frames have {self._plan.reader.bit_depth} bits per channel, {kind.name} has "
                    f"{max(kind.bit_depths)}; .tif keeps them all"
                )
            )
        alpha = self._opacity(covered)
        values, own_units = self._plan.reader.value_range, (options.bit_depth or max(kind.bit_depths)) == 32
        if not (own_units or values.is_unit):
            self._notes.say(
                Notice(
                    f"the values of the frames run from {values.low:g} to {values.high:g}; {path.name} has them "
                    "scaled: the lowest is black, the highest white; .tif with 32 bits keeps them as they are"
                )
            )
        if self._is_calibrated(path):
            self._write_calibrated(path, pixels, covered)
            return
        picture = self._plan.reader.result_image(
            pixels.astype(np.float32, copy=False), alpha=alpha, frame=self._kept[0], own_units=own_units
        )
        if path == self._plan.picture:
            self._tell()
        self._files.add(path, picture, frames=frames or len(self._kept))
        self._note("picture" if path == self._plan.picture else "", path)

    def _is_calibrated(self, path: Path) -> bool:
        """Whether a picture is written with what a microscope knows: always as OME, as TIFF where that can be."""
        if is_ome_tiff(path) or is_zarr_name(path):
            return True
        selection = self._plan.selection
        if selection is None or path.suffix.lower() not in TIFF_SUFFIXES or self._most_opaque is not None:
            return False
        return selection.first.is_calibrated and not imagej_cannot([self._described((1, 1))])

    def _described(self, size: tuple[int, int]) -> Dimensions:
        """What is known about a picture of the stack."""
        reader, selection = self._plan.reader, self._plan.selection
        depth = self._plan.options.bit_depth or reader.bit_depth
        kind = {8: "uint8", 16: "uint16", 32: "float32"}[depth]
        if selection is not None and self._plan.options.bit_depth is None and selection.first.dtype in OWN_UNITS:
            kind = selection.first.dtype
        if selection is None:
            samples = 3 if reader.channels == 3 else 1
            name = self._plan.picture.name.split(".")[0]
            return Dimensions(name, size, kind, planes=reader.count, samples=samples, times=1)
        return replace(selection.first, size=size, dtype=kind, times=1)

    def _write_calibrated(self, path: Path, pixels: NDArray[Any], covered: NDArray[np.bool_] | None) -> None:
        if covered is not None or self._most_opaque is not None:
            self._notes.say(Notice(f"{path.name} has no transparency: what no frame shows is filled in"))
        held = self._described((1, 1))
        unit = np.asarray(pixels, np.float32)
        samples = stored_samples(unit, self._plan.reader, self._plan.options.bit_depth, held.dtype)
        height, width = samples.shape[:2]
        self.write_planes(path, (self._described((height, width)),), lambda position, time, channel: samples)

    def write_planes(self, path: Path, positions: Sequence[Dimensions], read: ReadPlane) -> None:
        """Writes fused planes of any number of positions, times and channels, with all that is known about them.

        Args:
            path: Its ending gives the format: OME-TIFF, OME-Zarr, or TIFF as ImageJ has it.
            positions: What each position holds.
            read: Gives each plane.
        """
        selection = self._plan.selection
        numbers = [] if selection is None else list(dict.fromkeys(position for position, _ in selection.places))
        like = tuple(selection.file.zarr[number] for number in numbers) if selection and selection.file.zarr else ()
        chosen = None if selection is None else selection.channels
        self._tell()
        self._files.add_planes(path, positions, read, frames=len(self._kept), like=like, chosen=chosen)
        self._note("picture" if path == self._plan.picture else "", path)

    def write_map_planes(self, name: str, positions: Sequence[Dimensions], read: ReadPlane) -> None:
        """Writes the maps of a series.

        Args:
            name: Of the option that asked for them.
            positions: What each position holds, with the map as its only channel.
            read: Gives each map.
        """
        self._tell()
        self._files.add_planes(self._plan.maps[name], positions, read, frames=len(self._kept))
        self._note(name, self._plan.maps[name])

    def _opacity(self, covered: NDArray[np.bool_] | None) -> NDArray[np.float32] | None:
        """Alpha of the result: that of the frames, and nothing where no frame has a pixel; None when it is opaque."""
        opacity = self._most_opaque
        if opacity is None:
            return None if covered is None else covered.astype(np.float32)
        return opacity if covered is None else opacity * covered

    def write_all(self, fusion: StackFusion, spool: FrameSpool) -> None:
        """Writes all that was asked for, but the slabs; the report takes its frames from the spool."""
        self.write_maps(fusion)
        self.write_picture(self._plan.picture, fusion.image, fusion.covered)
        self._notes.end_step("writing")
        self._write_report(fusion, spool)

    def write_maps(self, fusion: StackFusion) -> None:
        """Writes the maps that were asked for."""
        for name, path in self._plan.maps.items():
            picture = MAP_PICTURES[name](fusion) if name in MAP_PICTURES else None
            if picture is not None:
                self._write_map(name, path, picture)
            if name in DEPTH_FILES and fusion.measured_depth is not None:
                self._tell()
                data = DEPTH_FILES[name](fusion.measured_depth, path, filled=self._plan.options.filled)
                self._add(name, path, data)

    def _write_report(self, fusion: StackFusion, spool: FrameSpool) -> None:
        path = self._plan.maps.get("report")
        if path is None:
            return
        from allfocus.stack_report import StackReport, build_stack_report

        report = StackReport(
            image=fusion.image,
            names=fusion.frames,
            output=str(self._plan.shown.picture),
            decision=fusion.decision,
            depth=fusion.smooth_depth,
            confidence=fusion.confidence,
            lost_detail=fusion.lost_detail,
            alignment=fusion.alignment,
            settings=fusion.settings,
            command=self._plan.command,
            seconds=fusion.seconds,
            notices=tuple(self._notes.notices),
            left_out=fusion.left_out,
            origin={"bits per channel": self._plan.reader.bit_depth, "slabs": [str(slab) for slab in fusion.slabs]},
        )
        page = build_stack_report(report, frames=spool, progress=lambda *steps: self._notes.tell("reporting", *steps))
        self._add("report", path, page.encode("utf-8", "backslashreplace"))
        self._notes.end_step("reporting")

    def _write_map(self, name: str, path: Path, image: Image) -> None:
        self._tell()
        self._add(name, path, encode_image(image, path))

    def _add(self, name: str, path: Path, data: bytes | memoryview) -> None:
        self._files.files.add(path, data)
        self._note(name, path)

    def _note(self, name: str, path: Path) -> None:
        if name:
            self.outputs[name] = path
            self._tell()

    def _tell(self) -> None:
        self._notes.tell("writing", len(self.outputs), len(self._plan.maps) + 1)
