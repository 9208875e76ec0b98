"""One stack from files to file: read -> align -> fuse -> write, with one frame at a time in memory."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.stack_alignment import StackAlignment, estimate_stack
from allfocus.errors import InputError
from allfocus.fusion.methods import FusionResult, fuse, require_method
from allfocus.fusion.windows import block_sharpness
from allfocus.images.image import Image
from allfocus.images.reading import MAX_PIXELS, Paths, StackReader, open_stack
from allfocus.images.tiling import FrameSpool
from allfocus.images.writing import check_output, write_image
from allfocus.version import __version__

Progress = Callable[[str, int, int], None]
"""Called with the step ("aligning", "reading", "fusing", "writing"), how much of it is done, and how much there is."""


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


def fuse_files(
    paths: Paths,
    output: str | os.PathLike[str],
    *,
    method: str = "ips",
    align: bool = True,
    prefer: str | None = None,
    skip_bad: bool = False,
    decision_map: str | os.PathLike[str] | None = None,
    depth_map: str | os.PathLike[str] | None = None,
    bit_depth: int | None = None,
    quality: int = 95,
    overwrite: bool = False,
    device: str = "auto",
    max_pixels: int = MAX_PIXELS,
    progress: Progress | None = None,
    notice: Callable[[str], None] | None = None,
) -> StackFusion:
    """The fused picture of a stack of files, which is also written to ``output``.

    The output has the bit depth of the frames as far as its format allows, and the colour profile and EXIF of the
    first frame. Nothing is written before all that can be checked has been: the frames, the method, the output paths.

    Args:
        paths: The frames: files, a folder, a pattern, or one multi-page TIFF.
        output: The file to write; its ending gives the format.
        method: A name of ``allfocus.list_methods()``.
        align: Measure how the frames lie to each other, and bring them onto one grid if they differ. The result is
            then cropped to what all frames show.
        prefer: "near" or "far": which end of the stack (its first frame is near) wins where frames conflict.
        skip_bad: Leave out frames that cannot be read, have another size or do not belong, instead of stopping.
        decision_map: Also write which frame each pixel came from, as grey: the first black, the last white.
        depth_map: Also write where in the stack each pixel is in focus, as 16-bit grey: the first frame black.
        bit_depth: Bits per channel of the output; by default those of the frames.
        quality: Of JPEG and WebP, 1 to 100.
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
    job = _Job(progress, notice)
    require_method(method, device=device, prefer=prefer, maps=decision_map is not None or depth_map is not None)
    reader = open_stack(paths, max_pixels=max_pixels, on_bad_frame=job.leave_out if skip_bad else None)
    check_output(output, overwrite=overwrite, bit_depth=bit_depth, quality=quality)
    for target in (decision_map, depth_map):
        if target is not None:
            check_output(target, overwrite=overwrite, bit_depth=16 if target is depth_map else None)
    _refuse_shared_paths([Path(target) for target in (output, decision_map, depth_map) if target is not None], reader)
    kept = job.check_readable(reader) if skip_bad else list(range(reader.count))
    alignment = job.align(reader, kept, skip_bad=skip_bad) if align else None
    frames = _aligned_frames(reader, kept, alignment, job)
    with FrameSpool(bit_depth=_spool_depth(reader, alignment), measure=block_sharpness) as spool:
        for frame in frames:
            spool.append(frame)
            job.tell("reading", len(spool), len(kept))
        reader.release()
        job.end_step("reading")
        options = {"prefer": prefer} if prefer else {}
        result = fuse(spool, method=method, device=device, progress=lambda *n: job.tell("fusing", *n), **options)
    job.end_step("fusing")
    history = f"fused by allfocus {__version__} from {len(kept)} frames with {method}"
    _write_maps(result, len(kept), decision_map, depth_map, overwrite=overwrite)
    picture = reader.result_image(result.image.astype(np.float32, copy=False))
    write_image(
        picture,
        output,
        bit_depth=bit_depth,
        quality=quality,
        history=history,
        software=f"allfocus {__version__}",
        overwrite=overwrite,
    )
    job.tell("writing", 1, 1)
    job.end_step("writing")
    names = tuple(reader.names[index] for index in kept)
    return StackFusion(
        result.image,
        result.decision,
        result.depth,
        names,
        job.left_out,
        alignment,
        job.seconds,
        tuple(job.notices),
    )


