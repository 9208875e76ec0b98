"""Whole stacks onto one grid."""

import json

import numpy as np
import pytest
from backlit_hairs import draw_backlit_hairs

from allfocus.alignment.estimation import PairEstimate
from allfocus.alignment.stack_alignment import Solution, StackAlignment, align, estimate_stack, is_registered
from allfocus.alignment.stack_walk import Walk
from allfocus.alignment.transforms import corners, motion_of, move_points, warp_picture
from allfocus.errors import InputError
from allfocus.images.image import Image, ImageStack
from allfocus.scenes.rendering import render_scene

SIZE = (240, 320)


@pytest.fixture(scope="module")
def still():
    return render_scene("desk", frames=4, size=SIZE)


@pytest.fixture(scope="module")
def moved():
    return render_scene("circuit", frames=6, size=(360, 480), breathing=0.006, shake=4.0, exposure=0.1, noise=0.01)


@pytest.fixture(scope="module")
def moved_alignment(moved):
    return estimate_stack(lambda index: moved.frames[index], len(moved.frames))


def corner_errors(alignment, scene):
    to_reference = np.linalg.inv(scene.transforms[alignment.reference])
    points = corners(alignment.size)
    return np.array(
        [
            np.hypot(*(move_points(found, points) - move_points(to_reference @ true, points)).T)
            for found, true in zip(alignment.transforms, scene.transforms, strict=True)
        ]
    )


def test_breathing_and_shake_are_found_to_a_tenth_of_a_pixel(moved, moved_alignment):
    assert moved_alignment.model == "similarity"
    assert not moved_alignment.registered
    assert moved_alignment.reference == 3
    assert np.array_equal(moved_alignment.transforms[3], np.eye(3))
    assert np.median(corner_errors(moved_alignment, moved)) < 0.1
    assert min(moved_alignment.confidences) > 0.8
    assert not moved_alignment.warnings


def test_exposure_is_found_to_two_percent(moved, moved_alignment):
    for light, gains in zip(moved.exposures, moved_alignment.brightness, strict=True):
        assert gains == pytest.approx([moved.exposures[3] / light] * 3, rel=0.02)


def test_the_reference_can_be_chosen(moved):
    alignment = estimate_stack(lambda index: moved.frames[index], len(moved.frames), reference=0)
    assert alignment.reference == 0
    assert np.median(corner_errors(alignment, moved)) < 0.15


def test_the_same_stack_gives_the_same_alignment(moved, moved_alignment):
    again = estimate_stack(lambda index: moved.frames[index], len(moved.frames))
    assert again.to_json() == moved_alignment.to_json()


def test_pure_shifts_are_taken_for_a_translation(still):
    shifts = [(0, 0), (5, 3), (-2, 4), (3, -3)]
    frames = [np.roll(frame, shift, (0, 1))[8:-8, 8:-8] for frame, shift in zip(still.frames, shifts, strict=True)]
    alignment = estimate_stack(lambda index: frames[index], 4, reference=0)
    assert alignment.model == "translation"
    for transform, (down, right) in zip(alignment.transforms, shifts, strict=True):
        assert transform[:2, 2] == pytest.approx([-right, -down], abs=0.15)
        assert np.array_equal(transform[:2, :2], np.eye(2))


@pytest.mark.parametrize("seed", [0, 2])
def test_hairs_before_white_that_were_shifted_are_not_scaled(seed):
    wide = [draw_backlit_hairs(focus, size=(256, 336), seed=seed) for focus in range(4)]
    places = [(0, 0), (7, 3), (2, 9), (10, 5)]
    frames = [frame[top : top + 240, left : left + 320] for frame, (top, left) in zip(wide, places, strict=True)]
    alignment = estimate_stack(lambda index: frames[index], 4, reference=0)
    for transform, (down, right) in zip(alignment.transforms, places, strict=True):
        assert np.array_equal(transform[:2, :2], np.eye(2))
        assert transform[:2, 2] == pytest.approx([right, down], abs=0.8)


@pytest.mark.parametrize("name", ["desk", "foliage", "slope", "flat"])
def test_a_registered_stack_is_left_alone_bit_for_bit(name):
    frames = render_scene(name, frames=4, size=SIZE).frames
    result = align(frames)
    assert result.alignment.registered
    assert all(np.array_equal(transform, np.eye(3)) for transform in result.alignment.transforms)
    assert all(np.array_equal(given, got) for given, got in zip(frames, result.frames, strict=True))
    assert result.alignment.common_area() == (0, 0, *SIZE)


def test_a_shift_of_less_than_a_pixel_is_not_taken_for_registered():
    scene = render_scene("desk", frames=4, size=SIZE, shake=0.8)
    alignment = estimate_stack(lambda index: scene.frames[index], 4)
    assert not alignment.registered
    assert np.median(corner_errors(alignment, scene)) < 0.1


