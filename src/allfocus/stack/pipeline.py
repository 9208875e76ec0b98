"""One stack from files to file: read -> align -> fuse -> write, with one frame at a time in memory."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.stack_alignment import StackAlignment
from allfocus.files.placing import StagedFiles
from allfocus.fusion.frame_source import decision_scale
from allfocus.fusion.methods import FusionResult, fuse
from allfocus.fusion.validity import covered_area
from allfocus.fusion.windows import block_sharpness
from allfocus.images.image import Image
from allfocus.images.reading import MAX_PIXELS, Paths
from allfocus.images.spool import FrameSpool
from allfocus.images.transfer import Curve
from allfocus.images.writing import ENCODERS, Compression, encode_image
from allfocus.stack.frames import Job, Progress, prepare_frames
from allfocus.stack.plan import AnyPath, FuseOptions, FusionPlan, Slab, choose_curve, plan_fusion
from allfocus.version import __version__

__all__ = ["Progress", "StackFusion", "decision_picture", "fuse_files"]

SHOWN_SIDE = 192
"""Pixels a side of the worst place that is shown; more where the place is larger."""


@dataclass(frozen=True)
class StackFusion(FusionResult):
    """What fusing a stack of files gave, and how it went."""

    frames: tuple[str, ...] = ()
    """Names of the frames that were fused, in order."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Names of the frames that were left out, with the reason."""
    alignment: StackAlignment | None = None
    """How the frames were brought onto one grid; None when alignment was switched off."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time spent on each step."""
    notices: tuple[str, ...] = ()
    """Sentences about what was found and changed on the way."""
    smooth_depth: NDArray[np.float32] | None = None
    """The depth as it was written, (H, W): calm where there is no texture; None unless a depth map or a report was
    asked for. ``depth`` is what the method said, pixel by pixel."""
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


