"""Where the authors' weights and results lie, and pairs of Lytro to fuse."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

ROOT = Path(__file__).resolve().parents[3]
Pair = list[NDArray[np.float32]]


@pytest.fixture(scope="session")
def rival_files() -> Path:
    """The folder with authors' weights and results, which are not part of this repository."""
    folder = Path(os.environ.get("ALLFOCUS_RIVALS") or ROOT.parent / "shared" / "rivals")
    if not folder.is_dir():
        pytest.skip(f"no weights of other people at {folder}; set ALLFOCUS_RIVALS to the folder that holds them")
    return folder


@pytest.fixture(scope="session")
def lytro(shared_data: Path) -> Callable[[int], Pair]:
    """Loads a pair of Lytro, (520, 520, 3) each."""

    def load(number: int) -> Pair:
        paths = [shared_data / "eval" / "lytro" / f"lytro-{number:02d}-{letter}.jpg" for letter in "AB"]
        for path in paths:
            if not path.is_file():
                pytest.skip(f"no {path.name} below the folder that ALLFOCUS_DATA names")
        return [np.asarray(Image.open(path), np.float32) / np.float32(255) for path in paths]

    return load


@pytest.fixture(scope="session")
def decibels() -> Callable[[NDArray[np.number], NDArray[np.number]], float]:
    """The peak signal-to-noise ratio of two pictures in 0..255."""

    def measure(first: NDArray[np.number], second: NDArray[np.number]) -> float:
        error = np.mean((np.asarray(first, np.float64) - np.asarray(second, np.float64)) ** 2)
        return float(10 * np.log10(255**2 / error)) if error else float("inf")

    return measure