def small_motion(pixels, *, rise=0.5, error=0.001):
    """A walk over two frames of which one moved by so many pixels, measured with this error."""
    walk = Walk(reference=0, count=2, size=SIZE, channels=1)
    moved = motion_of(np.array([pixels, 0.0]))
    walk.pairs[1, 0] = PairEstimate(moved, np.eye(8), np.zeros(8), 1.0, 0.4 + rise, 0.4)
    return walk, Solution({0: np.eye(3), 1: moved}, {0: 0.0, 1: error}, {0: 0.0, 1: 0.0}, 0.0)


@pytest.mark.parametrize(
    ("pixels", "options", "registered"),
    [
        (0.24, {}, True),  # below a quarter of a pixel nothing is moved, however certain it is
        (0.26, {}, False),
        (0.5, {"error": 0.2}, True),  # three times its error
        (1.9, {"rise": 0.01}, True),  # the frames do not become more alike
        (1.9, {"rise": 0.03}, False),
        (2.1, {"rise": 0.01}, False),
    ],
)
def test_motion_counts_from_a_quarter_of_a_pixel_and_from_what_is_certain(pixels, options, registered):
    assert is_registered(*small_motion(pixels, **options)) is registered


def test_growth_of_less_than_a_quarter_of_a_pixel_at_the_corners_is_taken_for_a_translation(still):
    frames = [still.frames[0], warp_picture(still.frames[0], motion_of(np.array([3.0, 2.0, 0.0005])))]
    alignment = estimate_stack(lambda index: frames[index][8:-8, 8:-8], 2)
    assert alignment.model == "translation"


def test_a_frame_of_another_scene_is_named_and_not_warped(still):
    frames = list(still.frames)
    frames[1] = render_scene("circuit", frames=2, size=SIZE).frames[0]
    alignment = estimate_stack(lambda index: frames[index], 4)
    assert alignment.outliers == (1,)
    assert alignment.kept == (0, 2, 3)
    assert alignment.confidences[1] == 0
    assert "frame 2" in alignment.warnings[0]
    with pytest.raises(InputError, match="frame 2"):
        alignment.apply(1, frames[1])
    with pytest.raises(InputError, match="frame 2"):
        align(frames)
    assert len(align(frames, skip_outliers=True).frames) == 3


def test_a_blank_frame_is_called_blank(still):
    frames = [*still.frames[:3], np.full_like(still.frames[0], 0.4)]
    alignment = estimate_stack(lambda index: frames[index], 4)
    assert alignment.outliers == (3,)
    assert "blank" in alignment.warnings[0]


def test_a_stranger_in_the_middle_does_not_become_the_reference(still):
    frames = list(still.frames)
    frames[2] = render_scene("circuit", frames=2, size=SIZE).frames[0]
    alignment = estimate_stack(lambda index: frames[index], 4)
    assert alignment.reference != 2
    assert alignment.outliers == (2,)


def test_frames_without_anything_in_common_cannot_be_aligned(still):
    other = render_scene("circuit", frames=2, size=SIZE).frames[0]
    with pytest.raises(InputError, match="leave it out"):
        align([still.frames[0], other])
    with pytest.raises(InputError, match="no two frames"):
        align([still.frames[0], other], skip_outliers=True)


def test_frames_are_read_one_at_a_time_and_at_most_once(moved):
    asked = []

    def read(index):
        asked.append(index)
        return moved.frames[index]

    estimate_stack(read, len(moved.frames), model="similarity")
    assert sorted(asked) == list(range(len(moved.frames)))


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (8, 8), (17, 17), (1, 160), (63, 160)])
def test_frames_too_small_to_tell_are_left_where_they_are(still, size):
    frames = [frame[: size[0], : size[1]] for frame in still.frames[:3]]
    result = align(frames)
    assert all(np.array_equal(moved, frame) for moved, frame in zip(result.frames, frames, strict=True))
    assert not result.alignment.measured
    assert result.alignment.warnings == (
        f"frames of {size[1]}x{size[0]} pixels are too small to be aligned; they were taken as they lie",
    )
    assert not StackAlignment.from_json(result.alignment.to_json()).measured


def test_a_stack_that_was_read_can_be_aligned_as_it_is(still):
    stack = ImageStack([Image(frame) for frame in still.frames])
    for moved, frame in zip(align(stack).frames, align(still.frames).frames, strict=True):
        np.testing.assert_array_equal(moved, frame)


def test_blank_frames_are_left_where_they_are():
    frames = [np.full((120, 160, 3), 0.25, np.float32)] * 3
    result = align(frames)
    assert all(np.array_equal(moved, frames[0]) for moved in result.frames)
    assert not result.alignment.measured
    assert "all frames are blank" in result.alignment.warnings[0]


def test_small_frames_that_differ_in_size_are_named(still):
    with pytest.raises(InputError, match="frame 1 is 20x10 with 3 channels, frame 2 21x10"):
        align([still.frames[0][:10, :20], still.frames[1][:10, :21]])


