"""What holds for every metric on any picture."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from allfocus.metrics.catalogue import METRICS, Metric
from allfocus.metrics.scoring import score

Pixels = NDArray[np.uint8]

SMALL = [metric for metric in METRICS.values() if metric.smallest <= 16]
MAXIMUM = {
    "Q_MI": 2.0,
    "Q_S": 1.0,
    "Q_CB": 1.0,
    "Q_W": 1.0,
    "Q_E": 1.0,
    "Q_Y": 1.0,
    "Q_C": 1.0,
    "FMI": 1.0,
    "SSIM": 1.0,
    "PSNR": np.inf,
    "Q_CV": 0.0,
    "N_AB/F": 0.0,
    "Q_AB/F": 0.9994 / (1 + np.exp(-7.5)) * 0.9879 / (1 + np.exp(-4.4)),
}
"""What identical pictures give. Q_NCIE and Q_TE depend on the histogram, Q_P on its masks, SCD has no extreme there."""


@st.composite
def pictures(draw: st.DrawFn, count: int, colour: bool = False) -> list[Pixels]:
    """Random pictures of one size, from flat ones to noise."""
    shape = (draw(st.integers(16, 24)), draw(st.integers(16, 24)), *((3,) if colour else ()))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    found = []
    for _ in range(count):
        levels = draw(st.sampled_from([1, 2, 5, 256]))
        offset = draw(st.integers(0, 256 - levels))
        found.append((generator.integers(0, levels, shape) + offset).astype(np.uint8))
    return found


def apply(metric: Metric, fused: NDArray, sources: list[NDArray]) -> float:
    return metric.function(fused, sources[0] if metric.needs_reference else sources)


@given(st.data())
@pytest.mark.parametrize("name", MAXIMUM)
def test_identical_pictures_give_the_known_extreme(name: str, data: st.DataObject) -> None:
    (picture,) = data.draw(pictures(1))
    value = apply(METRICS[name], picture, [picture, picture])
    assert value == pytest.approx(MAXIMUM[name], abs=1e-6)


@given(st.data())
@pytest.mark.parametrize("metric", SMALL, ids=lambda metric: metric.key)
def test_values_stay_in_the_stated_range(metric: Metric, data: st.DataObject) -> None:
    fused, first, second = data.draw(pictures(3))
    value = apply(metric, fused, [first, second])
    assert metric.lowest - 1e-9 <= value <= metric.highest + 1e-9


@given(st.data())
@pytest.mark.parametrize("metric", [m for m in SMALL if not m.needs_reference], ids=lambda metric: metric.key)
def test_the_order_of_the_sources_does_not_matter(metric: Metric, data: st.DataObject) -> None:
    fused, first, second = data.draw(pictures(3))
    forwards, backwards = metric.function(fused, [first, second]), metric.function(fused, [second, first])
    assert forwards == pytest.approx(backwards, rel=1e-9, abs=1e-12)


@given(pictures(4, colour=True), st.sampled_from(["grey", "rgb-mean"]))
def test_bit_depth_does_not_matter(four: list[Pixels], protocol: str) -> None:
    def scores(convert) -> dict[str, float]:
        fused, first, second, truth = (convert(picture) for picture in four)
        names = ["Q_MI", "Q_SF", "Q_S", "Q_CB", "Q_AB/F", "Q_NCIE", "PSNR", "SSIM", "Q_CV", "SCD", "EN"]
        return score(fused, [first, second], reference=truth, protocol=protocol, metrics=names)

    eight_bit = scores(lambda picture: picture)
    assert scores(lambda picture: picture.astype(np.uint16) * 257) == eight_bit
    assert scores(lambda picture: (picture / 255).astype(np.float32)) == eight_bit
    assert scores(lambda picture: picture / 255) == eight_bit


@given(pictures(3))
def test_grey_pictures_score_the_same_when_stored_in_colour(three: list[Pixels]) -> None:
    in_colour = [np.repeat(picture[..., None], 3, axis=2) for picture in three]
    names = ["Q_MI", "Q_S", "Q_AB/F"]
    grey = score(three[0], three[1:], metrics=names)
    assert score(in_colour[0], in_colour[1:], metrics=names) == grey
    assert score(in_colour[0], in_colour[1:], metrics=names, protocol="rgb-mean") == pytest.approx(grey, rel=1e-14)
