"""A picture at several scales and in pieces: how it is cut, and that fusing in pieces gives what the whole gives."""

import dataclasses
from typing import NamedTuple

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from allfocus.fusion import areas, planning
from allfocus.fusion.areas import Maps, fuse_area
from allfocus.fusion.decisions import EXCLUSION, LevelDecisions
from allfocus.fusion.frame_source import MemorySource, open_spool
from allfocus.fusion.learned import fuse_ips
from allfocus.fusion.methods import METHODS
from allfocus.fusion.planning import plan_fusion, plan_levels
from allfocus.fusion.settings import AS_CHOSEN, DecisionSettings
from allfocus.fusion.stack_fusion import fuse
from allfocus.fusion.windows import (
    BLOCK,
    NOISE_ENERGY,
    STEP,
    block_sharpness,
    coarsest_level,
    cut_cores,
    grow,
    halve_area,
    level_size,
    overlap,
    pixels_of,
    split_core,
    within,
)
from allfocus.images.spool import from_levels, reduce_frame
from allfocus.scenes.rendering import render_scene

side = some.integers(1, 6000)
sides = some.tuples(side, side)


def any_area(height, width):
    """Any area of a picture that begins where cores may."""
    return some.tuples(
        *(
            some.tuples(some.integers(0, (length - 1) // STEP), some.integers(1, length)).map(
                lambda pair, length=length: slice(pair[0] * STEP, max(pair[1], min(length, pair[0] * STEP + 1)))
            )
            for length in (height, width)
        )
    )


def peak_signal_noise_ratio(image, truth) -> float:
    return float(-10 * np.log10(np.mean((image - truth) ** 2)))


def whole_of(height, width):
    return slice(0, height), slice(0, width)


# Levels


@given(size=sides, level=some.integers(0, 5))
def test_a_level_has_the_size_of_a_frame_reduced_as_often(size, level):
    frame = np.zeros((size[0] % 90 + 1, size[1] % 70 + 1), np.uint8)
    expected = level_size(frame.shape, level)
    for _ in range(level):
        frame = reduce_frame(frame, 2)
    assert frame.shape == expected


@given(size=sides, frames=some.integers(2, 500), most=some.sampled_from([100_000, 2_000_000]))
def test_the_coarsest_level_is_the_finest_that_can_be_seen_whole(size, frames, most):
    level = coarsest_level(size, frames, most=most, longest=AS_CHOSEN.largest_whole_side)

    def fits(level):
        height, width = level_size(size, level)
        few = frames * height * width <= most or min(height, width) <= 2 * STEP
        return max(height, width) <= AS_CHOSEN.largest_whole_side and few

    assert fits(level)
    assert level == 0 or not fits(level - 1)


@given(size=sides, frames=some.integers(2, 500))
def test_the_plan_holds_all_frames_at_every_level_that_fits_and_leaves_the_finest_to_windows(size, frames):
    finest, coarsest = plan_levels(size, frames)
    most = AS_CHOSEN.plan_pixels
    if max(size) <= AS_CHOSEN.largest_whole_side and frames * np.prod(size) <= AS_CHOSEN.whole_factor * most:
        assert (finest, coarsest) == (0, 0)
        return
    assert coarsest == coarsest_level(size, frames, most=most, longest=AS_CHOSEN.largest_whole_side)
    assert 0 <= finest <= coarsest
    # Level 0 belongs to the plan only if it is all there is.
    assert (finest == 0) == (coarsest == 0)
    fits = [frames * np.prod(level_size(size, level)) <= most for level in range(coarsest + 1)]
    assert finest == coarsest or fits[finest]
    assert finest <= 1 or not fits[finest - 1]


@pytest.mark.parametrize(
    ("size", "frames", "whole"), [((600, 800), 8, True), ((600, 800), 9, False), ((500, 1281), 3, False)]
)
def test_a_picture_of_twice_the_pixels_of_a_plan_is_decided_at_once_if_no_side_is_too_long(size, frames, whole):
    assert (plan_levels(size, frames) == (0, 0)) == whole


# How a level is cut


@given(size=sides, data=some.data())
def test_cores_cover_every_pixel_of_an_area_exactly_once(size, data):
    height, width = (length % 1500 + 1 for length in size)
    area = data.draw(any_area(height, width))
    covered = np.zeros((height, width), np.uint8)
    for core in cut_cores(area, AS_CHOSEN.core):
        covered[core] += 1
        assert pixels_of(core) > 0
        assert all(own.stop - own.start <= AS_CHOSEN.core for own in core)
        assert all(own.start % STEP == 0 for own in core)
    assert (covered[area] == 1).all()
    covered[area] = 0
    assert not covered.any()


def test_cores_of_any_area_lie_on_one_grid():
    for core in cut_cores((slice(480, 1700), slice(16, 1030)), AS_CHOSEN.core):
        for own, edges in zip(core, ((480, 1700), (16, 1030)), strict=True):
            assert own.start % AS_CHOSEN.core == 0 or own.start == edges[0]
            assert own.stop % AS_CHOSEN.core == 0 or own.stop == edges[1]


@given(size=sides, data=some.data())
def test_halves_of_a_core_are_the_core_and_begin_where_cores_may(size, data):
    core = data.draw(any_area(*size))
    halves = split_core(core, AS_CHOSEN.smallest_core)
    if halves == [core]:
        assert max(own.stop - own.start for own in core) < 2 * AS_CHOSEN.smallest_core
        return
    first, second = halves
    assert pixels_of(first) + pixels_of(second) == pixels_of(core)
    assert overlap(first, second) is None
    assert overlap(first, core) == first
    assert overlap(second, core) == second
    lengths = [own.stop - own.start for own in core]
    longer = lengths.index(max(lengths))
    assert first[1 - longer] == second[1 - longer] == core[1 - longer]
    for half in halves:
        assert half[longer].start % STEP == 0
        assert half[longer].stop - half[longer].start >= AS_CHOSEN.smallest_core - STEP


@given(size=sides, data=some.data())
def test_the_network_sees_a_margin_around_a_core_or_the_end_of_the_picture(size, data):
    core = data.draw(any_area(*size))
    margin = AS_CHOSEN.margin
    region = grow(core, size, margin)
    for seen, own, length in zip(region, core, size, strict=True):
        assert seen.start % STEP == seen.stop % STEP == 0
        assert seen.start == max(0, own.start - margin)
        assert own.stop + margin <= seen.stop < own.stop + margin + STEP or length <= seen.stop < length + STEP
    for seen, above in zip(region, halve_area(region), strict=True):
        assert (2 * above.start, 2 * above.stop) == (seen.start, seen.stop)
        # The veil of the level above is known for every four pixels.
        assert above.start % 4 == above.stop % 4 == 0


def test_margins_and_cores_lie_on_the_grids_of_the_network():
    pytest.importorskip("torch")
    from allfocus.network import contract, stack_network

    assert AS_CHOSEN.margin % STEP == 0
    assert STEP % (2 * contract.SIZE_MULTIPLE) == 0
    assert stack_network.REACH < FULL_MARGIN


def test_what_areas_share_and_where_it_lies():
    area, other = (slice(2, 9), slice(4, 8)), (slice(5, 20), slice(0, 6))
    assert overlap(area, other) == (slice(5, 9), slice(4, 6))
    assert overlap(area, (slice(9, 12), slice(4, 8))) is None
    assert within((slice(5, 9), slice(4, 6)), area) == (slice(3, 7), slice(0, 2))
    assert pixels_of(area) == 28


# The sharpness of blocks


@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("size", [(64, 96), (70, 100), (5, 3)])
def test_a_blurred_frame_is_less_sharp_in_every_block(size, channels):
    frame = np.random.default_rng(1).random((*size, *channels), dtype=np.float32)
    sharp, blurred = block_sharpness(frame), block_sharpness(cv2.GaussianBlur(frame, (0, 0), 2))
    assert sharp.shape == blurred.shape == (-(-size[0] // BLOCK), -(-size[1] // BLOCK))
    assert (blurred < sharp / 2).all()


@pytest.mark.parametrize("size", [(64, 96), (70, 101)])
@pytest.mark.parametrize("pixel", [(0, 0), (8, 8), (40, 55), (40, 88)])
def test_a_block_is_sixteen_pixels_a_side_from_the_first_on(size, pixel):
    """The energy of a single bright pixel stays in its block if it lies 5 or more from the border."""
    frame = np.zeros(size, np.float32)
    frame[pixel] = 1
    row, column = pixel[0] // BLOCK, pixel[1] // BLOCK
    found = block_sharpness(frame)
    smooth = cv2.GaussianBlur(frame, (0, 0), 1.0)
    energy = cv2.Laplacian(smooth, cv2.CV_32F, ksize=3) ** 2
    part = energy[row * BLOCK : row * BLOCK + BLOCK, column * BLOCK : column * BLOCK + BLOCK]
    assert found[row, column] == pytest.approx(float(part.mean()), rel=1e-5)
    assert found[row, column] > 0
    if pixel != (0, 0):
        assert found[row, column] > 0.7 * found.sum()


@pytest.mark.parametrize("rows", [5, 41])
def test_every_block_is_the_mean_of_its_own_pixels(rows):
    """In pictures that are measured in one strip and in three."""
    frame = np.random.default_rng(3).random((rows * BLOCK, 112), dtype=np.float32)
    energy = cv2.Laplacian(cv2.GaussianBlur(frame, (0, 0), 1.0), cv2.CV_32F, ksize=3) ** 2
    expected = energy.reshape(rows, BLOCK, 7, BLOCK).mean(axis=(1, 3))
    np.testing.assert_allclose(block_sharpness(frame), expected, rtol=1e-5)


def test_integers_are_as_sharp_as_their_values():
    levels = np.random.default_rng(4).integers(0, 65536, (64, 48, 3), dtype=np.uint16)
    np.testing.assert_array_equal(block_sharpness(levels), block_sharpness(from_levels(levels)))


@pytest.mark.parametrize("deviation", [0.5 / 255, 0.02])
def test_the_energy_of_noise_is_what_white_noise_measures(deviation):
    noise = np.random.default_rng(0).normal(0.5, deviation, (640, 640)).astype(np.float32)
    assert block_sharpness(noise).mean() == pytest.approx(NOISE_ENERGY * deviation**2, rel=0.02)


# Fusing in windows


SIZE = (301, 397)
WHOLE = whole_of(*SIZE)
FULL_MARGIN = 48
"""More than the network can see. The margin that is used is smaller, which a test of its own says what costs."""


@pytest.fixture(scope="module")
def desk():
    """Six frames of 301 x 397."""
    return render_scene("desk", frames=6, size=SIZE)


LEVELS = DecisionSettings(margin=FULL_MARGIN, largest_whole_side=128, plan_pixels=50_000)
"""A picture of 301 x 397 is seen whole at level 2; levels 1 and 0 are decided in windows, with a full margin."""
HALF_SCALE = dataclasses.replace(LEVELS, largest_whole_side=64, plan_pixels=15_000, largest_full_scale=1)
"""The same, decided at half scale."""


@pytest.fixture(params=[LEVELS, HALF_SCALE], ids=["1", "2"])
def settings(request):
    """Levels and windows, at full and at half scale."""
    return request.param


def adjust(plan, **changes):
    """The plan with other settings for what is left to decide."""
    return dataclasses.replace(plan, settings=dataclasses.replace(plan.settings, **changes))


class FusedOnce(NamedTuple):
    """What fusing the desk in one core gives."""

    source: MemorySource
    plan: planning.Plan
    maps: Maps
    seen: list[tuple[int, ...]]
    """Shapes of the stacks that the network saw below the plan."""


_KEPT: dict[DecisionSettings, FusedOnce] = {}


@pytest.fixture
def fused_once(desk, settings):
    """The desk in one core; made once for each scale."""
    if settings not in _KEPT:
        source = MemorySource(desk.frames, settings=settings)
        plan = plan_fusion(source, settings=settings)
        with pytest.MonkeyPatch.context() as patch:
            seen = watch_network(patch)
            _KEPT[settings] = FusedOnce(source, plan, fuse_area(plan, source, WHOLE), seen)
    return _KEPT[settings]


def watch_network(monkeypatch) -> list[tuple[int, ...]]:
    """A list that fills with the shapes of the stacks that the network sees, run after run."""
    seen: list[tuple[int, ...]] = []
    run_level = areas.run_level

    def watch(frames, above, **options):
        seen.append(frames.shape)
        return run_level(frames, above, **options)

    for module in (areas, planning):
        monkeypatch.setattr(module, "run_level", watch)
    return seen


def ips_by(settings):
    """The method ips with other settings."""
    return dataclasses.replace(METHODS["ips"], options={"settings": settings})


def assert_same(found, expected):
    """The same picture but for rounding, and the same decisions but for a pixel or two that are even.

    Where frames count as showing the same, the logits count 32 times, and rounding with them: at the most a
    two-hundredth of a level of 8 bits.
    """
    for own, other, step in ((found.image, expected.image, 1e-5), (found.depth, expected.depth, 1e-4)):
        difference = np.abs(own - other)
        assert (difference > step).mean() <= 2e-4
        assert difference.max() <= 2 * step
    assert (found.decision == expected.decision).mean() >= 0.9999


def crop(maps, area):
    return Maps(*(own[area] for own in maps))


@pytest.mark.parametrize(("core", "working"), [(128, None), (64, None), (512, 1)])
def test_cores_of_any_size_give_what_one_core_gives(monkeypatch, desk, settings, fused_once, core, working):
    source, plan, expected, seen_at_once = fused_once
    assert (plan.scale, plan.level) == (2 if settings is HALF_SCALE else 1, 2)
    # One core, so the network saw everything at once at each level.
    size = level_size(plan.decided_size, 0)
    assert [shape[2:] for shape in seen_at_once] == [
        tuple(-(-length // STEP) * STEP for length in level_size(size, level)) for level in (1, 0)
    ]
    seen = watch_network(monkeypatch)
    found = fuse_area(adjust(plan, core=core, working_pixels=working or settings.working_pixels), source, WHOLE)
    # Windows were smaller than the picture, or the test would prove nothing.
    assert len(seen) > 4
    assert any(shape[2] < size[0] and shape[3] < size[1] for shape in seen)
    assert_same(found, expected)
    best = max(peak_signal_noise_ratio(frame, desk.truth) for frame in desk.frames)
    assert peak_signal_noise_ratio(expected.image, desk.truth) > best + 5


@pytest.mark.parametrize("name", ["desk", "slope", "foliage", "insect", "circuit"])
def test_the_margin_that_is_used_costs_less_than_one_level_of_eight_bits(name):
    """Even where cores are as small as they get."""
    frames = render_scene(name, frames=6, size=SIZE).frames
    source = MemorySource(frames)
    plan = plan_fusion(source, settings=LEVELS)
    expected = fuse_area(plan, source, WHOLE)
    found = fuse_area(adjust(plan, margin=AS_CHOSEN.margin, core=AS_CHOSEN.smallest_core), source, WHOLE)
    assert np.abs(found.image - expected.image).max() < 1 / 255
    assert (found.decision == expected.decision).mean() >= 0.999


@pytest.mark.parametrize("name", ["slope", "foliage", "insect"])
def test_cores_of_any_size_give_what_one_core_gives_on_other_scenes(name):
    frames = render_scene(name, frames=5, size=SIZE, noise=0.01).frames
    source = MemorySource(frames)
    plan = plan_fusion(source, settings=LEVELS)
    expected = fuse_area(plan, source, WHOLE)
    assert_same(fuse_area(adjust(plan, core=64), source, WHOLE), expected)


@pytest.mark.parametrize(
    "area",
    [
        (slice(37, 150), slice(101, 333)),
        (slice(200, 301), slice(3, 60)),
        (slice(1, 300), slice(195, 397)),
        (slice(17, 18), slice(0, 397)),
    ],
)
@pytest.mark.parametrize("core", [512, 64])
def test_an_area_that_starts_anywhere_is_that_part_of_the_whole(fused_once, area, core):
    source, plan, expected, _ = fused_once
    found = fuse_area(adjust(plan, core=core), source, area)
    assert found.image.shape[:2] == tuple(own.stop - own.start for own in area)
    assert_same(found, crop(expected, area))


@pytest.mark.parametrize("core", [512, 64])
def test_masks_and_windows_do_not_get_into_each_others_way(desk, core):
    """As after alignment: frames lack pixels at the sides, and no border of a core may show."""
    masks = [np.ones(SIZE, bool) for _ in desk.frames]
    masks[1][:20], masks[3][:, 380:], masks[4][250:, 100:180] = False, False, False
    source = MemorySource(desk.frames, masks)
    plan = plan_fusion(source, settings=LEVELS)
    expected = fuse_area(plan, source, WHOLE)
    area = (slice(60, 301), slice(40, 390))
    assert_same(fuse_area(adjust(plan, core=core), source, area), crop(expected, area))


def test_a_grey_area_is_that_part_of_the_whole_too(desk):
    source = MemorySource([frame[..., 1] for frame in desk.frames[::2]])
    plan = plan_fusion(source, settings=LEVELS)
    area = (slice(20, 120), slice(150, 397))
    assert_same(fuse_area(plan, source, area), crop(fuse_area(plan, source, WHOLE), area))


def test_the_picture_of_fuse_ips_is_that_of_the_plan_and_the_area_of_everything(desk, settings, fused_once):
    for expected, found in zip(fuse_ips(desk.frames, settings=settings), fused_once.maps, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_area_of_a_single_pixel_works(desk, settings):
    source = MemorySource(desk.frames[:3], settings=settings)
    last = fuse_area(plan_fusion(source, settings=settings), source, (slice(300, 301), slice(396, 397)))
    assert last.image.shape == (1, 1, 3)
    assert last.decision.shape == last.depth.shape == last.confidence.shape == (1, 1)
    whole = fuse_ips(desk.frames[:3], settings=settings)
    np.testing.assert_allclose(last.image, whole.image[-1:, -1:], atol=1e-5)


def test_an_area_reads_only_what_it_needs(monkeypatch, desk):
    source = MemorySource(desk.frames)
    plan = plan_fusion(source, settings=LEVELS)
    seen = watch_network(monkeypatch)
    read = []
    take = source.read_reduced

    def watch(index, area, level=0):
        read.append((level, area))
        return take(index, area, level)

    monkeypatch.setattr(source, "read_reduced", watch)
    calls = []
    fuse_area(plan, source, (slice(0, 30), slice(0, 30)), progress=lambda *steps: calls.append(steps))
    # Level 1 and level 0, with a margin each; the margin of the first must hold that of the second.
    assert [shape[2:] for shape in seen] == [(96, 96), (80, 80)]
    assert max(area[0].stop for level, area in read if level == 0) == 32 + FULL_MARGIN
    assert max(area[0].stop for level, area in read if level == 1) <= 48 + FULL_MARGIN
    assert calls[-1] == (100, 100)


def test_a_stack_that_is_seen_as_a_whole_can_be_fused_in_areas_too(desk):
    frames = [frame[:129, :145] for frame in desk.frames]
    source = MemorySource(frames)
    plan = plan_fusion(source)
    assert plan.level == 0
    area = (slice(20, 90), slice(81, 145))
    for expected, found in zip(fuse_ips(frames), fuse_area(plan, source, area), strict=True):
        np.testing.assert_array_equal(found, expected[area])


@pytest.mark.parametrize("count", [3, 14])
@pytest.mark.parametrize("bits", [8, 16])
def test_equal_frames_come_back_bit_for_bit_from_windows(settings, bits, count):
    frame = np.random.default_rng(bits).integers(0, 2**bits, (221, 251, 3)).astype(f"uint{bits}")
    assert (fuse([frame] * count, method=ips_by(settings), check=False).image == frame).all()


@pytest.mark.parametrize("bits", [8, 16])
def test_equal_frames_of_a_scene_come_back_bit_for_bit_from_windows(desk, settings, bits):
    frame = np.rint(desk.frames[2] * (2**bits - 1)).astype(f"uint{bits}")
    assert (fuse([frame] * 3, method=ips_by(settings), check=False).image == frame).all()


@pytest.mark.parametrize("count", [5, 15])
def test_the_order_of_frames_does_not_matter_in_windows(settings, count):
    frames = render_scene("desk", frames=count, size=(197, 261)).frames
    order = np.random.default_rng(count).permutation(count)
    maps, permuted = (fuse_ips(own, settings=settings) for own in (frames, [frames[index] for index in order]))
    np.testing.assert_array_equal(permuted.image, maps.image)
    np.testing.assert_array_equal(order[permuted.decision], maps.decision)
    np.testing.assert_array_equal(permuted.confidence, maps.confidence)


# No frame is left out


@pytest.fixture(scope="module")
def steep():
    """Thirty frames of a slope; nearly every one of them is the sharpest somewhere."""
    return render_scene("slope", frames=30, size=(160, 200))


STEEP_LEVELS = dataclasses.replace(LEVELS, working_pixels=10**9, plan_pixels=250_000)
"""Thirty frames of 160 x 200 are seen whole at half that, and decided in windows once more, with a full margin."""


@pytest.mark.parametrize("smallest", [64, 32])
def test_windows_are_smaller_where_many_frames_compete_and_none_is_left_out(monkeypatch, steep, smallest):
    seen = watch_network(monkeypatch)
    expected = fuse_ips(steep.frames, settings=STEEP_LEVELS)
    assert [shape[2:] for shape in seen] == [(80, 112), (160, 208)]
    assert seen[0][0] == 30
    assert len(np.unique(expected.decision)) >= 25
    seen.clear()
    split = dataclasses.replace(STEEP_LEVELS, working_pixels=1, smallest_core=smallest)
    found = fuse_ips(steep.frames, settings=split)
    assert len(seen) > (12 if smallest == 32 else 3)
    assert_same(found, expected)
    best = max(peak_signal_noise_ratio(frame, steep.truth) for frame in steep.frames)
    assert peak_signal_noise_ratio(expected.image, steep.truth) > best + 3


def test_a_window_holds_no_more_than_it_may_unless_it_is_as_small_as_windows_get(monkeypatch, steep):
    seen = watch_network(monkeypatch)
    settings = dataclasses.replace(STEEP_LEVELS, working_pixels=300_000, smallest_core=32)
    fuse_ips(steep.frames, settings=settings)
    in_windows = seen[1:]
    assert len(in_windows) > 1
    smallest = 2 * settings.smallest_core + 2 * FULL_MARGIN
    for frames, _, height, width in in_windows:
        assert frames * height * width <= 300_000 or max(height, width) <= smallest


def test_a_frame_that_has_lost_has_no_influence_on_a_window(monkeypatch, steep):
    """Windows see the frames that compete; to see all the others as well must change nothing."""
    source = MemorySource(steep.frames)
    plan = plan_fusion(source, settings=dataclasses.replace(STEEP_LEVELS, core=64))
    # On the left the last ten have lost, on the right the first ten.
    behind, middle = plan.tile.behind.astype(np.float32), plan.tile.behind.shape[2] // 2
    chosen = np.asarray(plan.tile.chosen)
    behind[chosen >= 20, :, : middle + 12] = behind[chosen < 10, :, middle - 12 :] = -100
    behind = np.maximum(behind - behind.max(axis=0), -EXCLUSION)
    settled, order = plan.settled.copy(), np.asarray(plan.order)
    settled[order >= 20, :, : middle + 12] = settled[order < 10, :, middle - 12 :] = -100
    plan = dataclasses.replace(plan, tile=dataclasses.replace(plan.tile, behind=behind), settled=settled)
    seen = watch_network(monkeypatch)
    expected = fuse_area(plan, source, whole_of(160, 200))
    few = [shape[0] for shape in seen]
    assert min(few) <= 20
    seen.clear()
    monkeypatch.setattr(LevelDecisions, "competing", lambda self, area: list(self.order))
    found = fuse_area(plan, source, whole_of(160, 200))
    assert [shape[0] for shape in seen] == [30] * len(few)
    assert_same(found, expected)


def texture(seed, size, *, sigma=1.0):
    generator = np.random.default_rng(seed)
    return np.clip(
        0.5 + 2 * (cv2.GaussianBlur(generator.random((*size, 3), dtype=np.float32), (0, 0), sigma) - 0.5), 0, 1
    )


def test_pixels_of_a_frame_that_has_lost_change_nothing():
    """The same seen from the other side: what such a frame shows where it has lost does not matter."""
    sharp = texture(0, SIZE)
    sharp[120:180] = 0.5
    blurred = cv2.GaussianBlur(sharp, (0, 0), 4)
    frames = []
    for number in range(3):
        frame = blurred.copy()
        own = (slice(None), slice(number * SIZE[1] // 3, (number + 1) * SIZE[1] // 3))
        frame[own] = sharp[own]
        frames.append(frame)
    source = MemorySource(frames)
    # The first frame has lost for good beyond column 200, also where there is no detail and nobody has.
    plan = plan_fusion(source, settings=LEVELS)
    behind, settled = plan.tile.behind.copy(), plan.settled.copy()
    assert (behind[plan.tile.chosen.index(0), :24, 52:] == -EXCLUSION).mean() > 0.9
    behind[plan.tile.chosen.index(0), :, 52:] = -EXCLUSION
    behind[plan.tile.chosen.index(2), :, 52:] = 0
    settled[plan.order.index(0), :, 52:] = -100
    plan = dataclasses.replace(plan, tile=dataclasses.replace(plan.tile, behind=behind), settled=settled)
    expected = fuse_area(plan, source, WHOLE)
    # The network sees no farther than its margin.
    first = 4 * 52 + 2 * FULL_MARGIN
    spoilt = frames[0].copy()
    spoilt[:, first:] = texture(1, SIZE, sigma=2.5)[:, first:]
    found = fuse_area(plan, MemorySource([spoilt, *frames[1:]]), WHOLE)
    assert_same(found, expected)
    np.testing.assert_allclose(found.confidence, expected.confidence, atol=1e-4)


# Scales and sources


def test_half_scale_is_nearly_as_good_where_single_pixels_are_not_resolved(monkeypatch):
    desk = render_scene("desk", frames=5, size=(160, 208))
    # As a lens draws on many pixels: the same picture on four times as many.
    frames = [np.clip(cv2.resize(f, (416, 320), interpolation=cv2.INTER_CUBIC), 0, 1) for f in desk.frames]
    truth = np.clip(cv2.resize(desk.truth, (416, 320), interpolation=cv2.INTER_CUBIC), 0, 1)
    full = peak_signal_noise_ratio(fuse_ips(frames).image, truth)
    seen = watch_network(monkeypatch)
    maps = fuse_ips(frames, settings=DecisionSettings(largest_full_scale=1))
    assert {shape[2:] for shape in seen} == {(160, 208)}
    assert maps.image.shape == (320, 416, 3)
    assert maps.decision.shape == maps.depth.shape == maps.confidence.shape == (320, 416)
    assert peak_signal_noise_ratio(maps.image, truth) > full - 1.5


@pytest.mark.parametrize("size", [(229, 245), (197, 250)])
def test_odd_sides_take_every_pixel_from_the_sources(settings, size):
    scene = render_scene("desk", frames=3, size=size)
    maps = fuse_ips(scene.frames, unveil=False, settings=settings)
    assert maps.image.shape == (*size, 3)
    assert maps.decision.shape == maps.depth.shape == maps.confidence.shape == size
    assert (maps.image >= np.min(scene.frames, axis=0) - 1e-6).all()
    assert (maps.image <= np.max(scene.frames, axis=0) + 1e-6).all()


@pytest.mark.parametrize("width", [301, 701])
def test_half_scale_moves_nothing(width):
    """A decision that came back enlarged from the wrong place would miss the middle by a pixel or more."""
    settings = DecisionSettings(largest_full_scale=1, largest_whole_side=128)
    generator = np.random.default_rng(7)
    truth = cv2.resize(
        generator.random((50, width // 2, 3), dtype=np.float32), (width, 99), interpolation=cv2.INTER_CUBIC
    )
    truth = np.clip(truth, 0, 1)
    blurred = cv2.GaussianBlur(truth, (0, 0), 5)
    middle = width // 2
    left = np.arange(width) < middle
    frames = [np.where(left[None, :, None], truth, blurred), np.where(left[None, :, None], blurred, truth)]
    assert plan_fusion(MemorySource(frames, settings=settings), settings=settings).level > 0
    decision = fuse_ips(frames, settings=settings).decision
    borders = (decision == 0).sum(axis=1)
    assert abs(borders.mean() - middle) < 1
    assert (decision[:, : middle - 10] == 0).all()
    assert (decision[:, middle + 10 :] == 1).all()


@pytest.mark.parametrize("bit_depth", [8, 16, 32])
def test_frames_on_disk_give_what_frames_in_memory_give(desk, settings, fused_once, bit_depth):
    in_memory = fused_once.maps
    with open_spool(bit_depth, settings=settings) as spool:
        for frame in desk.frames:
            spool.append(frame)
        on_disk = fuse_ips(spool, settings=settings)
    if bit_depth == 32:
        for expected, found in zip(in_memory, on_disk, strict=True):
            np.testing.assert_array_equal(found, expected)
        return
    # On disk the frames are rounded, by a quarter of a level in the mean, and so are the coarser levels.
    assert (on_disk.decision == in_memory.decision).mean() > (0.99 if bit_depth == 8 else 0.9995)
    assert np.abs(on_disk.image - in_memory.image).mean() < 0.26 / 255
