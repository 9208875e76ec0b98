"""Planes: the input is never the output, nothing foreign is deleted, damage is told, and no file can run code."""

import dataclasses
import io
import json
import os
import pickle
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import tifffile
from folder_contents import contents
from this_process import ThisProcess

pytest.importorskip("zarr", reason="needs the extra batch")

import zarr

from allfocus.batch.planes import fusion as plane_fusion
from allfocus.batch.planes import work_folder as plane_work
from allfocus.batch.planes.description import describe_planes
from allfocus.batch.planes.fusion import fuse_planes
from allfocus.batch.planes.plain_files import pack, unpack
from allfocus.errors import AllfocusError, InputError, OutputError
from allfocus.fusion.planning import Plan


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    monkeypatch.setattr(plane_fusion, "Cluster", ThisProcess)


def pixels(count: int = 3, *, dtype: str = "uint8", side: int = 80) -> np.ndarray:
    random = np.random.default_rng(3)
    values = random.random((count, side, side))
    return values.astype(dtype) if dtype.startswith("float") else (values * np.iinfo(dtype).max).astype(dtype)


def write_zarr(path: Path, planes: np.ndarray, *, chunk: int = 40, shards: int | None = None, version: int = 3, **more):
    group = zarr.open_group(str(path), mode="w", zarr_format=version)
    options = {"shards": (1, shards, shards)} if shards else {}
    array = group.create_array("0", shape=planes.shape, chunks=(1, chunk, chunk), dtype=planes.dtype, **options)
    array[:] = planes
    multiscale = {
        "axes": [{"name": axis, "type": "space"} for axis in "zyx"],
        "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1, 1]}]}],
        **more,
    }
    group.attrs.update({"ome": {"version": "0.5", "multiscales": [multiscale]}})
    return path


def write_tiffs(folder: Path, planes, **options) -> Path:
    folder.mkdir()
    for number, plane in enumerate(planes):
        tifffile.imwrite(folder / f"p{number}.tif", plane, tile=(32, 32), **options)
    return folder


# --- nothing lost -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("in.zarr", "in.zarr"),
        ("in.zarr", "link.zarr"),
        ("in.zarr", "in.zarr/0.zarr"),
        ("inside.zarr/image.zarr", "inside.zarr"),
        ("multi.tif", "multi.tif"),
        ("multi.tif", "hard.tif"),
        ("planes", "planes/p0.tif"),
        ("planes", "planes/../planes/p1.tif"),
    ],
)
def test_the_planes_are_never_the_result(tmp_path, source, target):
    write_zarr(tmp_path / "in.zarr", pixels())
    zarr.open_group(str(tmp_path / "inside.zarr"), mode="w")
    write_zarr(tmp_path / "inside.zarr/image.zarr", pixels())
    (tmp_path / "link.zarr").symlink_to(tmp_path / "in.zarr")
    tifffile.imwrite(tmp_path / "multi.tif", pixels(), photometric="minisblack")
    os.link(tmp_path / "multi.tif", tmp_path / "hard.tif")
    write_tiffs(tmp_path / "planes", pixels())
    before = contents(tmp_path)
    with pytest.raises((InputError, OutputError), match="will not be replaced"):
        fuse_planes(tmp_path / source, tmp_path / target, overwrite=True)
    assert contents(tmp_path) == before


