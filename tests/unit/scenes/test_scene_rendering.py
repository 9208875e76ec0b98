import math

import numpy as np
import pytest
from scipy import ndimage

from allfocus.errors import InputError
from allfocus.scenes.catalogue import SCENES, SceneDescription
from allfocus.scenes.layers import Sprite
from allfocus.scenes.rendering import render_scene
from allfocus.scenes.textures import to_linear_light

SMALL = (96, 128)
FAR_GREY, NEAR_GREY = 0.3, 0.9


def add_scene(monkeypatch, build, aperture=0.05):
    monkeypatch.setitem(SCENES, "handmade", SceneDescription("handmade", "for one test", aperture, build))


def grey(stage, value):
    return np.full((*stage.shape, 3), value, dtype=np.float32)


def half_covered(stage):
    """An even far wall at distance 1, and a bright near sheet at 0.5 over the columns left of the middle."""
    alpha = np.zeros(stage.shape, dtype=np.float32)
    alpha[:, : stage.margin + stage.width // 2] = 1.0
    return [stage.cover(Sprite(grey(stage, NEAR_GREY), alpha), 0.5), stage.fill(grey(stage, FAR_GREY), 1.0)]


def one_spot(stage):
    """A small soft spot off the middle of a dark wall."""
    rows, columns = stage.grid()
    distance = np.hypot((rows - 0.3) * stage.height, (columns - 0.75) * stage.width)
    return [stage.fill(np.repeat(np.exp(-(distance[..., None] ** 2) / 18), 3, axis=2).astype(np.float32), 1.0)]


def centre_of_light(picture):
    weight = picture[..., 1].astype(np.float64)
    weight = np.where(weight > 0.05, weight, 0)
    rows, columns = np.indices(weight.shape)
    return np.array([(weight * columns).sum(), (weight * rows).sum(), weight.sum()]) / weight.sum()


def share_covered(outside, radius):
    """Share of a disk that lies beyond a straight edge at ``outside`` pixels from its centre."""
    u = outside / radius
    return (math.acos(u) - u * math.sqrt(1 - u**2)) / math.pi


def error(first, second):
    return float(np.mean((first.astype(np.float64) - second) ** 2))


def test_the_same_arguments_give_the_same_pixels():
    options = {"frames": 3, "size": SMALL, "shake": 1.0, "noise": 0.02, "exposure": 0.2, "breathing": 0.002}
    first, second = render_scene("desk", **options), render_scene("desk", **options)

    for one, other in zip(
        [*first.frames, first.truth, first.depth], [*second.frames, second.truth, second.depth], strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert first.focus_distances == second.focus_distances


def test_another_seed_gives_another_picture():
    assert (
        error(
            render_scene("desk", frames=1, size=SMALL).truth, render_scene("desk", frames=1, size=SMALL, seed=1).truth
        )
        > 1e-4
    )


@pytest.mark.parametrize("name", sorted(SCENES))
def test_truth_is_what_a_pinhole_sees(name):
    scene = render_scene(name, frames=2, size=SMALL, aperture=0.0)

    for frame in scene.frames:
        np.testing.assert_array_equal(frame, scene.truth)


def test_truth_does_not_depend_on_lens_camera_or_number_of_frames():
    plain = render_scene("desk", frames=2, size=SMALL)
    rough = render_scene(
        "desk", frames=3, size=SMALL, aperture=0.04, shake=1.0, breathing=0.003, noise=0.05, exposure=1.0
    )

    np.testing.assert_array_equal(plain.truth, rough.truth)
    np.testing.assert_array_equal(plain.depth, rough.depth)


def test_a_blurred_near_sheet_spreads_over_the_wall_by_the_share_of_the_disk(monkeypatch):
    add_scene(monkeypatch, half_covered)
    scene = render_scene("handmade", frames=2, size=SMALL, aperture=0.08, bit_depth=16)
    radius = 0.08 * 96 * 1.0  # unit is the height, and |1/1 - 1/0.5| = 1
    near, far = to_linear_light(np.float32([NEAR_GREY, FAR_GREY]))
    light = to_linear_light(scene.frames[1])[48, :, 1]  # focused on the wall

    assert scene.focus_distances == [0.5, 1.0]
    for column in range(58, 71):
        # The edge lies at column 63.5, between the last covered and the first free pixel.
        outside = column - 63.5
        covered = share_covered(outside, radius) if outside > 0 else 1 - share_covered(-outside, radius)
        assert light[column] == pytest.approx(far + covered * (near - far), abs=0.004)


def test_the_sheet_in_focus_has_a_sharp_edge_and_the_wall_far_from_it_is_untouched(monkeypatch):
    add_scene(monkeypatch, half_covered)
    scene = render_scene("handmade", frames=2, size=SMALL, aperture=0.08)

    np.testing.assert_allclose(scene.frames[0], scene.truth, atol=1 / 255 + 1e-6)
    np.testing.assert_allclose(scene.frames[1][:, 64 + 9 :], scene.truth[:, 64 + 9 :], atol=1 / 255 + 1e-6)
    assert abs(scene.frames[1][48, 65, 0] - scene.truth[48, 65, 0]) > 0.1


def test_blur_adds_light_not_file_values(monkeypatch):
    add_scene(monkeypatch, half_covered)
    light = render_scene("handmade", frames=2, size=SMALL, aperture=0.08).frames[1]
    values = render_scene("handmade", frames=2, size=SMALL, aperture=0.08, linear_light=False)

    middle = (values.frames[1][48, 63, 0] + values.frames[1][48, 64, 0]) / 2
    assert middle == pytest.approx((FAR_GREY + NEAR_GREY) / 2, abs=0.01)
    assert (light[48, 63, 0] + light[48, 64, 0]) / 2 > middle + 0.05
    assert values.truth[48, 20, 0] == pytest.approx(NEAR_GREY, abs=1 / 255)


def test_on_a_slope_picking_the_best_frame_gives_the_truth():
    # Eleven pixels of blur over the range: with fourteen frames half a step is less than half a pixel, which is sharp.
    scene = render_scene("slope", frames=14, size=SMALL, aperture=0.1)
    picked = np.take_along_axis(np.stack(scene.frames), scene.best_frame[None, :, :, None].astype(np.int64), axis=0)[0]

    np.testing.assert_allclose(picked, scene.truth, atol=1 / 255 + 1e-6)
    assert min(error(frame, scene.truth) for frame in scene.frames) > 1e-3


def test_nearly_all_of_the_desk_is_sharp_in_the_frame_named_best():
    scene = render_scene("desk", frames=8, size=(240, 320))
    picked = np.take_along_axis(np.stack(scene.frames), scene.best_frame[None, :, :, None].astype(np.int64), axis=0)[0]
    single = min(error(frame, scene.truth) for frame in scene.frames)

    assert error(picked, scene.truth) < single / 8  # more than 9 dB
    assert np.mean(np.abs(picked - scene.truth).max(axis=2) < 0.1) > 0.93


def test_best_frame_and_depth_agree_with_the_layers(monkeypatch):
    add_scene(monkeypatch, half_covered)
    scene = render_scene("handmade", frames=5, size=SMALL)

    assert (scene.depth[:, :64] == 0.5).all()
    assert (scene.depth[:, 64:] == 1.0).all()
    assert (scene.best_frame[:, :64] == 0).all()
    assert (scene.best_frame[:, 64:] == 4).all()


def test_frames_are_evenly_spaced_in_inverse_distance():
    scene = render_scene("insect", frames=5, size=(32, 40))

    assert np.ptp(np.diff([1 / distance for distance in scene.focus_distances])) < 1e-9
    assert scene.focus_distances[0] == pytest.approx(1 / 1.95)
    assert scene.focus_distances[-1] == pytest.approx(2.0)


def test_focus_distances_can_be_given():
    scene = render_scene("slope", size=(32, 40), focus_distances=[0.7, 0.6])

    assert scene.focus_distances == [0.7, 0.6]
    assert len(scene.frames) == len(scene.transforms) == 2


def test_transforms_map_a_marker_in_each_frame_to_the_marker_in_the_truth(monkeypatch):
    add_scene(monkeypatch, one_spot, aperture=0.0)
    scene = render_scene("handmade", frames=4, size=(180, 240), shake=4.0, breathing=0.01, bit_depth=16)
    truth = centre_of_light(scene.truth)

    np.testing.assert_array_equal(scene.transforms[0], np.eye(3))
    for frame, transform in zip(scene.frames[1:], scene.transforms[1:], strict=True):
        marker = centre_of_light(frame)
        assert np.hypot(*(marker - truth)[:2]) > 0.5
        np.testing.assert_allclose((transform @ marker)[:2], truth[:2], atol=0.05)


def test_shaken_frames_are_the_truth_seen_through_their_transform():
    scene = render_scene("foliage", frames=3, size=SMALL, aperture=0.0, shake=2.0, breathing=0.01)
    rows, columns = np.indices(SMALL)
    for frame, transform in zip(scene.frames[1:], scene.transforms[1:], strict=True):
        x, y, _ = np.tensordot(transform, np.stack([columns, rows, np.ones(SMALL)]), axes=1)
        expected = ndimage.map_coordinates(scene.truth[..., 1], [y, x], order=3)
        inside = slice(8, -8), slice(8, -8)
        assert error(frame[inside][..., 1], expected[inside]) < 0.1 * error(
            frame[inside][..., 1], scene.truth[inside][..., 1]
        )


def test_breathing_magnifies_each_frame_a_little_more():
    scene = render_scene("slope", frames=3, size=(32, 40), breathing=0.01)

    assert [round(1 / transform[0, 0], 9) for transform in scene.transforms] == [1.0, 1.01, 1.02]


def test_shake_stays_within_what_was_asked_for():
    scene = render_scene("slope", frames=40, size=(32, 40), shake=1.5, aperture=0.0)
    corners = np.array([[0, 0, 1], [39, 0, 1], [0, 31, 1], [39, 31, 1]], dtype=float).T
    centre = np.array([19.5, 15.5, 1.0])
    moves = [np.abs(transform @ corners - corners).max() for transform in scene.transforms]
    shifts = [np.abs(transform @ centre - centre).max() for transform in scene.transforms]

    assert 1.2 < max(shifts) <= 1.5
    assert max(shifts) < max(moves) <= 3.0 + 0.01


def test_noise_has_the_strength_asked_for_and_differs_between_frames(monkeypatch):
    add_scene(monkeypatch, lambda stage: [stage.fill(grey(stage, 0.5), 1.0)])
    scene = render_scene("handmade", frames=2, size=SMALL, noise=0.02, bit_depth=16)

    deviations = [(frame - scene.truth) for frame in scene.frames]
    for deviation in deviations:
        assert deviation.std() == pytest.approx(0.02, rel=0.05)
        assert abs(deviation.mean()) < 0.001
    assert abs(np.corrcoef(deviations[0].ravel(), deviations[1].ravel())[0, 1]) < 0.05


def test_exposure_differences_scale_the_light_and_leave_the_truth_alone(monkeypatch):
    add_scene(monkeypatch, lambda stage: [stage.fill(grey(stage, 0.5), 1.0)])
    scene = render_scene("handmade", frames=6, size=(32, 32), exposure=0.5, bit_depth=16)

    measured = [to_linear_light(frame).mean() / to_linear_light(scene.truth).mean() for frame in scene.frames]
    np.testing.assert_allclose(measured, scene.exposures, rtol=1e-3)
    assert 2**-0.5 <= min(measured) < 0.95
    assert 1.05 < max(measured) <= 2**0.5


@pytest.mark.parametrize(("bit_depth", "most"), [(8, 255), (16, 65535)])
def test_frames_and_truth_lie_on_the_levels_of_their_bit_depth(bit_depth, most):
    scene = render_scene("desk", frames=2, size=(48, 64), bit_depth=bit_depth, noise=0.01)

    for picture in [*scene.frames, scene.truth]:
        assert picture.dtype == np.float32
        levels = picture.astype(np.float64) * most
        np.testing.assert_allclose(levels, np.rint(levels), atol=most * 1e-7)
        if bit_depth == 16:
            assert np.abs(picture * 255 - np.rint(picture * 255)).mean() > 0.1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"frames": 0}, ["frames", "0", "between 1 and 500"]),
        ({"frames": 2.5}, ["frames", "2.5", "whole"]),
        ({"size": (16, 640)}, ["height", "16", "between 32 and 20000"]),
        ({"size": (480, 64000)}, ["width", "64000", "between 32 and 20000"]),
        ({"size": (480,)}, ["size", "height and width"]),
        ({"aperture": -1.0}, ["aperture", "-1.0"]),
        ({"aperture": 2.0}, ["aperture", "between 0 and 0."]),
        ({"aperture": math.nan}, ["aperture", "nan"]),
        ({"breathing": 0.5}, ["breathing", "between 0 and 0.05"]),
        ({"shake": 100.0}, ["shake", "between 0 and"]),
        ({"noise": -0.1}, ["noise", "between 0 and 0.5"]),
        ({"exposure": 9}, ["exposure", "between 0 and 4"]),
        ({"bit_depth": 12}, ["bit_depth", "12", "8 or 16"]),
        ({"seed": -1}, ["seed", "-1"]),
        ({"focus_distances": [1.0, 0.0]}, ["focus_distances", "frame 1", "above 0"]),
        ({"focus_distances": []}, ["frames", "between 1"]),
    ],
)
def test_an_option_out_of_range_is_named_with_what_would_work(options, words):
    with pytest.raises(InputError) as caught:
        render_scene("flat", **{"size": (48, 64), "frames": 2, **options})

    for word in words:
        assert word in str(caught.value)


def test_the_range_that_an_error_names_is_accepted():
    with pytest.raises(InputError) as caught:
        render_scene("slope", frames=2, size=(48, 64), aperture=5.0)
    most = float(str(caught.value).rsplit(" ", 1)[1])

    assert len(render_scene("slope", frames=2, size=(48, 64), aperture=most).frames) == 2


@pytest.mark.parametrize(("wrong", "right"), [("desc", "desk"), ("Insects", "insect"), ("folage", "foliage")])
def test_an_unknown_scene_names_the_nearest_one(wrong, right):
    with pytest.raises(InputError, match=f"did you mean '{right}'"):
        render_scene(wrong, size=(32, 32))
