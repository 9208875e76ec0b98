"""``allfocus train``: photos -> a trained network."""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allfocus.cli.examples import examples
from allfocus.cli.paths import PATH
from allfocus.cli.printing import echo, torch_device_option

if TYPE_CHECKING:
    from allfocus.training.loop import TrainingProgress


@click.command(
    short_help="Train a network on ordinary photos.",
    epilog=examples(
        "allfocus train PHOTOS --recipe ips -o run",
        "allfocus train PHOTOS --recipe ips -o run --resume",
    ),
)
@click.argument("photos", type=PATH)
@click.option(
    "--recipe",
    type=PATH,
    required=True,
    help="The TOML file that describes the run, or one that ships: ips, ips-paper, ifcnn ...",
)
@click.option("-o", "--output", "run", type=PATH, required=True, help="The folder of the run.")
@click.option("--resume", is_flag=True, help="Go on where a stopped run left off.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a value of the recipe; repeat it.")
@click.option("--start", type=PATH, help="Begin with these weights (.safetensors).")
@click.option("--stop-after", type=float, metavar="SECONDS", help="Stop then, with a checkpoint to resume from.")
@torch_device_option
def train(
    photos: Path,
    recipe: Path,
    run: Path,
    resume: bool,
    overrides: tuple[str, ...],
    start: Path | None,
    stop_after: float | None,
    device: str,
) -> None:
    """Train a network on the folder PHOTOS of ordinary, sharp photos."""
    import allfocus
    from allfocus.errors import InputError

    if stop_after is not None and not 0 <= stop_after < math.inf:
        raise InputError(f"stop_after = {stop_after}: give seconds, 0 or more", code="bad-option")
    chosen = allfocus.read_recipe(recipe, overrides)
    weights = allfocus.train(
        photos,
        run,
        recipe=chosen,
        resume=resume,
        progress=show_training,
        device=device,
        stop_after_seconds=stop_after,
        start=start,
    )
    if os.environ.get("RANK", "0") == "0":  # torchrun starts this command once for each process
        echo(str(weights))


def show_training(progress: "TrainingProgress") -> None:
    """Print how far a run is, as one line on stderr."""
    if progress.message:
        echo(f"{progress.iteration}/{progress.iterations}  {progress.message}", err=True)
        return
    hours, seconds = divmod(int(progress.seconds_left), 3600)
    left = f"{hours}:{seconds // 60:02d}:{seconds % 60:02d}"
    echo(
        f"{progress.iteration}/{progress.iterations}  loss {progress.loss:.5f}  "
        f"{progress.images_per_second:.1f} images/s  {left} left",
        err=True,
    )
