"""Small samples; one thread, because on tensors this small more threads only cost."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from allfocus.training.photos import PhotoBank, load_photos


@pytest.fixture(autouse=True)
def _one_thread(one_thread):
    pass


def write_photos(folder: Path, count: int, size: tuple[int, int] = (208, 240)) -> None:
    """Writes PNG pictures of coloured blocks; each has its number as its first pixel."""
    random = np.random.default_rng(count)
    for number in range(count):
        blocks = (random.random((size[0] // 8, size[1] // 8, 3)) * 255).astype(np.uint8)
        picture = blocks.repeat(8, axis=0).repeat(8, axis=1)
        picture[0, 0] = number
        Image.fromarray(picture).save(folder / f"photo_{number:02d}.png")


@pytest.fixture(scope="session")
def photo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five small photos; tests must not write into it."""
    folder = tmp_path_factory.mktemp("photos")
    write_photos(folder, 5)
    return folder


@pytest.fixture(scope="session")
def bank(photo_folder: Path) -> PhotoBank:
    """The five photos in memory; large enough for rendered stacks of 64 pixels."""
    return load_photos(photo_folder, smallest_side=100)
