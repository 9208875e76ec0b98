"""From selection logits to a picture: evidence, settling, weights, blending."""

import cv2
import numpy as np
import pytest

from allfocus.fusion.blending import (
    LARGEST_MARGIN,
    PRIOR_WEIGHT,
    blend_frames,
    differing_evidence,
    selection_weights,
    settle_logits,
)
from allfocus.images.transfer import SRGB, Curve


def textured(seed, shape=(64, 80)):
    return np.random.default_rng(seed).random(shape, dtype=np.float32)


def decided(first_wins, margin=4.0):
    """Logits of two sources: the first wins by `margin` where `first_wins`, the second elsewhere."""
    first = np.where(first_wins, 0.0, -margin).astype(np.float32)
    second = np.where(first_wins, -margin, 0.0).astype(np.float32)
    return [first, second]


def disk(shape, centre, radius):
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    return (rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 <= radius**2


# Evidence


def test_equal_frames_are_no_evidence():
    frame = textured(0)
    assert differing_evidence([frame, frame.copy(), frame.copy()]).max() < 1e-3


def test_frames_that_differ_much_are_full_evidence():
    evidence = differing_evidence([textured(0), textured(1)])
    assert evidence.shape == (64, 80)
    assert evidence.dtype == np.float32
    assert evidence.min() > 0.99
    assert evidence.max() <= 1


def test_noise_of_one_level_of_eight_bits_is_weak_evidence():
    generator = np.random.default_rng(3)
    frames = [0.5 + generator.normal(0, 1 / 255, (64, 80)).astype(np.float32) for _ in range(4)]
    assert 0 < differing_evidence(frames).mean() < 0.35


def test_evidence_is_where_the_frames_differ_and_nowhere_else():
    first = np.full((64, 80), 0.5, np.float32)
    second = first.copy()
    second[20:30, 20:30] = 0.8
    evidence = differing_evidence([first, second])
    assert evidence[20:30, 20:30].min() > 0.95
    far_away = np.ones_like(evidence, bool)
    far_away[11:39, 11:39] = False
    assert evidence[far_away].max() < 1e-3


def test_a_frame_that_is_only_brighter_is_no_evidence():
    frame = textured(0) * 0.5
    assert differing_evidence([frame, frame + 0.2]).max() < 1e-3


def test_grey_frames_and_the_same_in_three_channels_are_equal_evidence():
    grey = [textured(0), textured(1)]
    colour = [np.repeat(frame[..., None], 3, axis=2) for frame in grey]
    np.testing.assert_allclose(differing_evidence(colour), differing_evidence(grey), atol=1e-6)


# Settling


def test_full_evidence_keeps_the_differences_between_logits():
    logits = [textured(seed) * 8 for seed in range(3)]
    settled = settle_logits(logits, np.ones((64, 80), np.float32))
    for own, kept in zip(logits, settled, strict=True):
        np.testing.assert_allclose(kept, own - np.max(logits, axis=0), atol=1e-5)


def test_a_margin_beyond_the_largest_is_cut_so_that_one_pixel_cannot_drown_its_neighbours():
    logits = [np.zeros((16, 16), np.float32), np.full((16, 16), -1000, np.float32)]
    _, loser = settle_logits(logits, np.ones((16, 16), np.float32))
    np.testing.assert_allclose(loser, -LARGEST_MARGIN, atol=1e-5)


@pytest.mark.parametrize("radius", [3, 12, 25])
def test_a_flat_disk_follows_the_region_around_it(radius):
    """Inside the disk nothing tells the sources apart, and the logits there are wrong on purpose."""
    inside = disk((96, 128), (48, 64), radius)
    settled = settle_logits(decided(~inside), np.where(inside, 0, 1).astype(np.float32))
    assert np.argmax(settled, axis=0).max() == 0


def test_two_flat_disks_follow_each_their_own_region():
    left = np.zeros((96, 256), bool)
    left[:, :128] = True
    flat = disk(left.shape, (48, 48), 14) | disk(left.shape, (48, 208), 14)
    settled = settle_logits(decided(left ^ flat), np.where(flat, 0, 1).astype(np.float32))
    np.testing.assert_array_equal(np.argmax(settled, axis=0) == 0, left)


def test_a_region_with_evidence_is_not_overruled_by_its_surroundings():
    inside = disk((96, 128), (48, 64), 12)
    settled = settle_logits(decided(~inside), np.ones((96, 128), np.float32))
    np.testing.assert_array_equal(np.argmax(settled, axis=0) == 1, inside)


def test_settling_does_not_depend_on_the_order_of_the_sources():
    logits, evidence = [textured(seed) for seed in range(4)], textured(9)
    order = [2, 0, 3, 1]
    permuted = settle_logits([logits[index] for index in order], evidence)
    settled = settle_logits(logits, evidence)
    for own, index in zip(permuted, order, strict=True):
        np.testing.assert_array_equal(own, settled[index])


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (5, 7), (33, 2)])
@pytest.mark.parametrize("evidence", [0.0, 0.3, 1.0])
def test_settling_works_at_any_size_and_with_no_evidence_at_all(shape, evidence):
    logits = [textured(0, shape), textured(1, shape)]
    for own in settle_logits(logits, np.full(shape, evidence, np.float32)):
        assert own.shape == shape
        assert own.dtype == np.float32
        assert np.isfinite(own).all()


