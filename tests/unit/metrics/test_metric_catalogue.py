"""The shared check: every metric of the catalogue passes it."""

import inspect
import time

import numpy as np
import pytest
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.metrics.catalogue import METRICS, PAPER_METRICS, Metric, find_metric
from allfocus.metrics.scoring import score

Pixels = NDArray[np.uint8]


def textured(seed: int = 0, shape: tuple[int, ...] = (48, 52)) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def blurred(picture: NDArray, times: int = 2) -> Pixels:
    smooth = picture.astype(np.float64)
    for _ in range(times):
        padded = np.pad(smooth, 1, mode="edge")
        smooth = sum(padded[i : i + smooth.shape[0], j : j + smooth.shape[1]] for i in range(3) for j in range(3)) / 9
    return np.round(smooth).astype(np.uint8)


def focus_pair() -> tuple[Pixels, Pixels, Pixels]:
    """Truth, and two sources sharp on the left and on the right."""
    truth = blurred(textured(7, (64, 64)), 1)
    left = np.arange(64)[None, :] < 32
    return truth, np.where(left, truth, blurred(truth, 4)), np.where(left, blurred(truth, 4), truth)


def apply(metric: Metric, fused: NDArray, sources: list[NDArray]) -> float:
    return metric.function(fused, sources[0] if metric.needs_reference else sources)


every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.key)


def needs_sources(metric):
    """Whether a metric looks at more than the fused picture: one that does not can be called without sources."""
    return inspect.signature(metric.function).parameters["sources"].default is inspect.Parameter.empty


with_sources = pytest.mark.parametrize(
    "metric",
    [m for m in METRICS.values() if not m.needs_reference and needs_sources(m)],
    ids=lambda metric: metric.key,
)


@every_metric
def test_a_metric_returns_a_finite_float_within_its_range_and_leaves_its_inputs_untouched(metric: Metric) -> None:
    pictures = [textured(seed, (48, 53, 3)) for seed in range(3)]
    before = [picture.copy() for picture in pictures]
    value = apply(metric, pictures[0], pictures[1:])
    assert type(value) is float
    assert np.isfinite(value)
    assert metric.lowest <= value <= metric.highest
    assert all(np.array_equal(one, other) for one, other in zip(pictures, before, strict=True))
    assert apply(metric, pictures[0], pictures[1:]) == value


@every_metric
@pytest.mark.parametrize("level", [0, 93, 255])
def test_pictures_with_one_level_give_a_number(metric: Metric, level: int) -> None:
    flat = np.full((48, 48), level, np.uint8)
    assert not np.isnan(apply(metric, flat, [flat, flat]))
    assert not np.isnan(apply(metric, textured(shape=(48, 48)), [flat, flat]))
    assert not np.isnan(apply(metric, flat, [flat, textured(shape=(48, 48))]))


@every_metric
def test_not_a_number_is_rejected(metric: Metric) -> None:
    good = textured() / 255.0
    broken = good.copy()
    broken[3, 4] = np.nan
    with pytest.raises(InputError, match="not numbers"):
        apply(metric, broken, [good, good])


@every_metric
def test_empty_pictures_are_rejected(metric: Metric) -> None:
    empty = np.zeros((0, 0), np.uint8)
    with pytest.raises(InputError):
        apply(metric, empty, [empty, empty])


@with_sources
def test_a_source_of_another_size_is_rejected_and_both_sizes_are_named(metric: Metric) -> None:
    with pytest.raises(InputError, match=r"source 2 is 48x51 .* 48x52"):
        metric.function(textured(), [textured(), textured(shape=(48, 51))])


@pytest.mark.parametrize("name", ["PSNR", "SSIM"])
def test_a_reference_of_another_size_is_rejected_and_both_sizes_are_named(name: str) -> None:
    with pytest.raises(InputError, match=r"the reference is 47x52 .* 48x52"):
        METRICS[name].function(textured(), textured(shape=(47, 52)))


@with_sources
def test_three_sources_are_scored_where_the_definition_extends_and_refused_where_not(metric: Metric) -> None:
    pictures = [textured(seed) for seed in range(4)]
    if metric.most_sources is None:
        assert np.isfinite(metric.function(pictures[0], pictures[1:]))
    else:
        with pytest.raises(InputError, match="exactly 2 sources, got 3"):
            metric.function(pictures[0], pictures[1:])


@with_sources
def test_a_single_source_is_refused(metric: Metric) -> None:
    with pytest.raises(InputError, match="at least 2"):
        metric.function(textured(), [textured()])