def test_what_is_no_part_of_a_zarr_is_not_deleted_with_it(tmp_path):
    write_zarr(tmp_path / "in.zarr", pixels())
    old = write_zarr(tmp_path / "out.zarr", pixels())
    (old / "notes.txt").write_text("precious")
    with pytest.raises(OutputError, match=r"holds notes\.txt"):
        fuse_planes(tmp_path / "in.zarr", old, overwrite=True)
    assert (old / "notes.txt").read_text() == "precious"
    (old / "notes.txt").unlink()
    fuse_planes(tmp_path / "in.zarr", old, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.zarr", "out.zarr"]


@pytest.mark.parametrize("inside", ["notes.txt", "survey/notes.txt", "key.txt"])
def test_a_folder_that_is_in_the_way_is_not_cleaned(tmp_path, inside):
    write_zarr(tmp_path / "in.zarr", pixels())
    place = tmp_path / ".out.zarr.partial" / inside
    place.parent.mkdir(parents=True)
    place.write_text("precious")
    with pytest.raises(OutputError, match="was not made by allfocus"):
        fuse_planes(tmp_path / "in.zarr", tmp_path / "out.zarr")
    assert contents(tmp_path / ".out.zarr.partial") == {inside: b"precious"}


def test_something_put_into_the_work_folder_stays(tmp_path):
    write_zarr(tmp_path / "in.zarr", pixels())
    with plane_work.work_folder(tmp_path / "out.zarr") as folder:
        (folder / "precious.txt").write_text("precious")
    fuse_planes(tmp_path / "in.zarr", tmp_path / "out.zarr")
    assert (tmp_path / ".out.zarr.partial/precious.txt").read_text() == "precious"


@pytest.mark.parametrize("ending", [".zarr", ".tif"])
@pytest.mark.parametrize("kill", ["rename", "replace", "rmtree", "unlink"])
def test_a_run_killed_while_its_result_takes_its_place_loses_neither(tmp_path, monkeypatch, ending, kill):
    planes = write_zarr(tmp_path / "in.zarr", pixels())
    target = tmp_path / f"out{ending}"
    fuse_planes(planes, target)
    first = contents(target) if target.is_dir() else target.read_bytes()

    class Killed(BaseException):
        pass

    put_in_place = plane_work.put_in_place

    def put(*values, **options):
        def die(*values, **options):
            raise Killed

        with monkeypatch.context() as patched:
            if kill == "rmtree":
                patched.setattr(plane_work, "_remove", die)
            else:
                patched.setattr(Path, kill, die)
            put_in_place(*values, **options)

    monkeypatch.setattr(plane_fusion, "put_in_place", put)
    write_zarr(planes, pixels()[::-1].copy())
    if kill == "rename" and ending == ".tif":
        pytest.skip("a file is replaced in one step")
    with pytest.raises(Killed):
        fuse_planes(planes, target, overwrite=True)
    monkeypatch.setattr(plane_fusion, "put_in_place", put_in_place)
    with pytest.raises(OutputError, match="exists already"):
        fuse_planes(planes, target)
    now = contents(target) if target.is_dir() else target.read_bytes()
    assert now  # the old one, or the new one, whole
    if kill == "rename":
        assert now == first
    fuse_planes(planes, target, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.zarr", f"out{ending}"]


def test_a_result_that_appears_meanwhile_is_kept(tmp_path, monkeypatch):
    planes, target = write_zarr(tmp_path / "in.zarr", pixels()), tmp_path / "out.tif"
    finish = plane_fusion._finish

    def appear(*values):
        finish(*values)
        target.write_text("precious")

    monkeypatch.setattr(plane_fusion, "_finish", appear)
    with pytest.raises(OutputError, match=r"out\.tif"):
        fuse_planes(planes, target)
    assert target.read_text() == "precious"


def test_planes_that_change_while_they_are_fused_are_an_error(tmp_path, monkeypatch):
    planes = write_tiffs(tmp_path / "planes", pixels())
    finish = plane_fusion._finish

    def change(*values):
        finish(*values)
        tifffile.imwrite(planes / "p1.tif", pixels()[0], tile=(32, 32))

    monkeypatch.setattr(plane_fusion, "_finish", change)
    with pytest.raises(InputError, match="was changed while"):
        fuse_planes(planes, tmp_path / "out.tif")
    assert not (tmp_path / "out.tif").exists()


# --- damage is told ---------------------------------------------------------------------------------------------------


def odd_planes() -> dict[str, list[tuple[np.ndarray, dict[str, object]]]]:
    plane = pixels(1)[0]
    return {
        "8 and 16 bits": [(plane, {}), (plane.astype(np.uint16) * 257, {})],
        "16 and 8 bits": [(plane.astype(np.uint16) * 257, {}), (plane, {})],
        "integers and floating point": [(plane, {}), (plane.astype(np.float32) / 255, {})],
        "white is zero": [(plane, {}), (plane, {"photometric": "miniswhite"})],
        "turned": [(plane, {}), (plane, {"extratags": [(274, 3, 1, 3, True)]})],
        "grey and colour": [(plane, {}), (np.repeat(plane[..., None], 3, 2), {"photometric": "rgb"})],
        "with alpha": [(plane, {}), (np.repeat(plane[..., None], 2, 2), {"photometric": "minisblack"})],
        "32-bit integers": [(plane, {}), (plane.astype(np.uint32), {})],
        "signed": [(plane, {}), (plane.astype(np.int8), {})],
    }


@pytest.mark.parametrize("kind", odd_planes())
@pytest.mark.parametrize("first", [False, True])
def test_every_plane_is_checked_and_not_the_first_alone(tmp_path, kind, first):
    plain, odd = odd_planes()[kind]
    planes = [plain, plain, plain]
    planes[0 if first else 2] = odd
    folder = tmp_path / "planes"
    folder.mkdir()
    for number, (plane, options) in enumerate(planes):
        tifffile.imwrite(folder / f"p{number}.tif", plane, tile=(32, 32), **options)
    with pytest.raises(InputError):
        describe_planes(folder)


@pytest.mark.parametrize("version", [2, 3])
def test_a_missing_chunk_is_an_error_and_not_black(tmp_path, version):
    planes = write_zarr(tmp_path / "in.zarr", pixels(), version=version)
    lost = next(path for path in sorted(planes.rglob("*")) if path.is_file() and path.name[0] in "01")
    lost.unlink()
    with pytest.raises(AllfocusError, match=r"chunk .* is missing"):
        fuse_planes(planes, tmp_path / "out.zarr")
    assert not (tmp_path / "out.zarr").exists()
    fuse_planes(planes, tmp_path / "out.zarr", fill_missing=True)


def test_a_chunk_missing_inside_a_shard_is_an_error(tmp_path):
    planes = pixels()
    planes[1, :40, :40] = 0  # such a chunk is not written
    write_zarr(tmp_path / "in.zarr", planes, shards=80)
    with pytest.raises(AllfocusError, match=r"part of a shard is missing"):
        fuse_planes(tmp_path / "in.zarr", tmp_path / "out.zarr")
    planes[1, :40, :40] = 1
    planes[1, 0, 0] = 0
    write_zarr(tmp_path / "in.zarr", planes, shards=80)
    fuse_planes(tmp_path / "in.zarr", tmp_path / "out.zarr")


def test_an_empty_tile_is_an_error_and_not_black(tmp_path):
    folder = write_tiffs(tmp_path / "planes", pixels())
    with tifffile.TiffFile(folder / "p1.tif", mode="r+b") as tiff:
        tag = tiff.pages[0].tags["TileByteCounts"]
        counts = list(tag.value)
        counts[2] = 0
        tag.overwrite(counts)
    with pytest.raises(AllfocusError, match="ends too early"):
        fuse_planes(folder, tmp_path / "out.tif")


@pytest.mark.parametrize(
    "damage",
    [
        {"datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": ["a", "b", "c"]}]}]},
        {"datasets": [{"path": "0", "coordinateTransformations": ["scale"]}]},
        {"datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1, float("inf")]}]}]},
        {"datasets": [{"path": "../../x"}]},
        {"datasets": [{}]},
        {"datasets": "0"},
        {"datasets": []},
        {"axes": "zyx!"},
        {"axes": [1, 2, 3]},
        {"axes": None},
    ],
)
def test_odd_metadata_is_our_own_error(tmp_path, damage):
    write_zarr(tmp_path / "in.zarr", pixels(), **damage)
    with pytest.raises(InputError):
        describe_planes(tmp_path / "in.zarr")


