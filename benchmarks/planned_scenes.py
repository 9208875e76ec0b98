"""Rendered scenes with the plan of their fusion, for benchmarks that try other settings of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from allfocus.fusion.areas import Maps, fuse_area
from allfocus.fusion.frame_source import MemorySource
from allfocus.fusion.planning import Plan, plan_fusion
from allfocus.scenes.rendering import Scene, render_scene

Description = tuple[str, tuple[int, int], int, int]
"""Name, height and width, frames, seed."""
SCENES: tuple[Description, ...] = (
    ("foliage", (750, 1000), 8, 5),
    ("insect", (600, 800), 8, 5),
    ("desk", (480, 640), 6, 5),
    ("circuit", (480, 640), 6, 5),
    ("slope", (480, 640), 10, 5),
    ("legs", (600, 800), 16, 3),
    ("foliage", (1200, 1600), 8, 6),
)


@dataclass(frozen=True)
class PlannedScene:
    """A scene, and how it would be fused."""

    name: str
    scene: Scene
    source: MemorySource
    plan: Plan

    def fuse(self, plan: Plan) -> Maps:
        """The whole picture by a plan."""
        height, width = plan.size
        return fuse_area(plan, self.source, (slice(0, height), slice(0, width)), device="cpu")


def planned_scenes(scenes: Iterable[Description] = SCENES) -> Iterator[PlannedScene]:
    """Each scene, rendered and planned when its turn comes."""
    for name, size, frames, seed in scenes:
        scene = render_scene(name, frames=frames, size=size, seed=seed)
        source = MemorySource([np.asarray(frame, np.float32) for frame in scene.frames])
        yield PlannedScene(f"{name} {size[1]}x{size[0]}", scene, source, plan_fusion(source, device="cpu"))
