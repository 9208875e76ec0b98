"""The stacks that costs are measured on: rendered once, kept in a folder, each with its exact truth."""

import dataclasses
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from allfocus.errors import InputError, OutputError
from allfocus.images.image import Image
from allfocus.images.writing import write_image
from allfocus.scenes.rendering import Scene, render_scene

QUICK_DIVISOR = 4
"""By which the sides of the pictures are divided for a quick run."""


@dataclass(frozen=True)
class StackRecipe:
    """One stack to measure on."""

    name: str
    """Name to ask for it by."""
    summary: str
    """What is in it, for the tables."""
    scene: str
    """A scene of the catalogue."""
    frames: int
    """How many."""
    size: tuple[int, int]
    """Height and width in pixels."""
    aperture: float | None = None
    """Strength of the blur as in ``render_scene``; None takes the scene's own."""
    breathing: float = 0.0
    """Growth of the picture from each frame to the next."""
    shake: float = 0.0
    """Largest shift of a frame in pixels; rotation moves the corners by up to as much again."""

    @property
    def moved(self) -> bool:
        """Whether the frames have to be aligned."""
        return self.breathing > 0 or self.shake > 0

    @property
    def megapixels(self) -> float:
        """Of one frame."""
        return self.size[0] * self.size[1] / 1e6


# The focus steps of "stack" and "large" are those of a careful photographer: half-way between two of them the blur has
# a radius of about one pixel, and a frame is blurred by 7 to 17 pixels at the other end of the stack.
_ALL = (
    StackRecipe("pair", "2 frames of 520x520, things on a table", "desk", 2, (520, 520), aperture=0.005),
    StackRecipe("occlusion", "8 x 3 MP, bright near leaves before dark bark", "foliage", 8, (1500, 2000)),
    StackRecipe("stack", "10 x 12 MP, one receding surface", "slope", 10, (3000, 4000), aperture=0.005),
    StackRecipe("large", "4 x 24 MP, one receding surface", "slope", 4, (4000, 6000), aperture=0.0015),
    StackRecipe(
        "moved",
        "the 10 x 12 MP moved: 0.2 % breathing a frame, shifts to 6 px, rotation",
        "slope",
        10,
        (3000, 4000),
        aperture=0.005,
        breathing=0.002,
        shake=6.0,
    ),
)

RECIPES: dict[str, StackRecipe] = {recipe.name: recipe for recipe in _ALL}
"""Every stack by its name."""


@dataclass(frozen=True)
class RenderedStack:
    """A stack on disk."""

    recipe: StackRecipe
    """What was rendered."""
    folder: Path
    """Holds nothing but the frames."""
    frames: tuple[Path, ...]
    """The files, nearest focus first."""
    truths: tuple[Path, ...]
    """Sharp everywhere, each on the pixel grid of one frame: the first, and for a moved stack the middle and the last.

    Tools choose different frames to align the others with. Each result is compared with the truth on the grid that it
    fits best, so that none is punished for its choice.
    """


def choose_recipes(names: tuple[str, ...], *, quick: bool = False) -> list[StackRecipe]:
    """Return the stacks of these names, or all of them for none; small ones for a quick run.

    Raises:
        InputError: There is no stack of that name.

    Example:
        >>> [recipe.size for recipe in choose_recipes(("pair",), quick=True)]
        [(130, 130)]
    """
    for name in names:
        if name not in RECIPES:
            raise InputError(f"there is no benchmark set {name!r}; choose from: {', '.join(RECIPES)}")
    chosen = [RECIPES[name] for name in dict.fromkeys(names)] or list(RECIPES.values())
    return [_smaller(recipe) for recipe in chosen] if quick else chosen


def _smaller(recipe: StackRecipe) -> StackRecipe:
    height, width = recipe.size
    return dataclasses.replace(
        recipe,
        size=(height // QUICK_DIVISOR, width // QUICK_DIVISOR),
        shake=recipe.shake / QUICK_DIVISOR,
        summary=f"{recipe.summary} (each side divided by {QUICK_DIVISOR})",
    )


def prepare_stack(recipe: StackRecipe, cache: Path, *, notice: Callable[[str], None] | None = None) -> RenderedStack:
    """Return the stack as files; it is rendered where the cache does not hold it yet.

    Args:
        recipe: What to render.
        cache: Folder that keeps rendered stacks between runs; a stack has a folder of its own in it.
        notice: Called with a sentence when something has to be rendered, which takes a while.

    Raises:
        OutputError: The cache cannot be written.
    """
    description = json.dumps(dataclasses.asdict(recipe), sort_keys=True)
    folder = cache / f"{recipe.name}-{hashlib.sha256(description.encode()).hexdigest()[:10]}"
    if not os.path.isdir(folder):
        if notice is not None:
            notice(f"rendering {recipe.name}: {recipe.summary}")
        _render(recipe, folder, description)
    frames, truths = sorted((folder / "frames").glob("*.png")), sorted(folder.glob("truth_*.png"))
    if len(frames) != recipe.frames or not truths:
        raise InputError(f"{folder}: does not hold the stack it should; delete it, and it will be rendered again")
    return RenderedStack(recipe, folder / "frames", tuple(frames), tuple(truths))


def _render(recipe: StackRecipe, folder: Path, description: str) -> None:
    """Render into a folder beside the final one, and rename it when all is there."""
    partial = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.partial")
    try:
        (partial / "frames").mkdir(parents=True)
        scene = _render_scene(recipe, aperture=recipe.aperture)
        for number, frame in enumerate(scene.frames):
            write_image(Image(frame, bit_depth=8), partial / "frames" / f"frame_{number:02d}.png")
        write_image(Image(scene.truth, bit_depth=8), partial / "truth_00.png")
        del scene
        if recipe.moved:
            # Without blur, a frame is the truth on its own grid: no resampling stands between a result and its score.
            sharp = _render_scene(recipe, aperture=0.0)
            for number in (recipe.frames // 2, recipe.frames - 1):
                write_image(Image(sharp.frames[number], bit_depth=8), partial / f"truth_{number:02d}.png")
        (partial / "recipe.json").write_text(description + "\n", encoding="utf-8")
        os.replace(partial, folder)
    except OSError as error:
        raise OutputError(
            f"cannot be written ({error.strerror or error})", where=folder, hint="{cache} to another folder"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _render_scene(recipe: StackRecipe, *, aperture: float | None) -> Scene:
    return render_scene(
        recipe.scene,
        frames=recipe.frames,
        size=recipe.size,
        aperture=aperture,
        breathing=recipe.breathing,
        shake=recipe.shake,
    )
