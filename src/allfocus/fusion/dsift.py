"""Fusion by dense SIFT (scale-invariant feature transform): its strength tells focus, its match settles the boundary.

Y. Liu, S. Liu and Z. Wang, "Multi-focus image fusion with dense SIFT", Information Fusion 23, 2015, 139-155.

1. Activity: the sum of the 128 bins of the descriptor, not normalised, at every pixel.
2. Voting: windows of 8 x 8 slide over the picture, each votes for the frame with the larger activity. A pixel is taken
   as focused in a frame when all its windows voted so.
3. Regions and holes that are too small to be trusted are removed. What no frame or more than one frame claims is open.
4. An open pixel is matched to its surroundings in the other frame by normalised descriptors, so that frames that are
   out of register by a few pixels are compared at the same point of the scene; the frame with the higher spatial
   frequency there wins, if both directions of matching agree. Else the pixel stays the mean of the two.

Numbers below marked [program] follow the authors' published MATLAB program, in part as others have ported it, rather
than the text of the paper. With them the authors' own fused pictures of Lytro come out all but bit for bit.
"""

from collections.abc import Iterator, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.frame_checks import check_frames, grey_levels
from allfocus.fusion.maps import FusedMaps

# The scale factor that the authors set; the program turns it into patches of half that [program].
SCALE = 48
PATCH = SCALE // 2
# SIFT: 4 x 4 cells of 8 directions each, 128 bins.
CELLS = 4
CELL = PATCH // CELLS
DIRECTIONS = 8
# A gradient counts for a direction by the cosine of the angle between them, to this power [program].
SHARPNESS_OF_DIRECTION = 9
# Gradients are taken on this much Gaussian smoothing, on 5 x 5 pixels [program].
GRADIENT_SIGMA = 1.0
GRADIENT_RADIUS = 2
# Normalised descriptors are cut at this value (Lowe 2004).
LARGEST_BIN = 0.2
# Side of the voting window, the authors' block size.
VOTING_WINDOW = 8
# Claimed regions, and holes in them, below this many pixels are dropped [program]: 1.3 % of a 520 x 520 picture.
SMALLEST_REGION = 3600
# Matching looks this far, and compares spatial frequency over windows of this radius [program]: 7 x 7 pixels.
RADIUS = 3
# Rows whose descriptors are held at once while matching: 128 numbers a pixel are too many for a whole large picture.
BAND = 64

UNDECIDED = -1
"""Value of the decision where no frame won and the pixel is a mean."""


def fuse_dsift(frames: Sequence[NDArray[np.float32]]) -> FusedMaps:
    """The picture of the frames' focused pixels, and for each pixel the frame it came from.

    The method is defined for two frames; more are fused in turn: the result so far with the next frame.

    Args:
        frames: two or more frames, (H, W, 3) RGB or (H, W), 0..1, of one size.

    Returns:
        The fused picture, shaped like a frame, and the decision (H, W): the index of the frame, from 0, or -1
        where the pixel is a mean because focus could not be told.

    Raises:
        InputError: frames that do not fit together.

    Example:
        >>> sharp = np.random.default_rng(0).random((80, 80), dtype=np.float32)
        >>> image, decision, *_ = fuse_dsift([np.full((80, 80), 0.5, np.float32), sharp])
        >>> bool((image == sharp).all()), np.unique(decision).tolist()
        (True, [1])
    """
    checked = check_frames(frames)
    fused = checked[0]
    decision = np.zeros(fused.shape[:2], np.int16)
    for index in range(1, len(checked)):
        frame = checked[index]
        share = _share_of_first(_eight_bit_grey(fused), _eight_bit_grey(frame))
        decision[share == 0.0] = index
        decision[share == 0.5] = UNDECIDED
        weight = share if fused.ndim == 2 else share[..., np.newaxis]
        fused = fused * weight + frame * (1 - weight)
    return FusedMaps(fused, decision)


def _eight_bit_grey(frame: NDArray[np.float32]) -> NDArray[np.float32]:
    """The grey (H, W) of a frame in steps of 1/255, on which all decisions are made; pixels are fused unrounded.

    The program rounds so, and in flat regions it matters: with the rounding 99.6 to 99.9 % of the pixels of the
    authors' pictures (Lytro 1, 4, 7, 10) come out identical, without it 98.9 to 99.7 %.
    """
    return np.asarray(np.rint(grey_levels(frame) * np.float32(255)) / np.float32(255), np.float32)


