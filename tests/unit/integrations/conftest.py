"""What the tests of the plug-ins share: the command `allfocus`, and frames with names that are hard to quote."""

from pathlib import Path

import pytest
from scripts import write_program

from allfocus.images.writing import write_image

ROOT = Path(__file__).resolve().parents[3]
NAMES = ('Käfer 9\'s "legs".tif', "Käfer 10's $HOME `x`.tif", "Käfer 11's; & ünd.tif")
"""In the order in which people count; a plain sort would put 9 last."""


@pytest.fixture
def program(tmp_path):
    """The program as it is installed, in a folder with a space."""
    path = tmp_path / "the program" / "allfocus"
    path.parent.mkdir()
    return write_program(path)


@pytest.fixture
def frames(tmp_path, small_stack):
    """The files of a stack, in its order."""
    folder = tmp_path / "Käfer's stack"
    folder.mkdir()
    return [write_image(frame, folder / name) for name, frame in zip(NAMES, small_stack, strict=True)]


@pytest.fixture
def expected(frames, tmp_path):
    """The pixels that fusing these frames gives."""
    import allfocus

    return allfocus.fuse_files(frames, tmp_path / "expected.tif").image
