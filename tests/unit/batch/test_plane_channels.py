"""Planes of several channels, in parts: the same as in memory, with maps, from and to every format."""

import functools
import itertools
import json

import numpy as np
import pytest
import tifffile
from this_process import ThisProcess

pytest.importorskip("zarr", reason="needs the extra batch")

import zarr

from allfocus.batch.planes import description
from allfocus.batch.planes import fusion as plane_fusion
from allfocus.batch.planes import tasks as plane_tasks
from allfocus.batch.planes.fusion import block_side
from allfocus.batch.planes.reading import PlaneSource
from allfocus.depth.measurement import FusedStack, enlarge_map, learn_shape, measure_tile, reduce_decision
from allfocus.errors import AllfocusError, InputError
from allfocus.fusion import areas, planning
from allfocus.fusion.settings import DecisionSettings
from allfocus.images.spool import reduce_frame
from allfocus.images.stack_file import open_stack_file
from allfocus.scenes.rendering import render_scene

NAMES = ("DAPI", "GFP", "RFP", "Cy5")
COLOURS = ("0000FF", "00FF00", "FF0000", "FF00FF")
SIZE, PLANES = (300, 420), 3
AS_LARGE = DecisionSettings(plan_pixels=40_000, largest_full_scale=1000)
"""Planes of a hundred thousand pixels are decided at half scale, with context."""
fuse_planes = functools.partial(plane_fusion.fuse_planes, settings=AS_LARGE)
describe_planes = functools.partial(description.describe_planes, settings=AS_LARGE)


@pytest.fixture(autouse=True)
def as_if_large(monkeypatch):
    """Several windows for planes of a hundred thousand pixels."""
    monkeypatch.setattr(plane_fusion, "Cluster", ThisProcess)
    monkeypatch.setattr(plane_tasks, "SURVEY_SIDE", 256)
    monkeypatch.setattr(plane_fusion, "CHUNK", 256)
    plane_tasks._source.cache_clear()


@pytest.fixture(scope="module")
def pixels():
    """(channels, planes, rows, columns) of 16 bits, one channel fifty times darker than the others."""
    frames = np.stack(render_scene("circuit", frames=PLANES, size=SIZE).frames)
    layers = [frames[..., 0], frames[..., 1] * 0.02, frames[..., 2], frames[..., ::-1, :, 0][:, ::-1]]
    return np.rint(np.stack(layers) * 60000).astype(np.uint16)


@pytest.fixture
def stack(tmp_path, pixels):
    path = tmp_path / "in.ome.zarr"
    group = zarr.open_group(str(path), mode="w")
    array = group.create_array("0", shape=pixels.shape, chunks=(1, 1, 128, 128), dtype="uint16")
    array[:] = pixels
    space = [{"name": axis, "type": "space", "unit": "micrometer"} for axis in "zyx"]
    scale = [{"type": "scale", "scale": [1.0, 2.0, 0.25, 0.25]}]
    window = {"min": 0, "max": 65535, "start": 0, "end": 60000}
    shown = [{"label": name, "color": colour, "window": window} for name, colour in zip(NAMES, COLOURS, strict=True)]
    image = {
        "name": "slide",
        "axes": [{"name": "c", "type": "channel"}, *space],
        "datasets": [{"path": "0", "coordinateTransformations": scale}],
    }
    group.attrs.update({"ome": {"version": "0.5", "multiscales": [image], "omero": {"channels": shown}}})
    return path


class _Held:
    """Planes in memory that are decided on as a plane source says."""

    def __init__(self, source, pixels, layers):
        self._source = source
        self._pixels = np.moveaxis(pixels[layers], 0, -1).astype(np.float32) / 65535
        self.shape, self.scale = self._pixels.shape[1:], source.scale

    def __len__(self):
        return len(self._pixels)

    def read(self, index, area):
        return self._pixels[index][area]

    def read_reduced(self, index, area, level=0):
        return self._source.read_reduced(index, area, level)

    def read_valid(self, index, area):
        return None

    def sharpness(self):
        whole = (slice(0, SIZE[0]), slice(0, SIZE[1]))
        reduced = [self._source.read_decided(index, whole) for index in range(PLANES)]
        return np.stack([plane_tasks.block_sharpness(np.ascontiguousarray(frame)) for frame in reduced])


def in_memory(stack, pixels, layers, **options):
    source = _Held(PlaneSource(describe_planes(stack, **options)), pixels, layers)
    plan = planning.plan_fusion(source, unveil=False, device="cpu", settings=AS_LARGE)
    return areas.fuse_area(plan, source, (slice(0, SIZE[0]), slice(0, SIZE[1])), device="cpu")