def test_settling_leaves_its_input_untouched():
    logits, evidence = [textured(0), textured(1)], textured(2)
    before = [array.copy() for array in (*logits, evidence)]
    settle_logits(logits, evidence)
    for array, kept in zip((*logits, evidence), before, strict=True):
        np.testing.assert_array_equal(array, kept)


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 4)])
def test_a_prior_decides_where_nothing_else_tells(size):
    logits = decided(textured(3, (96, 128)) > 0.5)
    prior = [np.full(size, -6, np.float32), np.zeros(size, np.float32)]
    first, second = settle_logits(logits, np.zeros((96, 128), np.float32), prior)
    assert (second > first + 5).all()


def test_a_prior_of_any_size_decides_each_place_for_itself():
    left = np.arange(8) < 4
    prior = [own[None].repeat(6, axis=0) for own in decided(left)]
    logits = decided(np.zeros((192, 256), bool))
    first, second = settle_logits(logits, np.zeros((192, 256), np.float32), prior)
    assert (first > second)[:, :96].all()
    assert (first < second)[:, 160:].all()


def test_a_prior_counts_for_little_beside_evidence():
    """It weighs what two pixels in a hundred can tell, so twenty in a hundred overrule it."""
    assert float(PRIOR_WEIGHT) == pytest.approx(0.02)
    clear = textured(1, (128, 128)) < 0.2
    prior = [np.full((2, 2), -4, np.float32), np.zeros((2, 2), np.float32)]
    first, second = settle_logits(decided(np.ones((128, 128), bool)), clear.astype(np.float32), prior)
    assert (first > second).all()


def test_full_evidence_keeps_its_logits_whatever_the_prior():
    logits = [textured(seed) * 8 for seed in range(3)]
    prior = [np.full((1, 2), value, np.float32) for value in (-9, 0, -9)]
    settled = settle_logits(logits, np.ones((64, 80), np.float32), prior)
    for own, kept in zip(logits, settled, strict=True):
        np.testing.assert_allclose(kept, own - np.max(logits, axis=0), atol=1e-5)


# Weights


@pytest.mark.parametrize("sources", [2, 3, 12])
@pytest.mark.parametrize("spread", [0.5, 1.0, 16.0])
def test_weights_add_up_to_one_and_are_the_softmax(sources, spread):
    logits = [spread * textured(seed, (8, 9)) for seed in range(sources)]
    weights = selection_weights(logits)
    np.testing.assert_allclose(np.sum(weights, axis=0), 1, atol=1e-6)
    likely = np.exp(np.asarray(logits, np.float64) - np.max(logits, axis=0))
    likely = np.maximum(likely - 0.01, 0)
    np.testing.assert_allclose(weights, likely / likely.sum(axis=0), rtol=1e-4, atol=1e-6)


def test_a_source_that_is_all_but_certain_weighs_one_and_there_is_no_step_on_the_way():
    margins = np.linspace(0, 12, 4001, dtype=np.float32)[None]
    first, second = selection_weights([np.zeros_like(margins), margins])
    assert (first[margins > 5] == 0).all()
    assert (second[margins > 5] == 1).all()
    assert (np.diff(second) >= 0).all()
    assert np.diff(second).max() < 0.001


def test_huge_logits_do_not_overflow():
    logits = [np.full((4, 4), value, np.float32) for value in (1e30, -1e30, 1e30)]
    first, second, third = selection_weights(logits)
    assert (first == 0.5).all()
    assert (second == 0).all()
    assert (third == 0.5).all()


def test_equal_logits_share_evenly():
    for weight in selection_weights([np.full((3, 4), 7, np.float32)] * 5):
        np.testing.assert_allclose(weight, 0.2, atol=1e-7)


# Blending


