"""Frames whose light is far from that of the others: flashes that misfire, double ones, lamps that fade."""

import cv2
import numpy as np
import pytest

import allfocus
from allfocus.alignment.stack_alignment import estimate_stack
from allfocus.errors import InputError
from allfocus.scenes.rendering import render_scene

SIZE = (240, 320)


@pytest.fixture(scope="module")
def circuit():
    return render_scene("circuit", frames=5, size=SIZE, seed=7)


def lit(frame, factor):
    """The frame with this factor on its light, in 8 bits on the sRGB curve; what is too bright is burnt out."""
    values = np.asarray(frame, np.float64)
    light = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4) * factor
    curved = np.where(light <= 0.0031308, light * 12.92, 1.055 * np.maximum(light, 0) ** (1 / 2.4) - 0.055)
    return (np.rint(255 * np.clip(curved, 0, 1)) / 255).astype(np.float32)


def estimate(frames, **wishes):
    return estimate_stack(lambda index: frames[index], len(frames), **wishes)


def with_light(scene, **factors):
    return [lit(frame, factors.get(f"f{index}", 1)) for index, frame in enumerate(scene.frames)]


@pytest.mark.parametrize("place", [0, 2, 4])
@pytest.mark.parametrize("factor", [0.12, 0.4, 2.0])
def test_one_odd_frame_is_made_like_the_others_wherever_it_is(circuit, place, factor):
    alignment = estimate(with_light(circuit, **{f"f{place}": factor}))
    for index, gains in enumerate(alignment.brightness):
        # Burnt-out places of a frame that is too bright say nothing of its light.
        assert gains == pytest.approx([1 / factor if index == place else 1] * 3, rel=0.08)
    assert any(f": {place + 1} (" in told for told in alignment.warnings)


def test_a_reference_that_was_asked_for_stays_as_it_is(circuit):
    alignment = estimate(with_light(circuit, f2=0.4), reference=2)
    assert alignment.brightness[2] == (1.0, 1.0, 1.0)
    assert alignment.brightness[0] == pytest.approx([0.4] * 3, rel=0.05)


def test_a_tint_of_the_reference_alone_does_not_colour_the_others(circuit):
    frames = with_light(circuit)
    frames[2] = lit(circuit.frames[2], np.array([1.25, 1.0, 0.7]))
    alignment = estimate(frames)
    assert alignment.brightness[2] == pytest.approx([1 / 1.25, 1, 1 / 0.7], rel=0.05)
    assert alignment.brightness[0] == pytest.approx([1, 1, 1], rel=0.02)


def test_planes_that_show_other_things_are_not_made_alike():
    """Of a thick specimen each plane lights up elsewhere: how bright a plane is is not how it was exposed."""
    generator = np.random.default_rng(3)
    planes = []
    for cells in (60, 60, 12, 60, 60):
        light = np.full(SIZE, 0.01, np.float32)
        for row, column in generator.integers((0, 0), SIZE, (cells, 2)):
            cv2.circle(light, (int(column), int(row)), 6, 0.4, -1)
        planes.append(cv2.GaussianBlur(light, (0, 0), 2))
    shared = cv2.GaussianBlur(generator.uniform(0, 0.1, SIZE).astype(np.float32), (0, 0), 2)
    alignment = estimate([plane + shared for plane in planes])
    assert all(0.6 < gains[0] < 1.7 for gains in alignment.brightness)


def test_what_was_burnt_out_in_a_frame_that_is_darkened_is_no_pixel_of_its_own(circuit):
    frames = with_light(circuit, f4=4.0)
    alignment = estimate(frames)
    _, valid = alignment.apply(4, frames[4])
    burnt = frames[4].max(axis=2) > 0.99
    assert burnt.any()
    assert not valid[burnt].any()
    assert valid[frames[4].max(axis=2) < 0.95].all()
    assert alignment.apply(0, frames[0])[1].all()


def write(frames, folder):
    for number, frame in enumerate(frames):
        allfocus.write_image(frame, folder / f"f{number}.png")


def test_a_misfire_costs_next_to_nothing(circuit, tmp_path):
    def quality(frames, name):
        folder = tmp_path / name
        folder.mkdir()
        write(frames, folder)
        image = allfocus.fuse_files(folder, tmp_path / f"{name}.tif").image
        return -10 * np.log10(np.square(image - circuit.truth).mean())

    whole = quality(with_light(circuit), "whole")
    # Of the 8 bits of a frame with a fifth of the light, seven are left. Left as dark as it is, it costs 19 dB.
    assert quality(with_light(circuit, f4=0.2), "dark") > whole - 4
    assert quality(with_light(circuit, f1=2.5), "bright") > whole - 1


def test_a_frame_that_is_all_but_black_is_left_out_and_named(circuit, tmp_path):
    frames = with_light(circuit, f3=0.01)
    noise = np.random.default_rng(1).normal(0, 0.01, frames[3].shape)
    frames[3] = np.clip(frames[3] + noise, 0, 1).astype(np.float32)
    shots = tmp_path / "shots"
    shots.mkdir()
    write(frames, shots)
    result = allfocus.fuse_files(shots, tmp_path / "fused.tif")
    assert result.left_out == {"f3.png": "is all but black beside the others"}
    assert result.image.mean() == pytest.approx(circuit.truth.mean(), rel=0.05)
    kept = allfocus.fuse_files(shots, tmp_path / "asked.tif", reference=4)
    assert len(kept.frames) == 5


def test_two_frames_of_which_one_is_all_but_black_are_an_error(circuit, tmp_path):
    write([circuit.frames[0], lit(circuit.frames[1], 0.004)], tmp_path)
    with pytest.raises(InputError):
        allfocus.fuse_files(tmp_path, tmp_path / "fused.tif")


def test_frames_with_too_little_to_align_by_stay_where_they_are():
    """A smooth ball before an even ground: what its blurred outline does is not how the frames moved."""
    rows, columns = np.indices((480, 640)).astype(np.float32)
    far = np.hypot(rows - 240, columns - 320) / 170
    ball = np.where(far < 1, 0.45 + 0.35 * np.sqrt(np.maximum(1 - far**2, 0)), 0.9).astype(np.float32)
    generator = np.random.default_rng(0)
    frames = [
        cv2.GaussianBlur(ball, (0, 0), 1 + 7 * abs(index - 1)) + generator.normal(0, 0.01, ball.shape)
        for index in range(7)
    ]
    alignment = estimate([np.clip(frame, 0, 1).astype(np.float32) for frame in frames])
    assert alignment.registered
    assert all(np.array_equal(transform, np.eye(3)) for transform in alignment.transforms)