@pytest.mark.parametrize("change", [{"shape": [3, 10**9, 10**9]}, {"shape": [3, 0, 80]}, {"chunk": 0}, {"text": True}])
def test_sizes_that_cannot_be_are_refused_at_once(tmp_path, change):
    planes = write_zarr(tmp_path / "in.zarr", pixels())
    description = planes / "0/zarr.json"
    content = json.loads(description.read_text())
    if "shape" in change:
        content["shape"] = change["shape"]
    if "chunk" in change:
        content["chunk_grid"]["configuration"]["chunk_shape"] = [1, 0, 0]
    description.write_text("no JSON" if "text" in change else json.dumps(content))
    with pytest.raises(InputError):
        describe_planes(planes)


def test_several_positions_are_named_and_not_fused(tmp_path):
    zarr.open_group(str(tmp_path / "in.zarr"), mode="w")
    for name in ("0", "1"):
        write_zarr(tmp_path / "in.zarr" / name, pixels())
    with pytest.raises(InputError, match=r"2 positions \(0, 1\), and a stack is one of them; set position"):
        describe_planes(tmp_path / "in.zarr")
    assert describe_planes(tmp_path / "in.zarr/1").count == 3
    shutil.rmtree(tmp_path / "in.zarr/1")
    assert describe_planes(tmp_path / "in.zarr").count == 3


