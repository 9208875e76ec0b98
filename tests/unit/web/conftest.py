"""A server in a thread of the tests, on a free port, with a small rendered stack to send to it."""

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from studio_server import StudioClient, running_server

from allfocus.web.settings import ServerSettings


def _encode(pixels: NDArray[Any]) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="session")
def run_server() -> Callable[[ServerSettings], contextlib.AbstractContextManager[StudioClient]]:
    """Runs a server with these settings and gives a client of it."""
    return running_server


@pytest.fixture(scope="session")
def encode() -> Callable[[NDArray[Any]], bytes]:
    """Makes a PNG file of uint8 pixels."""
    return _encode


@pytest.fixture(scope="session")
def frame_files(small_stack: list[NDArray[np.float32]]) -> list[bytes]:
    """The three frames of the small stack (128 x 96) as 8-bit PNG files."""
    return [_encode(np.rint(frame * 255).astype(np.uint8)) for frame in small_stack]


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioClient]:
    """A client of a server that many tests share; each makes jobs of its own."""
    with running_server(ServerSettings(work=tmp_path_factory.mktemp("studio") / "work")) as client:
        yield client