@every_metric
def test_pictures_smaller_than_the_window_are_refused(metric: Metric) -> None:
    exact = textured(shape=(metric.smallest, metric.smallest))
    assert not np.isnan(apply(metric, exact, [exact, exact]))
    if metric.smallest > 1:
        small = exact[:-1]
        with pytest.raises(InputError, match=f"at least {metric.smallest}x{metric.smallest}"):
            apply(metric, small, [small, small])


@every_metric
def test_every_metric_says_where_it_comes_from_and_how_it_misleads(metric: Metric) -> None:
    assert metric.paper
    assert metric.pathologies.endswith(".")
    assert metric.full_name
    assert metric.key == metric.key.lower()


@pytest.mark.parametrize(
    "name", ["Q_SF", "SF", "AG", "EI", "Q_S", "Q_W", "Q_E", "Q_AB/F", "Q_CB", "Q_P", "VIFF", "SSIM"]
)
def test_blurring_the_fused_picture_lowers_the_metrics_that_measure_sharpness(name: str) -> None:
    truth, first, second = focus_pair()
    sharp = score(truth, [first, second], reference=truth, metrics=[name])[name]
    soft = score(blurred(truth, 3), [first, second], reference=truth, metrics=[name])[name]
    assert soft < sharp


@pytest.mark.parametrize("name", ["PSNR", "SSIM", "Q_S", "Q_W", "Q_AB/F", "Q_MI", "Q_NCIE", "VIFF"])
def test_the_truth_beats_the_average_of_the_sources(name: str) -> None:
    truth, first, second = focus_pair()
    average = ((first.astype(int) + second) // 2).astype(np.uint8)
    of_truth = score(truth, [first, second], reference=truth, metrics=[name])[name]
    assert of_truth > score(average, [first, second], reference=truth, metrics=[name])[name]


def test_score_returns_what_the_input_allows() -> None:
    pictures = [textured(seed) for seed in range(4)]
    without_reference = score(pictures[0], pictures[1:3])
    assert set(METRICS) - set(without_reference) == {"PSNR", "SSIM"}
    assert set(score(pictures[0], pictures[1:3], reference=pictures[3])) == set(METRICS)
    assert set(without_reference) - set(score(pictures[0], pictures[1:])) == {"Q_Y", "Q_C", "SCD"}
    assert "VIFF" not in score(textured(shape=(40, 60)), [textured(shape=(40, 60))] * 2)


def test_score_refuses_what_cannot_be_done_when_asked_for_it() -> None:
    pictures = [textured(seed) for seed in range(4)]
    with pytest.raises(InputError, match="give a reference"):
        score(pictures[0], pictures[1:], metrics=["PSNR"])
    with pytest.raises(InputError, match="defined for 2 sources, got 3"):
        score(pictures[0], pictures[1:], metrics=["Q_Y"])
    with pytest.raises(InputError, match="at least 41x41"):
        score(textured(shape=(9, 9)), [textured(shape=(9, 9))] * 2, metrics=["VIFF"])
    with pytest.raises(InputError, match="did you mean 'Q_MI'"):
        score(pictures[0], pictures[1:], metrics=["Q_M"])
    with pytest.raises(InputError, match="no protocol 'gray'"):
        score(pictures[0], pictures[1:], protocol="gray")
    with pytest.raises(InputError, match="needs at least 2"):
        score(pictures[0], pictures[1:2])
    with pytest.raises(InputError, match="source 1 is 48x52 but the fused picture is 9x9"):
        score(textured(shape=(9, 9)), pictures[:2])


def test_rgb_mean_is_the_mean_of_the_three_channels_and_needs_all_pictures_in_colour() -> None:
    pictures = [textured(seed, (48, 52, 3)) for seed in range(3)]
    channels = [
        score(pictures[0][..., c], [pictures[1][..., c], pictures[2][..., c]], metrics=["Q_CB"])["Q_CB"]
        for c in range(3)
    ]
    found = score(pictures[0], pictures[1:], protocol="rgb-mean", metrics=["Q_CB"])["Q_CB"]
    assert found == pytest.approx(sum(channels) / 3, rel=1e-14)
    with pytest.raises(InputError, match="all in colour or all in grey"):
        score(pictures[0], [pictures[1], textured()], protocol="rgb-mean")


def test_metrics_are_found_by_name_or_key_in_any_spelling() -> None:
    assert find_metric("q_ab/f") is find_metric("Q_ABF") is find_metric("qabf") is METRICS["Q_AB/F"]
    assert set(PAPER_METRICS) <= set(METRICS)


def test_the_papers_eight_take_less_than_a_second_of_processor_time_on_a_520x520_pair() -> None:
    pictures = [textured(seed, (520, 520, 3)) for seed in range(3)]
    start = time.process_time()
    score(pictures[0], pictures[1:], reference=pictures[1], metrics=PAPER_METRICS)
    assert time.process_time() - start < 1.0
