"""A fused stack -> its files: the picture, the slabs, the maps and the report."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.files.placing import StagedFiles
from allfocus.images.image import Image
from allfocus.images.spool import FrameSpool
from allfocus.images.writing import ENCODERS, encode_image
from allfocus.stack.notes import RunNotes
from allfocus.stack.plan import StackPlan
from allfocus.stack.result import MAP_PICTURES, StackFusion
from allfocus.version import __version__


class ResultWriter:
    """The files of one run, which get their names together at its end, or not at all when the run fails."""

    def __init__(
        self,
        plan: StackPlan,
        notes: RunNotes,
        kept: list[int],
        files: StagedFiles,
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
        options, count = self._plan.options, frames or len(self._kept)
        if covered is not None and path.suffix.lower() in (".jpg", ".jpeg"):
            self._notes.say("parts of the picture that no frame shows are filled in, because JPEG has no transparency")
        kind = ENCODERS[path.suffix.lower()]
        if options.bit_depth is None and self._plan.reader.bit_depth > max(kind.bit_depths):
            self._notes.say(
                f"the frames have {self._plan.reader.bit_depth} bits per channel, {kind.name} has "
                f"{max(kind.bit_depths)}; .tif keeps them all"
            )
        alpha = self._opacity(covered)
        values, own_units = self._plan.reader.value_range, (options.bit_depth or max(kind.bit_depths)) == 32
        if not (own_units or values.is_unit):
            self._notes.say(
                f"the values of the frames run from {values.low:g} to {values.high:g}; {path.name} has them scaled: "
                "the lowest is black, the highest white; .tif with 32 bits keeps them as they are"
            )
        picture = self._plan.reader.result_image(
            pixels.astype(np.float32, copy=False), alpha=alpha, frame=self._kept[0], own_units=own_units
        )
        if path == self._plan.picture:
            self._tell()
        data = encode_image(
            picture,
            path,
            bit_depth=options.bit_depth,
            quality=options.quality,
            compression=options.compression,
            history=f"fused by allfocus {__version__} from {count} frames with {options.method}",
            software=f"allfocus {__version__}",
        )
        self._add("picture" if path == self._plan.picture else "", path, data)

    def _opacity(self, covered: NDArray[np.bool_] | None) -> NDArray[np.float32] | None:
        """Alpha of the result: that of the frames, and nothing where no frame has a pixel; None when it is opaque."""
        opacity = self._most_opaque
        if opacity is None:
            return None if covered is None else covered.astype(np.float32)
        return opacity if covered is None else opacity * covered

    def write_all(self, fusion: StackFusion, spool: FrameSpool) -> None:
        """Writes all that was asked for, but the slabs; the report takes its frames from the spool."""
        self._write_maps(fusion)
        self.write_picture(self._plan.picture, fusion.image, fusion.covered)
        self._notes.end_step("writing")
        self._write_report(fusion, spool)

    def _write_maps(self, fusion: StackFusion) -> None:
        for name, path in self._plan.outputs.maps().items():
            picture = MAP_PICTURES[name](fusion) if name in MAP_PICTURES else None
            if picture is not None:
                self._write_map(name, path, picture)

    def _write_report(self, fusion: StackFusion, spool: FrameSpool) -> None:
        path = self._plan.outputs.maps().get("report")
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
        self._files.add(path, data)
        if name:
            self.outputs[name] = path
            self._tell()

    def _tell(self) -> None:
        self._notes.tell("writing", len(self.outputs), len(self._plan.outputs.maps()) + 1)
