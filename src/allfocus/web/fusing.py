"""The long work of a studio: fusing stacks and trying other methods, each in a process that can be ended any time."""

import contextlib
import logging
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allfocus.errors import OutputError
from allfocus.fusion.method_choice import require_method
from allfocus.stack.options import FuseOptions
from allfocus.stack.plan import cut_slabs
from allfocus.web.events import LIBRARY
from allfocus.web.fusion_queue import FusionQueue, Work
from allfocus.web.job_records import (
    ACTIVE,
    CANCELLED,
    DONE,
    FAILED,
    QUEUED,
    RUNNING,
    Alternative,
    Frame,
    Job,
    KeptResult,
    Run,
)
from allfocus.web.job_views import command_to_copy, find_problems
from allfocus.web.kept_results import MOST_RESULTS, fused_run, keep_open_result, slab_run
from allfocus.web.layers import layer_bytes
from allfocus.web.processes import TaskError, WorkerProcess
from allfocus.web.queue_file import KeptQueue, KeptWork, read_queue, waits_for, write_queue
from allfocus.web.refusals import Refusal
from allfocus.web.store import remove_unnamed, size_of
from allfocus.web.work_folder import IN_A_JOB, remove_known

if TYPE_CHECKING:
    from allfocus.web.studio import Studio

MOST_NOTICES = 500
SLABS = "slabs"
"""The name under which slabs that are being made stand among the alternatives."""

NOT_BESIDE = "slabs and other methods beside a result are for pictures; start a stack of several channels again instead"

_log = logging.getLogger("allfocus.web")


def _kept(work: Work) -> KeptWork:
    return KeptWork(work.job_id, work.method, work.alternative, work.slabs)


def _require_frames(job: Job, run: Run) -> None:
    """Refuse work beside a result whose frames are not all there, or that has several channels."""
    if any(job.frame(name) is None for name in run.frames):
        raise Refusal(409, "a frame of the result was removed; start the job again first")
    if run.shown:
        raise Refusal(409, NOT_BESIDE)


