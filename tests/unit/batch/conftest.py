"""Small stacks of planes."""

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def plane_pixels():
    """Three planes (3, 450, 902, 3), uint8, each sharp elsewhere."""
    from allfocus.scenes.rendering import render_scene

    scene = render_scene("desk", frames=3, size=(450, 902))
    return np.stack([np.rint(frame * 255).astype(np.uint8) for frame in scene.frames])


def _write_planes(path: Path, pixels, *, zarr_format: int = 3, chunk: int = 256, extra=None):
    """An OME-Zarr (c, z, y, x) of planes (z, y, x, 3), with units, pixel sizes and channel names."""
    import zarr

    data = np.moveaxis(pixels, 3, 0)
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    modern = zarr_format == 3
    array = group.create_array(
        "0",
        shape=data.shape,
        chunks=(1, 1, chunk, chunk),
        dtype=data.dtype,
        chunk_key_encoding={"name": "default" if modern else "v2", "separator": "/"},
        **({"dimension_names": ["c", "z", "y", "x"]} if modern else {}),
    )
    array[:] = data
    space = [{"name": axis, "type": "space", "unit": "micrometer"} for axis in "zyx"]
    multiscale = {
        "name": "slide 7",
        "axes": [{"name": "c", "type": "channel"}, *space],
        "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1.0, 2.0, 0.25, 0.25]}]}],
    }
    channels = [
        {"label": name, "color": colour} for name, colour in (("R", "FF0000"), ("G", "00FF00"), ("B", "0000FF"))
    ]
    for channel in channels:
        channel["window"] = {"min": 0, "max": 255, "start": 0, "end": 255}
    inner = {"multiscales": [multiscale], "omero": {"channels": channels}}
    if modern:
        group.attrs.update({"ome": {"version": "0.5", **inner}, **(extra or {})})
    else:
        multiscale["version"] = "0.4"
        group.attrs.update({**inner, **(extra or {})})
    return path


@pytest.fixture(scope="session")
def write_planes():
    """Writes planes (z, y, x, channels) as OME-Zarr; see _write_planes."""
    return _write_planes