# --- no code in files -------------------------------------------------------------------------------------------------


class Evil:
    def __reduce__(self):
        return os.mkdir, ("hacked",)


def test_a_planted_plan_runs_no_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    planted = pickle.dumps(Evil())
    archive = io.BytesIO()
    np.savez(archive, content=np.array([Evil()], object), allow_pickle=True)
    for data in (planted, archive.getvalue(), b"", b"PK\x03\x04", pack([1, 2])):
        with pytest.raises(InputError, match=r"plan\.npz"):
            unpack(data, Plan, path=Path("plan.npz"))
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(
    "name", [["os", "mkdir"], ["allfocus.errors", "InputError"], ["allfocus.fusion.learned", "fuse_ips"]]
)
def test_a_plan_makes_nothing_but_our_dataclasses(name):
    text = json.dumps({"$class": name, "fields": {}}).encode()
    archive = io.BytesIO()
    np.savez(archive, content=np.frombuffer(text, np.uint8))
    with pytest.raises(InputError):
        unpack(archive.getvalue(), Plan, path=Path("plan.npz"))


@dataclasses.dataclass(frozen=True)
class Part:
    """Stands for the dataclasses of a plan."""

    first: int
    last: float


class Named(NamedTuple):
    """Stands for its named tuples."""

    values: np.ndarray


@dataclasses.dataclass(frozen=True)
class Whole:
    """Stands for a plan."""

    size: tuple[int, int]
    parts: list[Part]
    chosen: list[list[int]]
    array: np.ndarray | None
    named: Named
    area: tuple[slice, slice]
    number: np.float32
    text: str | None = None


def test_what_is_kept_comes_back_as_it_was(monkeypatch):
    from allfocus.fusion import learned

    for kind in (Part, Named, Whole):  # as if they were those of the fusion
        monkeypatch.setattr(kind, "__module__", "allfocus.fusion.learned")
        monkeypatch.setattr(learned, kind.__name__, kind, raising=False)
    array = np.arange(6, dtype=np.float16).reshape(1, 2, 3)
    whole = Whole(
        (8, 9), [Part(1, 0.1)], [[0, 2], []], array, Named(array[0]), (slice(1, 2), slice(None)), np.float32(3)
    )
    again = unpack(pack(whole), Whole, path=Path("plan"))
    assert again.array.dtype == np.float16
    assert np.array_equal(again.array, array)
    assert np.array_equal(again.named.values, array[0])
    assert type(again.named) is Named
    assert (again.size, again.parts, again.chosen, again.area) == (whole.size, whole.parts, whole.chosen, whole.area)
    assert type(again.number) is np.float32


def test_nothing_in_the_package_reads_pickles_from_a_file():
    root = Path(plane_fusion.__file__).parents[1]
    using = [path for path in root.rglob("*.py") if "pickle" in path.read_text() and path.name != "cluster.py"]
    sources = [path for path in using if "import pickle" in path.read_text() or "allow_pickle=True" in path.read_text()]
    assert sources == []