class Fusions:
    """What runs and what waits for a studio's jobs."""

    def __init__(self, studio: "Studio") -> None:
        self._studio = studio
        settings = studio.settings
        kept = read_queue(settings.work)
        self._queue = FusionQueue(
            self._carry_out,
            workers=settings.workers,
            waiting=settings.jobs_waiting,
            moved=studio.publish_library,
            keep=lambda paused, line: write_queue(settings.work, paused, [_kept(work) for work in line]),
            line=self._restore(kept),
            paused=kept.paused,
        )

    def begin(self) -> None:
        """Begin to work, once all parts of the studio are there."""
        self._queue.begin()

    @property
    def queue(self) -> FusionQueue:
        """The line of work."""
        return self._queue

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return self._queue.waiting

    def _restore(self, kept: KeptQueue) -> list[Work]:
        """What waited when the server ended, in its order; jobs that were not written down any more come last."""
        store = self._studio.store
        with store.lock:
            line = [each for each in kept.waiting if waits_for(store.jobs.get(each.job_id), each)]
            named = {each.job_id for each in line if not each.alternative}
            unnamed = [job for job in store.jobs.values() if job.state == QUEUED and job.id not in named]
            for job in sorted(unnamed, key=lambda job: job.changed):
                line.append(KeptWork(job.id, (job.options or FuseOptions()).method))
            for job in store.jobs.values():
                own = {each.method for each in line if each.alternative and each.job_id == job.id}
                job.alternatives = [item for item in job.alternatives if item.state != QUEUED or item.method in own]
        return [
            Work(each.job_id, each.method, each.alternative, self._new_process(), slabs=each.slabs) for each in line
        ]

    def _new_process(self) -> WorkerProcess:
        return WorkerProcess(self._studio.settings.memory_bytes)

    def end(self, job_id: str) -> None:
        """End all work of a job that is being deleted."""
        self._queue.cancel(job_id)

    def close(self) -> None:
        """End all work."""
        self._queue.close()

    def _complete(self, options: FuseOptions, frames: Sequence[Frame] = ()) -> FuseOptions:
        """The options of a client with what the server decides: device, limits, and how the result is kept."""
        settings = self._studio.settings
        # 8-bit frames are fused into 16 bits too: blending and alignment give values between the levels.
        depth = 32 if any(frame.bit_depth == 32 for frame in frames) else 16
        # Packing would take longer than the rest of the writing, and downloads are packed anyway.
        own: dict[str, Any] = {"bit_depth": depth, "compression": "none"} if frames else {}
        return replace(options, device=settings.device, max_pixels=settings.pixels, **own)

    def start(self, job_id: str, options: FuseOptions) -> dict[str, Any]:
        """The job, now waiting to be fused."""
        with self._studio.store.lock:
            job = self._studio.job(job_id)
            if job.state in ACTIVE:
                raise Refusal(409, "the job is running already; cancel it first")
            if any(item.state in ACTIVE for item in job.alternatives):
                raise Refusal(409, "another method runs for this job; wait for it or cancel it")
            if len(job.runs()) >= MOST_RESULTS:
                raise Refusal(409, f"the stack has {MOST_RESULTS} results; delete some of them for good first")
            included = [frame for frame in job.frames if frame.included]
            if len(included) < 2:
                raise Refusal(400, f"{len(included)} frames are included; a stack needs at least two")
            problems = find_problems(job.frames)
            for frame in included:
                if frame.id in problems and not options.skip_bad:
                    raise Refusal(400, f"{frame.name} {problems[frame.id]}")
            included = [frame for frame in included if frame.id not in problems]
            if len(included) < 2:
                raise Refusal(400, "no two frames have the same size; a stack needs at least two that do")
            require_method(options.method, **self._complete(options).demands(), listed=True)
            first = included[0]
            # The file of the result and its layer; the maps, at one or two bytes a pixel, fit into the third.
            self._studio.room.require(3 * layer_bytes(first.width, first.height, first.channels, 16))
            # Its thread waits for the lock, so it sees the job as it is saved below.
            self._queue.submit(Work(job_id, options.method, process=self._new_process()))
            try:
                self._studio.store.queue(job, options)
            except OutputError:
                self._queue.cancel(job_id)
                raise
            return self._studio.show(job)

    def start_alternative(self, job_id: str, method: str) -> dict[str, Any]:
        """The job, with another method waiting to be run on its frames."""
        with self._studio.store.lock:
            job = self._studio.job(job_id)
            if job.run is None or job.state in ACTIVE:
                raise Refusal(409, "another method can be tried when the job is done")
            require_method(method, device=self._studio.settings.device, listed=True)
            _require_frames(job, job.run)
            if method == job.run.method:
                raise Refusal(409, f"the result was made with {method} already; choose another method")
            if any(item.method == method and item.state != FAILED for item in job.alternatives):
                raise Refusal(409, f"{method} was tried already, or is being tried")
            self._studio.room.require(0)
            self._queue.submit(Work(job_id, method, alternative=True, process=self._new_process()))
            job.alternatives = [item for item in job.alternatives if item.method != method]
            job.alternatives.append(Alternative(method, QUEUED))
            self._studio.store.save(job)
            return self._studio.show(job)

    def start_slabs(self, job_id: str, size: int, overlap: int) -> dict[str, Any]:
        """The job, with slabs of its open result waiting to be made, each a result of its own."""
        with self._studio.store.lock:
            job = self._studio.job(job_id)
            if job.run is None or job.state in ACTIVE or any(item.state in ACTIVE for item in job.alternatives):
                raise Refusal(409, "slabs can be made when the job is done and nothing else runs for it")
            _require_frames(job, job.run)
            spans = cut_slabs(len(job.run.frames), size, overlap)
            if len(job.runs()) + len(spans) > MOST_RESULTS:
                raise Refusal(409, f"with {len(spans)} slabs the stack had more than {MOST_RESULTS} results")
            run = job.run
            each = 2 * layer_bytes(run.width, run.height, run.channels, run.working_depth)
            self._studio.room.require(len(spans) * each)
            self._queue.submit(Work(job_id, SLABS, True, self._new_process(), slabs=(size, overlap)))
            job.alternatives = [item for item in job.alternatives if item.method != SLABS]
            job.alternatives.append(Alternative(SLABS, QUEUED))
            self._studio.store.save(job)
            return self._studio.show(job)

    def cancel(self, job_id: str) -> dict[str, Any]:
        """The job, with all its work ended."""
        with self._studio.store.lock:
            job = self._studio.job(job_id)
            if job.state not in ACTIVE and not any(item.state in ACTIVE for item in job.alternatives):
                raise Refusal(409, "nothing runs for this job")
            for work in self._queue.cancel(job_id):
                self._conclude(job, work, CANCELLED, None)
            return self._studio.show(job)

    def _carry_out(self, work: Work) -> None:
        """Do one piece of long work in the thread that minds it."""
        try:
            if work.slabs is not None:
                self._run_slabs(work, *work.slabs)
            elif work.alternative:
                self._run_alternative(work)
            else:
                self._run_fusion(work)
        except Exception:  # nothing that goes wrong for one job may end the thread that serves the others
            _log.exception("a job failed in the server")
            with self._studio.store.lock, contextlib.suppress(Exception):
                self._conclude(self._studio.job(work.job_id), work, FAILED, "the server made a mistake; see its log")

    def _run_fusion(self, work: Work) -> None:
        run_name = f"run-{secrets.token_hex(4)}"
        with self._studio.store.lock:
            job = self._studio.store.jobs.get(work.job_id)
            if job is None:
                return
            if work.cancelled:  # between leaving the line and arriving here
                self._conclude(job, work, CANCELLED, None)
                return
            self._studio.store.begin(job)
            # Left out here and not by the library, which would measure all frames by the first.
            unfit = find_problems(job.frames)
            frames = [frame for frame in job.frames if frame.included and frame.id not in unfit]
            options = job.options or FuseOptions()
        folder = self._studio.store.folder(job.id)
        paths = [str(self._studio.store.frame_path(job, frame)) for frame in frames]
        values = {
            "paths": paths,
            "names": [frame.name for frame in frames],
            "folder": str(folder / run_name),
            "layers": str(folder / "layers" / run_name),
            "options": self._complete(options, frames).settings(),
        }
        task = "fuse_channel_job" if frames[0].channel_names else "fuse_job"
        reply = self._run_task(job, work, task, values)
        if reply is None:
            self._tidy(job)
            return
        by_path = dict(zip(paths, frames, strict=True))
        with self._studio.store.lock:
            if work.cancelled or not self._studio.store.holds(job):
                if self._studio.store.holds(job):
                    self._conclude(job, work, CANCELLED, None)
                self._tidy(job)
                return
            fused = [by_path[path] for path in reply.pop("sources")]
            left_out = {
                **{frame.name: unfit[frame.id] for frame in job.frames if frame.included and frame.id in unfit},
                **reply.pop("left_out"),
            }
            keep_open_result(job)
            job.revision += 1
            own = {
                "left_out": left_out,
                "command": command_to_copy(frames, options),
                "bytes": size_of(folder / run_name),
            }
            job.run = fused_run(job, folder / run_name, fused, options, reply | own)
            self._conclude(job, work, DONE, None)
            self._tidy(job)
            self._studio.cache.add(folder / "layers" / run_name / "result")

    def _begin_beside(self, work: Work) -> tuple[Job, Run, dict[str, Any]] | None:
        """The job, its open run and what every task beside it is told; None when there is nothing to do any more."""
        with self._studio.store.lock:
            job = self._studio.store.jobs.get(work.job_id)
            if job is None:
                return None
            if job.run is None or work.cancelled:
                self._conclude(job, work, CANCELLED, None)
                return None
            self._set_alternative(job, work.method, RUNNING, None)
            self._studio.store.save(job)
            run = job.run
            frames = [frame for frame in map(job.frame, run.frames) if frame is not None]
            return job, run, {
                "paths": [str(self._studio.store.frame_path(job, frame)) for frame in frames],
                "names": [frame.name for frame in frames],
                "run": str(self._studio.store.folder(job.id) / run.folder),
                "working_depth": run.working_depth,
                "white": run.white,
            }  # fmt: skip

    def _run_slabs(self, work: Work, size: int, overlap: int) -> None:
        begun = self._begin_beside(work)
        if begun is None:
            return
        job, run, values = begun
        folder = self._studio.store.folder(job.id)
        spans = cut_slabs(len(run.frames), size, overlap)
        names = [f"run-{secrets.token_hex(4)}" for _ in spans]
        chosen = replace(run.options or FuseOptions(), method=run.method, crop=run.crop)
        values |= {
            "spans": spans,
            "folders": [str(folder / name) for name in names],
            "layers": [str(folder / "layers" / name / "result") for name in names],
            "options": self._complete(chosen).settings(),
        }
        reply = self._run_task(job, work, "fuse_slabs", values)
        with self._studio.store.lock:
            if reply is not None and self._studio.store.holds(job) and not work.cancelled:
                for name, (first, last) in zip(names, spans, strict=True):
                    job.revision += 1
                    slab = slab_run(run, name, first, last, job, size_of(folder / name))
                    job.others = [*job.others, KeptResult(slab)]
                job.alternatives = [item for item in job.alternatives if item.method != SLABS]
                self._studio.store.save(job)
                self._studio.progress.pop(job.id, None)
                for name in names:
                    self._studio.cache.add(folder / "layers" / name / "result")
            elif reply is not None and self._studio.store.holds(job):
                self._conclude(job, work, CANCELLED, None)
            self._tidy(job)

    def _run_alternative(self, work: Work) -> None:
        begun = self._begin_beside(work)
        if begun is None:
            return
        job, run, values = begun
        target = self._studio.store.folder(job.id) / run.folder
        values |= {
            "layer": str(target / "alternatives" / f"method-{work.method}"),
            "options": self._complete(FuseOptions(method=work.method, crop=run.crop)).settings(),
        }
        reply = self._run_task(job, work, "fuse_alternative", values)
        with self._studio.store.lock:
            if reply is not None and self._studio.store.holds(job):
                run.bytes = size_of(target)
                self._conclude(job, work, CANCELLED if work.cancelled else DONE, None)
            self._tidy(job)

    def _tidy(self, job: Job) -> None:
        """Delete what a run that was cut short left behind, and all of a job that was deleted while it ran."""
        folder = self._studio.store.folder(job.id)
        with self._studio.store.lock, contextlib.suppress(OSError):
            if self._studio.store.holds(job):
                remove_unnamed(folder, job)
            else:
                remove_known(folder, IN_A_JOB)
                folder.rmdir()

    def _run_task(self, job: Job, work: Work, name: str, values: dict[str, Any]) -> dict[str, Any] | None:
        """What the task returned, or None when it failed or was cancelled, which is then noted."""

        def tell(message: dict[str, Any]) -> None:
            if "progress" in message:
                shown = {**message["progress"], **({"method": work.method} if work.alternative else {})}
                self._studio.progress[job.id] = shown
                self._studio.bus.publish(job.id, "progress", shown)
                self._studio.bus.publish(LIBRARY, "progress", {"id": job.id, **shown})
            elif "notice" in message and len(job.notices) < MOST_NOTICES:
                with self._studio.store.lock:
                    job.notices.append(message["notice"])
                self._studio.bus.publish(job.id, "notice", {"text": message["notice"]})

        try:
            return work.process.run(name, values, tell=tell) or {}
        except TaskError as error:
            with self._studio.store.lock:
                if self._studio.store.holds(job) and not self._queue.closing:
                    if work.cancelled:
                        self._conclude(job, work, CANCELLED, None)
                    else:
                        self._conclude(job, work, FAILED, self._studio.told(error.error), error.error.code)
            return None

    def _conclude(self, job: Job, work: Work, state: str, error: str | None, code: str | None = None) -> None:
        self._studio.progress.pop(job.id, None)
        if work.alternative:
            if state == CANCELLED:
                job.alternatives = [item for item in job.alternatives if item.method != work.method]
            else:
                self._set_alternative(job, work.method, state, error, code)
            self._studio.store.save(job)
        else:
            self._studio.store.conclude(job, state, error, code)

    def _set_alternative(self, job: Job, method: str, state: str, error: str | None, code: str | None = None) -> None:
        for item in job.alternatives:
            if item.method == method:
                item.state, item.error, item.error_code = state, error, code