def measured_in_memory(stack, fused):
    """Depth and standard error in steps, of the whole plane at once."""
    planes = describe_planes(stack)
    source = PlaneSource(planes)
    decided = reduce_decision(fused.decision, 2)
    layers = [reduce_frame(np.ascontiguousarray(fused.image[..., layer]), 2) for layer in range(planes.channels)]
    picture = planes.composite.compose(lambda layer: layers[layer])
    held = FusedStack(plane_tasks._DecidedSource(source), lambda area: (decided[area], picture[area]), 2)
    tile = (0, held.size[0], 0, held.size[1])
    return [enlarge_map(own, SIZE) for own in measure_tile(held, tile, learn_shape(held))]


def test_blocks_of_four_channels_give_what_memory_gives(tmp_path, stack, pixels):
    result = fuse_planes(stack, tmp_path / "out.ome.zarr", block=256, maps=("depth", "error", "confidence", "decision"))
    found = zarr.open_array(str(tmp_path / "out.ome.zarr/0"))[:]
    expected = in_memory(stack, pixels, [0, 1, 2, 3])
    difference = np.abs(found - np.moveaxis(expected.image, -1, 0) * 65535)
    assert difference.max() <= 20  # of 65535: rounding before or after channels are put together
    assert result.maps["depth"] == tmp_path / "out_depth.ome.zarr"
    depth = zarr.open_array(str(tmp_path / "out_depth.ome.zarr/0"))[:]
    error = zarr.open_array(str(tmp_path / "out_error.ome.zarr/0"))[:]
    for found, measured in zip((depth, error), measured_in_memory(stack, expected), strict=True):
        assert found.dtype == np.float32
        assert np.mean(np.isfinite(found) == np.isfinite(measured)) > 0.999
        apart = np.abs(found - 2.0 * measured)  # planes are 2 um apart
        assert np.nanquantile(apart, 0.999) < 0.02
    assert np.isfinite(depth).mean() > 0.3
    decision = zarr.open_array(str(tmp_path / "out_decision.ome.zarr/0"))[:]
    assert np.array_equal(np.rint(decision / 255 * (PLANES - 1)), expected.decision)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("in.ome.zarr", "out.ome.zarr", "out_confidence.ome.zarr", "out_decision.ome.zarr", "out_depth.ome.zarr"),
        "out_error.ome.zarr",
    ]


def test_results_of_every_format_validate_and_keep_names_and_sizes(tmp_path, stack):
    ome_types = pytest.importorskip("ome_types", reason="needs the extra dev")
    from ome_zarr_models.v05 import Image

    fuse_planes(stack, tmp_path / "out.ome.zarr", block=256, channels="GFP,Cy5", maps=["depth"])
    fuse_planes(stack, tmp_path / "out.ome.tif", block=256, channels="GFP,Cy5", maps=["depth"])
    for name in ("out.ome.zarr", "out_depth.ome.zarr"):
        Image.from_zarr(zarr.open_group(str(tmp_path / name), mode="r"))
    for name in ("out.ome.tif", "out_depth.ome.tif"):
        read = ome_types.from_tiff(tmp_path / name).images[0].pixels
        assert (read.physical_size_x, read.physical_size_y, read.physical_size_z) == (0.25, 0.25, 2.0)
    assert [channel.name for channel in ome_types.from_tiff(tmp_path / "out.ome.tif").images[0].pixels.channels] == [
        "GFP",
        "Cy5",
    ]
    for name in ("out.ome.zarr", "out.ome.tif"):
        held = open_stack_file(tmp_path / name).positions[0]
        assert [(channel.name, channel.colour) for channel in held.channels] == [("GFP", "#00ff00"), ("Cy5", "#ff00ff")]
    assert np.array_equal(
        tifffile.imread(tmp_path / "out.ome.tif"), zarr.open_array(str(tmp_path / "out.ome.zarr/0"))[:]
    )


