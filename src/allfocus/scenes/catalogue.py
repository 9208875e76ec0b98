"""The scenes that can be rendered, by name."""

from collections.abc import Callable
from dataclasses import dataclass

from allfocus.scenes.circuit import build_circuit
from allfocus.scenes.desk import build_desk
from allfocus.scenes.flat import build_flat
from allfocus.scenes.foliage import build_foliage
from allfocus.scenes.insect import build_insect
from allfocus.scenes.layers import Layer, Stage
from allfocus.scenes.legs import build_legs
from allfocus.scenes.slope import build_slope


@dataclass(frozen=True)
class SceneDescription:
    """One scene of the catalogue."""

    name: str
    """Name to ask for it by."""
    summary: str
    """What it shows and what it is hard for."""
    aperture: float
    """Blur radius in picture heights per unit of |1/focus - 1/distance| that suits the scene."""
    build: Callable[[Stage], list[Layer]]
    """Makes the layers for a pixel grid."""


_ALL = (
    SceneDescription(
        "desk", "a product photo: things on a slanted table, books behind, grass before", 0.022, build_desk
    ),
    SceneDescription("insect", "macro: thin hairs at many depths before a background, wide blur", 0.032, build_insect),
    SceneDescription("circuit", "inspection: parts in steps of height on a circuit board", 0.028, build_circuit),
    SceneDescription("slope", "one surface that recedes smoothly, nothing hides anything", 0.020, build_slope),
    SceneDescription("foliage", "bright leaves before dark bark: halos around near things", 0.022, build_foliage),
    SceneDescription("flat", "large areas without texture, where nothing tells focus", 0.022, build_flat),
    SceneDescription("legs", "thin legs and hairs over bright even ground, blurred to nothing", 0.0333, build_legs),
)

SCENES: dict[str, SceneDescription] = {scene.name: scene for scene in _ALL}
"""Every scene by its name."""
