"""Several channels, times or positions of one file -> one file: each stack fused by itself, channels together.

Every stack is read, aligned and fused like any other (:mod:`allfocus.stack.pipeline`); what it gives is kept on disk
until all are done, so that memory holds one of them.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.placement import common_window
from allfocus.alignment.stack_alignment import StackAlignment
from allfocus.depth.stack_depth import StackDepth, measure_stack, tell_depth
from allfocus.errors import InputError, OutputError
from allfocus.files.placing import StagedFiles
from allfocus.fusion.channels import Composite, fuse_channels, measure_composite, sample_numbers, sample_squares
from allfocus.fusion.frame_source import open_spool
from allfocus.fusion.inference import fallback_notices
from allfocus.fusion.stack_fusion import FusionResult, fuse
from allfocus.images.channel_colours import merge_channels
from allfocus.images.conversion import to_integers
from allfocus.images.dimensions import Channel, Dimensions
from allfocus.images.image import Image
from allfocus.images.picture_files import PictureFiles
from allfocus.images.spool import FrameSpool
from allfocus.images.stack_reader import StackReader
from allfocus.progress import StepProgress
from allfocus.stack.frames import PlacedFrames, align_frames, find_readable, spool_depth, tell_movement
from allfocus.stack.notes import RunNotes
from allfocus.stack.plan import StackPlan
from allfocus.stack.result import StackFusion, covered_part, decision_picture, doubt_borders, say_lost_detail
from allfocus.stack.selection import Selection
from allfocus.stack.writing import ResultWriter, stored_samples


@dataclass(frozen=True, eq=False)
class _FusedStack:
    """One stack of a series, fused."""

    result: FusionResult
    kept: list[int]
    alignment: StackAlignment | None
    covered: NDArray[np.bool_] | None
    readers: Sequence[StackReader]
    depth: StackDepth | None = None


def fuse_series(plan: StackPlan, notes: RunNotes) -> StackFusion:
    """What fusing several channels, times or positions of a file gave; all of it is written to one file.

    Args:
        plan: With a selection.
        notes: Hears how it goes.

    Raises:
        InputError: frames cannot be used, or something was asked for that only single pictures have.
        OutputError: the output cannot be written.
    """
    selection, outputs = plan.selection, plan.outputs
    if selection is None:
        raise ValueError("the plan has no selection")
    with (
        _PlaneStore() as store,
        _SeriesMaps(plan, selection) as maps,
        StagedFiles(overwrite=outputs.overwrite, inputs=plan.reader.files) as files,
    ):
        first: StackFusion | None = None
        for place in range(len(selection.places)):
            one = partial(_tell_of_part, notes, place, len(selection.places))
            fused = _fuse_stack(plan, selection, place, notes, one)
            for channel, reader in enumerate(fused.readers):
                layer = _layer(fused.result.image, channel, len(fused.readers))
                store.add(stored_samples(layer, reader, plan.options.bit_depth, selection.first.dtype))
            maps.add(fused)
            if first is None:
                first = _describe(plan, selection, fused, notes)
                pictures = PictureFiles(files, plan.options.method, plan.options.storing())
                writer = ResultWriter(plan, notes, fused.kept, pictures, None)
                if not plan.is_series:
                    writer.write_maps(first)
        if first is None:
            raise ValueError("nothing was selected")
        writer.write_planes(plan.picture, store.sized(selection.results()), store.read)
        maps.write(writer)
        notes.end_step("writing")
    written = {"picture": plan.picture, **writer.outputs}
    return replace(first, outputs=written, notices=tuple(notes.notices), seconds=notes.seconds)


def _tell_of_part(notes: RunNotes, place: int, places: int, step: str, done: int, count: int) -> None:
    notes.tell(step, place * count + done, places * count)


def _fuse_stack(plan: StackPlan, selection: Selection, place: int, notes: RunNotes, tell: StepProgress) -> _FusedStack:
    """Reads, aligns and fuses one stack with all its channels."""
    options = plan.options
    channels = range(len(selection.channels or (0,)))
    readers = [StackReader(selection.frames(place, channel), max_pixels=options.max_pixels) for channel in channels]
    kept = list(range(readers[0].count))
    if options.skip_bad:
        whole = [set(find_readable(reader, notes)) for reader in readers]
        kept = [index for index in kept if all(index in own for own in whole)]
    alignment = None
    if options.align:
        alignment, kept = align_frames(_SeenReader(readers, selection.deciding), kept, notes, **options.alignment())
        if len(readers) > 1:  # the brightness of a composite says nothing about that of its channels
            alignment = replace(alignment, brightness=((1.0,),) * len(alignment.brightness))
    area = common_window(alignment) if options.crop else None
    if alignment is not None:
        notes.say(tell_movement(alignment, area))
    with ExitStack() as opened:
        spools = []
        for reader in readers:
            spool = opened.enter_context(open_spool(spool_depth(reader, alignment)))
            PlacedFrames(reader, kept, alignment, notes, area=area).fill(spool)
            reader.release()
            spools.append(spool)
        notes.end_step("reading")
        result = _fuse_spools(plan, selection, spools, readers[0], kept[0], tell)
        if plan.method.abilities.devices:
            notes.say_all(fallback_notices())
        result = doubt_borders(result, spools[0])
        where = f"{selection.name(place)}: " if len(selection.places) > 1 else ""
        say_lost_detail(result, notes, where=where)
        notes.end_step("fusing")
        covered = covered_part(spools[0])
        depth = None
        if plan.outputs.shows_depth:
            channel = selection.deciding[0] if selection.deciding else 0
            layer = _layer(result.image, channel, len(readers))
            seen = replace(result, image=layer)
            depth = measure_stack(
                spools[channel],
                seen,
                exif=[],
                numbers=[readers[0].numbers[index] for index in kept],
                **plan.lengths(place),
                progress=partial(tell, "measuring"),
            )
            notes.say(tell_depth(depth) if place == 0 else "")
            notes.end_step("measuring")
    for reader in readers:
        reader.require_unchanged()
    return _FusedStack(result, kept, alignment, covered, readers, depth)


def _fuse_spools(
    plan: StackPlan,
    selection: Selection,
    spools: Sequence[FrameSpool],
    reader: StackReader,
    first: int,
    tell: StepProgress,
) -> FusionResult:
    options, method, progress = plan.options, plan.method, partial(tell, "fusing")
    if len(spools) > 1:
        return fuse_channels(
            spools,
            decide_by=selection.deciding,
            method=method,
            prefer=options.prefer,
            device=options.device,
            unveil=options.unveil,
            progress=progress,
            check_progress=tell,
        )
    curve = reader.blending_curve(first, options.linear_light) if method.abilities.linear_light else None
    return fuse(
        spools[0],
        method=method,
        prefer=options.prefer,
        device=options.device,
        curve=curve,
        unveil=options.unveil,
        progress=progress,
        check_progress=tell,
    )


class _SeenReader(StackReader):
    """The frames of several channels, as they are looked at when they are aligned: by what they are decided on."""

    def __init__(self, readers: Sequence[StackReader], deciding: Sequence[int] | None) -> None:
        self._readers = readers
        self.frames, self.numbers, self.counted = readers[0].frames, readers[0].numbers, readers[0].counted
        chosen = range(len(readers)) if deciding is None else deciding
        self._composite = _measure(readers, chosen)

    @contextmanager
    def ahead(self, order: Sequence[int]) -> Iterator[None]:
        """Inside, the frames of all channels are decoded ahead, channel by channel."""
        with ExitStack() as stack:
            for channel in self._composite.chosen:
                stack.enter_context(self._readers[channel].ahead(order))
            yield

    def read(self, index: int) -> Image:
        """One frame, composed now."""
        seen = self._composite.compose(lambda channel: self._readers[channel].read(index).pixels)
        return Image(np.clip(seen, 0, 1), bit_depth=32)


def _measure(readers: Sequence[StackReader], chosen: Sequence[int]) -> Composite:
    if len(chosen) == 1:
        return Composite(tuple(chosen), (0.0,), (1.0,), (1.0,))
    squares = sample_squares(readers[0].size)

    def samples(channel: int) -> list[NDArray[np.float32]]:
        frames = (readers[channel].read(index).pixels for index in sample_numbers(readers[0].count))
        return [np.concatenate([frame[area] for area in squares], axis=1) for frame in frames]

    return measure_composite(chosen, samples)


def _layer(image: NDArray[Any], channel: int, channels: int) -> NDArray[np.float32]:
    return np.ascontiguousarray(image if channels == 1 else image[..., channel], np.float32)


def _describe(plan: StackPlan, selection: Selection, fused: _FusedStack, notes: RunNotes) -> StackFusion:
    """What the first stack gave, for maps and for those who asked in Python."""
    result, readers = fused.result, fused.readers
    layers = [_layer(result.image, channel, len(readers)) for channel in range(len(readers))]
    own = [reader.value_range.from_unit(layer) for reader, layer in zip(readers, layers, strict=True)]
    shown = merge_channels(result.image, selection.first) if len(readers) > 1 else result.image
    return StackFusion(
        **{**vars(result), "image": np.stack(own, axis=-1) if len(own) > 1 else own[0]},
        frames=tuple(readers[0].names[index] for index in fused.kept),
        bit_depth=max(reader.bit_depth for reader in readers),
        sources=tuple(readers[0].frames[index].path for index in fused.kept),
        left_out=notes.left_out,
        alignment=fused.alignment,
        measured_depth=fused.depth,
        covered=fused.covered,
        shown=np.asarray(shown, np.float32),
        dimensions=selection.first,
        series=tuple(selection.name(place) for place in range(len(selection.places))),
        settings={**plan.options.settings(), **plan.shown.settings(), "linear_light": False},
    )


class _SeriesMaps:
    """The maps of the stacks of a series, on disk until all are there; none where one stack is fused."""

    def __init__(self, plan: StackPlan, selection: Selection) -> None:
        self._plan, self._selection = plan, selection
        self._opened = ExitStack()
        self._stores: dict[str, _PlaneStore] = {}
        self._channels: dict[str, str] = {}

    def __enter__(self) -> "_SeriesMaps":
        if self._plan.is_series:
            self._stores = {name: self._opened.enter_context(_PlaneStore()) for name in self._plan.maps}
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def add(self, fused: _FusedStack) -> None:
        """Keeps the maps of one more stack."""
        for name, store in self._stores.items():
            title, samples = SERIES_MAP_PLANES[name](fused, self._plan.options.filled)
            self._channels[name] = title
            store.add(samples)

    def write(self, writer: ResultWriter) -> None:
        """Writes them."""
        for name, store in self._stores.items():
            channels = (Channel(self._channels[name]),)
            held = [replace(own, channels=channels, samples=1) for own in self._selection.results()]
            writer.write_map_planes(name, store.sized(held), store.read)


def _depth_plane(fused: _FusedStack, filled: bool) -> tuple[str, NDArray[Any]]:
    depth = _measured(fused)
    return f"depth ({depth.scale.unit})", depth.scale.convert(depth.filled if filled else depth.measured.position)


def _error_plane(fused: _FusedStack, filled: bool) -> tuple[str, NDArray[Any]]:
    depth = _measured(fused)
    error = depth.scale.convert_error(depth.measured.standard_error, depth.measured.position)
    return f"error ({depth.scale.unit})", error


def _measured(fused: _FusedStack) -> StackDepth:
    if fused.depth is None:  # a method that makes no decision was refused before
        raise ValueError("no depth was measured")
    return fused.depth


def _decision_plane(fused: _FusedStack, filled: bool) -> tuple[str, NDArray[Any]]:
    decision = np.zeros(fused.result.image.shape[:2], np.int16) if (own := fused.result.decision) is None else own
    picture = decision_picture(decision, len(fused.kept))
    return "decision", to_integers(picture.pixels, picture.bit_depth)


def _confidence_plane(fused: _FusedStack, filled: bool) -> tuple[str, NDArray[Any]]:
    confidence = fused.result.confidence
    sure = np.zeros(fused.result.image.shape[:2], np.float32) if confidence is None else np.clip(confidence, 0, 1)
    return "confidence", to_integers(sure, 8)


SERIES_MAP_PLANES: dict[str, Callable[[_FusedStack, bool], tuple[str, NDArray[Any]]]] = {
    "depth_map": _depth_plane,
    "error_map": _error_plane,
    "decision_map": _decision_plane,
    "confidence_map": _confidence_plane,
}
"""What the channel of each map of a series is called, and its samples; given whether holes of the depth are closed."""


class _PlaneStore:
    """Fused planes on disk, in the order in which they were added, until they are written."""

    def __init__(self) -> None:
        try:
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix="allfocus-")  # noqa: SIM115 (closed by __exit__)
        except OSError as error:
            raise OutputError(f"no temporary file can be made ({error}); set TMPDIR to a writable folder") from error
        self._places: list[tuple[int, tuple[int, ...], np.dtype[Any]]] = []
        self._starts: list[int] = []
        self._channels = 1

    def __enter__(self) -> "_PlaneStore":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, samples: NDArray[Any]) -> None:
        """Keeps one more plane."""
        self._file.seek(0, 2)
        self._places.append((self._file.tell(), samples.shape, samples.dtype))
        try:
            self._file.write(np.ascontiguousarray(samples).data)
        except OSError as error:
            raise OutputError(
                f"{tempfile.gettempdir()}: cannot hold the result ({error.strerror}); free some space there, or set "
                "TMPDIR to a folder on a larger disk"
            ) from error

    def sized(self, positions: Sequence[Dimensions]) -> tuple[Dimensions, ...]:
        """What the positions hold, with the sizes and the type of what was kept of them.

        Raises:
            InputError: the times of a position came out in different sizes.
        """
        self._channels = len(positions[0].channels)
        self._starts, sized, place = [], [], 0
        for held in positions:
            self._starts.append(place)
            own = self._places[place : place + held.times * self._channels]
            place += len(own)
            sizes = {shape[:2] for _, shape, _ in own}
            if len(sizes) > 1:
                raise InputError(
                    f"the times of position {held.name} were cropped to different sizes",
                    hint=["{align=off}", "{crop=off} to keep their size"],
                    code="unequal-frames",
                )
            height, width = own[0][1][:2]
            sized.append(replace(held, size=(height, width), dtype=str(np.result_type(*(kind for *_, kind in own)))))
        return tuple(sized)

    def read(self, position: int, time: int, channel: int) -> NDArray[Any]:
        """One plane."""
        offset, shape, kind = self._places[self._starts[position] + time * self._channels + channel]
        self._file.flush()
        self._file.seek(offset)
        return np.frombuffer(self._file.read(int(np.prod(shape)) * kind.itemsize), kind).reshape(shape)
