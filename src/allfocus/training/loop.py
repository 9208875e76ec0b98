"""The training loop: photos -> shuffle -> network -> loss -> checkpoint, readable from top to bottom.

Runs on a CPU, on one GPU, or under ``torchrun`` on several. Iteration k of process r always sees the same samples
(they follow from seed, k and r alone), so a run that was killed goes on from its last checkpoint as if nothing had
happened; on a CPU bit for bit.
"""

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from allfocus.errors import InputError, TrainingError
from allfocus.files.run_folder import check_run_folder
from allfocus.training.photos import load_banks
from allfocus.training.recipe import Recipe, learning_rate
from allfocus.training.run_files import RunFiles
from allfocus.training.run_log import RunLog
from allfocus.training.samples import margin_around
from allfocus.training.stepping import Stepper
from allfocus.training.trainees import build_trainee
from allfocus.training.validation import validate, write_preview


@dataclass(frozen=True)
class TrainingProgress:
    """How a run stands, given to the progress callback."""

    iteration: int
    """Iterations done, of this run and of those it resumed."""
    iterations: int
    """Iterations of the whole run."""
    loss: float
    """Mean loss since the last report; not a number when this report is only a message."""
    images_per_second: float
    """Samples (not sources) per second over all processes."""
    seconds_left: float
    """Estimate from the mean speed of this run so far."""
    message: str = ""
    """What else there is to say: skipped files, validation figures."""


def train(
    photos: Path,
    run: Path,
    *,
    recipe: Recipe,
    resume: bool = False,
    progress: Callable[[TrainingProgress], None] | None = None,
    device: str | None = "auto",
    stop_after_seconds: float | None = None,
    start: Path | None = None,
) -> Path:
    """Trains a network on a folder of photos and returns the file with its weights.

    Args:
        photos: folder of sharp photos.
        run: folder for checkpoints, logs and previews; must be new unless `resume`.
        recipe: what to do.
        resume: go on from the last checkpoint in `run`.
        progress: called every `log.report_every` iterations, and with what else there is to say.
        device: ``auto`` (also None) for the GPU if there is one, ``cpu`` or ``cuda``.
        stop_after_seconds: stop there with a checkpoint, for machines that are lent by the hour.
        start: weights of an earlier run to begin with instead of random ones; not used when resuming.

    Raises:
        InputError: no usable photo; a run folder that exists without `resume`, or does not fit the recipe.
        TrainingError: the loss is no longer a finite number; the last checkpoint is kept.
    """
    place = _choose_device(device)
    rank, world = _join_processes(place)
    tell = progress if progress is not None and rank == 0 else lambda _: None
    iterations, every = recipe.optimizer.iterations, recipe.log
    folder = RunFiles(run, recipe)
    if rank == 0:  # the others would see what this one has begun
        check_run_folder(run, resume=resume)  # before hundreds of photos are read
    bank, held_out = load_banks(
        photos,
        # What the largest filter and the largest movement need around a crop.
        smallest_side=recipe.data.crop + 2 * margin_around(recipe.shuffle),
        licence_classes=recipe.data.licence_classes,
        held_out_every=recipe.data.held_out_every,
        validates=every.validate_every > 0,
        device=place,
    )
    if skipped := bank.skipped + (held_out.skipped if held_out is not bank else []):
        tell(_message(0, iterations, f"skipped {'; '.join(skipped)}"))
    stepper = Stepper(build_trainee(recipe, start).to(place), recipe, bank, rank=rank, world=world)
    first, spent = 0, 0.0
    if resume:
        tensors, first, spent = folder.read_checkpoint()
        stepper.restore(tensors)
    elif rank == 0:
        folder.make()
    if first >= iterations:
        return folder.weights
    log = RunLog(run, first) if rank == 0 else None
    meter = _LossMeter(first, iterations, recipe.data.batch * world, place)
    for done in range(first + 1, iterations + 1):
        meter.add(stepper.step(done - 1))
        last = done == iterations
        out_of_time = stop_after_seconds is not None and _agree(meter.seconds() > stop_after_seconds, world, place)
        if done % every.report_every == 0 or last or out_of_time:
            report = meter.report(done)
            _check_loss(report.loss, run, recipe, done)
            tell(report)
            if log is not None:
                seconds, rate = spent + meter.seconds(), learning_rate(recipe, done - 1)
                log.write_loss(done, seconds, report.loss, rate, report.images_per_second)
        if log is not None and every.validate_every and (done % every.validate_every == 0 or last):
            with stepper.averaged() as averaged:
                figures = validate(averaged, held_out, recipe)
                write_preview(averaged, held_out, recipe, folder.previews / f"{done:08d}.png")
            log.write_validation(done, figures)
            told = ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
            tell(_message(done, iterations, f"validation: {told}"))
        if rank == 0 and (done % every.checkpoint_every == 0 or last or out_of_time):
            folder.save(stepper, bank, iteration=done, seconds=spent + meter.seconds())
        if out_of_time:
            break
    if world > 1:
        torch.distributed.barrier()
    return folder.weights


class _LossMeter:
    """Adds up losses on the device, so that no step waits for its loss, and measures the time they took."""

    def __init__(self, first: int, iterations: int, samples: int, place: torch.device) -> None:
        self.first = first
        self.iterations = iterations
        self.samples = samples
        self.began = self.reported = time.monotonic()
        self.total, self.counted = torch.zeros((), device=place), 0

    def add(self, loss: Tensor) -> None:
        """Takes in the loss of one iteration."""
        self.total += loss
        self.counted += 1

    def seconds(self) -> float:
        """Returns the seconds since the run began or was resumed."""
        return time.monotonic() - self.began

    def report(self, done: int) -> TrainingProgress:
        """Returns how the run stands and begins a new mean."""
        loss = float(self.total) / self.counted  # waits for the device, so the clock is read after it
        now = time.monotonic()
        speed = self.counted * self.samples / max(now - self.reported, 1e-9)
        left = (self.iterations - done) * (now - self.began) / (done - self.first)
        self.reported = now
        self.total.zero_()
        self.counted = 0
        return TrainingProgress(done, self.iterations, loss, speed, left)


def _message(done: int, iterations: int, text: str) -> TrainingProgress:
    return TrainingProgress(done, iterations, math.nan, 0, 0, text)


def _choose_device(device: str | None) -> torch.device:
    if device in (None, "auto"):
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("cpu", "cuda"):
        raise InputError(f"device {device}: training runs on cpu or cuda")
    if device == "cuda":
        if not torch.cuda.is_available():
            raise InputError("device cuda was asked for, but torch finds no GPU; use cpu")
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device(device)


def _join_processes(place: torch.device) -> tuple[int, int]:
    """Returns rank and number of processes; joins them when started by ``torchrun``."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl" if place.type == "cuda" else "gloo")
    return int(os.environ.get("RANK", "0")), world


def _agree(verdict: bool, world: int, place: torch.device) -> bool:
    """Returns whether any process says so: one that stopped alone would leave the others waiting for its gradients."""
    if world == 1:
        return verdict
    flag = torch.tensor(float(verdict), device=place)
    torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
    return bool(flag)


def _check_loss(loss: float, run: Path, recipe: Recipe, done: int) -> None:
    if not math.isfinite(loss):
        raise TrainingError(
            f"{run}: the loss is {loss} at iteration {done}; lower optimizer.learning_rate "
            f"({recipe.optimizer.learning_rate:g}) or set optimizer.gradient_clip, then resume from the last checkpoint"
        )
