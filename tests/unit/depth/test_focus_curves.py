"""How sharp each place is in each frame."""

import numpy as np

from allfocus.depth.focus_curves import CurveGathering


def test_the_sharpest_of_all_frames_is_known_whatever_was_decided():
    generator = np.random.default_rng(5)
    detail = generator.uniform(0, 1, (40, 60)).astype(np.float32)
    strength = [0.1, 0.2, 0.1, 0.9, 0.3]
    gathering = CurveGathering(np.full((40, 60), 1), frames=5)
    for index, own in enumerate(strength):
        frame = 0.5 + own * (detail - 0.5)
        frame[:, 30:] = 0.5 + strength[4 - index] * (detail[:, 30:] - 0.5)
        gathering.add(index, frame.astype(np.float32))
    curves = gathering.finish()
    assert (curves.sharpest[:, :24] == 3).all()
    assert (curves.sharpest[:, 36:] == 1).all()
    assert (np.abs(curves.peak - 1) <= 1).all()
