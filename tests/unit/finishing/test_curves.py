"""Free curves: through their points, never beyond their neighbours, the same from a table and from a picture."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allfocus.errors import InputError
from allfocus.finishing.curves import MOST_POINTS, Curves, follow_curve
from allfocus.finishing.finish import Finish, finish_from_json
from allfocus.finishing.tones import apply_tones, tone_tables

heights = st.lists(st.floats(0, 1, width=32), min_size=2, max_size=MOST_POINTS)


@given(heights, st.floats(0.1, 3))
def test_a_curve_goes_through_its_points_and_stays_between_neighbours(found, bend):
    across = np.linspace(0, 1, len(found)) ** bend * 0.9 + np.linspace(0, 0.1, len(found))
    points = tuple((float(x), y) for x, y in zip(across, found, strict=True))
    if min(np.diff(across)) < 0.005:
        return
    assert follow_curve(across.astype(np.float32), points) == pytest.approx(found, abs=1e-4)
    for (left, low), (right, high) in itertools.pairwise(points):
        between = follow_curve(np.linspace(left, right, 50).astype(np.float32), points)
        assert between.min() >= min(low, high) - 1e-5
        assert between.max() <= max(low, high) + 1e-5
        steps = np.diff(between) * (1 if high >= low else -1)
        assert steps.min() >= -1e-5, "it turns only at points"


def test_beyond_its_ends_a_curve_is_level():
    made = follow_curve(np.float32([0, 0.1, 0.9, 1]), ((0.2, 0.3), (0.8, 0.6)))
    assert made == pytest.approx([0.3, 0.3, 0.6, 0.6])


def test_a_curve_of_one_colour_leaves_the_others():
    pixels = np.random.default_rng(0).random((300, 7, 3), dtype=np.float32)
    made = apply_tones(pixels, Finish(curves=Curves(green=((0, 1), (1, 0)))))
    assert np.array_equal(made[..., [0, 2]], pixels[..., [0, 2]])
    assert made[..., 1] == pytest.approx(1 - pixels[..., 1], abs=1e-6)
    both = Finish(curves=Curves(all=((0, 0), (0.5, 0.7), (1, 1)), blue=((0, 1), (1, 0))))
    first = follow_curve(pixels[..., 2], both.curves.all)
    assert apply_tones(pixels, both)[..., 2] == pytest.approx(1 - first, abs=1e-6)
    tables = tone_tables(both, None, channels=3, size=65)
    row = np.repeat(np.linspace(0, 1, 65, dtype=np.float32)[None, :, None], 3, axis=2)
    assert np.array_equal(tables.T[None], apply_tones(row, both))


def test_curves_are_kept_with_the_finish():
    finish = Finish(curves=Curves(all=((0.0, 0.1), (1.0, 0.9)), red=((0.0, 0.0), (1.0, 0.5))))
    assert finish_from_json(json.loads(json.dumps(finish.to_json()))) == finish
    assert finish_from_json({"exposure": 1}) == Finish(exposure=1), "one of before there were curves"
    assert finish.describe() == "curves of all and red"
    assert finish.has_tones
    assert not finish.is_neutral


@pytest.mark.parametrize(
    "points",
    [
        [[0, 0]],
        [[0, 0], [0.5, 1.2]],
        [[0.5, 0], [0.2, 1]],
        [[0.5, 0], [0.501, 1]],
        [[0, 0], [1, float("nan")]],
        [[0, 0], [1, True]],
        [[0, 0, 0], [1, 1, 1]],
        [[number / 40, 0.5] for number in range(MOST_POINTS + 1)],
    ],
)
def test_points_that_make_no_curve_are_refused(points):
    with pytest.raises(InputError):
        finish_from_json({"curves": {"all": points}})
