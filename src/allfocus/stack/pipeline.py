"""One stack from files to file: plan -> align -> read -> fuse -> write, with one frame at a time in memory."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from allfocus.alignment.placement import common_window
from allfocus.depth.stack_depth import measure_stack, tell_depth
from allfocus.files.placing import StagedFiles
from allfocus.fusion.frame_source import open_spool
from allfocus.fusion.inference import fallback_notices
from allfocus.fusion.methods import method_catalogue
from allfocus.fusion.stack_fusion import fuse
from allfocus.images.memory import available_memory
from allfocus.images.picture_files import PictureFiles
from allfocus.images.spool import FrameSpool
from allfocus.machine import limited_cores
from allfocus.progress import StepProgress
from allfocus.stack.corrections import cull_frames, find_corrections
from allfocus.stack.frames import PlacedFrames, align_frames, find_readable, spool_depth, tell_movement
from allfocus.stack.notes import RunNotes
from allfocus.stack.options import FuseOptions, gather
from allfocus.stack.outputs import AnyPath, FuseOutputs, Paths
from allfocus.stack.plan import Slab, plan_stack
from allfocus.stack.result import StackFusion, covered_part, doubt_borders, say_lost_detail, show_worst_place
from allfocus.stack.series import fuse_series
from allfocus.stack.writing import ResultWriter

MOST_KEPT = 2**29
"""Bytes of decoded frames that are kept, an eighth of the free memory at most: what fits is decoded once and not once
for each of checking, alignment and fusion. More would take from the memory that the promise of one frame at a time
keeps free; the frames of a large stack are decoded again, which costs a tenth of the time of fusing them."""


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

    A file of a microscope may hold several positions, times and channels: ``position`` and ``time`` choose one, or make
    a series of all; channels are decided together (``decide_by``). What the file says about the size of a pixel, the
    step between planes and the channels is written into OME-TIFF, OME-Zarr, and TIFF as ImageJ has it.

    Args:
        paths: The frames: files, a folder, a pattern, one multi-page TIFF, an OME-Zarr, or a video of a focus sweep, of
            which the needed frames are taken. The alpha of a frame is its mask: where it is below one half the frame
            has no pixel. Where no frame has one, the output is transparent.
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
    notes = RunNotes(progress, notice)
    options, outputs = gather(options, output, changes)
    keep = (
        _room_to_keep() if options.align or options.skip_bad or options.cull else 0
    )  # otherwise frames are read only once
    plan = plan_stack(paths, outputs, options, names=names, keep_bytes=keep, on_bad_frame=notes.leave_out)
    notes.say_all(plan.reader.notices)
    notes.say_all(map(str, method_catalogue().passed_over_for(plan.method.name)))
    if plan.selection is not None and not plan.selection.is_one:
        with limited_cores(options.threads):
            return fuse_series(plan, notes)

    reader, method, alignment = plan.reader, plan.method, None
    reader.fills_rims = options.fill_rims
    kept = find_readable(reader, notes) if options.skip_bad else list(range(reader.count))
    if (corrections := find_corrections(reader, kept, options, notes)) is not None:
        reader.correct(corrections)
    if options.cull:
        kept = cull_frames(reader, kept, notes)
    if options.align:
        with limited_cores(options.threads):
            alignment, kept = align_frames(reader, kept, notes, **options.alignment())
    if len(kept) < reader.count:  # slabs are named after the frames in them
        plan.check(len(kept))
    area = common_window(alignment) if options.crop else None
    if alignment is not None:
        notes.say(tell_movement(alignment, area))

    with (
        limited_cores(options.threads),
        open_spool(spool_depth(reader, alignment)) as spool,
        StagedFiles(overwrite=outputs.overwrite, inputs=reader.files) as files,
    ):
        frames = PlacedFrames(reader, kept, alignment, notes, area=area)
        frames.fill(spool)
        curve = reader.blending_curve(kept[0], options.linear_light) if method.abilities.linear_light else None
        reader.release()
        notes.end_step("reading")

        pictures = PictureFiles(files, options.method, options.storing())
        writer = ResultWriter(plan, notes, kept, pictures, frames.opacity)
        fuse_spool = partial(
            fuse, method=method, prefer=options.prefer, device=options.device, curve=curve, unveil=options.unveil
        )
        slabs = plan.slabs(len(kept))
        for number, slab in enumerate(slabs, start=1):
            with slab_alone(slab, spool) as part:
                fused = fuse_spool(part, check=False)
                writer.write_picture(slab.path, fused.image, covered_part(part), frames=len(part))
            notes.tell("slabs", number, len(slabs))
            notes.end_step("slabs")
        fused = fuse_spool(spool, progress=partial(notes.tell, "fusing"), check_progress=notes.tell)
        result = doubt_borders(fused, spool)
        say_lost_detail(result, notes)
        if method.abilities.devices:
            notes.say_all(fallback_notices())
        notes.end_step("fusing")
        depth = None
        if outputs.shows_depth:
            tell = partial(notes.tell, "measuring")
            numbers = [reader.numbers[index] for index in kept]
            depth = measure_stack(spool, result, exif=frames.exif, numbers=numbers, **plan.lengths(), progress=tell)
            notes.say(tell_depth(depth))
            notes.end_step("measuring")

        fusion = StackFusion(
            **vars(result),
            frames=tuple(reader.names[index] for index in kept),
            bit_depth=reader.bit_depth,
            sources=tuple(reader.frames[index].path for index in kept),
            left_out=notes.left_out,
            alignment=alignment,
            seconds=notes.seconds,
            measured_depth=depth,
            covered=covered_part(spool),
            worst_place=show_worst_place(result, spool),
            slabs=tuple(slab.path for slab in slabs),
            dimensions=None if plan.selection is None else plan.selection.first,
            settings={**options.settings(), **plan.shown.settings(), "linear_light": curve is not None},
        )
        writer.write_all(fusion, spool)
        reader.require_unchanged()
    image = reader.value_range.from_unit(fusion.image.astype(np.float32, copy=False))
    written = {"picture": plan.picture, **writer.outputs}
    return dataclasses.replace(fusion, image=image, notices=tuple(notes.notices), outputs=written)


def _room_to_keep() -> int:
    """How many bytes of what is decoded are kept."""
    free = available_memory()
    return 0 if free is None else min(MOST_KEPT, free // 8)


@contextmanager
def slab_alone(slab: Slab, spool: FrameSpool) -> Iterator[FrameSpool]:
    """A spool of the frames of a slab."""
    everything = (slice(None), slice(None))
    masks = spool.valid
    with open_spool(spool.bit_depth) as part:
        for index in range(slab.first, slab.last):
            part.append(spool[index][everything], None if masks is None else masks[index][everything])
        yield part
