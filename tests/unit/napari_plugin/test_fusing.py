"""Planes of layers are fused as on the command line, and come back as layers."""

import numpy as np
import pytest

import allfocus
from allfocus.errors import InputError
from allfocus.napari_plugin.fusing import Planes, fuse_planes_of_layers


@pytest.fixture(scope="module")
def frames():
    scene = allfocus.render_scene("slope", frames=4, size=(120, 160), seed=5)
    return np.stack([np.rint(frame * 255).astype(np.uint8) for frame in scene.frames])


def test_channels_are_fused_together_in_their_types_with_depth_in_units(frames):
    look = {"scale": (0.5, 0.5), "colormap": "green"}
    small, large = frames[..., 0], frames[..., 1].astype(np.uint16) * 100
    channels = [Planes("DAPI", small, 2.5, "um", look), Planes("GFP", large, 2.5, "um")]
    layers = fuse_planes_of_layers(channels, align=False)
    names = [about["name"] for _, about, _ in layers]
    assert names[:4] == ["DAPI fused", "GFP fused", "depth (um)", "depth error (um)"]
    (dapi, about, _), (gfp, _, _), (depth, place, _) = layers[:3]
    assert (about["scale"], about["colormap"]) == ((0.5, 0.5), "green")
    assert (dapi.dtype, gfp.dtype) == (np.uint8, np.uint16)
    for fused, planes in ((dapi, small), (gfp, large)):
        assert fused.shape == planes.shape[1:]
        off = np.abs(planes.astype(int) - fused).min(axis=0)  # each pixel is that of a plane, or between two
        assert np.median(off) == 0
    assert place["scale"] == (0.5, 0.5)
    assert 5 < np.nanmax(depth) <= 2.5 * 3.5
    assert np.isnan(depth).any() or np.isfinite(depth).all()


def test_a_colour_layer_and_floating_point_come_back_as_they_are(frames):
    (fused, *_), *_ = fuse_planes_of_layers([Planes("photo", frames)], align=False, depth=False)
    assert (fused.shape, fused.dtype) == ((120, 160, 3), np.uint8)
    values = frames[..., 1].astype(np.float32) * 10 - 300
    (fused, *_), *rest = fuse_planes_of_layers([Planes("heat", values)], align=False, depth=False)
    assert fused.dtype == np.float32
    assert fused.min() < -200
    assert "depth" not in str([own["name"] for _, own, _ in rest])


def test_deciding_by_one_channel_takes_the_planes_that_are_sharp_there(frames):
    blank = np.zeros_like(frames[..., 0]) + np.arange(4, dtype=np.uint8)[:, None, None] * 50
    _, (second, *_), *_ = fuse_planes_of_layers(
        [Planes("cells", frames[..., 0]), Planes("number", blank)], decide_by=0, align=False, depth=False
    )
    assert len(np.unique(second)) >= 4  # the planes of the other channel follow


def test_work_ends_when_progress_says_so(frames):
    class EnoughError(Exception):
        pass

    def progress(step, done, count):
        raise EnoughError

    with pytest.raises(EnoughError):
        fuse_planes_of_layers([Planes("a", frames[..., 0])], progress=progress)


@pytest.mark.parametrize(
    ("channels", "told"),
    [
        ([], "no layer"),
        ([Planes("flat", np.zeros((1, 64, 64), np.uint8))], "no planes"),
        ([Planes("mask", np.zeros((3, 64, 64), bool))], "holds bool"),
        ([Planes("a", np.zeros((3, 64, 64))), Planes("b", np.zeros((3, 64, 60)))], "differ in size"),
        ([Planes("a", np.zeros((3, 64, 64, 3))), Planes("b", np.zeros((3, 64, 64, 3)))], "alone"),
    ],
)
def test_layers_that_cannot_be_fused_are_named(channels, told):
    with pytest.raises(InputError, match=told):
        fuse_planes_of_layers(channels)