class _Job:
    """What happens beside the pixels: progress, notices, times, and frames that are left out."""

    def __init__(self, progress: Progress | None, notice: Callable[[str], None] | None) -> None:
        self.tell: Progress = progress or (lambda step, done, count: None)
        self._notice = notice
        self.notices: list[str] = []
        self.left_out: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self._began = time.perf_counter()

    def say(self, sentence: str) -> None:
        if sentence not in self.notices:
            self.notices.append(sentence)
            if self._notice is not None:
                self._notice(sentence)

    def leave_out(self, name: str, reason: Exception | str) -> None:
        self.left_out[name] = str(reason)
        self.say(f"left out {name}: {reason}")

    def end_step(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step] = round(now - self._began, 3)
        self._began = now

    def check_readable(self, reader: StackReader) -> list[int]:
        """Decodes every frame once, because damage behind a header shows only then; returns those that are whole."""
        kept = []
        for index, name in enumerate(reader.names):
            try:
                reader.read(index)
                kept.append(index)
            except InputError as error:
                self.leave_out(name, error)
            self.tell("checking", index + 1, reader.count)
        self._require_two(kept)
        return kept

    def align(self, reader: StackReader, kept: list[int], *, skip_bad: bool) -> StackAlignment | None:
        """Returns how the kept frames lie to each other; frames that do not belong are left out or are an error."""

        def estimate() -> StackAlignment:
            return estimate_stack(
                lambda place: reader.read(kept[place]).pixels,
                len(kept),
                progress=lambda done, count: self.tell("aligning", done, count),
            )

        alignment = estimate()
        if alignment.outliers:
            names = [reader.names[kept[place]] for place in alignment.outliers]
            if not skip_bad:
                raise InputError(
                    f"{names[0]}: does not seem to belong to the stack (it cannot be aligned with the others); take it "
                    "out, add --skip-bad to leave such frames out, or --no-align to fuse the frames as they are"
                )
            for place in sorted(alignment.outliers, reverse=True):
                self.leave_out(reader.names[kept[place]], "does not seem to belong to the stack")
                del kept[place]
            self._require_two(kept)
            alignment = estimate()
        for sentence in alignment.warnings:
            self.say(sentence)
        self.say(
            "the frames are registered already; nothing was moved"
            if alignment.registered
            else f"the frames were aligned ({alignment.model}) and cropped to what all of them show"
        )
        self.end_step("aligning")
        return alignment

    def _require_two(self, kept: list[int]) -> None:
        if len(kept) < 2:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in list(self.left_out.items())[:2])
            raise InputError(f"fewer than 2 usable frames are left ({reasons})")


def _aligned_frames(
    reader: StackReader, kept: list[int], alignment: StackAlignment | None, job: _Job
) -> Iterator[NDArray[np.float32]]:
    """Gives the kept frames one by one, on one grid, cropped to what all of them show."""
    area = None
    if alignment is not None and not alignment.registered:
        top, left, bottom, right = alignment.common_area()
        area = (slice(top, bottom), slice(left, right))
    for place, index in enumerate(kept):
        image = reader.read(index)
        for sentence in image.notices:
            job.say(f"{image.name}: {sentence}")
        pixels = image.pixels
        if alignment is not None:
            pixels, _ = alignment.apply(place, pixels)
        yield pixels if area is None else np.ascontiguousarray(pixels[area])


def _spool_depth(reader: StackReader, alignment: StackAlignment | None) -> int:
    """Frames are held as in their files; moved ones have values between the levels, for which 16 bits are enough."""
    if alignment is None or alignment.registered or reader.bit_depth == 32:
        return reader.bit_depth
    return 16


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


def _write_maps(
    result: FusionResult,
    frame_count: int,
    decision_map: str | os.PathLike[str] | None,
    depth_map: str | os.PathLike[str] | None,
    *,
    overwrite: bool,
) -> None:
    if decision_map is not None and result.decision is not None:
        write_image(decision_picture(result.decision, frame_count), decision_map, overwrite=overwrite)
    if depth_map is not None and result.depth is not None:
        write_image(Image(np.clip(result.depth, 0, 1), bit_depth=16), depth_map, bit_depth=16, overwrite=overwrite)


def _refuse_shared_paths(outputs: list[Path], reader: StackReader) -> None:
    """Refuses an output that is a frame of the stack, or two outputs with one name."""
    for place, output in enumerate(outputs):
        if output.exists() and any(output.samefile(frame.path) for frame in reader.frames if frame.path.exists()):
            raise InputError(f"{output}: is a frame of the stack and will not be replaced; choose another name")
        if output.resolve() in [other.resolve() for other in outputs[:place]]:
            raise InputError(f"{output}: is named for two outputs; give each a name of its own")
