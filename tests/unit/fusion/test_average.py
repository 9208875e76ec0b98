import numpy as np

from allfocus.fusion.average import fuse_average


def test_every_frame_has_the_same_say():
    frames = [np.full((2, 3), value, np.float32) for value in (0.0, 0.25, 0.8)]
    assert np.allclose(fuse_average(frames)[0], 0.35)


def test_a_long_stack_does_not_drift():
    value = np.float32(0.1)
    image, *_ = fuse_average([np.full((1, 1), value, np.float32)] * 3000)
    assert image[0, 0] == value
