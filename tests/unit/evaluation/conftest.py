"""Two small sets to run benchmarks on: pairs with a truth, and stacks without."""

from pathlib import Path

import pytest

from allfocus.images.writing import write_image
from allfocus.scenes.rendering import render_scene


@pytest.fixture(scope="session")
def small_sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``real-mff`` (3 pairs of 72x96 with truth) and ``folder`` (1 stack of 3); read only."""
    root = tmp_path_factory.mktemp("sets")
    for part in ("imageA", "imageB", "Fusion"):
        (root / "real-mff" / part).mkdir(parents=True)
    for number, name in enumerate(("desk", "slope", "insect"), start=1):
        scene = render_scene(name, frames=2, size=(72, 96))
        pictures = {"imageA": scene.frames[0], "imageB": scene.frames[1], "Fusion": scene.truth}
        for part, picture in pictures.items():
            write_image(picture, root / "real-mff" / part / f"{number}.png")
    stack = root / "folder" / "stack"
    stack.mkdir(parents=True)
    for number, frame in enumerate(render_scene("desk", frames=3, size=(72, 96)).frames):
        write_image(frame, stack / f"frame_{number}.png")
    return root
