"""Integers become 0..1, and 0..1 integers, in one place: casts elsewhere truncate, and forget what white is."""

from pathlib import Path

import pytest

import allfocus

HOME = Path(allfocus.__file__).parent
MODULES = sorted(path for path in HOME.rglob("*.py") if path.parent != HOME / "images")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(HOME)))
def test_only_images_asks_how_large_an_integer_can_be(path):
    assert "iinfo(" not in path.read_text(encoding="utf-8"), "use from_integers and to_integers of images/conversion.py"


def test_images_itself_does():
    assert any("iinfo(" in path.read_text(encoding="utf-8") for path in (HOME / "images").glob("*.py"))
