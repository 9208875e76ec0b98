"""A fourth adversary, on files of microscopes: planes missing or elsewhere, structures that hang or mislead."""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

import allfocus
from allfocus.cli.main import run
from allfocus.errors import AllfocusError, InputError
from allfocus.images.dimensions import Dimensions, whole_number
from allfocus.images.frame_file import list_frames
from allfocus.images.stack_file import open_stack_file
from allfocus.stack.pipeline import fuse_files
from allfocus.web.channel_planes import find_stacks_in

zarr = pytest.importorskip("zarr", reason="needs the extra batch")

PLANES = np.random.default_rng(0).integers(0, 60_000, (3, 24, 28)).astype(np.uint16)
OPTIONS = {"method": "average", "align": False}


@pytest.fixture(autouse=True)
def impatience() -> Iterator[None]:
    """What hangs fails, in place of holding up all other tests."""

    def give_up(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# --- TIFF: the description and the pages ------------------------------------------------------------------------------


def write_pages(path: Path, description: str, count: int) -> Path:
    pages = np.concatenate([PLANES] * 4)[:count]
    with tifffile.TiffWriter(path) as writer:
        for number, page in enumerate(pages):
            text = description if number == 0 else None
            writer.write(page, photometric="minisblack", description=text, metadata=None)
    return path


def plane(file: str, page: int, place: int, channel: int = 0) -> str:
    """Says that a plane lies on a page of a file: "1" is the file itself."""
    name = f'<UUID FileName="{file}.ome.tif">urn:uuid:{file}</UUID>'
    return f'<TiffData IFD="{page}" FirstZ="{place}" FirstC="{channel}" FirstT="0" PlaneCount="1">{name}</TiffData>'


def ome(entries: str, channels: int = 1, head: str = ' UUID="urn:uuid:1"') -> str:
    sizes = f'SizeX="28" SizeY="24" SizeZ="3" SizeC="{channels}" SizeT="1"'
    listed = "".join(f'<Channel ID="Channel:0:{number}" SamplesPerPixel="1"/>' for number in range(channels))
    return (
        f'<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"{head}>'
        '<Image ID="Image:0">'
        f'<Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint16" {sizes}>{listed}{entries}</Pixels></Image></OME>'
    )


WHOLE = ome('<TiffData IFD="0" PlaneCount="6"/>', channels=2)
IMAGEJ = "ImageJ=1.53\nimages=6\nchannels=2\nslices=3\nhyperstack=true\n"
BINARY = '<?xml version="1.0"?><OME xmlns="x" UUID="urn:uuid:1"><BinaryOnly MetadataFile="a.companion.ome"/></OME>'
BROKEN: dict[str, tuple[str, int, str]] = {
    "cut in the middle": (WHOLE[: len(WHOLE) // 2], 6, "damaged-picture"),
    "without its last letter": (WHOLE[:-1], 6, "damaged-picture"),
    "with something behind it": (WHOLE + "junk", 6, "damaged-picture"),
    "empty": ("<OME/>", 6, "damaged-picture"),
    "without an image": (re.sub("<Image.*</Image>", "", WHOLE), 6, "damaged-picture"),
    "in another file": (BINARY, 6, "incomplete-stack"),
    "a plane in another file": (ome(plane("1", 0, 0) + plane("1", 1, 1) + plane("2", 0, 2)), 2, "incomplete-stack"),
    "a plane in another file, and a page too many": (
        ome(plane("1", 0, 0) + plane("1", 1, 1) + plane("2", 0, 2)), 3, "incomplete-stack"
    ),
    "all planes in another file": (ome("".join(plane("2", z, z) for z in range(3))), 3, "incomplete-stack"),
    "files by name alone": (
        ome(plane("1", 0, 0) + plane("1", 1, 1) + plane("2", 0, 2), head=""), 3, "incomplete-stack"
    ),
    "ImageJ, cut short": (IMAGEJ, 5, "damaged-picture"),
    "ImageJ, cut short by a channel": (IMAGEJ, 4, "damaged-picture"),
    "ImageJ, of times, cut short": (IMAGEJ.replace("channels", "frames"), 5, "damaged-picture"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_planes_that_are_not_told_apart_or_missing_are_never_fused_as_one_stack(tmp_path, kind):
    text, count, code = BROKEN[kind]
    path = write_pages(tmp_path / "1.ome.tif", text, count)
    with pytest.raises(InputError) as caught:
        fuse_files(path, tmp_path / "fused.tif", **OPTIONS)
    assert caught.value.code == code
    assert not (tmp_path / "fused.tif").exists()


def test_pages_behind_an_array_that_does_not_speak_of_them_are_no_planes_of_it(tmp_path):
    path = tmp_path / "array.tif"
    tifffile.imwrite(path, PLANES, photometric="minisblack")
    assert open_stack_file(path).positions[0].planes == 3
    tifffile.imwrite(path, PLANES[0], photometric="minisblack", metadata=None, append=True)
    for call in (lambda: fuse_files(path, tmp_path / "fused.tif", **OPTIONS), lambda: list_frames([path])):
        with pytest.raises(InputError, match="speaks of 3 planes, and the file holds 4 pages"):
            call()


@pytest.mark.parametrize("lost", [1, 100, 900, 1500])
def test_a_file_that_lost_its_end_is_never_a_stack_or_a_picture(tmp_path, lost):
    whole = tmp_path / "whole.ome.tif"
    metadata = {"axes": "ZCYX", "Channel": {"Name": ["a", "b"]}}
    tifffile.imwrite(whole, np.stack([PLANES, PLANES], axis=1), ome=True, metadata=metadata, photometric="minisblack")
    cut = tmp_path / "cut.ome.tif"
    cut.write_bytes(whole.read_bytes()[:-lost])
    for call in (lambda: fuse_files(cut, tmp_path / "fused.tif", **OPTIONS), lambda: list_frames([cut])):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.code in ("damaged-picture", "input")


SOUND: dict[str, tuple[str, int, int]] = {
    "whole": (WHOLE, 6, 2),
    "ImageJ": (IMAGEJ, 6, 2),
    "a channel in another file": (
        ome("".join(plane("1", z, z) + plane("2", z, z, 1) for z in range(3)), channels=2), 3, 1
    ),
    "pages the other way round": (ome("".join(plane("1", 2 - z, z) for z in range(3))), 3, 1),
    "a file that was renamed": (ome("".join(plane("1", z, z) for z in range(3))).replace("1.ome", "old"), 3, 1),
    "renamed, known by its name alone": (ome("".join(plane("0", z, z) for z in range(3)), head=""), 3, 1),
    "one page of a longer stack": (ome(plane("1", 0, 0) + plane("2", 0, 1)), 1, 1),
    "entries without a page": (ome("<TiffData/>"), 3, 1),
}  # fmt: skip


@pytest.mark.parametrize("kind", SOUND)
def test_files_that_hold_whole_stacks_are_opened(tmp_path, kind):
    text, count, channels = SOUND[kind]
    found = open_stack_file(write_pages(tmp_path / "1.ome.tif", text, count))
    assert len(found.positions[0].channels) == channels


SETS: dict[str, dict[str, list[tuple[int, int]]]] = {
    "a file for each channel": {"dapi": [(z, 0) for z in range(3)], "gfp": [(z, 1) for z in range(3)]},
    "a file for each plane": {str(z): [(z, 0), (z, 1)] for z in range(3)},
    "a file for each page": {f"{z}{c}": [(z, c)] for z in range(3) for c in range(2)},
}


def write_set(folder: Path, files: dict[str, list[tuple[int, int]]]) -> dict[str, Path]:
    """The planes of two channels in several files; the values of channel 1 are half of those of channel 0."""
    entries = "".join(plane(file, page, z, c) for file, own in files.items() for page, (z, c) in enumerate(own))
    for file, own in files.items():
        text = ome(entries, channels=2, head=f' UUID="urn:uuid:{file}"').replace('ID="Channel:0:1"', 'Name="GFP"')
        with tifffile.TiffWriter(folder / f"{file}.ome.tif") as writer:
            for number, (z, c) in enumerate(own):
                text_here = text if number == 0 else None
                writer.write(PLANES[z] // (c + 1), photometric="minisblack", description=text_here, metadata=None)
    return {file: folder / f"{file}.ome.tif" for file in files}


@pytest.mark.parametrize("kind", SETS)
def test_channels_in_several_files_are_fused_as_channels_and_never_as_one_stack(tmp_path, kind):
    (tmp_path / "set").mkdir()
    paths = write_set(tmp_path / "set", SETS[kind])
    found = open_stack_file(tmp_path / "set")
    assert [channel.name for channel in found.positions[0].channels] == ["1", "GFP"]
    assert (found.positions[0].planes, found.notices) == (3, ())
    fuse_files(tmp_path / "set", tmp_path / "fused.ome.tif", decide_by="each", **OPTIONS)
    fused = tifffile.imread(tmp_path / "fused.ome.tif").astype(int)
    expected = np.stack([np.rint((PLANES // (c + 1)).mean(axis=0)) for c in range(2)])
    assert np.abs(fused - expected).max() <= 1
    with pytest.raises(InputError, match="several channels"):
        allfocus.align_files(tmp_path / "set", tmp_path / "aligned")
    last = [*paths.values()][-1]
    kept = last.read_bytes()
    with pytest.raises(InputError, match="will not be replaced"):
        fuse_files(tmp_path / "set", last, overwrite=True, channels="1", **OPTIONS)
    with pytest.raises(InputError, match="will not be replaced"):
        allfocus.fuse_planes(tmp_path / "set", last, overwrite=True, channels="1")
    assert last.read_bytes() == kept


def test_part_of_a_set_is_told_or_refused(tmp_path):
    by_channel, by_plane = write_set(tmp_path, SETS["a file for each channel"]), tmp_path / "planes"
    said: list[str] = []
    fuse_files(by_channel["gfp"], tmp_path / "fused.tif", notice=said.append, **OPTIONS)
    assert said[0].startswith("1 of the 2 files of this OME-TIFF")
    by_plane.mkdir()
    paths = write_set(by_plane, SETS["a file for each plane"])
    with pytest.raises(InputError, match=r"lies in 2\.ome\.tif, which was not given"):
        fuse_files([paths["0"], paths["1"]], tmp_path / "part.tif", **OPTIONS)
    with pytest.raises(InputError, match="is not one of the files"):
        fuse_files([paths["0"], by_channel["gfp"]], tmp_path / "part.tif", **OPTIONS)
    with pytest.raises(InputError, match="the studio takes it as one file"):
        find_stacks_in(by_channel["gfp"])


@pytest.mark.parametrize(
    ("there", "instead", "why"),
    [
        ('IFD="1"', 'IFD="0"', "two planes on page 1 of"),
        ('IFD="1"', 'IFD="x"', "counts from IFD 'x'"),
        ('IFD="1"', 'IFD="-1"', "counts from IFD '-1'"),
        ('IFD="1"', f'IFD="{10**20}"', "counts from IFD"),
        ('FirstZ="2"', 'FirstZ="3"', "counts from FirstZ '3'"),
        ('FirstZ="2"', 'FirstZ="1"', "two places for plane 2 of channel 1"),
    ],
)
def test_a_set_that_contradicts_itself_is_never_fused(tmp_path, there, instead, why):
    for path in write_set(tmp_path, SETS["a file for each channel"]).values():
        planes = tifffile.imread(path, is_ome=False, key=slice(None))
        with tifffile.TiffFile(path) as file:
            text = str(file.ome_metadata)
        assert there in text
        with tifffile.TiffWriter(path) as writer:
            for number, own in enumerate(planes):
                writer.write(own, description=text.replace(there, instead) if not number else None, metadata=None)
    with pytest.raises(InputError, match=why):
        fuse_files(tmp_path, tmp_path / "fused.tif", **OPTIONS)


def test_a_description_beside_the_files_of_a_set_is_read(tmp_path):
    paths = write_set(tmp_path, SETS["a file for each page"])
    with tifffile.TiffFile(paths["00"]) as first:
        whole = first.ome_metadata
    for file, path in paths.items():
        text = BINARY.replace("urn:uuid:1", f"urn:uuid:{file}")
        tifffile.imwrite(path, tifffile.imread(path), description=text, metadata=None)
    with pytest.raises(InputError, match="not beside it"):
        fuse_files(tmp_path, tmp_path / "fused.tif", **OPTIONS)
    (tmp_path / "a.companion.ome").write_text(str(whole), encoding="utf-8")
    assert len(open_stack_file(tmp_path).positions[0].channels) == 2


def test_a_list_of_many_entries_is_looked_through_quickly(tmp_path):
    text = ome("".join(plane("2", z, z % 3) for z in range(20_000)) + plane("1", 0, 0))
    with pytest.raises(InputError):
        open_stack_file(write_pages(tmp_path / "1.ome.tif", text, 2))


# --- OME-Zarr: what lies where chunks and descriptions should --------------------------------------------------------


def make_zarr(path: Path, version: int = 2) -> Path:
    group = zarr.open_group(str(path), mode="w", zarr_format=version)
    group.create_array("0", shape=PLANES.shape, dtype="uint16", chunks=(1, 24, 28))[...] = PLANES
    units = [{"name": axis, "type": "space", "unit": "micrometer"} for axis in "zyx"]
    scale = [{"type": "scale", "scale": [1.0, 0.5, 0.5]}]
    image = {"axes": units, "datasets": [{"path": "0", "coordinateTransformations": scale}], "version": "0.4"}
    group.attrs.update({"multiscales": [image]} if version == 2 else {"ome": {"multiscales": [image]}})
    return path


def change(file: str, edit: Callable[[Any], Any]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        content = json.loads((path / file).read_text())
        edit(content)
        (path / file).write_text(json.dumps(content))

    return apply


def endless(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**34)


PLANTS: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "endless": endless,
    "loop": lambda path: path.symlink_to(path.name),
}
PLACES = {2: (".zattrs", ".zgroup", "0/.zarray", "0/0.0.0"), 3: ("zarr.json", "0/zarr.json", "0/c/0/0/0")}


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize(("version", "place"), [(own, place) for own, places in PLACES.items() for place in places])
def test_nothing_in_a_zarr_holds_a_run_up_or_fills_the_memory(tmp_path, version, place, plant):
    path = make_zarr(tmp_path / "stack.zarr", version)
    (path / place).unlink()
    PLANTS[plant](path / place)
    with pytest.raises(InputError):
        fuse_files(path, tmp_path / "fused.tif", **OPTIONS)
    assert not (tmp_path / "fused.tif").exists()


@pytest.mark.parametrize("axis", [0, 1])
def test_no_zarr_of_a_thousand_million_planes_is_listed(tmp_path, axis):
    path = make_zarr(tmp_path / "stack.zarr")
    change("0/.zarray", lambda content: content["shape"].__setitem__(0, 10**9))(path)
    change(".zattrs", lambda content: content["multiscales"][0]["axes"][0].update(name="zc"[axis]))(path)
    with pytest.raises(InputError) as caught:
        open_stack_file(path)
    assert caught.value.code == "too-many-pictures"


SCALES = {"nothing": 0, "negative": -1.0, "huge": 1e99, "tiny": 1e-99}


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize("ending", ["tif", "ome.tif", "ome.zarr"])
def test_sizes_that_nothing_can_have_are_not_said_and_break_no_output(tmp_path, kind, ending):
    path = make_zarr(tmp_path / "stack.zarr")
    wrong = [{"type": "scale", "scale": [SCALES[kind]] * 3}]
    change(".zattrs", lambda content: content["multiscales"][0]["datasets"][0].update(coordinateTransformations=wrong))(
        path
    )
    assert open_stack_file(path).positions[0].pixel_size is None
    fuse_files(path, tmp_path / f"fused.{ending}", **OPTIONS)
    assert open_stack_file(tmp_path / f"fused.{ending}").positions[0].size == (24, 28)


def test_a_number_of_400_digits_is_no_size(tmp_path):
    path = make_zarr(tmp_path / "stack.zarr")
    wrong = [{"type": "scale", "scale": [10**400] * 3}]
    change(".zattrs", lambda content: content["multiscales"][0]["datasets"][0].update(coordinateTransformations=wrong))(
        path
    )
    with pytest.raises(InputError, match="numbers are needed"):
        open_stack_file(path)


@pytest.mark.parametrize("sizes", [{"z_step": 1e300}, {"time_step": 0.0}, {"z_range": (0.0, float("inf"))}])
def test_what_was_never_measured_is_not_said(sizes):
    held = Dimensions("1", (4, 4), "uint8", **sizes)
    assert (held.z_step, held.time_step, held.z_range) == (None, None, None)


@pytest.mark.parametrize("option", ["--position", "--time", "--channels"])
def test_no_number_of_5000_digits_is_a_plane(tmp_path, capsys, option):
    path = make_zarr(tmp_path / "stack.zarr")
    words = ["fuse", str(path), "-o", str(tmp_path / "fused.tif"), "--no-align", option, "9" * 5000]
    assert run(words) == 2
    assert "unexpected" not in capsys.readouterr().err
    assert whole_number("9" * 5000) is None


def test_what_lies_among_the_chunks_of_a_zarr_is_not_deleted_with_it(tmp_path):
    result = tmp_path / "fused.ome.zarr"
    fuse_files(make_zarr(tmp_path / "stack.zarr"), result, **OPTIONS)
    notes = next(place for place in (result / "0").rglob("*") if place.is_dir()) / "notes.txt"
    notes.write_text("mine")
    with pytest.raises(AllfocusError, match=r"notes\.txt"):
        fuse_files(tmp_path / "stack.zarr", result, overwrite=True, **OPTIONS)
    assert notes.read_text() == "mine"
