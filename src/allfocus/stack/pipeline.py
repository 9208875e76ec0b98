"""One stack from files to file: read -> align -> fuse -> write, with one frame at a time in memory."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.stack_alignment import StackAlignment
from allfocus.files.placing import StagedFiles
from allfocus.fusion.frame_source import open_spool
from allfocus.fusion.methods import FusionResult, fuse
from allfocus.fusion.validity import covered_area
from allfocus.images.image import Image
from allfocus.images.memory import available_memory
from allfocus.images.spool import FrameSpool
from allfocus.images.transfer import Curve
from allfocus.images.writing import ENCODERS, encode_image
from allfocus.progress import StepProgress
from allfocus.stack.depth_outputs import DEPTH_FILES, StackDepth, measure_stack
from allfocus.stack.frames import PreparedFrames, align_kept, find_readable, spool_depth
from allfocus.stack.notes import RunNotes
from allfocus.stack.options import (
    AnyPath,
    FuseOptions,
    FuseOutputs,
    Paths,
    command_line,
    gather,
)
from allfocus.stack.plan import Slab, StackPlan, plan_stack
from allfocus.version import __version__

MOST_KEPT = 2**29
"""Bytes of decoded frames that are kept, an eighth of the free memory at most: what fits is decoded once and not once
for each of checking, alignment and fusion. More would take from the memory that the promise of one frame at a time
keeps free; the frames of a large stack are decoded again, which costs a tenth of the time of fusing them."""

SHOWN_SIDE = 192
"""Pixels a side of the worst place that is shown; more where the place is larger."""


@dataclass(frozen=True)
class StackFusion(FusionResult):
    """What fusing a stack of files gave, and how it went."""

    frames: tuple[str, ...] = ()
    """Names of the frames that were fused, in order."""
    sources: tuple[Path, ...] = ()
    """The file of each of them."""
    bit_depth: int = 8
    """The most bits per channel that a frame has."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Names of the frames that were left out, with the reason."""
    alignment: StackAlignment | None = None
    """How the frames were brought onto one grid; None when alignment was switched off."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time spent on each step."""
    notices: tuple[str, ...] = ()
    """Sentences about what was found and changed on the way."""
    measured_depth: StackDepth | None = None
    """The depth as it was measured, between the frames and with its standard error, and what a step is; None unless a
    map of it or a report was asked for. ``depth`` is what the method said, pixel by pixel."""
    covered: NDArray[np.bool_] | None = None
    """Where at least one frame has a pixel, (H, W); None for everywhere."""
    worst_place: NDArray[np.float32] | None = None
    """Where most detail is lost, (h, w, 3) or (h, w): on the left the fused picture, on the right the frame that shows
    more; None unless so much is lost that the notices tell."""
    slabs: tuple[Path, ...] = ()
    """The pictures of the slabs, in order."""
    outputs: dict[str, Path] = field(default_factory=dict)
    """Every other file that was written: "picture", and maps and report by the name of their option."""
    settings: dict[str, object] = field(default_factory=dict)
    """Every option with the value that was used; ``linear_light`` says whether light was blended."""

    @property
    def smooth_depth(self) -> NDArray[np.float32] | None:
        """The measured depth without holes, (H, W), 0 the first frame and 1 the last; None where it is not known."""
        return None if self.measured_depth is None else self.measured_depth.share


