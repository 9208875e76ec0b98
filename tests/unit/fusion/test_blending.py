"""From selection logits to a picture: evidence, settling, weights, veils, blending."""

import cv2
import numpy as np
import pytest

from allfocus.fusion.blending import (
    EVIDENCE_WINDOW,
    LARGEST_MARGIN,
    blend_frames,
    detail_evidence,
    largest_of,
    lead_of,
    local_detail,
    sameness,
    selection_weights,
    settle_logits,
    stack_evidence,
    weighty_area,
)
from allfocus.fusion.settings import AS_CHOSEN
from allfocus.fusion.unveiling import RANGE_SLACK, Veil, believable, light_range, read_veil, unveil
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


NOISE = 0.5 / 255


def test_a_frame_without_detail_is_no_evidence():
    assert detail_evidence(np.full((64, 80), 0.5, np.float32), NOISE).max() < 1e-6
    slope = np.broadcast_to(np.linspace(0.2, 0.8, 800, dtype=np.float32), (64, 800))
    assert detail_evidence(slope, NOISE)[:, 8:-8].max() < 0.05


def test_texture_is_full_evidence():
    evidence = detail_evidence(textured(0), NOISE)
    assert evidence.shape == (64, 80)
    assert evidence.dtype == np.float32
    assert evidence.min() > 0.99
    assert evidence.max() <= 1


@pytest.mark.parametrize("deviation", [0.5 / 255, 1 / 255, 0.02])
def test_noise_is_weak_evidence_if_it_is_known_how_strong_it_is(deviation):
    frame = 0.5 + np.random.default_rng(3).normal(0, deviation, (64, 80)).astype(np.float32)
    assert detail_evidence(frame, deviation).mean() < 0.1
    # The same noise is taken for detail by one who expects none of that strength.
    assert detail_evidence(frame, deviation / 10).mean() > 0.8


def test_evidence_grows_with_detail():
    means = [detail_evidence(0.5 + share * (textured(0) - 0.5), 0.01).mean() for share in (0.01, 0.05, 0.2, 1)]
    assert means == sorted(means)
    assert means[0] < 0.05
    assert means[-1] > 0.95


@pytest.mark.parametrize("factor", [0.01, 0.25, 3])
def test_evidence_is_a_matter_of_detail_against_noise_and_not_of_the_range(factor):
    frame = 0.5 + 0.05 * (textured(0) - 0.5)
    expected = detail_evidence(frame, 0.01)
    np.testing.assert_allclose(detail_evidence(factor * frame + 0.3, factor * 0.01), expected, atol=1e-3)


def test_evidence_is_where_there_is_detail_and_nowhere_else():
    frame = np.full((64, 80), 0.5, np.float32)
    frame[20:30, 20:30] = textured(0, (10, 10))
    evidence = detail_evidence(frame, NOISE)
    assert evidence[20:30, 20:30].min() > 0.95
    far_away = np.ones_like(evidence, bool)
    reach = EVIDENCE_WINDOW - 1
    far_away[20 - reach : 30 + reach, 20 - reach : 30 + reach] = False
    assert evidence[far_away].max() < 1e-6


def test_grey_frames_and_the_same_in_three_channels_are_equal_evidence():
    grey = 0.02 * textured(0)
    np.testing.assert_allclose(
        detail_evidence(np.repeat(grey[..., None], 3, axis=2), 0.01), detail_evidence(grey, 0.01), atol=1e-5
    )


def test_the_evidence_of_a_stack_is_that_of_the_frame_that_has_most_detail():
    sharp = textured(0)
    frames = [cv2.GaussianBlur(sharp, (0, 0), 3), sharp, np.full_like(sharp, 0.5)]
    frames[0][:, :40], frames[1][:, 40:] = 0.5, 0.5
    expected = np.max([detail_evidence(frame, NOISE) for frame in frames], axis=0)
    np.testing.assert_array_equal(stack_evidence(frames, NOISE), expected)
    np.testing.assert_array_equal(stack_evidence(frames[::-1], NOISE), expected)
    assert expected[:, :36].min() > 0.9
    assert expected[:, 44:].min() > 0.1


# Sameness


def alike(frames, weights, limit=0.003):
    return sameness(frames, [local_detail(frame) for frame in frames], weights, limit)


def halves(shape=(64, 80)):
    return [np.full(shape, 0.5, np.float32)] * 2


def test_frames_that_show_the_same_are_alike():
    frame = textured(0)
    assert alike([frame, frame], halves()).min() > 0.99


def test_other_detail_brightness_blur_and_noise_are_not_alike():
    frame = textured(0)
    assert alike([frame, textured(1)], halves()).max() == 0
    # A copy would leave an edge where the choice changes.
    assert alike([frame, frame + np.float32(0.1)], halves()).max() == 0
    assert alike([frame, cv2.GaussianBlur(frame, (0, 0), 0.7)], halves()).max() == 0
    noisy = frame + 0.1 * textured(2)
    assert alike([frame, noisy], halves()).mean() < 0.3


