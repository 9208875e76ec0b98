"""A batch: every stack below a folder fused once, on a cluster, with what was done written down as it is done."""

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from allfocus.batch.checks import check_ending, check_options, prepare_output
from allfocus.batch.cluster import PATIENCE, Cluster, Lost
from allfocus.batch.manifest import (
    FAILED,
    FILE_NAME,
    FUSED,
    PLANNED,
    BatchManifest,
    StackRecord,
    frame_states,
    settings_key,
    still_valid,
)
from allfocus.batch.own_files import (
    OwnFiles,
    as_states,
    files_of_stack,
    from_states,
    refuse_foreign,
    remove_receipt,
    set_aside_edited,
)
from allfocus.batch.result_names import DEFAULT, check_template, name_result
from allfocus.batch.stack_task import StackTask, fuse_stack, software_key
from allfocus.batch.stacks import DEFAULT_GAP, Stack, find_stacks
from allfocus.batch.summary import SHEET_NAME, SUMMARY_NAME, write_contact_sheet, write_summary
from allfocus.batch.watching import SettledStacks
from allfocus.errors import InputError, OutputError
from allfocus.files.protection import FileState, InputFiles, OwnResults, name_key, replacing_only
from allfocus.images.listing import natural_order
from allfocus.images.ome_zarr_folders import is_zarr
from allfocus.images.writing import default_ending
from allfocus.stack.options import FuseOptions

SECONDS_BETWEEN_SUMMARIES = 10.0
"""While watching, how often the summary and the contact sheet are written at most."""


@dataclass(frozen=True)
class BatchProgress:
    """Where a batch stands."""

    found: int
    """Stacks in all."""
    unchanged: int
    """Stacks that were done before."""
    fused: int
    failed: int
    waiting: int
    """Stacks that are with the cluster."""
    workers: int
    dashboard: str
    """Address of Dask's own page; empty without a cluster."""
    restarts: int
    """How often the scheduler was lost and found again."""
    seconds: float
    trouble: str = ""
    """While watching, why the folder could not be looked through just now; empty when it could."""
    latest: tuple[StackRecord, ...] = ()
    """What has come in since the last call."""


BatchListener = Callable[[BatchProgress], None]


@dataclass(frozen=True)
class BatchResult:
    """What a batch did, which also lies in its folder."""

    output: Path
    """The folder: the results, ``summary.csv``, ``contact_sheet.html`` and ``manifest.jsonl``."""
    rows: tuple[StackRecord, ...]
    """Every stack that was found, in natural order."""
    left_out: Mapping[Path, str] = field(default_factory=dict)
    """Pictures that belong to no stack, with the reason; where stacks are found by themselves."""

    @property
    def fused(self) -> tuple[StackRecord, ...]:
        """The stacks that this run fused."""
        return tuple(row for row in self.rows if row.status == FUSED and not row.unchanged)

    @property
    def unchanged(self) -> tuple[StackRecord, ...]:
        """The stacks that were done before."""
        return tuple(row for row in self.rows if row.unchanged)

    @property
    def failed(self) -> tuple[StackRecord, ...]:
        """The stacks that could not be fused."""
        return tuple(row for row in self.rows if row.status != FUSED)