def fuse_files(
    paths: Paths,
    output: AnyPath | FuseOutputs,
    options: FuseOptions | None = None,
    *,
    names: Sequence[str] | None = None,
    progress: StepProgress | None = None,
    notice: Callable[[str], None] | None = None,
    **changes: Any,
) -> StackFusion:
    """The fused picture of a stack of files, which is also written to ``output``.

    The output has the bit depth of the frames as far as its format allows, and the colour profile and EXIF of the
    first frame. Nothing is written before all that can be checked has been: the frames, the method, the output paths.
    All files get their names together at the end: a run that fails leaves none of them and replaces nothing.

    Args:
        paths: The frames: files, a folder, a pattern, or one multi-page TIFF. The alpha of a frame is its mask: where
            it is below one half the frame has no pixel. Where no frame has one, the output is transparent.
        output: The file to write; its ending gives the format. Or all files to write: :class:`FuseOutputs`.
        options: How to fuse: :class:`FuseOptions`.
        names: How messages and the report call each file, instead of by its own name; no folder is shown then.
        progress: Called after each piece of work with the step, how much of it is done, and how much there is.
        notice: Called with a sentence about each thing that was found or changed, when it was.
        changes: Single fields of :class:`FuseOptions` and :class:`FuseOutputs`, on top of the above:
            ``fuse_files(paths, "out.tif", method="dsift", depth_map="depth.png")``. ``help(allfocus.FuseOptions)``
            lists them.

    Raises:
        InputError: the frames or the method cannot be used.
        OutputError: the output cannot be written.

    Example:
        >>> import tempfile
        >>> import allfocus
        >>> scene = allfocus.render_scene("desk", frames=2, size=(64, 80))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     paths = [allfocus.write_image(f, f"{folder}/{n}.png") for n, f in enumerate(scene.frames)]
        ...     result = fuse_files(paths, f"{folder}/fused.png", method="average")
        ...     allfocus.read_image(f"{folder}/fused.png").width
        80
    """
    chosen, outputs = gather(options, output, changes)
    notes = RunNotes(progress, notice)
    plan = plan_stack(
        paths, outputs, chosen, names=names, keep_bytes=_bytes_to_keep(chosen), on_bad_frame=notes.leave_out
    )
    shown = outputs if names is None else outputs.without_folders()
    return _run(plan, notes, shown, command=command_line(names or paths, shown, chosen))


