"""Dust spots: each is covered with a piece from nearby that fits its surroundings, brought to their brightness.

As a healing brush does (Georgiev, "Photoshop healing brush: a tool for seamless cloning", 2004): the texture is that
of the other piece, and what the two differ by around the spot is continued smoothly into it and added. Where no other
piece fits into the picture, the surroundings themselves are continued. Every spot is healed from the picture as it was,
so that any part of the picture can be healed by itself.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.finishing.finish import Spot
from allfocus.finishing.framing import Area
from allfocus.images.conversion import from_integers
from allfocus.images.filling import fill_from_surroundings

Pixels = NDArray[np.float32]

HARD = 0.85
"""Share of the radius within which nothing of the spot is left."""
DIRECTIONS = 16
DISTANCES = (2.4, 3.2, 4.4)
"""In radii: where other pieces are tried."""
COMPARED_SIDE = 48
"""Pixels along each side of a piece that are compared, of larger ones every so many."""


def spot_area(spot: Spot, width: int, height: int) -> Area:
    """The part of a picture that healing a spot may change; empty for a spot outside.

    Example:
        >>> spot_area(Spot(5, 5, 2), 6, 100)
        (3, 3, 6, 7)
    """
    left, top = max(0, math.floor(spot.x - spot.radius)), max(0, math.floor(spot.y - spot.radius))
    right, bottom = min(width, math.ceil(spot.x + spot.radius)), min(height, math.ceil(spot.y + spot.radius))
    return (left, top, max(left, right), max(top, bottom))


def heal_spots(samples: NDArray[Any], spots: Sequence[Spot], area: Area) -> Pixels:
    """A part of a picture with its spots healed.

    Args:
        samples: The whole picture, ``(H, W)`` or ``(H, W, 3)``: uint8, uint16, or float32 in 0..1; only what is needed
            is read.
        spots: All spots of the picture; none of them serves as a piece for another.
        area: Which part.

    Returns:
        ``(rows, columns)`` or ``(rows, columns, 3)``, float32 in 0..1; outside spots as it was, bit for bit.
    """
    height, width = samples.shape[:2]
    left, top, right, bottom = area
    result = np.array(from_integers(np.asarray(samples[top:bottom, left:right])))
    for spot in spots:
        own = spot_area(spot, width, height)
        x0, y0, x1, y1 = max(left, own[0]), max(top, own[1]), min(right, own[2]), min(bottom, own[3])
        if x0 >= x1 or y0 >= y1:
            continue
        healed, weight = _heal(samples, spot, [other for other in spots if other != spot], own)
        inside = (slice(y0 - own[1], y1 - own[1]), slice(x0 - own[0], x1 - own[0]))
        part = result[y0 - top : y1 - top, x0 - left : x1 - left]
        share = weight[inside] if part.ndim == 2 else weight[inside][..., None]
        part[...] = np.where(share > 0, part + share * (healed[inside] - part), part)
    return result


def _heal(samples: NDArray[Any], spot: Spot, others: Sequence[Spot], own: Area) -> tuple[Pixels, Pixels]:
    """The healed pixels of the area of a spot, and how much of each is taken."""
    height, width = samples.shape[:2]
    reach = max(2, math.ceil(spot.radius * 0.4))
    window = (max(0, own[0] - reach), max(0, own[1] - reach), min(width, own[2] + reach), min(height, own[3] + reach))
    pixels = _read(samples, window)
    distance = _distance(spot, window)
    known = np.asarray((distance > spot.radius) & ~_covered(others, window), np.float32)
    piece = _find_piece(samples, spot, others, window, pixels, known)
    base = np.zeros_like(pixels) if piece is None else piece
    healed = np.clip(base + fill_from_surroundings(pixels - base, known), 0, 1)
    t = np.clip((distance / spot.radius - HARD) / (1 - HARD), 0, 1)
    weight = np.asarray(1 - t * t * (3 - 2 * t), np.float32)
    inside = (slice(own[1] - window[1], own[3] - window[1]), slice(own[0] - window[0], own[2] - window[0]))
    return np.asarray(healed[inside], np.float32), weight[inside]


def _find_piece(
    samples: NDArray[Any], spot: Spot, others: Sequence[Spot], window: Area, pixels: Pixels, known: Pixels
) -> Pixels | None:
    """The piece nearby whose surroundings are most like those of the spot, apart from brightness; None if none fits."""
    height, width = samples.shape[:2]
    best, least = None, math.inf
    step = max(1, max(known.shape) // COMPARED_SIDE)
    known, pixels = known[::step, ::step], pixels[::step, ::step]
    total = float(known.sum())
    share = known if pixels.ndim == 2 else known[..., None]
    for distance in DISTANCES:
        for direction in range(DIRECTIONS):
            turn = 2 * math.pi * direction / DIRECTIONS
            x, y = (round(distance * spot.radius * way) for way in (math.cos(turn), math.sin(turn)))
            place = (window[0] + x, window[1] + y, window[2] + x, window[3] + y)
            if place[0] < 0 or place[1] < 0 or place[2] > width or place[3] > height or not total:
                continue
            if _touches(spot, place) or any(_touches(other, place) for other in others):
                continue
            apart = (pixels - _read(samples, place, step)) * share
            unlike = float((apart**2).sum() - (apart.sum(axis=(0, 1)) ** 2).sum() / total)
            if unlike < least:
                best, least = place, unlike
    return None if best is None else _read(samples, best)


def _read(samples: NDArray[Any], area: Area, step: int = 1) -> Pixels:
    return from_integers(np.asarray(samples[area[1] : area[3] : step, area[0] : area[2] : step]))


def _distance(spot: Spot, area: Area) -> NDArray[np.float64]:
    """Of each pixel's centre from that of a spot."""
    xs, ys = np.arange(area[0], area[2]) + 0.5 - spot.x, np.arange(area[1], area[3]) + 0.5 - spot.y
    return np.asarray(np.hypot(xs[None, :], ys[:, None]), np.float64)


def _covered(spots: Sequence[Spot], area: Area) -> NDArray[np.bool_]:
    covered = np.zeros((area[3] - area[1], area[2] - area[0]), bool)
    for spot in spots:
        if _touches(spot, area):
            xs, ys = np.arange(area[0], area[2]) + 0.5 - spot.x, np.arange(area[1], area[3]) + 0.5 - spot.y
            covered |= (xs * xs)[None, :] + (ys * ys)[:, None] < spot.radius**2
    return covered


def _touches(spot: Spot, area: Area) -> bool:
    """Whether the centre of any pixel of an area lies within a spot; many spots may lie in one place."""
    across = min(max(math.floor(spot.x), area[0]), area[2] - 1) + 0.5 - spot.x
    down = min(max(math.floor(spot.y), area[1]), area[3] - 1) + 0.5 - spot.y
    return across * across + down * down < spot.radius**2
