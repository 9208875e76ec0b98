import tracemalloc

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allfocus.errors import InputError
from allfocus.fusion.detail_meter import DetailMeter, measure_lost_detail, measured_scale
from allfocus.fusion.lost_detail import LostDetail, paint_lost_detail
from allfocus.fusion.lost_places import LostPlace
from allfocus.images.spool import FrameSpool
from allfocus.scenes.rendering import render_scene


def blur(picture, sigma):
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), sigma), np.float32)


def draw_things(seed=0, size=(240, 320)):
    """Thin dark lines and small texture on bright ground: what a photographer would miss."""
    generator = np.random.default_rng(seed)
    picture = np.full(size, 0.8, np.float32)
    for _ in range(25):
        start, end = (tuple(int(v) for v in generator.integers(0, size[::-1])) for _ in range(2))
        cv2.line(picture, start, end, float(generator.uniform(0.1, 0.5)), int(generator.integers(2, 5)), cv2.LINE_AA)
    return blur(picture, 0.7)


def make_noise(sigma, size=(240, 320), seed=1):
    return np.random.default_rng(seed).normal(0, sigma, size).astype(np.float32)


@pytest.fixture(scope="module")
def scene():
    return render_scene("insect", frames=6, size=(360, 480))


def select_sharpest(frames):
    energy = [blur(np.square(f - blur(f, 2)).sum(axis=-1), 3) for f in frames]
    chosen = np.argmax(energy, axis=0)
    return np.take_along_axis(np.stack(frames), chosen[None, ..., None], axis=0)[0]


def test_a_picture_as_sharp_as_its_frames_lost_nothing():
    sharp = draw_things()
    lost = measure_lost_detail(sharp, [sharp, blur(sharp, 3)])
    assert (lost.share, lost.erased, lost.places) == (0.0, 0.0, ())
    assert set(lost.bands.values()) == {0.0}
    assert not lost.map.any()
    assert (lost.frames == -1).all()
    assert not lost.is_worth_a_warning
    assert lost.warning == ""


@pytest.mark.parametrize("name", ["insect", "foliage", "circuit"])
def test_an_erased_patch_of_a_scene_is_found_and_nothing_else(name):
    scene = render_scene(name, frames=6, size=(360, 480))
    frames = [np.asarray(frame, np.float32) for frame in scene.frames]
    fused = select_sharpest(frames)
    before = measure_lost_detail(fused, frames)
    assert before.share < 0.5
    # The patch with most detail that some frame does not show.
    detail = [blur(np.square(f - blur(f, 2)).sum(axis=-1), 12) for f in frames]
    row, column = np.unravel_index(
        int((np.max(detail, axis=0) - np.min(detail, axis=0))[60:-60, 60:-60].argmax()), (240, 360)
    )
    patch = np.s_[row + 40 : row + 80, column + 40 : column + 80]
    dullest = int(np.argmin([own[row + 60, column + 60] for own in detail]))
    sharpest = int(np.argmax([own[row + 60, column + 60] for own in detail]))
    fused[patch] = frames[dullest][patch]
    after = measure_lost_detail(fused, frames)
    marked = np.repeat(np.repeat(after.map > 0, after.cell, 0), after.cell, 1)[:360, :480]
    assert marked[patch].mean() > 0.5
    outside = marked.copy()
    outside[row + 30 : row + 90, column + 30 : column + 90] = False
    assert 100 * outside.mean() < before.share + 0.3
    worst = after.places[0]
    assert worst.left < column + 80
    assert worst.left + worst.width > column + 40
    assert worst.top < row + 80
    assert worst.top + worst.height > row + 40
    assert abs(worst.frame - sharpest) <= 1
    assert 0.5 <= worst.lost <= 1
    assert after.is_worth_a_warning


@settings(max_examples=12, deadline=None)
@given(scale=st.floats(1e-3, 1e4), offset=st.floats(-2, 2))
def test_the_unit_of_the_values_does_not_matter(scale, offset):
    sharp = draw_things() + make_noise(0.004)
    soft = blur(sharp, 5) + make_noise(0.004, seed=2)
    fused = sharp.copy()
    fused[100:140, 120:200] = soft[100:140, 120:200]

    def convert(picture):
        return (picture * scale + offset * scale).astype(np.float32)

    plain = measure_lost_detail(fused, [sharp, soft])
    other = measure_lost_detail(convert(fused), [convert(sharp), convert(soft)])
    assert plain.share > 1
    assert other.share == pytest.approx(plain.share, abs=0.05)
    assert other.bands == pytest.approx(plain.bands, abs=0.1)
    assert (other.places[0].left, other.places[0].top) == (plain.places[0].left, plain.places[0].top)


