"""One stack of a batch, fused by a worker: all it needs comes as a small task, all it gives goes back as a record.

Pixels never pass through the scheduler. The worker reads the frames from, and writes the result to, a file system that
it shares with the others; a task that is run twice (after a worker was lost) writes the same file again, in one step.
"""

import hashlib
import os
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allfocus.batch.manifest import FAILED, FUSED, FrameStates, StackRecord, content_key, frame_states
from allfocus.batch.own_files import files_of_stack, from_states, lost_thumbnail_path, thumbnail_path, write_receipt
from allfocus.errors import AllfocusError, InputError, OutputError
from allfocus.files.opening import open_plain
from allfocus.files.protection import FileState, OwnResults, file_state, replacing_only
from allfocus.stack.command_words import command_words
from allfocus.stack.options import FuseOptions
from allfocus.stack.outputs import FuseOutputs
from allfocus.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from allfocus.stack.result import StackFusion

THUMBNAIL_SIDE = 240
"""Pixels a side on the contact sheet."""


@dataclass(frozen=True)
class StackTask:
    """All that a worker needs to know to fuse one stack; paths are absolute."""

    name: str
    frames: tuple[str, ...]
    root: str
    """The folder that frame names are given relative to."""
    folder: str
    """The output folder."""
    output: str
    """The result, below the output folder."""
    options: FuseOptions
    settings_key: str
    kinds: tuple[str, ...] = ()
    """The maps to write beside the result; see ``FuseOutputs.beside``."""
    software: str = ""
    """What fuses, from :func:`software_key`; a worker that has something else refuses. Empty takes any."""
    replaceable: FrameStates | None = None
    """Files below the output folder that may be replaced, as we left them; None lets any be replaced."""
    label: str = ""
    """What maps are called after; empty for the name of the stack."""

    @property
    def target(self) -> Path:
        """The file to write."""
        return Path(self.folder, self.output)

    @property
    def outputs(self) -> FuseOutputs:
        """The files to write."""
        return FuseOutputs.beside(self.target, self.label or Path(self.name).name, self.kinds, overwrite=True)

    @property
    def maps(self) -> dict[str, Path]:
        """The maps to write, by the name of their field; a depth map has a preview in colours beside it."""
        return self.outputs.maps()

    @property
    def map_names(self) -> tuple[str, ...]:
        """All files of maps, below the output folder."""
        return tuple(path.relative_to(self.folder).as_posix() for path in self.maps.values())

    @property
    def thumbnail(self) -> Path:
        """The small copy for the contact sheet."""
        return thumbnail_path(Path(self.folder), self.name)

    @property
    def lost_thumbnail(self) -> Path:
        """The place where most detail is lost, for the contact sheet."""
        return lost_thumbnail_path(Path(self.folder), self.name)

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that will be written, below the output folder."""
        hidden = (self.thumbnail, self.lost_thumbnail)
        return (self.output, *self.map_names, *(path.relative_to(self.folder).as_posix() for path in hidden))


def software_key(weights: Iterable[Path]) -> str:
    """The version of allfocus with a fingerprint of the weights of a method, which may change without the version.

    Args:
        weights: The files of the method, from ``fusion.method.weights_files``.

    Example:
        >>> from allfocus.fusion.method import weights_files
        >>> from allfocus.fusion.method_choice import find_method
        >>> software_key([]) == __version__
        True
        >>> software_key(weights_files(find_method("ips"))).startswith(__version__ + "+")
        True
    """
    found = b""
    for path in weights:
        with open_plain(path) as file:
            found += hashlib.file_digest(file, "sha256").digest()
    return f"{__version__}+{hashlib.sha256(found).hexdigest()[:16]}" if found else __version__


def fuse_stack(task: StackTask) -> StackRecord:
    """The record of a stack that has just been fused, or of why it could not be; never raises for a bad stack."""
    began, processor = time.perf_counter(), time.process_time()
    record = StackRecord(task.name, FAILED, task.output, settings_key=task.settings_key, worker=_worker_name())
    try:
        # Imported here because they bring in the numerical libraries, which a worker should not wait for at its start.
        import cv2

        from allfocus.fusion.method import weights_files
        from allfocus.fusion.method_choice import find_method
        from allfocus.stack.pipeline import fuse_files

        cv2.setNumThreads(1)  # because there is one worker for each processor
        _require_software(task, software_key(weights_files(find_method(task.options.method))), record.worker)
        frames = [Path(frame) for frame in task.frames]
        states = frame_states(frames, Path(task.root))
        _require_frames(frames, states, record.worker)
        done = replace(record, status=FUSED, inputs=states, input_key=content_key(frames, states))
        for path in (task.target, task.thumbnail):
            _make_folder(path.parent)
        written: dict[Path, FileState] = {}
        results = _own_results(task, written, lambda: _require_unchanged(frames, states, Path(task.root)))
        with replacing_only(results):
            result = fuse_files(frames, task.outputs, task.options)
            _write_thumbnails(task, result, results)
        record = _describe(done, result, written, Path(task.folder))
    except AllfocusError as error:
        record = replace(record, error=_one_line(error.told(command_words)), code=error.code)
    except MemoryError:
        record = replace(record, error="there is not enough memory; use fewer workers, or smaller frames")
    except Exception as error:
        record = replace(record, error=_one_line(f"unexpected {type(error).__name__}: {error}"))
    return replace(
        record,
        seconds=round(time.perf_counter() - began, 3),
        processor_seconds=round(time.process_time() - processor, 3),
    )


def _describe(record: StackRecord, result: "StackFusion", written: dict[Path, FileState], folder: Path) -> StackRecord:
    """The record with what fusing gave and what was written below the folder."""
    height, width = result.image.shape[:2]
    lost = result.lost_detail
    return replace(
        record,
        output_state=written[folder / record.output],
        files=tuple((path.relative_to(folder).as_posix(), *state) for path, state in written.items()),
        width=int(width),
        height=int(height),
        left_out=len(result.left_out),
        lost_percent=None if lost is None else round(lost.share, 4),
        lost_flag=lost is not None and lost.is_worth_a_warning,
        notices=tuple(_one_line(sentence) for sentence in result.notices),
    )


def _require_software(task: StackTask, own: str, worker: str) -> None:
    if task.software and task.software != own:
        raise InputError(
            f"the worker {worker} has allfocus {own}, but {task.software} was asked for (version and weights); "
            "install the same everywhere"
        )


def _require_unchanged(frames: list[Path], states: FrameStates, root: Path) -> None:
    if frame_states(frames, root) != states:
        raise InputError("its frames changed while they were fused; run the batch again")


def _own_results(task: StackTask, written: dict[Path, FileState], check: Callable[[], None]) -> OwnResults:
    """What may be replaced; what is written goes into the dictionary and into the receipt of the stack.

    The check comes just before files get their names, and may still prevent it.
    """
    folder = Path(task.folder)

    def known(path: Path) -> set[FileState]:
        name = path.relative_to(folder).as_posix()
        # The receipt too, because this may be the second try.
        sources = (from_states(task.replaceable or ()), files_of_stack(folder, task.name, None))
        return {state for files in sources for state in files.get(name, ())}

    def announce(states: dict[Path, FileState]) -> None:
        check()
        written.update(states)
        write_receipt(folder, task.name, written)

    return OwnResults(None if task.replaceable is None else known, announce)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made ({error.strerror}); choose another folder") from error


def _require_frames(frames: list[Path], states: FrameStates, worker: str) -> None:
    for frame, (_, size, _) in zip(frames, states, strict=True):
        if size < 0 and os.path.lexists(frame):
            raise InputError(f"{frame}: cannot be read; it is a link that leads nowhere, or to itself")
        if size < 0:
            raise InputError(
                f"{frame}: not found by the worker {worker}; frames must lie on a file system that every worker sees "
                "under the same path"
            )


def _write_thumbnails(task: StackTask, result: "StackFusion", results: OwnResults) -> None:
    """Writes the small copy, and the worst place where one is worth a look; one of an earlier run goes otherwise."""
    _write_thumbnail(result.image if result.shown is None else result.shown, task.thumbnail)
    if result.worst_place is not None:
        _write_thumbnail(result.worst_place, task.lost_thumbnail, side=2 * THUMBNAIL_SIDE)
    elif results.known is None or file_state(task.lost_thumbnail) in results.known(task.lost_thumbnail):
        task.lost_thumbnail.unlink(missing_ok=True)


def _write_thumbnail(image: "NDArray[Any]", path: Path, *, side: int = THUMBNAIL_SIDE) -> None:
    # Imported here, as is the pipeline, because the program that only hands out tasks needs no pixels.
    from allfocus.images.image import Image
    from allfocus.images.value_range import range_of_arrays
    from allfocus.images.writing import encode_webp, replace_file, to_integers
    from allfocus.pages.pictures import in_colour, shrink

    unit = range_of_arrays([image]).to_unit(image)
    small = Image(in_colour(shrink(unit, side)))
    replace_file(path, encode_webp(to_integers(small.pixels, 8), small, quality=75), overwrite=True)


def _worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def __getattr__(name: str) -> object:
    """Say what replaces a name of version 0.1."""
    if name == "FuseSettings":
        raise AttributeError("FuseSettings is gone: use allfocus.FuseOptions, and maps=('depth', ...) of fuse_stacks")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