def _bytes_to_keep(options: FuseOptions) -> int:
    """How much of what is decoded is kept; nothing where frames are read only once."""
    free = available_memory() if options.align or options.skip_bad else None
    return 0 if free is None else min(MOST_KEPT, free // 8)


def _run(plan: StackPlan, notes: RunNotes, shown: FuseOutputs, *, command: str) -> StackFusion:
    """Reads, aligns, fuses and writes what the plan says; settings and report call the outputs as they are shown."""
    reader, options = plan.reader, plan.options
    kept = find_readable(reader, notes) if options.skip_bad else list(range(reader.count))
    alignment = None
    if options.align:
        alignment, kept = align_kept(reader, kept, notes, skip_bad=options.skip_bad, crop=options.crop)
    if len(kept) < reader.count:  # slabs are named after the frames in them
        plan.check(len(kept))
    depth = spool_depth(reader, alignment)
    staged = StagedFiles(overwrite=plan.outputs.overwrite, inputs=reader.files)
    with open_spool(depth) as spool, staged as files:
        frames = PreparedFrames(reader, kept, alignment, notes, crop=options.crop)
        for pixels, valid in frames:
            spool.append(pixels, valid)
            notes.tell("reading", len(spool), len(kept))
        writing = _Writing(plan, notes, kept, files, frames.opacity)
        curve = plan.choose_curve(kept[0])
        reader.release()
        notes.end_step("reading")
        for number, slab in enumerate(writing.slabs):
            _fuse_slab(slab, spool, writing, curve, depth=depth)
            notes.tell("slabs", number + 1, len(writing.slabs))
        if writing.slabs:
            notes.end_step("slabs")
        result = _doubt_borders(_fuse(spool, plan, curve, lambda *steps: notes.tell("fusing", *steps)), spool)
        if result.lost_detail is not None and result.lost_detail.is_worth_a_warning:
            notes.say(result.lost_detail.warning, see="check_map")
        notes.end_step("fusing")
        fusion = StackFusion(
            **{own.name: getattr(result, own.name) for own in dataclasses.fields(FusionResult)},
            frames=tuple(reader.names[index] for index in kept),
            bit_depth=reader.bit_depth,
            sources=tuple(reader.frames[index].path for index in kept),
            left_out=notes.left_out,
            alignment=alignment,
            seconds=notes.seconds,
            measured_depth=_measure(result, spool, plan, frames.exif, notes),
            covered=_covered(spool),
            worst_place=_show_worst_place(result, spool),
            slabs=tuple(slab.path for slab in writing.slabs),
            settings={**options.settings(), **shown.settings(), "linear_light": curve is not None},
        )
        writing.write_maps(fusion)
        writing.write_picture(plan.picture, fusion.image, fusion.covered)
        notes.end_step("writing")
        if plan.outputs.report is not None:
            writing.write_report(fusion, spool, output=str(shown.picture), command=command)
        reader.require_unchanged()
    outputs = {"picture": plan.picture, **writing.outputs}
    image = reader.value_range.from_unit(fusion.image.astype(np.float32, copy=False))
    return dataclasses.replace(fusion, image=image, notices=tuple(notes.notices), outputs=outputs)


def _fuse(
    spool: FrameSpool,
    plan: StackPlan,
    curve: Curve | None,
    progress: Callable[[int, int], None] | None = None,
    *,
    check: bool = True,
) -> FusionResult:
    return fuse(
        spool,
        method=plan.method,
        prefer=plan.options.prefer,
        device=plan.options.device,
        curve=curve,
        unveil=plan.options.unveil,
        check=check,
        progress=progress,
    )


def _fuse_slab(slab: Slab, spool: FrameSpool, writing: "_Writing", curve: Curve | None, *, depth: int) -> None:
    everything = (slice(None), slice(None))
    masks = spool.valid
    with open_spool(depth) as part:
        for index in range(slab.first, slab.last):
            part.append(spool[index][everything], None if masks is None else masks[index][everything])
        result = _fuse(part, writing.plan, curve, check=False)
        writing.write_picture(slab.path, result.image, _covered(part), frames=slab.last - slab.first)


def _covered(spool: FrameSpool) -> NDArray[np.bool_] | None:
    masks = spool.valid
    covered = None if masks is None else covered_area(masks)
    return None if covered is None or covered.all() else covered


def _doubt_borders(result: FusionResult, spool: FrameSpool) -> FusionResult:
    """The result with less confidence where some frames have no pixel: one of them may have been the sharpest."""
    masks = spool.valid
    if masks is None or result.confidence is None:
        return result
    share = np.zeros(result.confidence.shape, np.float32)
    for mask in masks:
        share += mask[:, :]
    share /= len(masks)
    return dataclasses.replace(result, confidence=result.confidence * share**2)


def _show_worst_place(result: FusionResult, spool: FrameSpool) -> NDArray[np.float32] | None:
    """The worst place of a result that is worth a warning, beside the frame that shows more."""
    lost = result.lost_detail
    if lost is None or not lost.is_worth_a_warning:
        return None
    height, width = result.image.shape[:2]
    area = lost.places[0].window((height, width), side=SHOWN_SIDE)
    return np.concatenate([result.image[area], spool[lost.places[0].frame][area]], axis=1, dtype=np.float32)


def _measure(
    result: FusionResult, spool: FrameSpool, plan: StackPlan, exif: list[bytes | None], notes: RunNotes
) -> StackDepth | None:
    """The depth, if something that shows it is to be written."""
    if not plan.outputs.shows_depth:
        return None
    depth = measure_stack(spool, result, plan.options, exif, lambda *steps: notes.tell("measuring", *steps))
    if depth is not None and len(spool) < 3:
        notes.say("two frames do not tell a depth between them; nothing is measured")
    if depth is not None and depth.scale.source:
        notes.say(f"depth is in {depth.scale.unit}, by {depth.scale.source}")
    notes.end_step("measuring")
    return depth


class _Writing:
    """The files of one run, which get their names together at its end, or not at all when the run fails."""

    def __init__(
        self,
        plan: StackPlan,
        notes: RunNotes,
        kept: list[int],
        files: StagedFiles,
        opacity: NDArray[np.float32] | None,
    ) -> None:
        self.plan = plan
        self.slabs = plan.slabs(len(kept))
        self.outputs: dict[str, Path] = {}
        self._notes = notes
        self._kept = kept
        self._files = files
        self._most_opaque = opacity

    def write_picture(
        self, path: Path, pixels: NDArray[Any], covered: NDArray[np.bool_] | None, *, frames: int | None = None
    ) -> None:
        """Writes a fused picture with the metadata of the first frame, transparent where no frame has a pixel."""
        options, count = self.plan.options, frames or len(self._kept)
        if covered is not None and path.suffix.lower() in (".jpg", ".jpeg"):
            self._notes.say("parts of the picture that no frame shows are filled in, because JPEG has no transparency")
        kind = ENCODERS[path.suffix.lower()]
        if options.bit_depth is None and self.plan.reader.bit_depth > max(kind.bit_depths):
            self._notes.say(
                f"the frames have {self.plan.reader.bit_depth} bits per channel, {kind.name} has "
                f"{max(kind.bit_depths)}; .tif keeps them all"
            )
        alpha = self._opacity(covered)
        values, own_units = self.plan.reader.value_range, (options.bit_depth or max(kind.bit_depths)) == 32
        if not (own_units or values.is_unit):
            self._notes.say(
                f"the values of the frames run from {values.low:g} to {values.high:g}; {path.name} has them scaled: "
                "the lowest is black, the highest white; .tif with 32 bits keeps them as they are"
            )
        picture = self.plan.reader.result_image(
            pixels.astype(np.float32, copy=False), alpha=alpha, frame=self._kept[0], own_units=own_units
        )
        if path == self.plan.picture:
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
        self._add("picture" if path == self.plan.picture else "", path, data)

    def _opacity(self, covered: NDArray[np.bool_] | None) -> NDArray[np.float32] | None:
        """Alpha of the result: that of the frames, and nothing where no frame has a pixel; None when it is opaque."""
        opacity = self._most_opaque
        if opacity is None:
            return None if covered is None else covered.astype(np.float32)
        return opacity if covered is None else opacity * covered

    def write_maps(self, fusion: StackFusion) -> None:
        """Writes the maps that were asked for."""
        for name, path in self.plan.outputs.maps().items():
            picture = MAP_PICTURES[name](fusion) if name in MAP_PICTURES else None
            if picture is not None:
                self._write_map(name, path, picture)
            if name in DEPTH_FILES and fusion.measured_depth is not None:
                self._tell()
                data = DEPTH_FILES[name](fusion.measured_depth, path, filled=self.plan.options.filled)
                self._add(name, path, data)

    def write_report(self, fusion: StackFusion, spool: FrameSpool, *, output: str, command: str) -> None:
        """Writes the report; the frames come from the spool."""
        from allfocus.stack_report import StackReport, build_stack_report

        report = StackReport(
            image=fusion.image,
            names=fusion.frames,
            output=output,
            decision=fusion.decision,
            depth=fusion.smooth_depth,
            confidence=fusion.confidence,
            lost_detail=fusion.lost_detail,
            alignment=fusion.alignment,
            settings=fusion.settings,
            command=command,
            seconds=fusion.seconds,
            notices=tuple(self._notes.notices),
            left_out=fusion.left_out,
            origin={"bits per channel": self.plan.reader.bit_depth, "slabs": [str(slab) for slab in fusion.slabs]},
        )
        page = build_stack_report(report, frames=spool, progress=lambda *steps: self._notes.tell("reporting", *steps))
        self._add("report", self.plan.outputs.maps()["report"], page.encode("utf-8", "backslashreplace"))
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
        self._notes.tell("writing", len(self.outputs), len(self.plan.outputs.maps()) + 1)


def _decision_map(fusion: StackFusion) -> Image | None:
    return None if fusion.decision is None else decision_picture(fusion.decision, len(fusion.frames))


def _confidence_map(fusion: StackFusion) -> Image | None:
    return None if fusion.confidence is None else Image(np.clip(fusion.confidence, 0, 1))


def _veil_map(fusion: StackFusion) -> Image | None:
    return None if fusion.veil is None else Image(np.clip(fusion.veil, 0, 1))


def _check_map(fusion: StackFusion) -> Image | None:
    from allfocus.fusion.lost_detail import paint_lost_detail

    return None if fusion.lost_detail is None else Image(paint_lost_detail(fusion.image, fusion.lost_detail))


MAP_PICTURES: dict[str, Callable[[StackFusion], Image | None]] = {
    "decision_map": _decision_map,
    "confidence_map": _confidence_map,
    "veil_map": _veil_map,
    "check_map": _check_map,
}
"""What each map shows; None where a method does not know it."""


def decision_picture(decision: NDArray[np.integer], frame_count: int) -> Image:
    """A decision map as grey levels to look at: the first frame black, the last white, evenly between.

    Args:
        decision: ``(H, W)``, the number of the frame (from 0) that each pixel came from.
        frame_count: How many frames the stack has; above 256 the picture has 16 bits.

    Example:
        >>> decision_picture(np.array([[0, 1, 2]]), 3).pixels
        array([[0. , 0.5, 1. ]], dtype=float32)
    """
    scaled = decision.astype(np.float32) / np.float32(max(frame_count - 1, 1))
    return Image(np.clip(scaled, 0, 1), bit_depth=8 if frame_count <= 256 else 16)
