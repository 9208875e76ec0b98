"""Fusion of 8 x 8 blocks by how little a block changes when it is blurred, measured on its cosine transform (DCT+Corr).

M. Amin-Naji and A. Aghagolzadeh, "Multi-focus image fusion in DCT domain using variance and energy of Laplacian and
correlation coefficient for visual sensor networks", Journal of AI and Data Mining 6(2), 2018, with consistency
verification ("DCT+Corr+CV"), first shown in "Multi-focus image fusion in DCT domain based on correlation coefficient",
KBEI 2015.

A sharp block loses detail when it is blurred, so its correlation with its own blurred version is low; a block that is
out of focus hardly changes. The frame with the smallest correlation wins the block.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.frame_checks import check_frames, pick_pixels
from allfocus.fusion.maps import FusedMaps

# The block of JPEG, for which the method was made.
BLOCK = 8
# JPEG's level shift. It matters: the correlation includes the mean of the block, so the zero of the scale counts.
LEVEL_SHIFT = 128.0
# Blur of a block: 3 x 3 mean that repeats the block's own edge, since a block in the DCT domain cannot see its
# neighbours. The MATLAB that the authors published later blurs the whole picture by 5 x 5 instead, but their fused
# pictures were not made so. Share of blocks of their pictures (Lytro 1, 4, 7 and MFFW 5, 8, green) that each choice
# reproduces: 3 x 3 in the block 98.8 %, 5 x 5 in the block 97.2 %, 3 x 3 in the picture 96.9 %, 5 x 5 there 96.2 %.
BLUR = 3
# Consistency verification: majority of 3 x 3 blocks (paper, and again the best of 1, 3, 5, 7, 9 on their pictures).
MAJORITY = 3


def fuse_dct_corr(frames: Sequence[NDArray[np.float32]]) -> FusedMaps:
    """The picture put together from whole 8 x 8 blocks, and the frame that most colours of each pixel came from.

    The method is defined for grey pictures. Colours are fused one by one, as the authors' benchmark pictures were
    (their blocks mix colours of different frames); the decision then is the frame that most colours chose, the
    middle one when all differ.

    Where the size is no multiple of 8 the frames are extended by their edge and cut back. The published program leaves
    that margin grey instead, which shows in the authors' pictures of sizes such as 300 x 200.

    Args:
        frames: two or more frames, (H, W, 3) RGB or (H, W), 0..1, of one size.

    Returns:
        The fused picture, shaped like a frame, and the decision (H, W): the index of the frame, from 0.

    Raises:
        InputError: frames that do not fit together.

    Example:
        >>> sharp = np.indices((16, 16)).sum(axis=0).astype(np.float32) % 2
        >>> image, decision, *_ = fuse_dct_corr([np.full((16, 16), 0.5, np.float32), sharp])
        >>> bool((image == sharp).all()), np.unique(decision).tolist()
        (True, [1])
    """
    checked = check_frames(frames)
    if checked[0].ndim == 2:
        decision = _decide(checked)
        return FusedMaps(pick_pixels(checked, decision), decision)
    decisions = [_decide([frame[..., channel] for frame in checked]) for channel in range(3)]
    planes = [pick_pixels([frame[..., channel] for frame in checked], decisions[channel]) for channel in range(3)]
    # The middle of three is the one that two agree on.
    most = np.sort(np.stack(decisions), axis=0)[1]
    return FusedMaps(np.stack(planes, axis=2), most)


def _decide(planes: Sequence[NDArray[np.float32]]) -> NDArray[np.int16]:
    """The index (H, W) of the plane that wins each pixel, in blocks of 8 x 8."""
    winner = np.argmin(np.stack([_correlation_with_blur(plane) for plane in planes]), axis=0)
    votes = [
        cv2.boxFilter((winner == index).astype(np.float32), -1, (MAJORITY, MAJORITY), borderType=cv2.BORDER_REFLECT)
        for index in range(len(planes))
    ]
    # Rounded: sums of ninths are not exact, and equal votes must go to the earliest frame on every machine.
    verified = np.argmax(np.rint(np.stack(votes) * MAJORITY**2), axis=0).astype(np.int16)
    height, width = planes[0].shape
    return np.repeat(np.repeat(verified, BLOCK, axis=0), BLOCK, axis=1)[:height, :width]


def _correlation_with_blur(plane: NDArray[np.float32]) -> NDArray[np.float64]:
    """The correlation coefficient of each block's cosine transform with that of the blurred block, -1..1."""
    blocks = _split_into_blocks(plane.astype(np.float64) * 255.0 - LEVEL_SHIFT)
    transform, blur = _cosine_matrix(), _blur_matrix()
    original = transform @ blocks @ transform.T
    blurred = transform @ (blur @ blocks @ blur.T) @ transform.T
    original -= original.mean(axis=(2, 3), keepdims=True)
    blurred -= blurred.mean(axis=(2, 3), keepdims=True)
    covariance = (original * blurred).sum(axis=(2, 3))
    spread = np.sqrt((original**2).sum(axis=(2, 3)) * (blurred**2).sum(axis=(2, 3)))
    # A block without any content is equal to its blur: no sharper than any other.
    return np.asarray(np.divide(covariance, spread, out=np.ones_like(covariance), where=spread > 0), np.float64)


def _split_into_blocks(plane: NDArray[np.float64]) -> NDArray[np.float64]:
    """The blocks (rows of blocks, blocks in a row, 8, 8) of a plane, whose edge is repeated to full blocks."""
    height, width = plane.shape
    padded = np.pad(plane, ((0, -height % BLOCK), (0, -width % BLOCK)), mode="edge")
    rows, columns = padded.shape[0] // BLOCK, padded.shape[1] // BLOCK
    return padded.reshape(rows, BLOCK, columns, BLOCK).transpose(0, 2, 1, 3)


def _cosine_matrix() -> NDArray[np.float64]:
    """The orthonormal matrix C (8, 8) whose C @ block @ C.T is the block's cosine transform (DCT-II)."""
    frequency, position = np.indices((BLOCK, BLOCK))
    angle = np.pi * (2 * position + 1) * frequency / (2 * BLOCK)
    matrix = np.asarray(np.sqrt(2 / BLOCK) * np.cos(angle), np.float64)
    matrix[0] = np.sqrt(1 / BLOCK)
    return matrix


def _blur_matrix() -> NDArray[np.float64]:
    """The matrix B (8, 8) whose B @ block @ B.T is the block blurred by a mean that repeats the block's edge."""
    matrix = np.zeros((BLOCK, BLOCK))
    for row in range(BLOCK):
        for offset in range(-(BLUR // 2), BLUR // 2 + 1):
            matrix[row, min(max(row + offset, 0), BLOCK - 1)] += 1 / BLUR
    return matrix
