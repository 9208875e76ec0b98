"""Heights and a picture -> triangles.

Lengths are millimetres. x goes to the right, y up and z towards the viewer; (0, 0) is the lower left corner of the
picture. Vertices lie at pixels and have exactly the height of theirs, so that a mesh can be measured in like the map.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.conversion import to_integers
from allfocus.images.filling import fill_from_surroundings

Map = NDArray[np.float32]


@dataclass(frozen=True)
class Mesh:
    """Triangles with colours."""

    vertices: NDArray[np.float64]
    """(V, 3), millimetres."""
    faces: NDArray[np.int32]
    """(F, 3), numbers of vertices, counterclockwise seen from outside; (0, 3) for a cloud of points."""
    colours: NDArray[np.uint8]
    """(V, 3)."""
    places: NDArray[np.float32]
    """(V, 2), where the vertex lies in the picture: 0..1 across and down."""


def build_mesh(heights: Map, picture: Map, *, pixel_size: float, most_faces: int, cut: float | None = None) -> Mesh:
    """Returns a surface through heights; holes stay holes, and at steps of depth it is open.

    Args:
        heights: (H, W) in millimetres towards the viewer; NaN for a hole.
        picture: (H, W, 3) or (H, W), 0..1.
        pixel_size: How far neighbouring pixels are apart, in millimetres.
        most_faces: So many triangles at the most: every second pixel is taken, every third and so on.
        cut: Triangles that rise more than this many millimetres are left out; None joins everything.

    Raises:
        InputError: the sizes differ, or nothing is left.

    Example:
        >>> mesh = build_mesh(np.zeros((3, 4), np.float32), np.zeros((3, 4), np.float32), pixel_size=0.5, most_faces=99)
        >>> len(mesh.faces), mesh.vertices.max(axis=0).tolist()
        (12, [1.5, 1.0, 0.0])
    """
    rows, columns = _chosen_pixels(heights, picture, most_faces)
    z = heights[np.ix_(rows, columns)].astype(np.float64)
    corners = np.arange(z.size, dtype=np.int32).reshape(z.shape)
    faces = _grid_faces(corners)
    rise = np.ptp(z.ravel()[faces], axis=1)
    keep = np.isfinite(rise) if cut is None else rise <= cut  # NaN is not below anything
    faces = faces[keep]
    used = np.unique(faces)
    if used.size == 0:
        raise InputError(
            "no three neighbouring pixels of the depth map make a surface: nothing, or only edges of depth, lies "
            "between its holes",
            hint=["fill the depth map first", "join its edges"],
            code="input",
        )
    numbers = np.full(z.size, -1, np.int32)
    numbers[used] = np.arange(used.size, dtype=np.int32)
    points = _points(z, rows, columns, heights.shape, pixel_size)
    return Mesh(
        points[used],
        numbers[faces],
        _colours(picture, rows, columns)[used],
        _places(z, rows, columns, heights.shape)[used],
    )


def build_cloud(heights: Map, picture: Map, *, pixel_size: float, most_points: int) -> Mesh:
    """Returns the measured pixels as points with colours; arguments as those of :func:`build_mesh`."""
    rows, columns = _chosen_pixels(heights, picture, 2 * most_points)
    z = heights[np.ix_(rows, columns)].astype(np.float64)
    there = np.flatnonzero(np.isfinite(z))
    if there.size == 0:
        raise InputError("nothing in the depth map is measured", code="input")
    points = _points(z, rows, columns, heights.shape, pixel_size)
    places = _places(z, rows, columns, heights.shape)
    return Mesh(points[there], np.zeros((0, 3), np.int32), _colours(picture, rows, columns)[there], places[there])


def build_solid(heights: Map, picture: Map, *, pixel_size: float, most_faces: int, base: float) -> Mesh:
    """Returns a closed body for printing: the surface without holes, walls around it and a flat foot.

    Args:
        heights: (H, W) in millimetres; holes are filled from around them.
        picture: (H, W, 3) or (H, W), 0..1.
        pixel_size: How far neighbouring pixels are apart, in millimetres.
        most_faces: So many triangles at the most, about.
        base: Thickness below the lowest place in millimetres.
    """
    there = np.isfinite(heights)
    if not there.any():
        raise InputError("nothing in the depth map is measured", code="input")
    whole = fill_from_surroundings(np.where(there, heights, 0).astype(np.float32), there.astype(np.float32))
    top = build_mesh(whole, picture, pixel_size=pixel_size, most_faces=most_faces)
    rows, columns = _chosen_pixels(heights, picture, most_faces)
    corners = np.arange(rows.size * columns.size, dtype=np.int32).reshape(rows.size, columns.size)
    # Around the picture, counterclockwise seen from above (y goes up, rows go down).
    ring = np.concatenate([corners[:-1, 0], corners[-1, :-1], corners[:0:-1, -1], corners[0, :0:-1]])
    floor = float(top.vertices[:, 2].min()) - base
    foot = top.vertices[ring].copy()
    foot[:, 2] = floor
    middle = np.array([[*top.vertices[:, :2].mean(axis=0), floor]])
    below = np.arange(ring.size, dtype=np.int32) + len(top.vertices)
    centre = np.full(ring.size, below[-1] + 1, np.int32)
    following, below_following = np.roll(ring, -1), np.roll(below, -1)
    walls = np.concatenate([np.stack([ring, below, following], 1), np.stack([following, below, below_following], 1)])
    bottom = np.stack([below_following, below, centre], 1)
    count = len(foot) + 1
    return Mesh(
        np.concatenate([top.vertices, foot, middle]),
        np.concatenate([top.faces, walls, bottom]).astype(np.int32),
        np.concatenate([top.colours, np.full((count, 3), 128, np.uint8)]),
        np.concatenate([top.places, np.zeros((count, 2), np.float32)]),
    )


def _chosen_pixels(heights: Map, picture: Map, most_faces: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of the pixels that become vertices: first and last always, evenly between."""
    if heights.shape != picture.shape[:2]:
        raise InputError(
            f"the depth map is {heights.shape[1]} x {heights.shape[0]} and the picture "
            f"{picture.shape[1]} x {picture.shape[0]}; both must be of one size",
            code="unequal-frames",
        )
    if min(heights.shape) < 2:
        raise InputError("a relief needs 2 x 2 pixels at the least", code="input")
    if most_faces < 2:
        raise InputError(f"{most_faces} triangles are too few; give 2 or more", code="bad-option")
    height, width = heights.shape
    spacing = max(1.0, math.sqrt(2 * (height - 1) * (width - 1) / most_faces))
    rows, columns = (
        np.unique(np.rint(np.linspace(0, side - 1, max(2, math.floor((side - 1) / spacing) + 1))).astype(np.int64))
        for side in (height, width)
    )
    return rows, columns


