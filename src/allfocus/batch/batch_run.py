"""One run of a batch: what was found, what is done, what is with the cluster, and what has come back."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from allfocus.batch.checks import is_own_place
from allfocus.batch.cluster import Cluster, Lost
from allfocus.batch.manifest import (
    FAILED,
    FUSED,
    PLANNED,
    BatchManifest,
    StackRecord,
    frame_states,
    still_valid,
)
from allfocus.batch.outcome import BatchListener, BatchProgress, BatchResult
from allfocus.batch.own_files import (
    OwnFiles,
    as_states,
    files_of_stack,
    from_states,
    refuse_foreign,
    remove_receipt,
    set_aside_edited,
)
from allfocus.batch.stack_task import StackTask, fuse_stack
from allfocus.batch.stacks import Stack
from allfocus.batch.summary import write_contact_sheet, write_summary
from allfocus.batch.watching import SettledStacks
from allfocus.errors import InputError
from allfocus.files.protection import FileState, InputFiles, OwnResults, name_key, replacing_only
from allfocus.images.listing import natural_order

SECONDS_BETWEEN_SUMMARIES = 10.0
"""While watching, how often the summary and the contact sheet are written at most."""


class BatchRun:
    """The state of one run: what was found, what has been given to the cluster, and what has come back.

    It keeps the books and does not ask how stacks are fused: that is sealed in their tasks.

    Args:
        root: The folder of the stacks.
        target: The folder for the results.
        records: What earlier runs wrote down there.
        task_of: Makes the task of a stack that is complete.
        inputs: Files besides the frames that no result may replace.
        overwrite: Also replace what the batch did not make.
        progress: Called with where the run stands.
    """

    def __init__(
        self,
        root: Path,
        target: Path,
        records: BatchManifest,
        task_of: Callable[[Stack], StackTask],
        *,
        inputs: Sequence[Path],
        overwrite: bool,
        progress: BatchListener | None,
    ) -> None:
        self.rows: dict[str, StackRecord] = {}
        self.tasks: dict[str, StackTask] = {}
        self._root, self._target, self._records, self._task_of = root, target, records, task_of
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
        tasks = {stack.name: self._task_of(stack) for stack in stacks}
        for task in tasks.values():  # results before maps, so that it is the maps that have to give way
            self._owners.setdefault(name_key(task.output), task.name)
        for stack in stacks:
            task = tasks[stack.name]
            states = frame_states(stack.frames, self._root)
            known = self._records.records.get(stack.name)
            own = files_of_stack(self._target, stack.name, known)
            same_output = known is not None and known.output == task.output
            valid = still_valid(known, stack.frames, states, task.settings_key) if same_output else None
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
                        settings_key=task.settings_key,
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

    def _clash(self, task: StackTask) -> str:
        """Why a file of this stack is already that of another one, or of the batch; empty when none is."""
        if is_own_place(task.output):
            return f"{task.output}: a batch keeps files of its own there; rename the stack, or name results otherwise"
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
                outcome = StackRecord(name, FAILED, task.output, settings_key=task.settings_key, error=outcome.reason)
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
