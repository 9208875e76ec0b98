"""What we want to reach against each peer on cost, memory and quality, and where we stand."""

from collections.abc import Sequence
from dataclasses import dataclass

from allfocus.benchmarking.inputs import StackRecipe
from allfocus.benchmarking.summary import ModeSummary


@dataclass(frozen=True)
class Goal:
    """A line that is to be met, and where we stand."""

    text: str
    """What is compared."""
    value: float
    """Measured."""
    limit: float
    """Allowed."""
    at_most: bool
    """Whether the value must not exceed the limit, or must not fall below it."""

    @property
    def met(self) -> bool:
        """Whether it is."""
        return self.value <= self.limit if self.at_most else self.value >= self.limit


def check_goals(rows: Sequence[ModeSummary], recipes: Sequence[StackRecipe]) -> list[Goal]:
    """Return where we stand on cost, memory and quality against every peer that was measured."""
    goals = []
    for recipe in recipes:
        here = [row for row in rows if row.set == recipe.name]
        own = next((row for row in here if row.peer == "allfocus"), None)
        if own is None or own.cpu_seconds is None:
            continue
        for row in here:
            if row.peer != "allfocus" and row.cpu_seconds is not None:
                goals += _cost_goals(recipe, own, row) + _quality_goals(recipe, own, row)
    return goals


def _cost_goals(recipe: StackRecipe, own: ModeSummary, peer: ModeSummary) -> list[Goal]:
    """Return the goals on cost, which are set for the 12-megapixel stacks."""
    limits = {("stack", "focus-stack"): 1.0, ("stack", "enfuse"): 2.0, ("moved", "focus-stack"): 1.2}
    limit = limits.get((recipe.name, peer.peer))
    if limit is None or peer.own_ratio is None:
        return []
    goals = [Goal(f"{recipe.name}: CPU seconds, times those of {peer.mode}", peer.own_ratio, limit, True)]
    if (recipe.name, peer.peer) == ("stack", "focus-stack") and own.peak_megabytes and peer.peak_megabytes:
        share = own.peak_megabytes / peer.peak_megabytes
        goals.append(Goal(f"{recipe.name}: peak memory, times that of {peer.mode}", share, 1.0, True))
    return goals


def _quality_goals(recipe: StackRecipe, own: ModeSummary, peer: ModeSummary) -> list[Goal]:
    if own.quality is None or peer.quality is None:
        return []
    ahead = own.quality.psnr - peer.quality.psnr
    least = 2.0 if recipe.name == "occlusion" else 0.0
    return [Goal(f"{recipe.name}: dB above {peer.mode}", ahead, least, False)]
