"""What the tests of the classical methods share: stacks with a known answer, and the authors' pictures."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image


@dataclass(frozen=True)
class Stack:
    frames: list[NDArray[np.float32]]
    truth: NDArray[np.float32]
    """The all-in-focus picture that the frames were blurred from."""
    decision: NDArray[np.int16]
    """The index of the frame that is sharp at each pixel."""


def _stack(*, count: int, size: tuple[int, int], colour: bool) -> Stack:
    """Vertical stripes of a textured picture, each sharp in one frame and blurred in the others."""
    generator = np.random.default_rng(7)
    shape = (*size, 3) if colour else size
    truth = cv2.GaussianBlur(generator.random(shape, dtype=np.float32), (0, 0), 1.0)
    truth = np.clip(0.5 + 2 * (truth - 0.5), 0, 1)
    blurred = cv2.GaussianBlur(truth, (0, 0), 3.0)
    decision = np.broadcast_to(np.arange(size[1]) * count // size[1], size).astype(np.int16)
    frames = []
    for index in range(count):
        frame = blurred.copy()
        frame[decision == index] = truth[decision == index]
        frames.append(frame)
    return Stack(frames, truth, decision)


@pytest.fixture(scope="session")
def pair() -> Stack:
    """Two colour frames of 128 x 192: the left half is sharp in the first, the right half in the second."""
    return _stack(count=2, size=(128, 192), colour=True)


@pytest.fixture(scope="session")
def grey_pair() -> Stack:
    """The same in one channel."""
    return _stack(count=2, size=(128, 192), colour=False)


@pytest.fixture(scope="session")
def triple() -> Stack:
    """Three colour frames of 128 x 240."""
    return _stack(count=3, size=(128, 240), colour=True)


@dataclass(frozen=True)
class AuthorsPicture:
    frames: list[NDArray[np.float32]]
    fused: NDArray[np.uint8]
    """As the authors fused and saved it: Lytro as JPEG quality 75, 4:2:0."""


@pytest.fixture(scope="session")
def lytro_fused_by_authors(shared_data: Path, shared_metrics: Path) -> Callable[[int, str], AuthorsPicture]:
    """Loads a Lytro pair and the picture that a method's authors made of it.

    The pictures are those of the MFIFB benchmark (github.com/xingchenzhang/MFIFB at commit a3cc510), see images.csv.
    """

    def load(number: int, method: str) -> AuthorsPicture:
        sources = [shared_data / "eval" / "lytro" / f"lytro-{number:02d}-{letter}.jpg" for letter in "AB"]
        fused = shared_metrics / "images" / f"lytro_{number:02d}_{method}.jpg"
        for path in (*sources, fused):
            if not path.is_file():
                pytest.skip(f"no {path.name}; it lies in the folder that ALLFOCUS_DATA names, or in metrics beside it")
        frames = [np.asarray(Image.open(path), np.float32) / np.float32(255) for path in sources]
        return AuthorsPicture(frames, np.asarray(Image.open(fused)))

    return load


@pytest.fixture(scope="session")
def save_as_authors_did() -> Callable[[NDArray[np.float32]], NDArray[np.uint8]]:
    """Rounds to 8 bits and goes through JPEG of quality 75 with 4:2:0 colour."""

    def save(image: NDArray[np.float32]) -> NDArray[np.uint8]:
        memory = io.BytesIO()
        Image.fromarray(np.rint(image * 255).astype(np.uint8)).save(memory, "JPEG", quality=75, subsampling=2)
        return np.asarray(Image.open(memory))

    return save