def test_a_stack_stored_in_50_to_600_of_65535_is_measured_like_the_same_at_full_range():
    sharp = draw_things()
    soft = blur(sharp, 5)
    fused = sharp.copy()
    fused[100:140, 120:200] = soft[100:140, 120:200]
    plain = measure_lost_detail(fused, [sharp, soft])
    dark = [np.round(50 + 550 * picture) / np.float32(65535) for picture in (fused, sharp, soft)]
    other = measure_lost_detail(dark[0], dark[1:])
    assert other.share == pytest.approx(plain.share, rel=0.05)
    assert other.is_worth_a_warning


@pytest.mark.parametrize("sigma", [0.01, 0.05])
@pytest.mark.parametrize("grows", [False, True])
def test_noise_that_averaging_removed_is_no_lost_detail(sigma, grows):
    ground = np.tile(np.linspace(0.05, 1, 320, dtype=np.float32), (240, 1))
    # Noise of light grows with the light.
    shape = np.sqrt(ground) if grows else 1
    frames = [ground + shape * make_noise(sigma, seed=seed) for seed in range(16)]
    lost = measure_lost_detail(np.mean(frames, axis=0, dtype=np.float32), frames)
    assert lost.share < 0.05


@pytest.mark.parametrize("radius", [6, 12, 24])
def test_the_ring_of_a_thing_out_of_focus_is_no_lost_detail(radius):
    sharp = np.full((320, 320), 0.5, np.float32)
    cv2.circle(sharp, (160, 160), 6, 1.0, -1, cv2.LINE_AA)
    cv2.circle(sharp, (80, 90), 4, 0.0, -1, cv2.LINE_AA)
    disc = cv2.circle(np.zeros((65, 65), np.float32), (32, 32), radius, 1.0, -1, cv2.LINE_AA)
    soft = cv2.filter2D(sharp, -1, disc / disc.sum())
    assert measure_lost_detail(sharp, [sharp, soft]).share == 0
    # The same stack does tell when it is the thing itself that is lost.
    assert measure_lost_detail(soft, [sharp, soft]).share > 0.1


def test_the_veil_of_a_bright_thing_is_no_lost_detail():
    sharp = draw_things()
    bright = np.zeros_like(sharp)
    bright[:, 150:170] = 2
    veiled = blur(sharp, 6) + blur(bright, 25)
    assert measure_lost_detail(sharp, [sharp, veiled]).share == 0


def test_the_rim_in_which_padded_frames_end_is_left_out():
    sharp = draw_things()
    padded = blur(sharp, 4)
    for side in (np.s_[:3], np.s_[-3:], np.s_[:, :3], np.s_[:, -3:]):
        padded[side] = 0
    assert measure_lost_detail(sharp, [sharp, padded]).share == 0


def test_a_frame_counts_only_where_it_has_pixels():
    sharp = draw_things()
    soft = blur(sharp, 4)
    valid = np.zeros(sharp.shape, bool)
    valid[:, :160] = True
    everywhere = np.ones_like(valid)
    lost = measure_lost_detail(soft, [sharp, soft], valid=[valid, everywhere])
    border = 160 // lost.cell
    assert (lost.map[:, : border - 20] > 0).any()
    assert not (lost.map[:, border:] > 0).any()


def test_the_edge_of_a_frame_that_ends_inside_the_picture_is_no_detail():
    ground = draw_things()
    valid = np.zeros(ground.shape, bool)
    valid[:, :160] = True
    ending = np.where(valid, blur(ground, 3), np.float32(0))
    assert measure_lost_detail(ground * 0 + 0.8, [ending, ground * 0 + 0.8]).share > 0
    masks = [valid, np.ones_like(valid)]
    smooth = [np.where(valid, np.float32(0.8), np.float32(0)), ground * 0 + 0.8]
    assert measure_lost_detail(smooth[1], smooth).share > 0
    assert measure_lost_detail(smooth[1], smooth, valid=masks).share == 0


def test_the_frame_that_has_the_detail_is_named():
    sharp = draw_things()
    frames = [blur(sharp, 6), blur(sharp, 4), sharp, blur(sharp, 5)]
    lost = measure_lost_detail(frames[0], frames)
    assert lost.places[0].frame == 2
    assert (lost.frames[lost.frames >= 0] == 2).mean() > 0.95
    assert ((lost.frames >= 0) == (lost.map > 0)).all()


def test_places_lie_in_the_picture_do_not_overlap_and_begin_with_the_worst():
    sharp = draw_things(size=(300, 400))
    soft = blur(sharp, 5)
    fused = sharp.copy()
    fused[150:250, 200:350] = soft[150:250, 200:350]
    fused[40:60, 40:70] = soft[40:60, 40:70]
    places = measure_lost_detail(fused, [sharp, soft]).places
    assert len(places) > 1
    assert places[0].left + places[0].width > 200
    assert places[0].top + places[0].height > 150
    taken = np.zeros(sharp.shape, int)
    for place in places:
        assert 0 <= place.left < place.left + place.width <= 400
        assert 0 <= place.top < place.top + place.height <= 300
        taken[place.top : place.top + place.height, place.left : place.left + place.width] += 1
    assert taken.max() == 1


