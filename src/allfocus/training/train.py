"""The training loop: photos -> shuffle -> network -> loss -> checkpoint, readable from top to bottom.

Runs on a CPU, on one GPU, or under ``torchrun`` on several. Iteration k of process r always sees the same samples
(they follow from seed, k and r alone), so a run that was killed goes on from its last checkpoint as if nothing had
happened; on a CPU bit for bit.
"""

import dataclasses
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from allfocus.errors import InputError, TrainingError
from allfocus.network.checkpoint import build_network, read_tensors, save_network, save_tensors
from allfocus.training.photos import PhotoBank, load_photos
from allfocus.training.recipe import Recipe, learning_rate, recipe_from_dictionary
from allfocus.training.run_log import RunLog
from allfocus.training.samples import Batch, draw_batch
from allfocus.training.stepping import Stepper
from allfocus.training.validation import validate, write_preview

STATE_FILE = "state.safetensors"
WEIGHTS_FILE = "weights.safetensors"


@dataclass(frozen=True)
class TrainingProgress:
    """How a run stands, given to the progress callback."""

    iteration: int
    iterations: int
    loss: float
    """Mean loss since the last report."""
    images_per_second: float
    """Samples (not sources) per second over all processes."""
    seconds_left: float
    message: str = ""
    """What else there is to say: skipped files, validation figures."""


def train(
    photos: Path,
    run: Path,
    *,
    recipe: Recipe,
    resume: bool = False,
    progress: Callable[[TrainingProgress], None] | None = None,
    device: str | None = None,
    stop_after_seconds: float | None = None,
) -> Path:
    """Trains a network on a folder of photos and returns the file with its weights.

    Args:
        photos: folder of sharp photos.
        run: folder for checkpoints, logs and previews; must be new unless `resume`.
        recipe: what to do.
        resume: go on from the last checkpoint in `run`.
        progress: called every `log.report_every` iterations.
        device: ``cpu`` or ``cuda``; by default the GPU if there is one.
        stop_after_seconds: stop there with a checkpoint, for machines that are lent by the hour.

    Raises:
        InputError: no usable photo; a run folder that exists without `resume`, or does not fit the recipe.
        TrainingError: the loss is no longer a finite number; the last checkpoint is kept.
    """
    rank, world = _join_processes()
    place = _choose_device(device, rank)
    tell = progress if progress is not None and rank == 0 else lambda _: None
    margin = 2 * 15 + 2 * 12  # what the largest filter and the largest movement need around a crop
    options: dict[str, Any] = {"smallest_side": recipe.data.crop + margin, "device": place}
    every = recipe.data.held_out_every
    bank = load_photos(
        photos,
        licence_classes=recipe.data.licence_classes,
        part=(every, every - 1, False) if every else None,
        **options,
    )
    if bank.skipped:
        tell(TrainingProgress(0, recipe.optimizer.iterations, math.nan, 0, 0, f"skipped {'; '.join(bank.skipped)}"))
    held_out = bank
    if every and recipe.log.validate_every:
        held_out = load_photos(
            photos, licence_classes=recipe.data.licence_classes, part=(every, every - 1, True), **options
        )
    torch.manual_seed(recipe.seed)
    network = build_network(recipe.stack_network if recipe.network == "ips" else recipe.paper_network).to(place)
    stepper = Stepper(network, recipe, world=world)
    first, spent = _prepare_run(run, recipe, stepper, resume=resume, rank=rank)
    if first == recipe.optimizer.iterations:
        return run / WEIGHTS_FILE
    log = RunLog(run, first) if rank == 0 else None
    began = reported = time.monotonic()
    total, counted = torch.zeros((), device=place), 0
    for iteration in range(first, recipe.optimizer.iterations):
        batch = _draw(bank, recipe, iteration, rank)
        total += stepper.step(batch, iteration)
        counted += 1
        done = iteration + 1
        last = done == recipe.optimizer.iterations
        now = time.monotonic()
        out_of_time = stop_after_seconds is not None and now - began > stop_after_seconds
        if done % recipe.log.report_every == 0 or last or out_of_time:
            loss = float(total) / counted
            now = time.monotonic()
            if not math.isfinite(loss):
                raise TrainingError(
                    f"{run}: the loss is {loss} at iteration {done}; lower optimizer.learning_rate "
                    f"({recipe.optimizer.learning_rate:g}) or set optimizer.gradient_clip, then resume from the last checkpoint"
                )
            speed = counted * recipe.data.batch * world / max(now - reported, 1e-9)
            left = (recipe.optimizer.iterations - done) * (now - began) / (done - first)
            tell(TrainingProgress(done, recipe.optimizer.iterations, loss, speed, left))
            if log is not None:
                log.write_loss(done, spent + now - began, loss, learning_rate(recipe, iteration), speed)
            reported = now
            total.zero_()
            counted = 0
        validating = recipe.log.validate_every and (done % recipe.log.validate_every == 0 or last)
        if log is not None and validating:
            with stepper.averaged() as averaged:
                figures = validate(averaged, held_out, recipe)
                write_preview(averaged, held_out, recipe, run / "previews" / f"{done:08d}.png")
            log.write_validation(done, figures)
            text = ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
            tell(TrainingProgress(done, recipe.optimizer.iterations, math.nan, 0, 0, f"validation: {text}"))
        if rank == 0 and (done % recipe.log.checkpoint_every == 0 or last or out_of_time):
            _save(run, recipe, stepper, done, spent + time.monotonic() - began, bank)
        if out_of_time:
            break
    if world > 1:
        torch.distributed.barrier()
    return run / WEIGHTS_FILE


