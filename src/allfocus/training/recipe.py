"""A training run described in TOML: what network, which photos, how shuffled, how long.

Recipes travel between people as weights do, so every number has an end: what could only fail, hang or fill the memory
in the middle of a run is refused before it begins.
"""

import dataclasses
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from allfocus.errors import InputError
from allfocus.network.checkpoint import make_config
from allfocus.network.contract import SIZE_MULTIPLE
from allfocus.network.paper_network import PaperNetworkConfig
from allfocus.network.stack_network import StackNetworkConfig
from allfocus.training.blurring import LARGEST_KERNEL
from allfocus.training.photos import LARGEST_SIDE
from allfocus.training.recipe_tables import build, insert, parse_value, read_table, short
from allfocus.training.samples import KERNELS
from allfocus.training.shuffle_recipe import KINDS, ShuffleRecipe

MOST_ITERATIONS = 10**9
"""Of a run, and of all that is counted in iterations."""
MOST_SAMPLES = 100_000
"""Per iteration, or per validation."""
MOST_PIXELS = 2**28
"""Of all sources of an iteration: 3 GB, and much more with what is remembered for the gradients."""
MOST_LEVELS, MOST_SOURCES = 8, 64
"""Scales and sources of a sample."""
Network = Literal[
    "ips", "ips-paper", "cnn", "ifcnn", "swinfusion", "u2fusion", "mff-gan", "fusion2void", "stackmff-v4"
]  # fmt: skip
FOR_STACKS = ("ips", "ifcnn", "stackmff-v4")
"""Networks that take more than two sources."""


@dataclass(frozen=True)
class DataRecipe:
    """Which photos are used and how they are cut."""

    licence_classes: tuple[str, ...] = ()
    """Classes of SOURCES.csv to use; empty uses every photo."""
    held_out_every: int = 18
    """Every so-many-th photo is kept for validation only; 0 holds none out."""
    crop: int = 128
    """Side of a training crop in pixels, a multiple of 16."""
    batch: int = 1
    """Samples per iteration and process, for the smallest number of sources; of more sources fewer samples."""
    levels: tuple[int, ...] = (1,)
    """Numbers of scales to draw from, at which a sample is decided one after the other; only `ips`."""


@dataclass(frozen=True)
class OptimizerRecipe:
    """How the weights are updated."""

    iterations: int = 1_000_000
    """Length of the run (paper: 1,000,000 with a batch of 1)."""
    constant_share: float = 0.5
    """Share of the iterations at the full learning rate; it then falls linearly to zero (paper: 0.5)."""
    warm_up: int = 0
    """Iterations over which the learning rate rises from zero."""
    learning_rate: float = 1e-4
    """Step size of Adam (paper: 0.0001)."""
    gradient_clip: float = 1.0
    """Largest norm of the gradient; 0 does not clip."""
    label_share: float = 0.1
    """Weight of the classification loss of the stack network."""
    average: float = 0.0
    """Decay per iteration of the running average of the weights (EMA); 0 keeps none."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the convolutions and projections on a GPU; the scan is float32 always."""


@dataclass(frozen=True)
class LogRecipe:
    """What a run writes on its way, counted in iterations."""

    report_every: int = 50
    """Progress and CSV rows; also how often the loss is checked to be a number."""
    checkpoint_every: int = 1000
    """The state from which the run can be resumed."""
    validate_every: int = 2000
    """Validation on held-out photos, and preview pictures; 0 does none."""
    validation_samples: int = 32
    """Samples per validation."""