def test_a_spool_is_measured_like_frames_in_memory(scene):
    frames = [np.asarray(frame, np.float32) for frame in scene.frames]
    valid = np.ones(frames[0].shape[:2], bool)
    valid[:, :80] = False
    with FrameSpool(bit_depth=32) as spool:
        for index, frame in enumerate(frames):
            spool.append(frame, valid if index == 0 else None)
        spooled = measure_lost_detail(frames[-1], spool)
    everywhere = np.ones_like(valid)
    memory = measure_lost_detail(frames[-1], frames, valid=[valid] + [everywhere] * (len(frames) - 1))
    assert spooled.share == memory.share > 0
    assert np.array_equal(spooled.map, memory.map)


class Repeated:
    """A long stack of which no frame stays in memory."""

    def __init__(self, picture, count):
        self.picture, self.count = picture, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index >= self.count:
            raise IndexError
        return self.picture + np.float32(index / 1000)


def test_memory_does_not_grow_with_the_number_of_frames():
    peaks = []
    sharp = draw_things()
    for count in (3, 60):
        tracemalloc.start()
        measure_lost_detail(sharp, Repeated(sharp, count))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_large_pictures_are_measured_at_half_scale_and_named_in_their_own_pixels():
    sharp = cv2.resize(draw_things(), (1600, 1200), interpolation=cv2.INTER_CUBIC)
    soft = blur(sharp, 12)
    fused = sharp.copy()
    fused[600:800, 1000:1300] = soft[600:800, 1000:1300]
    assert measured_scale(1200, 1600) == 2
    lost = measure_lost_detail(fused, [sharp, soft])
    assert lost.cell == 4
    assert lost.map.shape == (300, 400)
    assert sorted(lost.bands) == [1, 2, 3, 4, 5]
    assert 900 <= lost.places[0].left <= 1300
    assert 550 <= lost.places[0].top <= 800