def _draw(bank: PhotoBank, recipe: Recipe, iteration: int, rank: int) -> Batch:
    seed = (recipe.seed << 48) + (rank << 40) + iteration
    return draw_batch(bank, recipe.shuffle, batch=recipe.data.batch, crop=recipe.data.crop, seed=seed)


def _join_processes() -> tuple[int, int]:
    """Returns rank and number of processes; joins them when started by ``torchrun``."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return int(os.environ.get("RANK", "0")), world


def _choose_device(device: str | None, rank: int) -> torch.device:
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        if not torch.cuda.is_available():
            raise InputError("device cuda was asked for, but torch finds no GPU; use cpu")
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device(device)


def _prepare_run(run: Path, recipe: Recipe, stepper: Stepper, *, resume: bool, rank: int) -> tuple[int, float]:
    """Makes the run folder, or restores the state in it; returns the first iteration and the seconds spent so far."""
    state = run / STATE_FILE
    if resume:
        tensors, header = read_tensors(state)
        stored = recipe_from_dictionary(header["recipe"])
        if (stored.network, stored.stack_network, stored.paper_network) != (
            recipe.network,
            recipe.stack_network,
            recipe.paper_network,
        ):
            raise InputError(f"{state}: holds a network of other sizes than the recipe; resume with the recipe it had")
        stepper.restore(tensors)
        return int(header["iteration"]), float(header["seconds"])
    if state.exists():
        raise InputError(f"{run}: holds a run already; add --resume to go on, or name another folder")
    if rank == 0:
        (run / "previews").mkdir(parents=True, exist_ok=True)
        (run / "recipe.json").write_text(json.dumps(dataclasses.asdict(recipe), indent=2) + "\n", encoding="utf-8")
    return 0, 0.0


def _save(run: Path, recipe: Recipe, stepper: Stepper, iteration: int, seconds: float, bank: PhotoBank) -> None:
    header = {"iteration": iteration, "seconds": seconds, "recipe": dataclasses.asdict(recipe)}
    with stepper.averaged() as averaged:
        provenance = {
            "recipe": dataclasses.asdict(recipe),
            "iteration": iteration,
            "seconds": round(seconds, 1),
            "photos": len(bank.names),
            "torch": torch.__version__,
            "device": torch.cuda.get_device_name() if bank.device.type == "cuda" else "cpu",
        }
        save_network(run / WEIGHTS_FILE, averaged, provenance)
    # Last, because it is what a resumed run starts from.
    save_tensors(run / STATE_FILE, stepper.state(), header)