@pytest.mark.parametrize("shape", [(6, 7), (6, 7, 3)])
def test_blending_is_the_weighted_sum(shape):
    frames = [textured(seed, shape) for seed in range(3)]
    weights = selection_weights([textured(seed, (6, 7)) for seed in range(3)])
    spread = [weight if len(shape) == 2 else weight[..., None] for weight in weights]
    expected = sum(frame.astype(np.float64) * weight for frame, weight in zip(frames, spread, strict=True))
    before = [frame.copy() for frame in frames]
    fused = blend_frames(frames, weights)
    assert fused.dtype == np.float32
    np.testing.assert_allclose(fused, expected, atol=1e-6)
    np.testing.assert_array_equal(frames, before)


SRGB_CURVE = Curve((SRGB,))


@pytest.mark.parametrize("shape", [(6, 7), (6, 7, 3)])
def test_with_a_curve_mixed_pixels_are_the_weighted_sum_of_light(shape):
    frames = [textured(seed, shape) for seed in range(3)]
    weights = selection_weights([textured(seed, (6, 7)) for seed in range(3)])
    spread = [weight if len(shape) == 2 else weight[..., None] for weight in weights]
    # IEC 61966-2-1, written out.
    light = [np.where(f <= 0.04045, f / 12.92, ((f + 0.055) / 1.055) ** 2.4) for f in np.float64(frames)]
    mixed = sum(own * weight for own, weight in zip(light, spread, strict=True))
    expected = np.where(mixed <= 0.0031308, 12.92 * mixed, 1.055 * mixed ** (1 / 2.4) - 0.055)
    before = [frame.copy() for frame in frames]
    fused = blend_frames(iter(frames), weights, curve=SRGB_CURVE)
    assert fused.dtype == np.float32
    np.testing.assert_allclose(fused, expected, atol=1e-5)
    assert np.abs(fused - blend_frames(frames, weights)).max() > 0.01
    np.testing.assert_array_equal(frames, before)


@pytest.mark.parametrize("shape", [(6, 7), (6, 7, 3)])
def test_with_a_curve_copied_pixels_stay_to_the_bit_beside_mixed_ones(shape):
    frames = [textured(seed, shape) for seed in range(2)]
    first = np.zeros((6, 7), np.float32)
    first[:3], first[5] = 1, 0.5
    fused = blend_frames(frames, [first, 1 - first], curve=SRGB_CURVE)
    np.testing.assert_array_equal(fused[:3], frames[0][:3])
    np.testing.assert_array_equal(fused[3:5], frames[1][3:5])
    assert (fused[5] > (frames[0][5] + frames[1][5]) / 2).all()


def test_with_a_curve_and_nothing_mixed_no_light_is_computed():
    class Forbidden:
        def to_linear(self, values):
            raise AssertionError("there is nothing to mix")

        from_linear = to_linear

    ones, zeros = np.ones((6, 7), np.float32), np.zeros((6, 7), np.float32)
    frame = textured(0, (6, 7))
    np.testing.assert_array_equal(blend_frames([frame, textured(1, (6, 7))], [ones, zeros], curve=Forbidden()), frame)


def test_blending_asks_for_a_frame_only_when_the_one_before_is_done():
    events = []

    def read_frames():
        for number in range(3):
            events.append(f"read {number}")
            yield np.full((2, 2), number, np.float32)

    weights = [np.full((2, 2), 1 / 3, np.float32)] * 3
    fused = blend_frames(read_frames(), weights, progress=lambda done: events.append(f"done {done}"))
    assert events == ["read 0", "done 1", "read 1", "done 2", "read 2", "done 3"]
    np.testing.assert_allclose(fused, 1, atol=1e-6)


@pytest.mark.parametrize(("frames", "weights"), [(2, 3), (3, 2), (0, 0)])
def test_blending_refuses_weights_that_do_not_match_the_frames(frames, weights):
    picture = np.zeros((2, 2), np.float32)
    with pytest.raises(ValueError, match=r"shorter|longer|no frames"):
        blend_frames(iter([picture] * frames), [picture] * weights)


def test_settled_weights_pick_one_noise_pattern_in_a_flat_area():
    """What settling is for: where the logits are noise, the picture must not be a patchwork or a mean of the frames."""
    sharp = textured(0, (96, 128))
    flat = disk(sharp.shape, (48, 64), 20)
    sharp[flat] = 0.5
    frames = [sharp, cv2.GaussianBlur(sharp, (0, 0), 2)]
    for seed, frame in enumerate(frames):
        frame[flat] = 0.5 + np.random.default_rng(seed).normal(0, 0.5 / 255, int(flat.sum()))
    # Within half an evidence window of the rim the texture outside still speaks, and the network sees it too.
    guessing = disk(sharp.shape, (48, 64), 14)
    logits = decided(~guessing | (textured(5, sharp.shape) > 0.5))
    weights = selection_weights(settle_logits(logits, differing_evidence(frames)))
    assert weights[0][flat].min() > 0.95
