"""Lost detail: what some frame of a stack shows and the fused picture does not, measured without knowing the truth.

A picture is split into Laplacian bands, and each band is measured by its local root mean square. Detail is lost where
the fused picture has less than half of what the best frame has. A frame may be strong in a band without showing detail
there: noise, the wide rings and discs of things that are out of focus, the veil of a bright thing nearby. So a frame
counts only

* as far as its finer bands bear it out: detail in focus reaches down to the finest band, blur does not;
* where it has no less of the finer bands than the fused picture has: a ring is strongest in the frame that is *less*
  sharp than the one the picture was made from;
* against noise, and against the stronger detail around it, whose ring or veil it may be.

Every limit is relative to the stack itself (its range of values, its noise), so the unit of the values does not matter.
Frames are looked at one by one, large ones at half scale, and only maps of the picture's own size are kept.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.fusion.frame_checks import check_picture, grey_levels, unequal_picture
from allfocus.fusion.lost_detail import ERASED, LostDetail, robust_ends
from allfocus.fusion.lost_places import Map, find_places
from allfocus.images.spool import FrameSpool, Mask, reduce_frame
from allfocus.progress import CountProgress

LARGEST_FULL_SCALE = 1_200_000
"""Pictures with more pixels are measured at half scale: what matters in them is wider, and it costs a quarter."""
BANDS = 5
KEPT = 0.5
"""Share of a detail's strength below which it counts as lost."""
RIM = 0.02
"""Part of the shorter side that is left out all around, where moved or padded frames end in edges of their own."""
SMALLEST_WITH_RIM = 64

FAINT = 2 / 255
"""Detail weaker than this part of the range of values is nothing that anybody would miss."""
FAINT_FINEST = 3 * FAINT
"""The same for the finest band, which no finer one can bear out."""
NOISE_PERCENTILE = 25
"""The noise of a band: what the calmest frame has of it, in the calmer places of the picture."""
ABOVE_NOISE = 3.0
"""How far detail is above the noise of its band."""
ABOVE_CALMEST = 2.0
"""How far the best frame is above the calmest at the same place, or it is noise that grows with brightness."""

BORNE_OUT = 1.4
"""By how much a band may exceed the next finer one in the same window: an ideal edge has a ratio of 1 / 0.7."""
IDEAL_SUPPORT = 0.7
LEAD = 1.2
"""How many times the energy of a frame in a finer band the fused picture must have to count as the sharper one."""
MASKED = 0.3
"""Detail weaker than this part of the strongest around it in the fused picture passes for its ring or veil."""
SURROUNDINGS = 9
"""Cells a side in which the strongest is looked for; a cell is two pixels of the band."""
NEIGHBOURHOOD = 13
"""Cells a side of the wider window in which frame and fused picture are compared."""


def measure_lost_detail(
    image: NDArray[np.floating[Any]],
    frames: Sequence[NDArray[np.floating[Any]]] | FrameSpool,
    *,
    valid: Sequence[Mask] | None = None,
    progress: CountProgress | None = None,
) -> LostDetail:
    """The detail of the frames that the fused picture does not show.

    Args:
        image: The fused picture, (H, W, 3) or (H, W), floating point in the unit of the frames, whatever that is.
        frames: The frames it was fused from, on its grid; in memory or in a spool, of which one at a time is read.
        valid: For each frame, where it has pixels; None for everywhere. The masks of a spool are found without it.
        progress: Called after each frame.

    Raises:
        InputError: there is no frame, one has another size than the fused picture, or one of them is no picture of
            finite numbers.

    Example:
        >>> sharp = np.random.default_rng(0).random((128, 128), np.float32)
        >>> soft = cv2.GaussianBlur(sharp, (0, 0), 4)
        >>> measure_lost_detail(sharp, [sharp, soft]).share, round(measure_lost_detail(soft, [sharp, soft]).share)
        (0.0, 82)
    """
    fused = check_picture(image, np.shape(image)[:2])
    height, width = fused.shape[:2]
    scale = measured_scale(height, width)
    meter = DetailMeter(fused, scale=scale)
    for index, grey in enumerate(_grey_frames(frames, (height, width), scale)):
        masks = frames.valid if isinstance(frames, FrameSpool) and valid is None else valid
        meter.add(grey, None if masks is None else masks[index][:, :])
        if progress is not None:
            progress(index + 1, len(frames))
    return meter.result()


def measured_scale(height: int, width: int) -> int:
    """By how much a picture of this size is reduced before its detail is measured: 1 or 2.

    Example:
        >>> measured_scale(800, 1200), measured_scale(4000, 6000)
        (1, 2)
    """
    return 1 if height * width <= LARGEST_FULL_SCALE else 2


