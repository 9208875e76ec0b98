import cv2
import numpy as np
import pytest

from allfocus.fusion import dsift
from allfocus.fusion.dsift import UNDECIDED, fuse_dsift


@pytest.mark.parametrize("number", [1, 4])
def test_it_makes_the_picture_its_authors_made(number, lytro_fused_by_authors, save_as_authors_did):
    authors = lytro_fused_by_authors(number, "DSIFT")
    ours = save_as_authors_did(fuse_dsift(authors.frames)[0])
    # Measured 99.7 and 99.9 % on the day of writing.
    assert np.mean((ours == authors.fused).all(axis=2)) > 0.995


def test_an_undecided_pixel_is_the_mean_and_any_other_a_copy(pair):
    image, decision, *_ = fuse_dsift(pair.frames)
    first, second = pair.frames
    undecided = decision == UNDECIDED
    assert undecided.any()
    assert np.allclose(image[undecided], (first[undecided] + second[undecided]) / 2, atol=1e-6)
    assert (image[decision == 0] == first[decision == 0]).all()
    assert (image[decision == 1] == second[decision == 1]).all()


def test_equal_frames_cannot_be_decided(pair):
    assert (fuse_dsift([pair.truth, pair.truth])[1] == UNDECIDED).all()


def _descriptor_by_definition(grey, row, column):
    """128 bins of the patch around one pixel, summed gradient by gradient."""
    padded = np.pad((grey / grey.max()).astype(np.float64), 40)
    position = np.arange(-2, 3)
    bell = np.exp(-(position**2) / 2)
    kernel = np.outer(bell, bell) / np.outer(bell, bell).sum()
    down, right = np.gradient(kernel)
    down, right = 2 * down / np.abs(down).sum(), 2 * right / np.abs(right).sum()
    bins = np.zeros((4, 4, 8))
    for y in range(-15, 15):
        for x in range(-15, 15):
            window = padded[row + 40 + y - 2 : row + 40 + y + 3, column + 40 + x - 2 : column + 40 + x + 3]
            slope = np.array([(window * right).sum(), (window * down).sum()])
            length = np.hypot(*slope)
            for cell_y, center_y in enumerate((-9.5, -3.5, 2.5, 8.5)):
                for cell_x, center_x in enumerate((-9.5, -3.5, 2.5, 8.5)):
                    share = max(0, 1 - abs(y - center_y) / 6) * max(0, 1 - abs(x - center_x) / 6)
                    for direction in range(8):
                        angle = direction * np.pi / 4
                        along = slope @ [np.cos(angle), np.sin(angle)] / max(length, 1e-12)
                        bins[cell_y, cell_x, direction] += share * length * max(along, 0) ** 9
    return bins.ravel()


def test_the_descriptor_is_that_of_its_definition():
    grey = cv2.GaussianBlur(np.random.default_rng(3).random((40, 44), dtype=np.float32), (0, 0), 1)
    histograms = dsift._direction_histograms(grey)
    ours = np.concatenate([cell[20, 17] for cell in dsift._cells(histograms)])
    expected = _descriptor_by_definition(grey, 20, 17)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)
    assert np.isclose(dsift._activity(histograms)[20, 17], expected.sum(), rtol=1e-4)


def test_a_normalised_descriptor_has_length_one_and_a_weak_one_is_left_alone(grey_pair):
    strong = dsift._normalised_descriptors(dsift._direction_histograms(grey_pair.truth))
    assert np.allclose(np.linalg.norm(strong, axis=2), 1, atol=1e-5)
    faint = dsift._direction_histograms(grey_pair.truth) * np.float32(1e-6)
    assert np.linalg.norm(dsift._normalised_descriptors(faint), axis=2).max() < 1e-3


def test_a_pixel_is_claimed_only_when_all_its_windows_agree():
    rival = np.zeros((20, 20), np.float32)
    activity = np.ones((20, 20), np.float32)
    activity[10, 10] = -100
    claimed = dsift._unanimous(activity, rival)
    expected = np.ones((20, 20), bool)
    expected[3:18, 3:18] = False  # windows of 8 that hold (10, 10) reach 7 pixels to each side
    assert (claimed == expected).all()
    assert not dsift._unanimous(rival, rival).any()


def test_small_regions_and_small_holes_are_dropped():
    claimed = np.zeros((200, 200), bool)
    claimed[:100] = True
    claimed[20:40, 20:40] = False
    claimed[150:200, 150:200] = True
    expected = np.zeros((200, 200), bool)
    expected[:100] = True
    assert (dsift._drop_small_regions(claimed) == expected).all()


def test_matching_finds_a_frame_that_is_out_of_register(grey_pair):
    moved = np.roll(grey_pair.truth, (1, -2), axis=(0, 1))
    first, second = (
        dsift._normalised_descriptors(dsift._direction_histograms(frame)) for frame in (grey_pair.truth, moved)
    )
    rows, columns = (points.ravel() for points in np.meshgrid(np.arange(30, 90, 7), np.arange(30, 150, 7)))
    found = dsift._matches(first, second, rows, columns)
    assert (found[0] == rows + 1).all()
    assert (found[1] == columns - 2).all()


def test_bands_do_not_show(pair, monkeypatch):
    whole = fuse_dsift(pair.frames)[0]
    monkeypatch.setattr(dsift, "BAND", 5)
    assert (fuse_dsift(pair.frames)[0] == whole).all()


def test_spatial_frequency_is_that_of_the_window():
    grey = np.random.default_rng(4).random((15, 16), dtype=np.float32)
    window = grey[2:9, 4:11].astype(np.float64)
    expected = (np.diff(window, axis=0) ** 2).sum() / 49 + (np.diff(window, axis=1) ** 2).sum() / 49
    assert np.isclose(dsift._spatial_frequency(grey)[5, 7], expected)
    assert np.isnan(dsift._spatial_frequency(grey)[2, 7])


def test_three_frames_keep_the_index_of_the_frame_that_won_first(triple):
    _, decision, *_ = fuse_dsift(triple.frames)
    assert [
        np.bincount(decision[20:-20, column][decision[20:-20, column] >= 0]).argmax() for column in (40, 120, 200)
    ] == [0, 1, 2]
