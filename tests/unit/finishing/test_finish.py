"""The record of a finish: what it refuses, and that it survives JSON."""

import io
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as PillowImage
from PIL import ImageCms

from allfocus.errors import InputError
from allfocus.finishing.finish import MOST_SPOTS, RANGES, Crop, Finish, ScaleBar, Spot, finish_from_json
from allfocus.finishing.srgb import to_srgb
from allfocus.images.colour_profile import adobe_profile, make_profile, srgb_profile
from allfocus.images.image import Image

ONES: Any = {
    name: st.floats(low, high).map(lambda value: round(value, 3))
    for name, (low, high) in RANGES.items()
    if name not in ("black", "white")
}
FINISHES = st.builds(
    Finish,
    **ONES,
    black=st.floats(0, 0.4),
    white=st.floats(0.5, 1),
    turns=st.integers(0, 3),
    crop=st.none() | st.builds(Crop, *[st.integers(1, 99)] * 4),
    spots=st.lists(st.builds(Spot, st.floats(0, 99), st.floats(0, 99), st.floats(1, 30)), max_size=3).map(tuple),
    scale_bar=st.none() | st.builds(ScaleBar, st.floats(0.01, 5), st.none() | st.floats(1, 9)),
)


@settings(max_examples=50, deadline=None)
@given(FINISHES)
def test_it_survives_json(finish: Finish) -> None:
    assert finish_from_json(json.loads(json.dumps(finish.to_json(), allow_nan=False))) == finish


@pytest.mark.parametrize("name", RANGES)
def test_every_number_has_its_range(name: str) -> None:
    low, high = RANGES[name]
    for wrong in (low - 0.1, high + 0.1, math.nan, math.inf, "1", None, True):
        with pytest.raises(InputError, match=name) as caught:
            Finish(**{name: wrong})
        assert caught.value.code == "bad-option"


WRONG = [
    {"turns": 4}, {"turns": 1.0}, {"black": 0.5, "white": 0.5}, {"unknown": 1}, {"crop": {"left": 0}}, {"crop": 5},
    {"crop": {"left": 0.5, "top": 0, "width": 1, "height": 1}}, {"spots": [{"x": 1, "y": 1, "radius": 1e9}]},
    {"spots": [[1, 1, 1]]}, {"spots": 3}, {"scale_bar": {"pixel_size": 0}},
    {"scale_bar": {"pixel_size": 1, "corner": "x"}},
    {"scale_bar": {"pixel_size": 1, "length": -1}},
    {"spots": [{"x": 1, "y": 1, "radius": 2}] * (MOST_SPOTS + 1)},
]  # fmt: skip


@pytest.mark.parametrize("content", WRONG)
def test_what_is_no_finish_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        finish_from_json(content)


def test_adobe_colours_become_those_of_little_cms() -> None:
    levels = np.random.default_rng(7).integers(40, 200, (20, 20, 3)).astype(np.uint8)
    image = Image((levels / 255).astype(np.float32), icc_profile=adobe_profile())
    made = to_srgb(image)
    assert made.icc_profile == srgb_profile()
    profiles = [ImageCms.ImageCmsProfile(io.BytesIO(each)) for each in (adobe_profile(), srgb_profile())]
    expected = ImageCms.profileToProfile(PillowImage.fromarray(levels), *profiles, renderingIntent=1)
    inside = (np.asarray(expected) > 2).all(axis=2) & (np.asarray(expected) < 253).all(axis=2)
    assert np.abs(made.pixels * 255 - np.asarray(expected))[inside].max() < 1.5
    assert np.abs(levels.astype(float) - np.asarray(expected))[inside].max() > 5


def test_srgb_stays_and_other_profiles_without_curves_are_refused() -> None:
    pixels = np.random.default_rng(8).random((3, 3, 3)).astype(np.float32)
    for profile in (None, srgb_profile()):
        assert np.array_equal(to_srgb(Image(pixels, icc_profile=profile)).pixels, pixels)
    with pytest.raises(InputError, match="no curves"):
        to_srgb(Image(pixels, icc_profile=b"no profile"))
    grey = to_srgb(Image(np.full((1, 1), 0.5, np.float32), icc_profile=make_profile("steep", 1.0, None)))
    assert grey.icc_profile is None
    assert float(grey.pixels[0, 0]) == pytest.approx(0.735357, abs=1e-5)