def _grey_frames(
    frames: Sequence[NDArray[np.floating[Any]]] | FrameSpool, size: tuple[int, int], scale: int
) -> Iterable[Map]:
    """Each frame in grey at the measured scale."""
    for index in range(len(frames)):
        if isinstance(frames, FrameSpool):
            if tuple(frames[index].shape[:2]) != size:
                raise unequal_picture(f"frame {index + 1}", frames[index].shape, "the fused picture", size)
            # A spool that holds frames at the right scale saves reading four times as much.
            fitting = frames.reduction == scale
            pixels = (frames.reduced if fitting else frames)[index][:, :]
            yield _reduced_grey(pixels, 1 if fitting else scale)
        else:
            frame = check_picture(frames[index], size, what=f"frame {index + 1}", beside="the fused picture")
            yield _reduced_grey(frame, scale)


def _reduced_grey(pixels: NDArray[np.floating[Any]], scale: int) -> Map:
    grey = grey_levels(np.asarray(pixels, np.float32))
    return np.asarray(reduce_frame(np.ascontiguousarray(grey), scale), np.float32)


class DetailMeter:
    """Measures lost detail while the frames pass by, one at a time and in any order of reading.

    Example:
        >>> sharp = np.random.default_rng(0).random((128, 128), np.float32)
        >>> meter = DetailMeter(np.zeros_like(sharp))
        >>> meter.add(sharp * 0)
        >>> meter.add(sharp)
        >>> int(meter.result().frames.max())
        1
    """

    def __init__(self, image: NDArray[np.floating[Any]], *, scale: int = 1) -> None:
        """Begins with the fused picture at full scale; frames will come reduced by ``scale``."""
        self._size = (int(image.shape[0]), int(image.shape[1]))
        self._scale = scale
        grey = _reduced_grey(image, scale)
        shorter = min(grey.shape)
        self._grey_size = grey.shape
        self._rim = 0 if shorter < SMALLEST_WITH_RIM else max(4, round(RIM * shorter))
        self._bands = max(1, min(BANDS, int(np.log2(shorter)) - 3))
        self._fused = self._windows(grey)
        self._fused_wide = [[_widen(energy) for energy in own] for own in self._fused]
        low, high = robust_ends(grey)
        self._allowed = self._allowances(high - low)
        shapes = [own[-1].shape for own in self._fused]
        self._best = [np.zeros(shape, np.float32) for shape in shapes]
        self._strongest = [np.zeros(shape, np.float32) for shape in shapes]
        self._calmest = [np.full(shape, np.inf, np.float32) for shape in shapes]
        self._which = [np.full(shape, -1, np.int16) for shape in shapes]
        self._showing = [_ShowingFrames(shape) for shape in shapes]
        self._lowest, self._highest = np.inf, -np.inf
        self._count = 0

    def add(self, grey: Map, valid: NDArray[np.bool_] | None = None) -> None:
        """Looks at the next frame.

        Args:
            grey: (h, w), at the measured scale.
            valid: (H, W) at full scale, True where the frame has a pixel; None for everywhere.

        Raises:
            InputError: its size is not that of the fused picture.
        """
        if grey.shape != self._grey_size:
            raise InputError(f"frame {self._count + 1} has shape {grey.shape}; expected {self._grey_size}")
        low, high = robust_ends(grey)
        self._lowest, self._highest = min(self._lowest, low), max(self._highest, high)
        rim = self._rim
        inner = grey[rim : grey.shape[0] - rim, rim : grey.shape[1] - rim]
        # The rim of a frame is replaced by a mirror of what it encloses; that of the fused picture is not, so that
        # what it shows there, in focus, is known when the blur of it reaches further in.
        mirrored = cv2.copyMakeBorder(inner, rim, rim, rim, rim, cv2.BORDER_REFLECT_101)
        windows = self._windows(np.asarray(mirrored, np.float32))
        usable = None if valid is None or valid.all() else self._usable_cells(valid)
        for band, energies in enumerate(windows):
            own = energies[-1]
            borne_out = self._bear_out(band, energies)
            if usable is not None:
                borne_out = np.where(usable[band], borne_out, 0)
                self._calmest[band] = np.minimum(self._calmest[band], np.where(usable[band], own, np.inf))
                own = np.where(usable[band], own, 0)
            else:
                cv2.min(self._calmest[band], own, dst=self._calmest[band])
            self._which[band][borne_out > self._best[band]] = self._count
            self._showing[band].add(borne_out, self._best[band], self._count)
            cv2.max(self._best[band], borne_out, dst=self._best[band])
            cv2.max(self._strongest[band], own, dst=self._strongest[band])
        self._count += 1

    def result(self) -> LostDetail:
        """What was lost, of all frames that were added.

        Raises:
            InputError: none was.
        """
        if not self._count:
            raise InputError("lost detail is measured against the frames; got 0 frames")
        unit = max(self._highest - self._lowest, float(np.finfo(np.float32).tiny))
        first = int(np.log2(self._scale))
        shares, losses, missing = {}, [], []
        for band, floor in enumerate(self._floors(unit)):
            best, own, inside = self._best[band], self._fused[band][-1], self._inside(band)
            around = cv2.dilate(np.sum(self._fused[band], axis=0), np.ones((SURROUNDINGS, SURROUNDINGS), np.uint8))
            lost = np.zeros(best.shape, bool)
            lost[inside] = ((best > floor**2) & (own < KEPT**2 * best))[inside]
            lost &= (best > ABOVE_CALMEST**2 * self._calmest[band]) & (best > MASKED**2 * around)
            detailed = int((self._strongest[band][inside] > floor**2).sum())
            shares[first + band] = 100 * float(lost.sum()) / max(1, detailed)
            losses.append(np.where(lost, 1 - np.sqrt(own / np.maximum(best, 1e-30)), 0).astype(np.float32))
            missing.append(np.where(lost, np.sqrt(np.maximum(best - own, 0)) / unit, 0).astype(np.float32))
        return self._assemble(shares, losses, missing)

    # --- energies ---------------------------------------------------------------------------------------------------

    def _windows(self, grey: Map) -> list[list[Map]]:
        """For each band, the mean square of it (last) and of each finer one (finest first) in its window."""
        # To sides that halve evenly; a mirror adds no edges.
        current = self._pad(grey, cv2.BORDER_REFLECT_101)
        squares: list[Map] = []
        result = []
        for _ in range(self._bands):
            smaller = np.asarray(cv2.pyrDown(current), np.float32)
            detail = np.asarray(cv2.subtract(current, cv2.pyrUp(smaller)), np.float32)
            squares = [_halve(own) for own in (*squares, detail * detail)]
            result.append([np.asarray(cv2.GaussianBlur(own, (7, 7), 1.5), np.float32) for own in squares])
            current = smaller
        return result

    def _pad(self, picture: Map, border: int) -> Map:
        step = 2**self._bands
        height, width = picture.shape
        return np.asarray(cv2.copyMakeBorder(picture, 0, -height % step, 0, -width % step, border), np.float32)

    def _allowances(self, unit: float) -> list[float]:
        """How much stronger each band (but the finest) may be than the one before it in a frame that is in focus.

        A soft lens, or files larger than their content, leave little in the finest bands of even the sharpest frame:
        the fused picture, sharp in most places, tells how much is usual.
        """
        allowed = []
        for energies in self._fused[1:]:
            textured = energies[-1] > (2 * FAINT * unit) ** 2
            usual = IDEAL_SUPPORT
            if textured.any():
                usual = float(np.sqrt(np.median(energies[-2][textured] / energies[-1][textured])))
            allowed.append(BORNE_OUT * IDEAL_SUPPORT / min(max(usual, 0.1), IDEAL_SUPPORT))
        return allowed

    def _bear_out(self, band: int, energies: list[Map]) -> Map:
        """The energy of a frame in a band as far as it is detail in focus; 0 where the fused picture is sharper."""
        borne_out = energies[-1]
        sharper = np.zeros(borne_out.shape, bool)
        for finer, energy in enumerate(energies):
            sharper |= LEAD * _widen(energy) < self._fused_wide[band][finer]
            if finer < band:
                sharper |= LEAD * energy < self._fused[band][finer]
                allowance = np.float32(np.prod(self._allowed[finer:band]) ** 2)
                borne_out = np.minimum(borne_out, allowance * energy)
        return np.where(sharper, np.float32(0), borne_out)

    def _usable_cells(self, valid: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
        """For each band, the cells whose window lies within the mask of a frame."""
        current = self._pad(reduce_frame(valid.astype(np.float32), self._scale), cv2.BORDER_REPLICATE)
        cells = []
        for _ in range(self._bands):
            current = _halve(current)
            reach = np.ones((9, 9), np.uint8)
            cells.append(np.asarray(cv2.erode(current, reach) > 0.999))
        return cells

    def _floors(self, unit: float) -> list[float]:
        """The strength from which on a band of a frame counts as detail."""
        floors = []
        noise: list[float] = []
        for band in range(self._bands):
            calmest = self._calmest[band][self._inside(band)]
            known = calmest[np.isfinite(calmest)]
            found = float(np.sqrt(np.percentile(known, NOISE_PERCENTILE))) if known.size else 0.0
            # Noise does not grow with the scale; what does is part of the picture.
            noise.append(min([found, *noise[-1:]]))
            floors.append(max(FAINT * unit if band else FAINT_FINEST * unit, ABOVE_NOISE * noise[-1]))
        return floors

    # --- maps -------------------------------------------------------------------------------------------------------

    def _inside(self, band: int) -> tuple[slice, slice]:
        """The cells of a band that lie neither in the rim, nor next to it, nor in the padding."""
        cell = 2 ** (band + 1)
        first = -(-self._rim // cell) + bool(self._rim)
        ends = (-(-(length - self._rim) // cell) - bool(self._rim) for length in self._grey_size)
        rows, columns = (slice(first, max(first + 1, end)) for end in ends)
        return rows, columns

    def _assemble(self, shares: dict[int, float], losses: list[Map], missing: list[Map]) -> LostDetail:
        """The maps of all bands as one, at the finest cells."""
        shown = _without_repetitions([loss > 0 for loss in losses])
        rows, columns = (-(-length // 2) for length in self._grey_size)
        loss, strength = np.zeros((rows, columns), np.float32), np.zeros((rows, columns), np.float32)
        which = np.full((rows, columns), -1, np.int16)
        showing = np.full((rows, columns, 2), -1, np.int16)
        for band, own in enumerate(shown):
            here = _enlarge(own, band, (rows, columns))
            loss[here] = _enlarge(losses[band], band, (rows, columns))[here]
            strength[here] = _enlarge(missing[band], band, (rows, columns))[here]
            which[here] = _enlarge(self._which[band], band, (rows, columns))[here]
            for end, frames in enumerate((self._showing[band].first, self._showing[band].last)):
                showing[here, end] = _enlarge(frames, band, (rows, columns))[here]
        cell = 2 * self._scale
        share, erased = (100 * float((loss > limit).mean()) for limit in (0, ERASED))
        places = find_places(loss, strength, which, cell, self._size)
        return LostDetail(share, erased, shares, loss, which, cell, places, strength=strength, showing=showing)


class _ShowingFrames:
    """From which frame to which each cell of a band is shown nearly as well as by the best, while frames pass by.

    Energies are compared by steps of about a half octave, of which float32 has the number in its upper bits: frames
    within a step of the best have at least half of its energy.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.first, self._first_of_step, self.last = (np.full(shape, -1, np.int16) for _ in range(3))

    def add(self, energy: Map, best: Map, number: int) -> None:
        """Looks at a frame; ``best`` is the most that any before it has."""
        step, before = (np.ascontiguousarray(values).view(np.int32) >> 22 for values in (energy, best))
        rise = step - before
        np.copyto(self.first, self._first_of_step, where=rise == 1)
        self.first[rise > 1] = number
        self._first_of_step[rise > 0] = number
        self.last[(rise >= -1) & (energy > 0)] = number


def _halve(values: Map) -> Map:
    """Means of two by two; the sides are even."""
    size = (values.shape[1] // 2, values.shape[0] // 2)
    return np.asarray(cv2.resize(values, size, interpolation=cv2.INTER_AREA), np.float32)


def _widen(energy: Map) -> Map:
    return np.asarray(cv2.blur(energy, (NEIGHBOURHOOD, NEIGHBOURHOOD)), np.float32)


def _without_repetitions(lost: list[NDArray[np.bool_]]) -> list[NDArray[np.bool_]]:
    """Where each band is to be shown: a wide cell beside which a finer band has found the same says nothing new."""
    shown = [lost[0]]
    finer = lost[0]
    for own in lost[1:]:
        found = finer.reshape(own.shape[0], 2, own.shape[1], 2).any(axis=(1, 3))
        near = cv2.dilate(np.asarray(found, np.uint8), np.ones((5, 5), np.uint8))
        shown.append(own & (near == 0))
        finer = found | own
    return shown


def _enlarge(values: NDArray[Any], band: int, size: tuple[int, int]) -> NDArray[Any]:
    """A map of a band at the finest cells."""
    factor = 2**band
    return np.repeat(np.repeat(values, factor, axis=0), factor, axis=1)[: size[0], : size[1]]