def test_one_channel_decides_for_all_and_each_can_decide_for_itself(tmp_path, stack, pixels):
    fuse_planes(stack, tmp_path / "dapi.zarr", block=256, decide_by="DAPI")
    expected = in_memory(stack, pixels, [0, 1, 2, 3], decide_by="dapi")
    assert (
        np.abs(zarr.open_array(str(tmp_path / "dapi.zarr/0"))[:] - np.moveaxis(expected.image, -1, 0) * 65535).max()
        <= 1
    )
    fuse_planes(stack, tmp_path / "each.zarr", block=256, decide_by="each")
    each = zarr.open_array(str(tmp_path / "each.zarr/0"))[:]
    for number in range(4):
        fuse_planes(stack, tmp_path / f"{number}.zarr", block=256, channels=NAMES[number])
        assert np.array_equal(each[number], zarr.open_array(str(tmp_path / f"{number}.zarr/0"))[0])
    with pytest.raises(InputError, match="each channel is decided by itself") as caught:
        fuse_planes(stack, tmp_path / "x.zarr", block=256, decide_by="each", maps=["depth"])
    assert caught.value.code == "method-cannot"


def test_planes_of_an_ome_tiff_with_positions_and_times_are_those_of_the_zarr(tmp_path, stack, pixels):
    path = tmp_path / "in.ome.tif"
    with tifffile.TiffWriter(path, ome=True) as writer:
        for position in range(2):
            both = np.stack([pixels // 3, pixels]) if position else np.stack([pixels, pixels]) // 2
            told = {"axes": "TCZYX", "Name": f"p{position}", "Channel": {"Name": list(NAMES)}}
            writer.write(both, metadata=told, tile=(128, 128))
    with pytest.raises(InputError, match="2 positions") as caught:
        fuse_planes(path, tmp_path / "x.zarr", block=256)
    assert caught.value.code == "several-stacks"
    with pytest.raises(InputError, match="one position and time at a time"):
        fuse_planes(path, tmp_path / "x.zarr", block=256, position="p1", time="all")
    fuse_planes(path, tmp_path / "tiff.zarr", block=256, position="p1", time="2")
    fuse_planes(stack, tmp_path / "zarr.zarr", block=256)
    assert np.array_equal(*(zarr.open_array(str(tmp_path / f"{name}.zarr/0"))[:] for name in ("tiff", "zarr")))


def test_a_run_that_was_interrupted_goes_on_with_its_maps(tmp_path, stack, monkeypatch):
    calls, breaks = itertools.count(), [True]
    fuse_block = plane_tasks.fuse_block

    def fuse_or_break(job, block):
        if breaks[0] and next(calls) == 2:
            raise AllfocusError("the power went")
        return fuse_block(job, block)

    monkeypatch.setattr(plane_fusion, "fuse_block", fuse_or_break)
    with pytest.raises(AllfocusError, match="the power went"):
        fuse_planes(stack, tmp_path / "out.zarr", block=256, maps=["depth"])
    assert not (tmp_path / "out_depth.zarr").exists()
    breaks[0] = False
    result = fuse_planes(stack, tmp_path / "out.zarr", block=256, maps=["depth"])
    assert result.blocks_done_before > 0
    fuse_planes(stack, tmp_path / "again.zarr", block=256, maps=["depth"])
    for name in ("", "_depth"):
        once, again = (zarr.open_array(str(tmp_path / f"{own}{name}.zarr/0"))[:] for own in ("out", "again"))
        assert np.array_equal(once, again, equal_nan=once.dtype.kind == "f")
    with pytest.raises(AllfocusError, match="exists already"):
        fuse_planes(stack, tmp_path / "out.zarr", block=256, maps=["depth"])
    fuse_planes(stack, tmp_path / "out.zarr", block=256, maps=["depth"], overwrite=True)
    assert not list(tmp_path.glob(".*"))


def test_more_channels_make_smaller_blocks_and_tiles_stay_within_their_cache(tmp_path, stack, monkeypatch):
    assert block_side(4096, 1) == block_side(4096, 3) == 4096
    for layers in (4, 12, 50):
        assert block_side(4096 * 256, layers) ** 2 * layers <= 3 * (4096 * 256) ** 2
    assert block_side(1024, 400) >= plane_fusion.CHUNK
    monkeypatch.setattr("allfocus.batch.planes.reading.CACHE_BYTES", 2_000_000)
    source = PlaneSource(describe_planes(stack))
    for index in range(PLANES):
        assert source.read(index, (slice(0, 300), slice(0, 420))).shape == (300, 420, 4)
        assert source._held <= 2_000_000


def test_what_is_decided_on_weighs_the_dark_channel_like_the_others(stack):
    composite = describe_planes(stack).composite
    assert composite.chosen == (0, 1, 2, 3)
    assert composite.spans[1] < 0.05 * composite.spans[0]
    assert min(composite.weights) > 0.5


def test_the_key_of_a_run_can_be_written_down(stack):
    import dataclasses

    assert json.dumps(dataclasses.asdict(describe_planes(stack)), sort_keys=True)