def fuse_files(
    paths: Paths,
    output: AnyPath,
    *,
    method: str = "ips",
    align: bool = True,
    crop: bool = True,
    prefer: str | None = None,
    skip_bad: bool = False,
    linear_light: bool | None = None,
    unveil: bool = True,
    decision_map: AnyPath | None = None,
    depth_map: AnyPath | None = None,
    confidence_map: AnyPath | None = None,
    check_map: AnyPath | None = None,
    veil_map: AnyPath | None = None,
    slabs: tuple[int, int] | None = None,
    report: AnyPath | None = None,
    bit_depth: int | None = None,
    quality: int = 95,
    compression: Compression = None,
    overwrite: bool = False,
    device: str = "auto",
    max_pixels: int = MAX_PIXELS,
    progress: Progress | None = None,
    notice: Callable[[str], None] | None = None,
) -> StackFusion:
    """The fused picture of a stack of files, which is also written to ``output``.

    The output has the bit depth of the frames as far as its format allows, and the colour profile and EXIF of the
    first frame. Nothing is written before all that can be checked has been: the frames, the method, the output paths.
    All files get their names together at the end: a run that fails leaves none of them and replaces nothing.

    Args:
        paths: The frames: files, a folder, a pattern, or one multi-page TIFF. The alpha of a frame is its mask: where
            it is below one half the frame has no pixel. Where no frame has one, the output is transparent.
        output: The file to write; its ending gives the format.
        method: A name of ``allfocus.list_methods()``.
        align: Measure how the frames lie to each other, and bring them onto one grid if they differ.
        crop: Cut aligned frames to what all of them show. Otherwise the result has the size of the reference frame, and
            its borders come from the frames that reach there.
        prefer: "near" or "far": which end of the stack (its first frame is near) wins where frames conflict.
        skip_bad: Leave out frames that cannot be read, have another size or do not belong, instead of stopping.
        linear_light: Mix pixels of several frames in linear light, as light adds up. None does so when the frames tell
            their transfer curve (colour profile, or EXIF that says sRGB) and the method can; True insists.
        unveil: Take the veil that near things out of focus lay over what is behind them off again; only the method ips.
        decision_map: Also write which frame each pixel came from, as grey: the first black, the last white.
        depth_map: Also write where in the stack each pixel is in focus, smoothed where there is no texture, as 16-bit
            grey: the first frame black. A preview in colours lies beside it, with ``_preview`` in its name.
        confidence_map: Also write how sure the depth is, as grey: a guess black, sure white.
        veil_map: Also write how opaque the veil was that was taken off, as grey: none black.
        check_map: Also write the fused picture in grey with a warm colour where detail is lost that some frame shows.
        slabs: (size, overlap): also fuse every ``size`` neighbouring frames by themselves, for retouching; slabs share
            ``overlap`` frames with the next. They lie beside the output: ``out_slab01_frames001-010.tif`` ...
        report: Also write a page (.html) about frames, alignment, decisions, depth, settings and times.
        bit_depth: Bits per channel of the output; by default those of the frames.
        quality: Of JPEG and WebP, 1 to 100.
        compression: Of PNG 0 to 9, of TIFF "none", "deflate", "lzw" or "zstd".
        overwrite: Replace existing output files. A frame of the stack is never replaced.
        device: "auto", "cpu" or "cuda".
        max_pixels: Refuse frames with more pixels than this.
        progress: Called after each piece of work; see ``Progress``.
        notice: Called with a sentence about each thing that was found or changed.

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
    options = FuseOptions(
        method=method,
        align=align,
        crop=crop,
        prefer=prefer,
        skip_bad=skip_bad,
        linear_light=linear_light,
        unveil=unveil,
        decision_map=decision_map,
        depth_map=depth_map,
        confidence_map=confidence_map,
        check_map=check_map,
        veil_map=veil_map,
        slabs=slabs,
        report=report,
        bit_depth=bit_depth,
        quality=quality,
        compression=compression,
        overwrite=overwrite,
        device=device,
        max_pixels=max_pixels,
    )
    job = Job(progress, notice)
    plan = plan_fusion(paths, output, options, on_bad_frame=job.leave_out)
    return _run(plan, job, command=options.command(paths, output))


def _run(plan: FusionPlan, job: Job, *, command: str) -> StackFusion:
    """Reads, aligns, fuses and writes what the plan says."""
    reader, options = plan.reader, plan.options
    kept = job.check_readable(reader) if options.skip_bad else list(range(reader.count))
    alignment = job.align(reader, kept, skip_bad=options.skip_bad, crop=options.crop) if options.align else None
    if len(kept) < reader.count:  # slabs are named after the frames in them
        plan.check(len(kept))
    staged = StagedFiles(overwrite=options.overwrite, inputs=reader.files)
    with _new_spool(job.spool_depth(reader, alignment)) as spool, staged as files:
        writing = _Writing(plan, job, kept, files)
        for pixels, valid in prepare_frames(reader, kept, alignment, job, crop=options.crop):
            spool.append(pixels, valid)
            job.tell("reading", len(spool), len(kept))
        curve = choose_curve(reader, options, kept[0])
        reader.release()
        job.end_step("reading")
        for number, slab in enumerate(writing.slabs):
            _fuse_slab(slab, spool, writing, curve, depth=job.spool_depth(reader, alignment))
            job.tell("slabs", number + 1, len(writing.slabs))
        if writing.slabs:
            job.end_step("slabs")
        result = _doubt_borders(_fuse(spool, options, curve, lambda *steps: job.tell("fusing", *steps)), spool)
        if result.lost_detail is not None and result.lost_detail.is_worth_a_warning:
            job.say(result.lost_detail.warning)
        job.end_step("fusing")
        fusion = StackFusion(
            **{own.name: getattr(result, own.name) for own in dataclasses.fields(FusionResult)},
            frames=tuple(reader.names[index] for index in kept),
            left_out=job.left_out,
            alignment=alignment,
            seconds=job.seconds,
            smooth_depth=_smooth(result, len(kept)) if options.depth_map or options.report else None,
            covered=_covered(spool),
            worst_place=_show_worst_place(result, spool),
            slabs=tuple(slab.path for slab in writing.slabs),
            settings={**options.settings(), "linear_light": curve is not None},
        )
        writing.write_maps(fusion)
        writing.write_picture(plan.output, fusion.image, fusion.covered)
        job.end_step("writing")
        if options.report is not None:
            writing.write_report(fusion, spool, command)
        reader.require_unchanged()
    outputs = {"picture": plan.output, **writing.outputs}
    image = reader.value_range.from_unit(fusion.image.astype(np.float32, copy=False))
    return dataclasses.replace(fusion, image=image, notices=tuple(job.notices), outputs=outputs)


def _new_spool(bit_depth: int) -> FrameSpool:
    return FrameSpool(bit_depth=bit_depth, measure=block_sharpness, scale=decision_scale)


def _fuse(
    spool: FrameSpool,
    options: FuseOptions,
    curve: Curve | None,
    progress: Callable[[int, int], None] | None = None,
    *,
    check: bool = True,
) -> FusionResult:
    return fuse(
        spool,
        method=options.method,
        prefer=options.prefer,
        device=options.device,
        curve=curve,
        unveil=options.unveil,
        check=check,
        progress=progress,
    )


def _fuse_slab(slab: Slab, spool: FrameSpool, writing: "_Writing", curve: Curve | None, *, depth: int) -> None:
    everything = (slice(None), slice(None))
    masks = spool.valid
    with _new_spool(depth) as part:
        for index in range(slab.first, slab.last):
            part.append(spool[index][everything], None if masks is None else masks[index][everything])
        result = _fuse(part, writing.plan.options, curve, check=False)
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


def _smooth(result: FusionResult, frames: int) -> NDArray[np.float32] | None:
    if result.depth is None or result.confidence is None:
        return None
    from allfocus.fusion.depth import smooth_depth  # only for those who want a map

    guide = result.image.astype(np.float32, copy=False)
    return smooth_depth(result.depth, result.confidence, guide, step=1 / max(1, frames - 1))


class _Writing:
    """The files of one run, which get their names together at its end, or not at all when the run fails."""

    def __init__(self, plan: FusionPlan, job: Job, kept: list[int], files: StagedFiles) -> None:
        self.plan = plan
        self.slabs = plan.slabs(len(kept))
        self.outputs: dict[str, Path] = {}
        self._job = job
        self._kept = kept
        self._files = files

    def write_picture(
        self, path: Path, pixels: NDArray[Any], covered: NDArray[np.bool_] | None, *, frames: int | None = None
    ) -> None:
        """Writes a fused picture with the metadata of the first frame, transparent where no frame has a pixel."""
        options, count = self.plan.options, frames or len(self._kept)
        if covered is not None and path.suffix.lower() in (".jpg", ".jpeg"):
            self._job.say("parts of the picture that no frame shows are filled in, because JPEG has no transparency")
        kind = ENCODERS[path.suffix.lower()]
        if options.bit_depth is None and self.plan.reader.bit_depth > max(kind.bit_depths):
            self._job.say(
                f"the frames have {self.plan.reader.bit_depth} bits per channel, {kind.name} has "
                f"{max(kind.bit_depths)}; .tif keeps them all"
            )
        alpha = self._opacity(covered)
        values, own_units = self.plan.reader.value_range, (options.bit_depth or max(kind.bit_depths)) == 32
        if not (own_units or values.is_unit):
            self._job.say(
                f"the values of the frames run from {values.low:g} to {values.high:g}; {path.name} has them scaled: "
                "the lowest is black, the highest white; .tif with 32 bits keeps them as they are"
            )
        picture = self.plan.reader.result_image(
            pixels.astype(np.float32, copy=False), alpha=alpha, frame=self._kept[0], own_units=own_units
        )
        if path == self.plan.output:
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
        self._add("picture" if path == self.plan.output else "", path, data)

    def _opacity(self, covered: NDArray[np.bool_] | None) -> NDArray[np.float32] | None:
        """Alpha of the result: that of the frames, and nothing where no frame has a pixel; None when it is opaque."""
        opacity = self._job.opacity
        if opacity is None:
            return None if covered is None else covered.astype(np.float32)
        return opacity if covered is None else opacity * covered

    def write_maps(self, fusion: StackFusion) -> None:
        """Writes the maps that were asked for."""
        from allfocus.fusion.depth import colour_depth
        from allfocus.fusion.lost_detail import paint_lost_detail

        depth, confidence, decision = fusion.smooth_depth, fusion.confidence, fusion.decision
        for name, path in self.plan.maps.items():
            if name == "decision_map" and decision is not None:
                self._write_map(name, path, decision_picture(decision, len(fusion.frames)))
            elif name == "depth_map" and depth is not None:
                self._write_map(name, path, Image(depth, bit_depth=16))
            elif name == "depth_preview" and depth is not None:
                self._write_map(name, path, Image(colour_depth(depth)))
            elif name == "confidence_map" and confidence is not None:
                self._write_map(name, path, Image(np.clip(confidence, 0, 1)))
            elif name == "veil_map" and fusion.veil is not None:
                self._write_map(name, path, Image(np.clip(fusion.veil, 0, 1)))
            elif name == "check_map" and fusion.lost_detail is not None:
                self._write_map(name, path, Image(paint_lost_detail(fusion.image, fusion.lost_detail)))

    def write_report(self, fusion: StackFusion, spool: FrameSpool, command: str) -> None:
        """Writes the report; the frames come from the spool."""
        from allfocus.stack_report import StackReport, build_stack_report

        report = StackReport(
            image=fusion.image,
            names=fusion.frames,
            output=str(self.plan.output),
            decision=fusion.decision,
            depth=fusion.smooth_depth,
            confidence=fusion.confidence,
            lost_detail=fusion.lost_detail,
            alignment=fusion.alignment,
            settings=fusion.settings,
            command=command,
            seconds=fusion.seconds,
            notices=tuple(self._job.notices),
            left_out=fusion.left_out,
            origin={"bits per channel": self.plan.reader.bit_depth, "slabs": [str(slab) for slab in fusion.slabs]},
        )
        page = build_stack_report(report, frames=spool, progress=lambda *steps: self._job.tell("reporting", *steps))
        self._add("report", self.plan.maps["report"], page.encode("utf-8", "backslashreplace"))
        self._job.end_step("reporting")

    def _write_map(self, name: str, path: Path, image: Image) -> None:
        self._tell()
        self._add(name, path, encode_image(image, path))

    def _add(self, name: str, path: Path, data: bytes | memoryview) -> None:
        self._files.add(path, data)
        if name:
            self.outputs[name] = path
            self._tell()

    def _tell(self) -> None:
        self._job.tell("writing", len(self.outputs), len(self.plan.maps) + 1)


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
