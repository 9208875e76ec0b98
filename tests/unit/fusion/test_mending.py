"""Detail that a picture had lost comes back from the frame that shows it, without a trace of how."""

import cv2
import numpy as np
import pytest

from allfocus.fusion import mending
from allfocus.fusion.detail_meter import measure_lost_detail
from allfocus.fusion.frame_source import MemorySource
from allfocus.fusion.mending import mend_lost_detail

SIZE = (200, 240)


def ground(brightness: float = 0.6) -> np.ndarray:
    """An even slope of light with fine texture on its left."""
    slope = np.linspace(0.8, 1.0, SIZE[1], dtype=np.float32)[None, :, None]
    picture = np.full((*SIZE, 3), brightness, np.float32) * slope
    texture = np.random.default_rng(0).random((SIZE[0], 60, 1), dtype=np.float32) - 0.5
    picture[:, :60] += 0.3 * cv2.GaussianBlur(texture, (0, 0), 0.8)[..., None]
    return picture


def with_speck(picture: np.ndarray, at: tuple[int, int] = (100, 160)) -> np.ndarray:
    """The picture with a dark thing of a few pixels in it."""
    found = picture.copy()
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]]
    near = (rows - at[0]) ** 2 + 3 * (columns - at[1]) ** 2 < 36
    found[near] = 0.2 + 0.1 * ((rows + columns)[near] % 3)[:, None]
    return found


@pytest.fixture
def stack():
    """Two frames that differ in brightness, of which the second alone shows a thing; and the first as the fused one."""
    first, second = ground(0.6), with_speck(ground(0.57))
    decision, depth = np.zeros(SIZE, np.int16), np.zeros(SIZE, np.float32)
    return first, decision, depth, [first, second]


def test_an_erased_thing_comes_back_and_its_surroundings_do_not_change(stack):
    image, decision, depth, frames = stack
    assert measure_lost_detail(image, frames).erased > 0
    steps: list[tuple[str, int, int]] = []
    found = mend_lost_detail(image, decision, depth, frames, progress=lambda *step: steps.append(step))
    assert steps == [("comparing", 1, 2), ("comparing", 2, 2), *(("mending", done, 3) for done in (1, 2, 3))]
    assert len(found.places) == 1
    place = found.lost.mended[0]
    assert place == found.places[0]
    assert (place.frame, place.left <= 160 <= place.left + place.width, place.lost > 0.6) == (1, True, True)
    assert found.lost.mending.startswith("detail was lost and brought back at 1")
    assert found.lost.to_plain()["mended"][0]["frame"] == 2
    assert found.lost.share == 0
    thing = (slice(94, 107), slice(157, 164))
    # As dark against its ground as in the frame that shows it, on the ground of the picture.
    contrast, shown = found.image[thing] - image[thing], frames[1][thing] - ground(0.57)[thing]
    np.testing.assert_allclose(contrast, shown, atol=0.01)
    assert shown.min() < -0.2
    assert (found.decision[thing] == 1).all()
    assert found.depth[100, 160] == pytest.approx(1)
    far = np.ones(SIZE, bool)
    far[60:140, 120:200] = False
    assert np.array_equal(found.image[far], image[far])
    # No rim: between thing and far away the picture stays as smooth as it was.
    ring = found.image[75:125, 135:150]
    assert np.abs(np.diff(ring, axis=0)).max() < 0.004
    # What was given is left alone.
    assert not decision.any()
    assert np.array_equal(image, ground(0.6))


def test_hard_choices_stay_copies(stack):
    image, decision, depth, frames = stack
    found = mend_lost_detail(image, decision, depth, frames, hard=True)
    named = np.take_along_axis(np.stack(frames), found.decision[None, ..., None].astype(int), axis=0)[0]
    assert np.array_equal(found.image, named)
    assert found.decision[100, 160] == 1


def test_a_picture_that_lost_nothing_comes_back_as_it_is(stack):
    _, decision, depth, frames = stack
    found = mend_lost_detail(frames[1], decision, depth, frames)
    assert (found.image is frames[1], found.places) == (True, ())


def test_a_frame_without_pixels_there_is_not_taken(stack):
    image, decision, depth, frames = stack
    masks = [np.ones(SIZE, bool), np.ones(SIZE, bool)]
    masks[1][80:96, 150:170] = False
    found = mend_lost_detail(image, decision, depth, frames, valid=masks)
    assert np.array_equal(found.image[masks[1] == 0], image[masks[1] == 0])


def test_where_much_is_lost_nothing_is_patched(stack):
    image, decision, depth, _ = stack
    busy = ground(0.57)
    for row in range(20, 190, 24):
        for column in range(80, 230, 24):
            busy = with_speck(busy, (row, column))
    found = mend_lost_detail(image, decision, depth, [image, busy])
    assert found.places == ()
    assert found.image is image
    assert found.lost.share > 100 * mending.LARGEST_SHARE


def test_a_place_that_is_no_better_for_it_stays_as_it_was(stack, monkeypatch):
    image, decision, depth, frames = stack
    measure, calls = mending.measure_lost_detail, []

    def as_before(picture, *arguments, **options):
        calls.append(picture)
        return measure(image, *arguments, **options)

    monkeypatch.setattr(mending, "measure_lost_detail", as_before)
    found = mend_lost_detail(image, decision, depth, frames)
    assert len(calls) == 2
    assert not np.array_equal(calls[1], image)
    assert found.image is image


def with_leg(picture: np.ndarray, row: int, dark: float) -> np.ndarray:
    """The picture with a horizontal bar of six pixels with hairs, right of the texture."""
    found = picture.copy()
    found[row : row + 6, 90:] -= dark
    found[row - 2 : row + 8, 90::7] -= dark / 2
    return found


def test_of_two_frames_that_show_a_thing_the_one_is_taken_into_which_it_continues():
    """A leg is gone for some pixels; one frame shows it where it is, another one darker, but a few pixels lower."""
    here, moved = with_leg(ground(), 100, 0.25), with_leg(ground(), 104, 0.3)
    image = here.copy()
    image[90:120, 150:176] = ground()[90:120, 150:176]
    cells = np.zeros((100, 120), bool)
    cells[44:61, 73:90] = True
    area, weight = mending._feathered(cells, 2, SIZE)
    source = MemorySource([ground(), moved, here])
    index, pixels = mending._best_frame(source, area, image[area], weight, 2)
    assert index == 2
    np.testing.assert_allclose(pixels, here[area], atol=0.03)
    # Where only the moved one shows it, a leg in two pieces is no better than a gap.
    assert mending._best_frame(MemorySource([ground(), moved]), area, image[area], weight, 2) is None