def _grid_faces(corners: NDArray[np.int32]) -> NDArray[np.int32]:
    upper_left, upper_right = corners[:-1, :-1].ravel(), corners[:-1, 1:].ravel()
    lower_left, lower_right = corners[1:, :-1].ravel(), corners[1:, 1:].ravel()
    return np.concatenate(
        [np.stack([upper_left, lower_left, upper_right], 1), np.stack([upper_right, lower_left, lower_right], 1)]
    )


def _points(
    z: NDArray[np.float64], rows: NDArray[np.int64], columns: NDArray[np.int64], size: tuple[int, ...], pixel: float
) -> NDArray[np.float64]:
    x, y = np.broadcast_to(columns * pixel, z.shape), np.broadcast_to(((size[0] - 1 - rows) * pixel)[:, None], z.shape)
    return np.stack([x.ravel(), y.ravel(), z.ravel()], 1)


def _places(
    z: NDArray[np.float64], rows: NDArray[np.int64], columns: NDArray[np.int64], size: tuple[int, ...]
) -> NDArray[np.float32]:
    across = np.broadcast_to((columns + 0.5) / size[1], z.shape)
    down = np.broadcast_to(((rows + 0.5) / size[0])[:, None], z.shape)
    return np.stack([across.ravel(), down.ravel()], 1).astype(np.float32)


def _colours(picture: Map, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.uint8]:
    part = picture[np.ix_(rows, columns)]
    part = part if part.ndim == 3 else np.repeat(part[..., None], 3, axis=2)
    return np.asarray(to_integers(np.ascontiguousarray(np.clip(part, 0, 1), np.float32), 8).reshape(-1, 3), np.uint8)
