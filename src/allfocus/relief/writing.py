"""A picture file and a depth map -> a relief in a file; the ending says what it is.

``.glb``, ``.obj``, ``.ply``: an open mesh with the picture on it. ``.stl``: a closed body for printing. ``.gif``,
``.webm``: an animation that rocks. ``.png``, ``.jpg``, ``.tif``, ``.webp``: a stereo pair.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.depth.files import STEP, DepthMap, read_depth, read_large_depth
from allfocus.depth.units import METRES, read_length
from allfocus.errors import InputError
from allfocus.files.placing import StagedFiles
from allfocus.images.image import Image
from allfocus.images.reading import read_image
from allfocus.images.reduced_planes import open_large_plane
from allfocus.images.writing import ENCODERS, check_output, encode_image
from allfocus.relief.mesh import build_cloud, build_mesh, build_solid
from allfocus.relief.mesh_files import MESH_ENCODERS
from allfocus.relief.views import encode_gif, encode_webm, rocking_views, stereo_pair

Map = NDArray[np.float32]
AnyPath = str | os.PathLike[str]

FILMS = {".gif": encode_gif, ".webm": encode_webm}
MADE_UP_WIDTH, MADE_UP_DEPTH = 100.0, 0.2
"""Where a size is not known: millimetres of the width of a relief, and its depth as a share of that."""
CUT_STEPS, CUT_SHARE, CUT_PIXELS = 1.5, 0.03, 3.0
"""A triangle that rises by more than so many steps between frames, or by more than this share of the whole depth where
steps are not known, would span an edge of depth; and so would one that is as steep as that over so many pixels, because
edges of a filled map are a few pixels wide."""
BASE_SHARE = 0.05
"""Thickness of the foot of a body, as a share of its longer side."""
MOST_PIXELS = 16_000_000
"""Pixels that are kept of a plane in an OME-Zarr or OME-TIFF, which may be larger than the memory: about 0.3 GB of
picture and depth, and three times as much while views of them are made."""
LARGEST_DEPTH = 1e15
"""Value of a depth map, in whatever unit, beyond which it is none."""
SWING_SHARE = 0.03
"""How far views swing, as a share of the width of the picture."""


@dataclass(frozen=True)
class ReliefOptions:
    """How a relief is made.

    Raises:
        InputError: a value cannot be used.

    Example:
        >>> ReliefOptions(pixel_size="1.2um").exaggerate
        1.0
    """

    pixel_size: str | None = None
    """How far neighbouring pixels are apart, such as 1.2um; None for what the depth map says, or made up."""
    z_step: str | None = None
    """How far neighbouring frames are apart, for depth maps in steps."""
    depth_range: str | None = None
    """How far the last frame is from the first, for depth maps in grey, which hold no unit."""
    first: str = "near"
    """Which end of the stack the first frame is: near or far."""
    exaggerate: float = 1.0
    """By what heights are multiplied."""
    most_faces: int = 1_000_000
    """Triangles of a mesh at the most, or points of a cloud; pixels are left out evenly until it is kept."""
    points: bool = False
    """Write a cloud of points instead of triangles (PLY)."""
    join: bool = False
    """Keep the triangles that span edges of depth."""
    swing: float = SWING_SHARE
    """How far stereo pairs and animations move, as a share of the width."""

    def __post_init__(self) -> None:
        for name in ("pixel_size", "z_step", "depth_range"):
            if getattr(self, name) is not None:
                read_length(getattr(self, name), name=name)
        if self.first not in ("near", "far"):
            raise InputError(f"first = {self.first!r}; it is near or far", code="bad-option")
        if not 0 < self.exaggerate <= 1000:
            raise InputError(f"exaggerate = {self.exaggerate}; it is above 0 and at most 1000", code="bad-option")
        if self.most_faces < 2:
            raise InputError(f"most_faces = {self.most_faces}; it is 2 or more", code="bad-option")
        if not 0 < self.swing <= 0.5:
            raise InputError(f"swing = {self.swing}; it is above 0 and at most 0.5", code="bad-option")


@dataclass(frozen=True)
class Heights:
    """Heights ready for a mesh."""

    values: Map
    """(H, W), millimetres towards the viewer, the farthest 0; NaN for holes."""
    pixel_size: float
    """Millimetres."""
    cut: float
    """Rise in millimetres that is an edge of depth."""


def write_relief(
    picture: AnyPath,
    depth_map: AnyPath,
    output: AnyPath,
    options: ReliefOptions | None = None,
    *,
    overwrite: bool = False,
    notice: Callable[[str], None] | None = None,
    **changes: Any,
) -> list[Path]:
    """Writes a relief of a fused picture and returns the files; OBJ has three.

    Args:
        picture: The fused picture.
        depth_map: Its depth, as ``fuse`` writes it: TIFF with units, grey PNG, or OME-Zarr and OME-TIFF of any size.
        output: The file to write; its ending says what it is.
        options: How.
        overwrite: Replace files that exist.
        notice: Called with a sentence about each size that is not known and was made up.
        changes: Single fields of :class:`ReliefOptions`, instead of ``options``.

    Raises:
        InputError: the files or options cannot be used.
        OutputError: the output cannot be written.
    """
    chosen = options if options is not None else ReliefOptions(**changes)
    path = Path(output)
    ending = path.suffix.lower()
    _check_ending(path, chosen)
    depth, pixels = _read_both(Path(depth_map), Path(picture), notice or (lambda sentence: None))
    if not np.isfinite(depth.values).any():
        raise InputError("nothing in it is measured", where=depth_map, code="input")
    if (largest := float(np.nanmax(np.abs(depth.values)))) > LARGEST_DEPTH:
        raise InputError(
            f"its values go up to {largest:g}, which is no depth",
            where=depth_map,
            hint="give the TIFF that allfocus wrote, or a grey picture",
            code="input",
        )
    if ending in MESH_ENCODERS:
        heights = find_heights(depth, chosen, notice or (lambda sentence: None))
        files = _mesh_files(heights, pixels, path, chosen)
    else:
        files = {path: _view_file(depth, pixels, path, chosen)}
    for own in files:
        check_output(own, overwrite=overwrite, picture=False)
    with StagedFiles(overwrite=overwrite, inputs=[Path(picture), Path(depth_map)]) as staged:
        for own, data in files.items():
            staged.add(own, data)
    return list(files)


def _read_both(depth_map: Path, picture: Path, notice: Callable[[str], None]) -> tuple[DepthMap, Map]:
    """Returns depth and picture (h, w[, 3]) of one size; of what is too large, every so many-th pixel."""
    large, seen = open_large_plane(depth_map), open_large_plane(picture)
    stride = 1 if large is None else large.stride(MOST_PIXELS)
    depth = read_depth(depth_map) if large is None else read_large_depth(large, stride)
    size = depth.values.shape if large is None else large.held.size
    pixels = read_image(picture).pixels if seen is None else None
    own = seen.held.size if seen is not None else pixels.shape[:2] if pixels is not None else size
    if size != own:
        raise InputError(
            f"is {size[1]} x {size[0]}, but the picture is {own[1]} x {own[0]}; give the depth map of that picture",
            where=depth_map,
            code="unequal-frames",
        )
    if stride > 1:
        notice(f"the plane is large, so one pixel in {stride} is taken along each side")
    if pixels is None and seen is not None:
        return depth, seen.read_picture(stride)
    return depth, np.ascontiguousarray(np.asarray(pixels)[::stride, ::stride])


def _check_ending(path: Path, options: ReliefOptions) -> None:
    known = [*MESH_ENCODERS, *FILMS, *ENCODERS]
    if path.suffix.lower() not in known:
        raise InputError(
            f"cannot tell the format; a relief ends in one of {' '.join(known)}", where=path, code="unwritable-format"
        )
    if options.points and path.suffix.lower() != ".ply":
        raise InputError("a cloud of points is written as .ply", where=path, code="unwritable-format")


def find_heights(depth: DepthMap, options: ReliefOptions, notice: Callable[[str], None]) -> Heights:
    """Returns the heights of a depth map in millimetres; what is not known is made up, and said."""
    width = depth.values.shape[1]
    given = options.pixel_size
    size = read_length(given, name="pixel_size") if given else depth.pixel_size
    if size is None:
        notice(f"the size of a pixel is not known, so the relief is {MADE_UP_WIDTH:g} mm wide; give the pixel size")
    pixel = MADE_UP_WIDTH / max(1, width - 1) if size is None else 1000 * size.metres
    factor, step = _millimetres(depth, options)
    if factor is None:
        span = float(np.nanmax(depth.values) - np.nanmin(depth.values))
        factor = MADE_UP_DEPTH * pixel * (width - 1) / max(span, 1e-9)
        notice(
            f"how far the frames are apart is not known, so the relief is {MADE_UP_DEPTH:.0%} as deep as it is wide; "
            f"give the {'z step' if depth.unit == STEP else 'depth range'}"
        )
    away = depth.values.astype(np.float64) * factor * options.exaggerate
    towards = -away if options.first == "near" else away
    heights = (towards - np.nanmin(towards)).astype(np.float32)
    whole = float(np.nanmax(heights))
    cut = CUT_SHARE * whole if step is None else CUT_STEPS * step * factor * options.exaggerate
    return Heights(heights, pixel, max(cut, 1e-9))


def _millimetres(depth: DepthMap, options: ReliefOptions) -> tuple[float | None, float | None]:
    """Returns the millimetres in one unit of the map, and the units in one step; None for what is not known."""
    step, whole = (
        None if text is None else read_length(text, name=name)
        for name, text in (("z_step", options.z_step), ("depth_range", options.depth_range))
    )
    if depth.unit in METRES:
        return 1000 * METRES[depth.unit], depth.step
    if depth.unit == STEP:
        return (1000 * step.metres if step else None), 1.0
    return (1000 * whole.metres if whole else None), None


def _mesh_files(heights: Heights, picture: Map, path: Path, options: ReliefOptions) -> dict[Path, bytes]:
    pixel, most = heights.pixel_size, options.most_faces
    if options.points:
        mesh = build_cloud(heights.values, picture, pixel_size=pixel, most_points=most)
    elif path.suffix.lower() == ".stl":
        base = BASE_SHARE * pixel * max(heights.values.shape)
        mesh = build_solid(heights.values, picture, pixel_size=pixel, most_faces=most, base=base)
    else:
        rows, columns = heights.values.shape
        spacing = max(1.0, math.sqrt(2 * (rows - 1) * (columns - 1) / most))
        cut = None if options.join else heights.cut * min(1.0, spacing / CUT_PIXELS)
        mesh = build_mesh(heights.values, picture, pixel_size=pixel, most_faces=most, cut=cut)
    return MESH_ENCODERS[path.suffix.lower()](mesh, picture, path)


def _view_file(depth: DepthMap, picture: Map, path: Path, options: ReliefOptions) -> bytes:
    low, high = float(np.nanmin(depth.values)), float(np.nanmax(depth.values))
    share = ((depth.values - low) / max(high - low, 1e-9)).astype(np.float32)
    nearness = 1 - share if options.first == "near" else share
    swing = options.swing * picture.shape[1]
    if path.suffix.lower() in FILMS:
        return FILMS[path.suffix.lower()](rocking_views(picture, nearness, swing), path)
    return bytes(encode_image(Image(stereo_pair(picture, nearness, swing), bit_depth=8), path))
