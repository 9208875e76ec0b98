"""Measured depth -> depth everywhere: holes are closed along surfaces, up to the edges of the picture."""

import numpy as np
from numpy.typing import NDArray

from allfocus.depth.measurement import MeasuredDepth
from allfocus.fusion.depth import smooth_depth

Map = NDArray[np.float32]

TRUST = 0.2
"""What the depth that the fusion decided for counts in holes, beside measurements. (Of 0.02 to 1 on
rendered scenes; with more, the rims of near things grow again.)"""


def fill_depth(measured: MeasuredDepth, decided: Map, confidence: Map, picture: Map) -> Map:
    """Returns the depth (H, W) in steps without holes: as measured where it is, spread from there elsewhere.

    Args:
        measured: What :func:`allfocus.depth.measurement.measure_depth` found.
        decided: (H, W), the depth that the fusion decided for, 0 the first frame and 1 the last.
        confidence: (H, W), how sure that is, 0..1.
        picture: the fused picture (H, W, 3) or (H, W), 0..1, whose edges are kept.

    Raises:
        InputError: the sizes differ.
    """
    last = np.float32(max(1, measured.frames - 1))
    there = measured.measured
    known = np.where(there, measured.position / last, decided).astype(np.float32)
    sure = np.where(there, np.float32(1), np.float32(TRUST) * confidence).astype(np.float32)
    smooth = smooth_depth(known, sure, picture, step=1 / float(last))
    return np.where(there, measured.position, smooth * last).astype(np.float32)
