"""Dust spots vanish, and nothing else changes."""

import cv2
import numpy as np
import pytest

from allfocus.finishing.finish import Spot
from allfocus.finishing.healing import heal_spots, spot_area

SIZE = (160, 220)
WHOLE = (0, 0, SIZE[1], SIZE[0])


@pytest.fixture(scope="module")
def clean() -> np.ndarray:
    """A sky that brightens, with grain."""
    rows, columns = np.mgrid[0 : SIZE[0], 0 : SIZE[1]].astype(np.float32)
    grain = cv2.GaussianBlur(np.random.default_rng(5).standard_normal(SIZE).astype(np.float32), (0, 0), 1) * 0.02
    grey = 0.3 + 0.3 * rows / SIZE[0] + 0.1 * columns / SIZE[1] + grain
    return np.stack([grey * 0.8, grey * 0.9, grey], axis=-1).astype(np.float32)


def with_dust(clean: np.ndarray, *places: tuple[int, int, int]) -> np.ndarray:
    dusty = clean.copy()
    for x, y, radius in places:
        cv2.circle(dusty, (x, y), radius, (0.1, 0.1, 0.1), -1, cv2.LINE_AA)
    return dusty


def test_a_spot_vanishes_and_the_rest_stays_bit_for_bit(clean: np.ndarray) -> None:
    dusty = with_dust(clean, (100, 80, 6))
    spot = Spot(100.5, 80.5, 10)
    healed = heal_spots(dusty, [spot], WHOLE)
    inside = np.hypot(*(np.mgrid[0 : SIZE[0], 0 : SIZE[1]] - np.array([80, 100])[:, None, None])) < 10
    before, after = (np.abs(each - clean)[inside].mean() for each in (dusty, healed))
    assert after < 0.03 < before
    assert np.array_equal(healed[~inside & (np.abs(dusty - healed).sum(axis=2) > 0)], np.empty((0, 3), np.float32))
    grain = [np.std(cv2.Laplacian(each[74:87, 94:107, 0], cv2.CV_32F)) for each in (clean, healed)]
    assert grain[1] == pytest.approx(grain[0], rel=0.5), "a healed spot has the grain of its surroundings"


def test_a_part_is_healed_as_the_whole_is(clean: np.ndarray) -> None:
    dusty = (with_dust(clean, (60, 60, 5), (72, 60, 5), (3, 3, 4)) * 65535).astype(np.uint16)
    spots = [Spot(60.5, 60.5, 8), Spot(72.5, 60.5, 8), Spot(3.5, 3.5, 6)]
    whole = heal_spots(dusty, spots, WHOLE)
    part = heal_spots(dusty, spots, (50, 40, 70, 66))
    assert np.array_equal(part, whole[40:66, 50:70])


def test_the_order_of_spots_that_are_apart_does_not_matter(clean: np.ndarray) -> None:
    dusty = with_dust(clean, (60, 60, 5), (120, 90, 5))
    spots = [Spot(60.5, 60.5, 8), Spot(120.5, 90.5, 8)]
    assert np.array_equal(heal_spots(dusty, spots, WHOLE), heal_spots(dusty, spots[::-1], WHOLE))


def test_dust_is_not_healed_with_other_dust(clean: np.ndarray) -> None:
    places = [(x, y) for x in range(20, 210, 22) for y in range(20, 150, 22)]
    dusty = with_dust(clean, *((x, y, 5) for x, y in places))
    healed = heal_spots(dusty, [Spot(x + 0.5, y + 0.5, 8) for x, y in places], WHOLE)
    assert np.abs(healed - clean).max() < 0.15
    assert np.abs(dusty - clean).max() > 0.4


def test_dust_beside_a_spot_does_not_colour_it(clean: np.ndarray) -> None:
    dusty = with_dust(clean, (60, 60, 5), (74, 60, 6))
    spots = [Spot(60.5, 60.5, 8), Spot(74.5, 60.5, 9)]
    healed = heal_spots(dusty, spots, WHOLE)
    inside = np.hypot(*(np.mgrid[0 : SIZE[0], 0 : SIZE[1]] - np.array([60, 60])[:, None, None])) < 6
    assert np.abs(healed - clean)[inside].mean() < 0.02


@pytest.mark.parametrize("spot", [Spot(0, 0, 5), Spot(219, 159, 30), Spot(110, 80, 300), Spot(5000, 5000, 3)])
def test_spots_at_the_edge_and_beyond_are_no_trouble(clean: np.ndarray, spot: Spot) -> None:
    grey = heal_spots(clean[..., 0], [spot], WHOLE)
    assert grey.shape == SIZE
    assert np.isfinite(grey).all()
    left, top, right, bottom = spot_area(spot, SIZE[1], SIZE[0])
    outside = np.ones(SIZE, bool)
    outside[top:bottom, left:right] = False
    assert np.array_equal(grey[outside], clean[..., 0][outside])