@dataclass(frozen=True)
class Recipe:
    """Everything that defines a training run."""

    network: Network = "ips"
    """Which network is trained; those of the literature have the sizes and the loss of their papers."""
    seed: int = 0
    """Everything random follows from it."""
    stack_network: StackNetworkConfig = field(default_factory=StackNetworkConfig)
    """Sizes of `ips`."""
    paper_network: PaperNetworkConfig = field(default_factory=PaperNetworkConfig)
    """Sizes of `ips-paper`."""
    data: DataRecipe = field(default_factory=DataRecipe)
    """Photos."""
    shuffle: ShuffleRecipe = field(default_factory=ShuffleRecipe)
    """Inter-image shuffling."""
    optimizer: OptimizerRecipe = field(default_factory=OptimizerRecipe)
    """Optimisation."""
    log: LogRecipe = field(default_factory=LogRecipe)
    """Logs and checkpoints."""

    @property
    def network_config(self) -> StackNetworkConfig | PaperNetworkConfig | None:
        """The sizes of the network that is trained; None for those of the literature, which have one size."""
        if self.network == "ips":
            return self.stack_network
        return self.paper_network if self.network == "ips-paper" else None


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Returns the recipe in a TOML file, with ``section.key=value`` overrides applied.

    The name alone of a recipe that ships, such as ``ips``, means that one. A recipe may name another with
    ``base = "other.toml"`` (relative to itself) and then lists only what differs.

    Raises:
        InputError: the file is missing or broken; a key is unknown (the nearest valid one is named) or of the wrong
            type; a value could only fail in the middle of a run.
    """
    path = _find_recipe(path)
    table = read_table(path)
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator:
            raise InputError(
                "write it as key=value, for example optimizer.iterations=1000",
                where=f"the change {short(override)}",
                code="bad-option",
            )
        insert(table, key.split("."), parse_value(value), where=f"the change {short(override)}")
    recipe = build(Recipe, table, str(path))
    _check(recipe, str(path))
    return recipe


def learning_rate(recipe: Recipe, iteration: int) -> float:
    """Returns the learning rate of an iteration: a warm-up, constant, then linear to zero (paper, section III-C)."""
    optimizer = recipe.optimizer
    constant = optimizer.constant_share * optimizer.iterations
    fade = 1.0 if iteration < constant else (optimizer.iterations - iteration) / (optimizer.iterations - constant)
    rise = min(1.0, (iteration + 1) / optimizer.warm_up) if optimizer.warm_up else 1.0
    return optimizer.learning_rate * min(fade, rise)


def recipe_from_dictionary(table: dict[str, Any]) -> Recipe:
    """Returns the recipe that :func:`dataclasses.asdict` turned into `table`, as stored with a run.

    Raises:
        InputError: it is none.
    """
    if not isinstance(table, dict):
        raise InputError("stored recipe: is no table")
    return build(Recipe, table, "stored recipe")


def shipped_recipes() -> dict[str, Path]:
    """Returns the recipes that ship, by name: ours, and those of networks of the literature.

    Example:
        >>> [name for name in shipped_recipes() if name.startswith("i")]
        ['ifcnn', 'ips', 'ips-paper', 'ips-paper-million', 'ips-paper-short']
    """
    package = Path(__file__).resolve().parents[1]
    # An installed package has them inside; in a checkout they lie at its top.
    folder = next((place for place in (package / "recipes", package.parents[1] / "recipes") if place.is_dir()), package)
    found = [*folder.glob("*.toml"), *(path for path in folder.glob("rivals/*.toml") if path.stem != "base")]
    return {path.stem: path for path in sorted(found, key=lambda path: path.stem)}


def _find_recipe(path: Path) -> Path:
    """Returns the file of a recipe, which may be given by the name of one that ships."""
    path = Path(path)
    if path.suffix or path.name != str(path) or os.path.exists(path):
        return path
    shipped = shipped_recipes()
    if path.name not in shipped:
        raise InputError(
            "is neither a file nor a recipe that ships", where=path, hint=f"those are {', '.join(shipped)}",
            code="no-such-file",
        )  # fmt: skip
    return shipped[path.name]


def _check(recipe: Recipe, where: str) -> None:
    """Refuses combinations that could only fail later, in the middle of a run."""
    data, optimizer, log = recipe.data, recipe.optimizer, recipe.log
    config, stack = recipe.network_config, recipe.stack_network
    levels = bool(data.levels) and 1 <= min(data.levels) <= max(data.levels) <= MOST_LEVELS
    # The coarsest level is a multiple of what the network asks for.
    multiple = SIZE_MULTIPLE * 2 ** (max(data.levels) - 1) if levels else 1
    pixels = data.batch * data.crop**2 * min(recipe.shuffle.sources, default=2)
    divides = stack.heads >= 1 and stack.token_channels % stack.heads == 0
    rules = (
        ("data.crop", data.crop, data.crop >= 32 and data.crop % 16 == 0, "a multiple of 16, 32 or more"),
        ("data.crop", data.crop, data.crop <= LARGEST_SIDE, f"{LARGEST_SIDE} or less, as photos are reduced to that"),
        ("data.batch", data.batch, 1 <= data.batch <= MOST_SAMPLES, f"from 1 to {MOST_SAMPLES}"),
        ("data.batch", data.batch, pixels <= MOST_PIXELS, f"less with crops of {data.crop} pixels: {pixels} in all"),
        ("data.levels", short(list(data.levels)), levels, f"numbers from 1 to {MOST_LEVELS}"),
        ("data.crop", data.crop, data.crop % multiple == 0, f"a multiple of {multiple} for so many levels"),
        ("data.held_out_every", data.held_out_every, data.held_out_every >= 0, "0 or more"),
        ("data.held_out_every", data.held_out_every, data.held_out_every != 1, "2 or more, or 0 to hold none out"),
        (
            "optimizer.iterations",
            optimizer.iterations,
            1 <= optimizer.iterations <= MOST_ITERATIONS,
            f"from 1 to {MOST_ITERATIONS}",
        ),
        ("optimizer.constant_share", optimizer.constant_share, 0 <= optimizer.constant_share <= 1, "in 0..1"),
        ("optimizer.warm_up", optimizer.warm_up, 0 <= optimizer.warm_up <= MOST_ITERATIONS, "0 or more, and a count"),
        ("optimizer.gradient_clip", optimizer.gradient_clip, 0 <= optimizer.gradient_clip < math.inf, "0 or more"),
        ("optimizer.label_share", optimizer.label_share, 0 <= optimizer.label_share < math.inf, "0 or more"),
        ("optimizer.learning_rate", optimizer.learning_rate, 0 < optimizer.learning_rate < math.inf, "above 0"),
        ("optimizer.average", optimizer.average, 0 <= optimizer.average < 1, "0 or more, and below 1"),
        ("log.report_every", log.report_every, log.report_every >= 1, "1 or more"),
        ("log.checkpoint_every", log.checkpoint_every, log.checkpoint_every >= 1, "1 or more"),
        ("log.validate_every", log.validate_every, log.validate_every >= 0, "0 or more"),
        (
            "log.validation_samples",
            log.validation_samples,
            1 <= log.validation_samples <= MOST_SAMPLES,
            f"from 1 to {MOST_SAMPLES}",
        ),
        ("mamba_blocks", 0, config is None or config.mamba_blocks or config.res_blocks, "1 or more without ResBlocks"),
        ("stack_network.heads", stack.heads, divides, "a divisor of token_channels"),
    )
    for key, value, kept, wanted in rules:
        if not kept:
            raise InputError(f"{where}: {key} = {value}; it must be {wanted}")
    try:
        if config is not None:
            make_config(recipe.network, dataclasses.asdict(config))
    except ValueError as error:
        section = "stack_network" if recipe.network == "ips" else "paper_network"
        raise InputError(f"{where}: {section}: {error}") from error
    _check_shuffle(recipe, where)


def _check_shuffle(recipe: Recipe, where: str) -> None:
    shuffle = recipe.shuffle
    smallest, largest = shuffle.smallest_kernel, shuffle.largest_kernel
    if not 3 <= smallest <= largest <= LARGEST_KERNEL or smallest % 2 == 0 or largest % 2 == 0:
        raise InputError(
            f"{where}: shuffle.smallest_kernel = {smallest}, shuffle.largest_kernel = {largest}; "
            f"both must be odd, and 3 <= smallest <= largest <= {LARGEST_KERNEL}"
        )
    if not 0 <= shuffle.swap_probability <= 1:
        raise InputError(f"{where}: shuffle.swap_probability = {shuffle.swap_probability}; it must be in 0..1")
    known = (*KERNELS, "median")
    if not shuffle.filters or not set(shuffle.filters) <= set(known):
        raise InputError(f"{where}: shuffle.filters = {short(list(shuffle.filters))}; valid are {', '.join(known)}")
    if "median" in shuffle.filters and (len(shuffle.filters) > 1 or shuffle.mask == "multi-scale"):
        raise InputError(f"{where}: the median filter can only be used alone, and not with mask = multi-scale")
    paired = recipe.network not in FOR_STACKS or shuffle.mask != "multi-scale"
    if paired and set(shuffle.sources) != {2}:
        raise InputError(
            f"{where}: shuffle.sources = {short(list(shuffle.sources))}; pair masks, and all networks but "
            f"{', '.join(FOR_STACKS)}, take [2] only"
        )
    if min(shuffle.sources, default=0) < 2 or max(shuffle.sources) > MOST_SOURCES:
        found = short(list(shuffle.sources))
        raise InputError(f"{where}: shuffle.sources = {found}; give numbers from 2 to {MOST_SOURCES}")
    shares = [float(getattr(shuffle, kind)) for kind in KINDS]
    if not all(0 <= share < math.inf for share in shares) or not 0 < sum(shares) < math.inf:
        raise InputError(f"{where}: the shares shuffle.{', '.join(KINDS)} must be 0 or more, and not all 0")
    for name in ("borders", "jpeg", "noise", "exposure", "ended"):
        if not 0 <= getattr(shuffle, name) <= 1:
            raise InputError(f"{where}: shuffle.{name} = {getattr(shuffle, name)}; it must be in 0..1")
