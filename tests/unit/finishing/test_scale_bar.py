"""The bar is as long as it says, in the corner where it should be."""

import numpy as np
import pytest

from allfocus.errors import InputError
from allfocus.finishing.finish import CORNERS, Finish, ScaleBar
from allfocus.finishing.rendering import OutputSize, finish_image
from allfocus.finishing.scale_bar import bar_length, draw_bar
from allfocus.images.image import Image


def drawn(bar: ScaleBar, size: tuple[int, int] = (400, 300), **more: float) -> np.ndarray:
    grey = Image(np.full((size[1], size[0]), 0.5, np.float32))
    return finish_image(grey, Finish(scale_bar=bar), size=OutputSize(**more)).pixels


def bar_row(pixels: np.ndarray) -> np.ndarray:
    """How much of each pixel the bar covers, in its longest row."""
    cover = np.abs(pixels - 0.5) * 2
    return cover[cover.sum(axis=1).argmax()]


@pytest.mark.parametrize(("pixel_size", "length", "pixels"), [(0.5, 40, 80), (0.37, 50, 50 / 0.37), (2, None, 50)])
def test_the_bar_has_its_length(pixel_size: float, length: float | None, pixels: float) -> None:
    picture = drawn(ScaleBar(pixel_size, length))
    assert float(bar_row(picture).sum()) == pytest.approx(pixels, abs=0.02)
    smaller = drawn(ScaleBar(pixel_size, length), percent=50)
    assert float(bar_row(smaller).sum()) == pytest.approx(pixels / 2, abs=0.02)


def test_a_length_that_was_not_chosen_is_round_and_about_a_fifth() -> None:
    for width in (10, 333, 999, 1001, 7777):
        length = bar_length(ScaleBar(0.13), width)
        assert 0.08 < length / (width * 0.13) <= 0.2000001
        assert f"{length:.6e}"[0] in "125"
        assert float(f"{length:.6e}"[1:8]) == 0


@pytest.mark.parametrize("corner", CORNERS)
@pytest.mark.parametrize("colour", ["white", "black"])
def test_it_stands_in_its_corner(corner: str, colour: str) -> None:
    changed = drawn(ScaleBar(1, corner=corner, colour=colour)) - 0.5
    rows, columns = np.nonzero(changed)
    assert (rows.mean() > 150) == corner.startswith("bottom")
    assert (columns.mean() > 200) == corner.endswith("right")
    assert (changed[rows, columns] > 0).all() == (colour == "white")


def test_pieces_show_the_bar_of_the_whole() -> None:
    whole = np.zeros((300, 400, 3), np.float32)
    draw_bar(whole, ScaleBar(1), size=(400, 300), scale=1)
    piece = np.zeros((120, 130, 3), np.float32)
    draw_bar(piece, ScaleBar(1), size=(400, 300), scale=1, left=260, top=170)
    assert np.array_equal(piece, whole[170:290, 260:390])
    assert piece.any()


def test_a_bar_longer_than_the_picture_is_refused() -> None:
    with pytest.raises(InputError, match="does not fit"):
        drawn(ScaleBar(1, 390))


def test_tiny_pictures_take_what_fits() -> None:
    assert np.isfinite(drawn(ScaleBar(1), (3, 2))).all()