def test_a_frame_without_weight_is_not_compared():
    weights = [np.ones((64, 80), np.float32), np.zeros((64, 80), np.float32)]
    assert alike([textured(0), textured(1)], weights).min() == 1


def test_nothing_is_alike_where_there_is_nothing():
    even = np.full((64, 80), 0.5, np.float32)
    assert alike([even, even], halves()).max() == 0


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


# Veils


def veiled(behind, opacity, colour, *, low=0.0, span=1.0):
    """What a frame shows of `behind` beside a near thing of an even colour; light is the square of the value."""
    alpha = opacity[..., None] if behind.ndim == 3 else opacity
    seen = np.sqrt(alpha * colour**2 + (1 - alpha) * ((behind - low) / span) ** 2)
    added = np.repeat((opacity * colour**2)[..., None], 3, axis=2)
    return (low + span * seen).astype(np.float32), Veil(opacity, added.astype(np.float32))


@pytest.mark.parametrize(("low", "span"), [(0, 1), (0, 0.02), (0.3, 0.25)])
@pytest.mark.parametrize("shape", [(24, 30, 3), (24, 30)])
def test_a_veil_that_is_known_is_taken_off(shape, low, span):
    behind = (low + span * (0.1 + 0.8 * textured(0, shape))).astype(np.float32)
    opacity = np.linspace(2 * AS_CHOSEN.faintest_opacity, 0.85, 30, dtype=np.float32)[None].repeat(24, axis=0)
    frame, veil = veiled(behind, opacity, 0.7, low=low, span=span)
    before = frame.copy()
    assert np.abs(frame - behind).max() > 0.3 * span
    found = unveil(frame, veil, low, span)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, behind, atol=1e-4 * span)
    np.testing.assert_array_equal(frame, before)


def test_a_faint_veil_is_left_and_pixels_without_one_stay_to_the_bit():
    frame = textured(0, (10, 12, 3))
    opacity = np.zeros((10, 12), np.float32)
    opacity[5], opacity[8] = AS_CHOSEN.faintest_opacity, 0.5
    found = unveil(frame, Veil(opacity, np.full((10, 12, 3), 0.01, np.float32)), 0.1, 0.9)
    untouched = opacity < 0.5
    np.testing.assert_array_equal(found[untouched], frame[untouched])
    assert (found[~untouched] != frame[~untouched]).all()
    faint = Veil(np.minimum(opacity, AS_CHOSEN.faintest_opacity), np.full((10, 12, 3), 0.01, np.float32))
    assert unveil(frame, faint, 0.1, 0.9) is frame


def test_a_veil_is_taken_off_only_where_that_is_wanted():
    frame, veil = veiled(textured(0, (10, 12, 3)), np.full((10, 12), 0.5, np.float32), 0.7)
    wanted = np.zeros((10, 12), bool)
    wanted[:, 4:] = True
    found = unveil(frame, veil, 0, 1, wanted=wanted)
    np.testing.assert_array_equal(found, np.where(wanted[..., None], unveil(frame, veil, 0, 1), frame))


def test_a_veil_comes_in_without_a_step():
    opacity = np.linspace(0, 0.4, 1600, dtype=np.float32)[None]
    frame = np.full((1, 1600), 0.7, np.float32)
    found = unveil(frame, Veil(opacity, np.repeat((opacity * 0.9)[..., None], 3, axis=2)), 0, 1)
    assert np.abs(np.diff(found)).max() < 0.002
    assert abs(float(found[0, -1] - 0.7)) > 0.02


def test_more_veil_than_light_leaves_black_and_no_nan():
    frame = np.full((4, 4, 3), 0.1, np.float32)
    found = unveil(frame, Veil(np.full((4, 4), 0.8, np.float32), np.ones((4, 4, 3), np.float32)), 0, 1)
    assert np.isfinite(found).all()
    assert found.max() < 0.01


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


@pytest.mark.parametrize("curve", [None, SRGB_CURVE])
@pytest.mark.parametrize("shape", [(9, 8), (9, 8, 3)])
def test_a_frame_need_only_be_given_where_it_has_weight(shape, curve):
    weights = [np.zeros((9, 8), np.float32) for _ in range(4)]
    weights[0][:4], weights[1][4:], weights[2][2:6, 3:5] = 1, 1, 1
    weights = [own / sum(weights) for own in weights]
    frames = [textured(seed, shape) for seed in range(4)]
    areas = [weighty_area(own) for own in weights]
    assert [own.size for own in (weights[0][areas[0]], weights[2][areas[2]], weights[3][areas[3]])] == [32, 8, 0]
    parts = [frame[area] for frame, area in zip(frames, areas, strict=True)]
    found = blend_frames(parts, weights, areas=areas, curve=curve)
    np.testing.assert_array_equal(found, blend_frames(frames, weights, curve=curve))