def _share_of_first(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
    """How much of each pixel (H, W) is to come from the first of two grey frames: 1, 0, or 0.5 where it is open."""
    histograms = [_direction_histograms(first), _direction_histograms(second)]
    activities = [_activity(histogram) for histogram in histograms]
    claims = [
        _drop_small_regions(_unanimous(activities[0], activities[1])).astype(np.float32),
        _drop_small_regions(_unanimous(activities[1], activities[0])).astype(np.float32),
    ]
    share = claims[0] + 0.5 * (1 - claims[0] - claims[1])
    _settle_open_pixels(share, frames=(first, second), histograms=(histograms[0], histograms[1]))
    return share


# --- dense SIFT -------------------------------------------------------------------------------------------------------


def _direction_histograms(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """The strength of each direction in a cell of the patch, (H + 18, W + 18, 8).

    The cells of the patch around pixel (y, x) stand in rows y, y + 6, y + 12, y + 18 and such columns: their centres
    lie 9.5 and 3.5 pixels before and 2.5 and 8.5 pixels after the pixel, as an even patch has no pixel in its middle.
    """
    margin = PATCH // 2 - 1
    # Divided by the brightest pixel [program], so that a darker exposure does not lose by being darker.
    brightest = grey.max()
    scaled = grey / brightest if brightest > 0 else grey
    # What lies outside of the picture is black [program].
    padded = np.pad(scaled, margin)
    horizontal, vertical = _gradients(padded)
    magnitude = np.hypot(horizontal, vertical)
    safe = np.where(magnitude > 0, magnitude, 1)
    # Bilinear shares: what lies at the centre of a cell counts fully, what lies at the next cell's centre not at all.
    shares = 1 - np.abs(np.arange(2 * CELL) - (CELL - 0.5)) / CELL
    height, width = (side + (CELLS - 1) * CELL for side in grey.shape)
    histograms = np.empty((height, width, DIRECTIONS), np.float32)
    for direction in range(DIRECTIONS):
        angle = 2 * np.pi * direction / DIRECTIONS
        likeness = np.maximum((horizontal * np.cos(angle) + vertical * np.sin(angle)) / safe, 0)
        strength = (magnitude * likeness**SHARPNESS_OF_DIRECTION).astype(np.float32)
        cells = cv2.sepFilter2D(
            strength, -1, shares, shares, anchor=(CELL - 2, CELL - 2), borderType=cv2.BORDER_CONSTANT
        )
        histograms[..., direction] = cells[:height, :width]
    return histograms


def _gradients(grey: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The horizontal and the vertical slope (H, W) of the smoothed picture."""
    position = np.arange(-GRADIENT_RADIUS, GRADIENT_RADIUS + 1)
    smooth = np.exp(-(position**2) / (2 * GRADIENT_SIGMA**2))
    slope = np.gradient(smooth)
    smooth, slope = smooth / smooth.sum(), slope * 2 / np.abs(slope).sum()
    horizontal = cv2.sepFilter2D(grey, -1, slope, smooth, borderType=cv2.BORDER_CONSTANT)
    vertical = cv2.sepFilter2D(grey, -1, smooth, slope, borderType=cv2.BORDER_CONSTANT)
    return np.asarray(horizontal, np.float32), np.asarray(vertical, np.float32)


def _cells(histograms: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    """For each of the 16 cells of the patch, its histogram at every pixel: (H, W, 8) or, of a plane, (H, W)."""
    reach = (CELLS - 1) * CELL
    height, width = histograms.shape[0] - reach, histograms.shape[1] - reach
    for row in range(0, reach + 1, CELL):
        for column in range(0, reach + 1, CELL):
            yield histograms[row : row + height, column : column + width]


def _activity(histograms: NDArray[np.float32]) -> NDArray[np.float32]:
    """The sum (H, W) of all 128 bins of the descriptor at each pixel, not normalised."""
    return np.asarray(np.sum(list(_cells(histograms.sum(axis=2))), axis=0), np.float32)


def _normalised_descriptors(histograms: NDArray[np.float32]) -> NDArray[np.float32]:
    """The descriptors (H, W, 128) of unit length, no bin above 0.2 before the last scaling.

    Descriptors shorter than 1 are left as they are [program]: stretching the noise of a flat patch would make it match
    anything.
    """
    descriptors = np.concatenate(list(_cells(histograms)), axis=2)
    length = np.linalg.norm(descriptors, axis=2)
    strong = length > 1
    cut = np.minimum(descriptors[strong] / length[strong][:, np.newaxis], LARGEST_BIN)
    descriptors[strong] = cut / np.linalg.norm(cut, axis=1, keepdims=True)
    return descriptors


# --- decision ---------------------------------------------------------------------------------------------------------


def _unanimous(activity: NDArray[np.float32], rival: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Where every voting window that holds the pixel has more activity than the rival."""
    height, width = activity.shape
    window = (min(VOTING_WINDOW, height), min(VOTING_WINDOW, width))
    lead = (activity - rival).astype(np.float64)
    wins = _window_sums(lead, window) > 0
    grown = np.pad(wins, [(side - 1, side - 1) for side in window], constant_values=True).astype(np.uint8)
    all_won = cv2.erode(grown, np.ones(window, np.uint8), anchor=(0, 0))[:height, :width]
    return all_won.astype(bool)


def _drop_small_regions(claimed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The claim without its small regions, then without its small holes (8-connected)."""
    return ~_large_regions(~_large_regions(claimed))


def _large_regions(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The 8-connected regions of the mask that are large enough."""
    _, labels, statistics, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    keep = statistics[:, cv2.CC_STAT_AREA] >= SMALLEST_REGION
    keep[0] = False  # label 0 is what lies outside of the mask
    large: NDArray[np.bool_] = keep[labels]
    return large


# --- matching ---------------------------------------------------------------------------------------------------------


def _settle_open_pixels(
    share: NDArray[np.float32],
    *,
    frames: tuple[NDArray[np.float32], NDArray[np.float32]],
    histograms: tuple[NDArray[np.float32], NDArray[np.float32]],
) -> None:
    """Sets open entries (0.5) of the share to 1 or 0 where matching across the frames tells which one is focused."""
    height, width = share.shape
    sharpness = [_spatial_frequency(frame) for frame in frames]
    reach = (CELLS - 1) * CELL
    for top in range(RADIUS, height - RADIUS, BAND):
        bottom = min(top + BAND, height - RADIUS)
        rows, columns = np.nonzero(share[top:bottom, RADIUS : width - RADIUS] == 0.5)
        if rows.size == 0:
            continue
        rows, columns = rows + RADIUS, columns + RADIUS
        band = slice(top - RADIUS, bottom + RADIUS)
        first, second = (_normalised_descriptors(h[top - RADIUS : bottom + RADIUS + reach]) for h in histograms)
        first_sharpness, second_sharpness = (values[band] for values in sharpness)
        own = first_sharpness[rows, columns] - second_sharpness[_matches(first, second, rows, columns)]
        other = first_sharpness[_matches(second, first, rows, columns)] - second_sharpness[rows, columns]
        # A window that leaves the picture has no spatial frequency (not a number): every comparison is then false.
        settled = share[band]
        settled[rows, columns] = np.select([(own > 0) & (other > 0), (own < 0) & (other < 0)], [1.0, 0.0], 0.5)


def _matches(
    descriptors: NDArray[np.float32],
    others: NDArray[np.float32],
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The row and column in the other frame whose descriptor is nearest to that of each given pixel."""
    wanted = descriptors[rows, columns]
    nearest = np.full(rows.shape, np.inf, np.float32)
    best = np.zeros((2, rows.size), np.intp)
    # Column by column, and the first of equals wins [program].
    for right in range(-RADIUS, RADIUS + 1):
        for down in range(-RADIUS, RADIUS + 1):
            difference = others[rows + down, columns + right] - wanted
            distance = np.einsum("ij,ij->i", difference, difference)
            nearer = distance < nearest
            nearest[nearer] = distance[nearer]
            best[0, nearer], best[1, nearer] = down, right
    return rows + best[0], columns + best[1]


def _spatial_frequency(grey: NDArray[np.float32]) -> NDArray[np.float64]:
    """The squared spatial frequency of the 7 x 7 window around each pixel; not a number where it leaves the picture."""
    values = grey.astype(np.float64)
    side = 2 * RADIUS + 1
    down, right = np.diff(values, axis=0) ** 2, np.diff(values, axis=1) ** 2
    frequency = np.full(values.shape, np.nan)
    if min(values.shape) >= side:
        windows = _window_sums(down, (side - 1, side)) + _window_sums(right, (side, side - 1))
        frequency[RADIUS:-RADIUS, RADIUS:-RADIUS] = windows / side**2
    return frequency


def _window_sums(values: NDArray[np.float64], window: tuple[int, int]) -> NDArray[np.float64]:
    """The sum over each window that lies wholly inside."""
    # Anchored at the first pixel: entry (y, x) stands for the window that begins there.
    sums = cv2.boxFilter(values, -1, window[::-1], anchor=(0, 0), normalize=False, borderType=cv2.BORDER_CONSTANT)
    return np.asarray(sums, np.float64)[: values.shape[0] - window[0] + 1, : values.shape[1] - window[1] + 1]
