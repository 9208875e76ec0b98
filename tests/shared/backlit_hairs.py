"""Dark hairs at several depths before even white: nothing but outlines that change with focus."""

import numpy as np

from allfocus.scenes.drawing import strokes
from allfocus.scenes.lens import blur_disk
from allfocus.scenes.textures import to_srgb_curve


def draw_backlit_hairs(focus, *, size, seed=0, blur=5.0):
    """A frame (H, W), focused at this one of four depths; the disk grows by ``blur`` pixels from depth to depth."""
    generator = np.random.default_rng(seed)
    height, width = size
    light = np.full(size, 0.9, np.float32)
    for depth in range(4):
        lines = [
            np.stack(
                [
                    generator.uniform((-10, 0), (0.3 * width, height)),
                    generator.uniform((0.4 * width, 0), (width, height)),
                ]
            )
            for _ in range(6)
        ]
        alpha = np.repeat(strokes(height, width, lines, [2.0] * 6)[..., None], 4, axis=2)
        light *= 1 - 0.97 * blur_disk(alpha, max(blur * abs(focus - depth), 0.5))[..., 0]
    return (np.rint(to_srgb_curve(light) * 255) / 255).astype(np.float32)