def test_progress_counts_to_the_end(still):
    steps = []
    estimate_stack(lambda index: still.frames[index], 4, progress=lambda done, count: steps.append((done, count)))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_every_frame_has_pixels_in_the_common_area(moved, moved_alignment):
    top, left, bottom, right = moved_alignment.common_area()
    assert (bottom - top) * (right - left) > 0.85 * 360 * 480
    frame, inside = moved_alignment.apply(5, moved.frames[5])
    assert inside[top:bottom, left:right].all()
    assert not inside.all()
    assert frame.dtype == np.float32
    assert 0 <= frame.min() <= frame.max() <= 1


def test_an_aligned_frame_is_the_frame_that_a_steady_camera_would_have_taken():
    steady = render_scene("slope", frames=4, size=SIZE).frames[3]
    shaken = render_scene("slope", frames=4, size=SIZE, breathing=0.01, shake=3.0, exposure=0.1).frames
    alignment = estimate_stack(lambda index: shaken[index], 4, reference=0)
    exposure = render_scene("slope", frames=4, size=SIZE, exposure=0.1).frames[0]
    top, left, bottom, right = alignment.common_area()
    moved = alignment.apply(3, shaken[3])[0]
    gain = exposure.mean() / render_scene("slope", frames=4, size=SIZE).frames[0].mean()
    difference = (moved - steady * gain)[top:bottom, left:right]
    assert np.sqrt(np.mean(difference**2)) < 0.012
    assert np.sqrt(np.mean((shaken[3] - steady)[top:bottom, left:right] ** 2)) > 0.05


def test_applying_never_leaves_the_range_of_the_source():
    alignment = StackAlignment(
        transforms=(np.eye(3), motion_of(np.array([0.37, -0.61, 0.001]))),
        brightness=((1.0,), (1.0,)),
        confidences=(1.0, 1.0),
        model="similarity",
        reference=0,
        size=(40, 50),
        registered=False,
    )
    frame = (0.3 + 0.2 * np.random.default_rng(0).integers(0, 2, (40, 50))).astype(np.float32)
    assert alignment.apply(0, frame)[0] is frame
    moved, _ = alignment.apply(1, frame)
    assert moved.min() >= frame.min()
    assert moved.max() <= frame.max()


def test_the_alignment_survives_json(moved, moved_alignment):
    text = json.dumps(moved_alignment.to_json())
    back = StackAlignment.from_json(json.loads(text))
    assert back.to_json() == moved_alignment.to_json()
    assert np.array_equal(back.apply(0, moved.frames[0])[0], moved_alignment.apply(0, moved.frames[0])[0])


@pytest.mark.parametrize("change", [{"transforms": [[1, 2]]}, {"size": [3]}, {"confidences": []}, {"reference": 99}])
def test_json_of_another_kind_is_refused(moved_alignment, change):
    with pytest.raises(InputError, match="align the frames again"):
        StackAlignment.from_json({**moved_alignment.to_json(), **change})
    with pytest.raises(InputError, match="align the frames again"):
        StackAlignment.from_json({})


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float64])
def test_frames_keep_their_data_type(kind):
    scene = render_scene("slope", frames=2, size=(120, 160), shake=3.0)
    scale = 1.0 if kind == np.float64 else np.iinfo(kind).max
    frames = [np.rint(f * scale).astype(kind) if scale > 1 else f.astype(kind) for f in scene.frames]
    result = align(frames)
    assert not result.alignment.registered
    assert {frame.dtype for frame in result.frames} == {np.dtype(kind)}
    assert len({frame.shape for frame in result.frames}) == 1


def test_without_cropping_the_size_stays():
    scene = render_scene("slope", frames=2, size=(120, 160), shake=3.0)
    assert align(scene.frames, crop=False).frames[1].shape == (120, 160, 3)


def test_brightness_is_left_alone_on_request(moved):
    alignment = estimate_stack(lambda index: moved.frames[index], 2, match_brightness=False)
    assert alignment.brightness == ((1.0, 1.0, 1.0),) * 2


@pytest.mark.parametrize(
    ("frames", "options", "message"),
    [
        (1, {}, "at least 2 frames, got 1"),
        (0, {}, "at least 2 frames, got 0"),
        (2, {"model": "elastic"}, "no model 'elastic'"),
        (2, {"reference": 2}, "frame 3, but the stack has frames 1 to 2"),
    ],
)
def test_requests_that_cannot_be_met_are_refused(still, frames, options, message):
    with pytest.raises(InputError, match=message):
        align(still.frames[:frames], **options)


def test_frames_that_do_not_fit_together_are_named(still):
    good = still.frames[0]
    broken = good.copy()
    broken[3, 4] = np.nan
    for other, message in (
        (good[:-1], "frame 1 is 320x240 with 3 channels, frame 2 320x239"),
        (good[..., 0], "channels"),
        (broken, "frame 2 holds values that are not finite"),
        (good[:4], "frame 2 320x4 "),
        ((good * 100).astype(np.int32), "int32"),
    ):
        with pytest.raises(InputError, match=message):
            align([good, other])