@pytest.mark.parametrize("size", [(1, 1), (7, 5), (33, 17), (65, 64), (101, 67)])
def test_pictures_of_any_size_can_be_measured(size):
    frame = np.random.default_rng(0).random(size).astype(np.float32)
    lost = measure_lost_detail(frame, [frame, frame * 0])
    assert lost.share == 0
    assert lost.map.shape == (-(-size[0] // 2), -(-size[1] // 2)) == lost.frames.shape


def test_frames_of_another_size_are_refused():
    with pytest.raises(InputError, match="frame 2 is 9x8, the fused picture 8x8"):
        measure_lost_detail(np.zeros((8, 8)), [np.zeros((8, 8)), np.zeros((8, 9))])
    with pytest.raises(InputError, match="0 frames"):
        measure_lost_detail(np.zeros((8, 8)), [])
    with pytest.raises(InputError, match="frame 1 has shape"):
        DetailMeter(np.zeros((8, 8), np.float32)).add(np.zeros((4, 4), np.float32))


def make_lost(share, erased):
    place = LostPlace(10, 20, 40, 60, frame=2, lost=0.75)
    return LostDetail(share, erased, {1: share}, np.zeros((2, 2), np.float32), np.zeros((2, 2), np.int16), 2, (place,))


@pytest.mark.parametrize(
    ("share", "erased", "warns"), [(0.3, 0.02, False), (0.31, 0.0, True), (0.03, 0.021, True), (0.0, 0.0, False)]
)
def test_the_warning_begins_above_its_thresholds(share, erased, warns):
    lost = make_lost(share, erased)
    assert lost.is_worth_a_warning == warns
    assert bool(lost.warning) == warns


def test_the_warning_names_share_place_and_frame():
    assert make_lost(0.84, 0.1).warning == (
        "detail lost in 0.84 % of the picture, most at 30, 50: frame 3 shows more there"
    )


def test_plain_figures_count_frames_from_one():
    plain = make_lost(0.84, 0.1).to_plain()
    assert plain["share"] == 0.84
    assert plain["bands"] == {"1": 0.84}
    assert plain["places"] == [{"left": 10, "top": 20, "width": 40, "height": 60, "frame": 3, "lost": 0.75}]


def test_lost_places_are_painted_warm_on_grey():
    sharp = draw_things()
    soft = blur(sharp, 5)
    fused = sharp.copy()
    fused[100:140, 120:200] = soft[100:140, 120:200]
    lost = measure_lost_detail(fused, [sharp, soft])
    painted = paint_lost_detail(np.repeat(fused[..., None], 3, axis=2), lost)
    assert painted.shape == (240, 320, 3)
    assert painted.min() >= 0
    assert painted.max() <= 1
    warm = painted[..., 0] - painted[..., 2] > 0.3
    assert warm[100:140, 120:200].any()
    assert not warm[:60].any()
    dark = paint_lost_detail(fused / 1000, lost)
    assert dark.mean() > 0.5


def test_share_and_erased_are_those_of_the_map():
    sharp = draw_things()
    lost = measure_lost_detail(blur(sharp, 3), [sharp, blur(sharp, 3)])
    assert lost.share == pytest.approx(100 * (lost.map > 0).mean())
    assert lost.erased == pytest.approx(100 * (lost.map > 2 / 3).mean())
    assert 0 < lost.erased < lost.share
    assert lost.map[lost.map > 0].min() > 0.5


def test_a_thin_thing_is_marked_narrowly():
    sharp = np.full((240, 320), 0.8, np.float32)
    cv2.line(sharp, (40, 60), (280, 180), 0.2, 3, cv2.LINE_AA)
    soft = blur(sharp, 8)
    lost = measure_lost_detail(soft, [sharp, soft])
    marked = np.repeat(np.repeat(lost.map > 0, 2, axis=0), 2, axis=1)
    column = np.flatnonzero(marked[:, 160])
    assert 4 <= len(column) <= 24
    assert abs(column.mean() - 120) < 4


def test_detail_is_found_in_a_stack_that_is_soft_throughout():
    sharp = blur(draw_things(1), 3.5)
    soft = blur(sharp, 8)
    fused = sharp.copy()
    fused[80:160, 100:220] = soft[80:160, 100:220]
    marked = measure_lost_detail(fused, [sharp, soft]).map > 0
    assert marked[40:80, 50:110].mean() > 0.35


def test_noise_of_many_frames_is_no_lost_detail_nor_is_that_of_bright_things():
    ground = np.full((128, 128), 0.01, np.float32)
    ground[40:80, 40:80] = 0.8
    frames = [ground + np.sqrt(ground) * make_noise(0.05, ground.shape, seed) for seed in range(100)]
    lost = measure_lost_detail(np.mean(frames, axis=0, dtype=np.float32), frames)
    assert lost.share < 0.05
    lost = measure_lost_detail(np.mean(frames[:8], axis=0, dtype=np.float32), frames[:8])
    assert lost.share < 0.05


def test_noise_that_one_frame_lacks_because_it_is_clipped_is_no_lost_detail():
    ground = np.tile(np.linspace(0.1, 0.9, 320, dtype=np.float32), (240, 1))
    clipped, noisy = (ground + make_noise(0.08, seed=seed) for seed in (1, 2))
    clipped[60:140, 100:200] = 1
    fused = noisy.copy()
    fused[60:140, 100:200] = 1
    lost = measure_lost_detail(fused, [clipped, noisy])
    assert not (lost.map[40:60, 60:90] > 0).any()


def test_a_soft_shadow_that_only_a_blurred_frame_shows_is_no_lost_detail():
    ground = np.full((320, 320), 0.7, np.float32)
    thing = np.zeros_like(ground)
    thing[150:190, 150:190] = 0.6
    shadowed = ground - blur(thing, 12)
    assert np.abs(shadowed - ground).max() > 0.3
    assert measure_lost_detail(ground, [ground, shadowed]).share == 0


def test_a_frame_that_is_less_sharp_cannot_show_more():
    """Transparent cells: out of focus they are blots, with edges, and stronger than the fine lines they really are."""
    sharp = np.full((320, 320), 0.5, np.float32)
    blots = sharp.copy()
    for across in range(60, 300, 60):
        for down in range(60, 300, 60):
            for shift in range(-9, 10, 3):
                cv2.line(sharp, (across - 9, down + shift), (across + 9, down + shift), 0.9, 1)
            cv2.circle(blots, (across, down), 10, 0.1, -1, cv2.LINE_AA)
    assert measure_lost_detail(sharp, [sharp, blur(blots, 1)]).share == 0


def test_a_faint_fringe_beside_a_strong_edge_passes_for_its_ring():
    sharp = np.full((320, 320), 0.3, np.float32)
    sharp[:, 160:] = 0.9
    fringed = sharp.copy()
    fringed[:, 152:154] += 0.06
    assert measure_lost_detail(sharp, [sharp, fringed]).share == 0
    flat = np.full_like(sharp, 0.3)
    flat[:40, :40] = 0.9
    alone = flat.copy()
    alone[:, 152:154] += 0.06
    assert measure_lost_detail(flat, [flat, alone]).share > 0


def test_the_blur_of_what_lies_in_the_rim_is_no_lost_detail():
    sharp = np.full((240, 320), 0.8, np.float32)
    sharp[:, :4] = 0.1
    for sigma in (2, 3, 4, 6):
        assert measure_lost_detail(sharp, [sharp, blur(sharp, sigma)]).share == 0