def fuse_stacks(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    by: str = "folder",
    gap: float = DEFAULT_GAP,
    size: int | None = None,
    manifest: str | os.PathLike[str] | None = None,
    options: FuseOptions | None = None,
    maps: Collection[str] = (),
    ending: str | None = None,
    name: str = DEFAULT,
    scheduler: str | None = None,
    workers: int | None = None,
    memory_limit: int | None = None,
    patience: float = PATIENCE,
    overwrite: bool = False,
    watch: bool = False,
    settle: float = 10.0,
    stop_after: float | None = None,
    progress: BatchListener | None = None,
    notice: Callable[[str], None] | None = None,
) -> BatchResult:
    """Every stack below a folder, fused; a second run fuses only what is missing or has changed.

    Args:
        folder: The top of a tree of pictures.
        output: The folder for the results, made if need be. It may lie inside the other one.
        by: What makes a stack; see ``allfocus.batch.stacks.find_stacks``, also for the next three.
        gap: Seconds between shots that begin a new stack.
        size: Frames in each stack, where they are counted off.
        manifest: A CSV file that lists the stacks.
        options: How to fuse; by default as ``allfocus.fuse_files`` does.
        maps: What to write beside each result, out of depth, confidence, check, veil, decision and report.
        ending: Of the results, like ".tif"; by default that of the first frame where it can be written, else ".png".
        name: What results are called, without the ending; ``allfocus.batch.result_names.VALUES`` lists what can stand
            in braces.
        scheduler: Address or scheduler file of a running Dask scheduler; None starts a cluster on this machine.
        workers: Of the local cluster; None sizes it to the machine.
        memory_limit: Bytes for each local worker.
        patience: Seconds to wait for a scheduler that is gone.
        overwrite: Also replace results that this batch did not make, or that were edited since, when their stack must
            be fused; and begin in a folder that holds other things under our names.
        watch: Go on looking for new stacks until interrupted.
        settle: While watching, seconds without a change after which a stack is complete.
        stop_after: While watching, seconds without anything to do after which to end; None never does.
        progress: Called with where the batch stands, several times a second.
        notice: Called with a sentence about each picture that belongs to no stack.

    Raises:
        InputError: The folder, an option or the method cannot be used. (A bad stack is a row of the result instead.)
        OutputError: The output cannot be written.
        MissingDependencyError: Dask is not installed.

    Example:
        >>> import tempfile
        >>> import allfocus
        >>> scene = allfocus.render_scene("desk", frames=2, size=(64, 80))
        >>> with tempfile.TemporaryDirectory() as place:
        ...     Path(place, "shots/beetle").mkdir(parents=True)
        ...     for number, frame in enumerate(scene.frames):
        ...         _ = allfocus.write_image(frame, f"{place}/shots/beetle/{number}.png")
        ...     options = allfocus.FuseOptions(method="average", align=False)
        ...     first = fuse_stacks(f"{place}/shots", f"{place}/out", options=options, workers=1)
        ...     second = fuse_stacks(f"{place}/shots", f"{place}/out", options=options, workers=1)
        >>> [row.output for row in first.fused], len(second.fused), len(second.unchanged)
        (['beetle.png'], 0, 1)
    """
    # Imported here because it brings in the numerical libraries, which a wrong option should not wait for.
    from allfocus.fusion.method_choice import absolute_name

    chosen = options or FuseOptions()
    # Workers have folders of their own.
    chosen = replace(chosen, method=absolute_name(chosen.method))
    if chosen.dark is not None:
        chosen = replace(chosen, dark=os.path.abspath(chosen.dark))
    root, target = Path(folder).absolute(), Path(output).absolute()
    check_options(chosen, maps, settle)
    check_template(name)
    if not patience >= 0 or (stop_after is not None and not stop_after >= 0):
        raise InputError(
            "patience, and the time after which watching ends, are numbers of seconds, 0 or more", code="bad-option"
        )
    if os.path.realpath(target) == os.path.realpath(root):
        raise OutputError(f"{output}: is the folder of the frames, and results would be taken for frames; name another")

    left_out: dict[Path, str] = {}

    def leave_out(path: Path, reason: str) -> None:
        if left_out.get(path) != reason and notice is not None:
            notice(f"left out {path.relative_to(root)}: {reason}")
        left_out[path] = reason

    def look() -> list[Stack]:
        return find_stacks(
            root,
            by=by,
            gap=gap,
            size=size,
            manifest=manifest,
            skip=target,
            pairs=chosen.pairs,
            on_left_out=leave_out,
        )

    stacks = look()
    if not stacks and not watch and left_out:
        path, reason = next(iter(left_out.items()))
        raise InputError(
            f"none of its {len(left_out)} pictures belongs to a stack; the first: {path.name}: {reason}",
            where=folder,
            hint="find stacks by folder, by time or by number",
            code="too-few-frames",
        )
    if not stacks and not watch:
        cures = ["check the folder", "{watch=on} to wait"]
        cure = ["name an output that ends in .zarr or .tif"] if is_zarr(root) else cures
        raise InputError("no pictures were found below it", where=folder, hint=cure, code="no-such-file")
    inputs = [Path(manifest)] if manifest is not None else []
    pages = [target / name for name in (SUMMARY_NAME, SHEET_NAME, FILE_NAME)]
    InputFiles([*inputs, *(frame for stack in stacks for frame in stack.frames)]).refuse(pages)
    prepare_output(target, overwrite=overwrite)
    check_ending(target, ending, chosen)
    with BatchManifest(target).opened() as records:
        run = _BatchRun(
            root,
            target,
            chosen,
            tuple(maps),
            ending,
            records,
            name=name,
            inputs=inputs,
            overwrite=overwrite,
            progress=progress,
        )
        cluster = None
        try:
            if not watch:
                run.plan(stacks)
            if watch or run.tasks:
                with Cluster(scheduler, workers=workers, memory_limit=memory_limit, patience=patience) as cluster:
                    try:
                        if watch:
                            run.watch(cluster, look, settle=settle, stop_after=stop_after)
                        else:
                            run.fuse_all(cluster)
                    except KeyboardInterrupt:
                        run.take(cluster.collect_finished())
                        raise
            run.tell(None)
        finally:
            run.write_summary()
    taken = {frame for stack in stacks for frame in stack.frames}
    return replace(run.result(), left_out={path: why for path, why in left_out.items() if path not in taken})