def test_the_largest_weight_and_its_lead_are_those_of_sorting():
    logits = [textured(seed, (9, 8)).round(1) for seed in range(5)]
    weights = np.stack(selection_weights(logits))
    np.testing.assert_array_equal(largest_of(list(weights)), weights.argmax(axis=0))
    ranked = np.sort(weights, axis=0)
    np.testing.assert_array_equal(lead_of(logits), ranked[-1] - ranked[-2])
    assert (lead_of(logits) == 0).any()  # two share the lead somewhere
    np.testing.assert_array_equal(lead_of(logits[:1]), 1)


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
    # Within an evidence window of the rim the texture outside still speaks, and the network sees it too.
    guessing = disk(sharp.shape, (48, 64), 11)
    logits = decided(~guessing | (textured(5, sharp.shape) > 0.5))
    weights = selection_weights(settle_logits(logits, stack_evidence(frames, NOISE)))
    assert weights[0][flat].min() > 0.95


@pytest.mark.parametrize("shape", [(6, 8), (6, 8, 3)])
def test_no_value_leaves_the_range_of_the_frames_when_a_veil_is_taken_off(shape):
    frame = np.full(shape, 0.95, np.float32)
    for light in (0.0, 0.8):
        veil = Veil(np.full(shape[:2], 0.8, np.float32), np.full((*shape[:2], 3), light, np.float32))
        clear = unveil(frame, veil, 0.0, 1.0)
        assert clear.min() >= 0
        assert clear.max() <= 1
        assert not np.array_equal(clear, frame)


# How much of a veil is borne out by the frames


def even_veil(opacity: float, light: float) -> Veil:
    """Of one opacity and one light everywhere, 4 x 5 cells."""
    return Veil(np.full((4, 5), opacity, np.float32), np.full((4, 5, 3), light, np.float32))


def even_light(value: float, cells: tuple[int, int] = (16, 20)) -> np.ndarray:
    return np.full((*cells, 3), value, np.float32)


def test_no_veil_sheds_less_light_than_none():
    """Taken off, one that did would brighten a dark place by more than its opacity can: specks on dark bodies."""
    maps = np.stack([np.full((4, 5), value, np.float32) for value in (0.4, 0.1, -0.1, -0.5)])
    veil = read_veil(maps, even_light(0.2))
    np.testing.assert_allclose(veil.light[0, 0], [0.4 * 0.3, 0.4 * 0.1, 0], atol=1e-6)
    assert float(veil.opacity.max()) == np.float32(0.4)


def test_a_veil_that_another_frame_is_without_is_taken_off_wholly():
    """0.4 of 1.0 over 0.1: this frame has 0.46 there, the one that is focused on the near thing 0.1."""
    share = believable(even_veil(0.4, 0.4), even_light(0.46), even_light(0.1, (4, 5)), even_light(0.46, (4, 5)))
    np.testing.assert_array_equal(share, 1)


@pytest.mark.parametrize(("opacity", "light"), [(0.8, 0.01), (0.8, 0.19), (0.4, 0.15)])
def test_where_all_frames_show_the_same_a_veil_can_change_a_place_by_the_slack_alone(opacity, light):
    shown = even_light(0.2, (4, 5))
    share = believable(even_veil(opacity, light), even_light(0.2), shown, shown)
    behind = (0.2 - share * light) / (1 - share * opacity)
    assert float(share.max()) < 1
    assert float(np.abs(behind / 0.2 - 1).max()) == pytest.approx(float(RANGE_SLACK), rel=1e-3)


def test_no_pixel_near_the_veil_is_left_without_light():
    """One dark pixel in a cell or right beside it: no more is taken off than it has."""
    light = even_light(0.46)
    light[7, 10] = 0.1
    share = believable(even_veil(0.4, 0.4), light, even_light(0.05, (4, 5)), even_light(0.46, (4, 5)))
    assert share[1, 2] == pytest.approx(0.25)
    assert share[2, 2] == pytest.approx(0.25), "a row below the pixel, within the reach"
    assert share[1, 1] == 1, "three columns away"
    assert share[3, 4] == 1


def test_a_share_of_a_veil_is_taken_off_as_a_fainter_veil_is():
    frame = np.full((6, 8, 3), 0.7, np.float32)
    whole = Veil(np.full((6, 8), 0.6, np.float32), np.full((6, 8, 3), 0.2, np.float32))
    half = Veil(np.full((6, 8), 0.3, np.float32), np.full((6, 8, 3), 0.1, np.float32))
    found = unveil(frame, whole, 0.0, 1.0, share=np.full((6, 8), 0.5, np.float32))
    np.testing.assert_allclose(found, unveil(frame, half, 0.0, 1.0), rtol=1e-6)
    np.testing.assert_array_equal(unveil(frame, whole, 0.0, 1.0, share=np.zeros((6, 8), np.float32)), frame)


def test_the_range_of_light_is_that_of_the_darkest_and_the_brightest_frame():
    stack = np.stack([np.full((3, 9, 9), value, np.float32) for value in (0.5, 0.2, 0.4)])
    least, most = light_range(stack)
    assert least.shape == most.shape == (9, 9, 3)
    np.testing.assert_allclose(least, 0.04, rtol=1e-6)
    np.testing.assert_allclose(most, 0.25, rtol=1e-6)
