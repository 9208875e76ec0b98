"""How far out of focus a place is, by blurring what is sharp."""

import cv2
import numpy as np
import pytest

from allfocus.depth.focus_curves import BANDS, WINDOWS, CurveGathering, band_energy, summed_energy
from allfocus.depth.peak_fitting import fit_peaks
from allfocus.depth.reblurring import BlurScale

GENERATOR = np.random.default_rng(2)
SHARP = cv2.GaussianBlur(GENERATOR.random((96, 128), np.float32), (0, 0), 0.7)
QUIET = np.full(SHARP.shape, 1e-9, np.float32)


def blurred(deviation):
    return cv2.GaussianBlur(SHARP, (0, 0), deviation) if deviation > 0 else SHARP


@pytest.mark.parametrize("band", range(len(BANDS)))
@pytest.mark.parametrize("deviation", [0.5, 1.0, 1.6])
def test_the_blur_of_a_picture_is_read_from_its_detail(band, deviation):
    energy = summed_energy(band_energy(blurred(deviation), BANDS[band]), WINDOWS[band])
    variance, _ = BlurScale(SHARP, QUIET).read(energy, band)
    assert np.sqrt(np.median(variance[16:-16, 16:-16])) == pytest.approx(deviation, rel=0.1)


@pytest.mark.parametrize("beyond", [0.0, 0.3])
@pytest.mark.parametrize("first", [True, False])
def test_a_top_at_an_end_is_found_by_the_frame_beside_it(first, beyond):
    # Blur grows by one pixel a step; the surface lies at the last frame, or beyond it.
    frames = [blurred(abs(place)) for place in np.arange(-3, 1) - beyond]
    frames = frames[::-1] if first else frames
    gathering = CurveGathering(np.full(SHARP.shape, 0 if first else 3), frames=4)
    for index, frame in enumerate(frames):
        gathering.add(index, frame)
    curves = gathering.finish().without_noise(QUIET, colours=1)
    picture = frames[0 if first else 3]
    peaks = fit_peaks(curves, (1.5, 1.5), BlurScale(picture, QUIET), (1.0, 1.0))
    wanted = -beyond if first else 3 + beyond
    assert np.nanmedian(peaks.position[16:-16, 16:-16]) == pytest.approx(wanted, abs=0.1)