class _BatchRun:
    """The state of one run: what was found, what has been given to the cluster, and what has come back."""

    def __init__(
        self,
        root: Path,
        target: Path,
        options: FuseOptions,
        kinds: tuple[str, ...],
        ending: str | None,
        records: BatchManifest,
        *,
        name: str,
        inputs: Sequence[Path],
        overwrite: bool,
        progress: BatchListener | None,
    ) -> None:
        self.rows: dict[str, StackRecord] = {}
        self.tasks: dict[str, StackTask] = {}
        self._root, self._target, self._options, self._ending = root, target, options, ending
        self._kinds, self._name = kinds, name
        self._software = software_key(options.method)
        settings = {**options.settings(), "maps": sorted(kinds)}
        if options.dark is not None:
            settings["dark"] = [options.dark, frame_states([Path(options.dark)], root)]
        self._key = settings_key(settings, self._software)
        self._records = records
        self._overwrite = overwrite
        self._progress = progress or (lambda state: None)
        self._latest: list[StackRecord] = []
        self._owners: dict[str, str] = {}
        self._inputs = InputFiles(inputs)
        self._protected: set[Path] = set()
        self._stuck: list[Stack] = []
        self._trouble = ""
        self._began = time.monotonic()

    def plan(self, stacks: Sequence[Stack]) -> None:
        """Decides for each stack whether it is done, cannot be fused, or becomes a task."""
        planned = []
        self.protect(stacks)
        tasks = {stack.name: self._task(stack) for stack in stacks}
        for task in tasks.values():  # results before maps, so that it is the maps that have to give way
            self._owners.setdefault(name_key(task.output), task.name)
        for stack in stacks:
            task = tasks[stack.name]
            states = frame_states(stack.frames, self._root)
            known = self._records.records.get(stack.name)
            own = files_of_stack(self._target, stack.name, known)
            valid = (
                still_valid(known, stack.frames, states, self._key) if known and known.output == task.output else None
            )
            reason = stack.problem or self._clash(task) or self._refusal(task, own)
            there = os.path.exists(task.target) and all(os.path.exists(path) for path in task.maps.values())
            if valid is not None and there and not self._clash(task):
                if valid != known:
                    planned.append(valid)
                self._note(replace(valid, unchanged=True), quiet=True)
            elif reason:
                self._note(StackRecord(stack.name, FAILED, task.output, inputs=states, error=reason))
            else:
                files = as_states(own)
                self.tasks[stack.name] = task if self._overwrite else replace(task, replaceable=files)
                planned.append(
                    StackRecord(
                        stack.name,
                        PLANNED,
                        task.output,
                        inputs=states,
                        settings_key=self._key,
                        maps=tuple(sorted({*(known.maps if known else ()), *task.map_names})),
                        files=files,
                    )
                )
        # Written before any work begins, so that a run that is killed knows its own half of the results again.
        self._records.append(planned)

    def protect(self, stacks: Iterable[Stack]) -> None:
        """Counts the frames of all stacks as inputs, which no stack may replace."""
        new = {frame for stack in stacks for frame in stack.frames} - self._protected
        self._protected |= new
        self._inputs.add(new)

    def _task(self, stack: Stack) -> StackTask:
        ending = self._ending or default_ending(stack.frames[0])
        label = name_result(self._name, stack, self._options.method)
        return StackTask(
            name=stack.name,
            frames=tuple(map(str, stack.frames)),
            root=str(self._root),
            folder=str(self._target),
            output=label + ending,
            label=Path(label).name,
            options=self._options,
            settings_key=self._key,
            kinds=self._kinds,
            software=self._software,
        )

    def _clash(self, task: StackTask) -> str:
        """Why a file of this stack is already that of another one; empty when none is."""
        for name in (task.output, *task.map_names):
            owner = self._owners.setdefault(name_key(name), task.name)
            if owner != task.name:
                return (
                    f"{name}: is a file of the stack {owner} too; rename one of the two stacks, or leave out the maps"
                )
        return ""

    def _refusal(self, task: StackTask, own: OwnFiles) -> str:
        """Why a file that is there already may not be replaced; empty when all may, or are not there."""
        for name in task.files:
            if self._target / name in self._inputs:
                return f"{self._target / name}: is a frame of this batch and will not be replaced; rename the stack"
        return "" if self._overwrite else refuse_foreign(self._target, task.files, own)

    def fuse_all(self, cluster: Cluster) -> None:
        """Has every task done."""
        for name, task in self.tasks.items():
            cluster.submit(name, fuse_stack, task)
        while cluster.waiting:
            self.take(cluster.collect(0.25))
            self.tell(cluster)

    def watch(
        self, cluster: Cluster, look: Callable[[], list[Stack]], *, settle: float, stop_after: float | None
    ) -> None:
        """Has the stacks fused that become complete, until interrupted or until nothing has happened for a while."""
        settled = SettledStacks(self._root, settle=settle)
        pause = min(1.0, max(0.05, settle / 4))
        busy = time.monotonic()
        written, stale = busy, False
        while True:
            ready = settled.ready(self._look_again(look), time.monotonic(), busy=lambda name: name in self.tasks)
            self._stuck = settled.stuck
            if ready:
                self.plan(ready)
                for stack in ready:
                    if stack.name in self.tasks:
                        cluster.submit(stack.name, fuse_stack, self.tasks[stack.name])
            outcomes = cluster.collect(pause)
            self.take(outcomes)
            self.tell(cluster)
            now = time.monotonic()
            if ready or outcomes or cluster.waiting or settled.unsettled:
                busy = now
            stale = stale or bool(ready or outcomes)
            if stale and now - written > SECONDS_BETWEEN_SUMMARIES:
                self.write_summary()
                written, stale = now, False
            if stop_after is not None and now - busy >= stop_after:
                return
            if not cluster.waiting:
                time.sleep(pause)

    def _look_again(self, look: Callable[[], list[Stack]]) -> Iterable[Stack]:
        """What the folder holds now; nothing, with the reason kept, while it cannot be looked through."""
        self._trouble = ""
        try:
            found = look()
            self.protect(found)
            return found
        except InputError as error:
            self._trouble = str(error)
            return []

    def take(self, outcomes: dict[str, StackRecord | Lost]) -> None:
        """Writes down what has come back from the cluster."""
        rows = []
        for name, outcome in outcomes.items():
            task = self.tasks.pop(name)
            if isinstance(outcome, Lost):
                outcome = StackRecord(name, FAILED, task.output, settings_key=self._key, error=outcome.reason)
            planned = self._records.records.get(name)
            outcome = replace(outcome, maps=planned.maps if planned else task.map_names)
            own = {**files_of_stack(self._target, name, planned), **from_states(outcome.files)}
            outcome = replace(outcome, files=as_states(own))
            if not outcome.inputs:
                states = frame_states([Path(frame) for frame in task.frames], self._root)
                outcome = replace(outcome, inputs=states)
            rows.append(outcome)
        self._records.append(rows)
        for row in rows:
            remove_receipt(self._target, row.stack)
            self._note(row)

    def _note(self, row: StackRecord, *, quiet: bool = False) -> None:
        self.rows[row.stack] = row
        if not quiet:
            self._latest.append(row)

    def tell(self, cluster: Cluster | None) -> None:
        """Says where the batch stands."""
        rows = self.rows.values()
        unchanged = sum(row.unchanged for row in rows)
        latest, self._latest = tuple(self._latest), []
        self._progress(
            BatchProgress(
                found=len(self.rows) + len(self.tasks.keys() - self.rows.keys()),
                unchanged=unchanged,
                fused=sum(row.status == FUSED for row in rows) - unchanged,
                failed=sum(row.status == FAILED for row in rows),
                waiting=len(self.tasks),
                workers=cluster.worker_count if cluster else 0,
                dashboard=cluster.dashboard if cluster else "",
                restarts=cluster.restarts if cluster else 0,
                seconds=time.monotonic() - self._began,
                trouble=self._trouble,
                latest=latest,
            )
        )

    def write_summary(self) -> None:
        """Writes the table and the contact sheet of what is known now."""
        rows = self.result().rows
        if not self._overwrite:
            set_aside_edited(self._target, self._records.pages)
        with replacing_only(OwnResults(None, self._note_pages)):
            write_summary(self._target, rows)
            write_contact_sheet(self._target, rows, title=self._root.name or str(self._root))

    def _note_pages(self, states: dict[Path, FileState]) -> None:
        for path, state in states.items():
            self._records.note_page(path.name, state)

    def result(self) -> BatchResult:
        """The rows of all stacks: those that were not reached are failures that say so."""
        rows = list(self.rows.values())
        rows += [
            StackRecord(name, FAILED, task.output, error="not fused yet: the run was stopped; run it again to go on")
            for name, task in self.tasks.items()
            if name not in self.rows
        ]
        rows += [
            StackRecord(stack.name, FAILED, "", frame_states(stack.frames, self._root), error=stack.problem)
            for stack in self._stuck
            if stack.name not in self.rows and stack.name not in self.tasks
        ]
        return BatchResult(self._target, tuple(sorted(rows, key=lambda row: natural_order(row.stack))))
