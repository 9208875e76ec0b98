"""A second adversary on the studio: requests that fail leave nothing, odd ones get a sentence, damage is borne."""

import contextlib
import io
import json
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image as PillowImage

pytest.importorskip("fastapi", reason="needs the extra web")

from studio_server import StudioClient, running_server

from allfocus.cli.sizes import parse_bytes
from allfocus.errors import AllfocusError
from allfocus.files.journal import Journal, new_token, temporary_record
from allfocus.stack.options import FuseOptions
from allfocus.web.job_records import Frame, Job, job_to_json
from allfocus.web.layer_cache import LayerCache
from allfocus.web.layers import write_layer
from allfocus.web.settings import ServerSettings
from allfocus.web.store import JobStore
from allfocus.web.work_folder import LOCK, MARKER, take_folder

JOBS = 3


def picture(seed: int, side: int = 48) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3)).astype(np.uint8)
    file = io.BytesIO()
    PillowImage.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("adversary")
    (folder / "local").mkdir()
    return folder


@pytest.fixture(scope="module")
def client(place) -> Iterator[StudioClient]:
    settings = ServerSettings(work=place / "work", jobs=JOBS, allow_folders=(place / "local",))
    with running_server(settings) as running:
        yield running


@pytest.fixture(scope="module")
def done(client) -> str:
    """A job with a result."""
    job = client.make_job([picture(0), picture(1)])
    assert client.fuse(job, method="dsift", align=False)["state"] == "done"
    return job


@contextlib.contextmanager
def nothing_left(client) -> Iterator[None]:
    """After the block the work folder holds what it held before, but for the list of what waits to be fused."""
    before = files_below(client.work) - {"queue.json"}
    yield
    # A file that was made for an answer goes when its last byte has gone, which the client may see a little earlier.
    for _ in range(2000):
        if files_below(client.work) - {"queue.json"} == before:
            break
        client.get("/api/health")
    assert files_below(client.work) - {"queue.json"} == before


def ids(client, job: str) -> list[str]:
    return [frame["id"] for frame in client.job(job)["frames"]]


def assert_told(answer) -> None:
    """A refusal is one sentence of ours in JSON, without a path of the server."""
    assert 400 <= answer.status_code < 500 or answer.status_code == 507, answer.text
    told = answer.json()["error"]
    assert told
    assert "unexpected" not in told
    assert "/work" not in told
    assert "Traceback" not in told


# --- nothing is left --------------------------------------------------------------------------------------------------

RANGES = [
    "bytes=0-10", "bytes=999999999-", "bytes=-", "bytes=5-2", "x", "bytes=a-b", "bytes=--1", "bytes=0-0,2-2,4-4",
    "bytes=-0", "bytes=" + ",".join(f"{n}-{n}" for n in range(2000)), "items=0-1", "",
]  # fmt: skip


@pytest.mark.parametrize("asked", RANGES)
def test_a_download_asked_for_in_parts_leaves_no_file(client, done, asked):
    with nothing_left(client):
        answer = client.get(f"/api/jobs/{done}/download", headers={"Range": asked})
        assert answer.status_code == 200
        assert answer.headers["accept-ranges"] == "none"
        assert tifffile.imread(io.BytesIO(answer.content)).shape == (48, 48, 3)


@pytest.mark.parametrize("path", ["maps/depth.png", "report"])
@pytest.mark.parametrize("asked", ["bytes=999999999-", "bytes=-", "x"])
def test_other_files_are_sent_whole_too(client, done, path, asked):
    answer = client.get(f"/api/jobs/{done}/{path}", headers={"Range": asked})
    assert answer.status_code == 200
    assert len(answer.content) == int(answer.headers["content-length"])


def test_a_download_that_is_broken_off_leaves_no_file(client, done):
    with nothing_left(client), client.stream("GET", f"/api/jobs/{done}/download") as answer:
        assert answer.status_code == 200


def test_a_sample_for_which_there_is_no_room_leaves_no_files(client, done):
    others = [client.post("/api/jobs", json={}).json()["id"] for _ in range(JOBS - len(client.get("/api/jobs").json()))]
    with nothing_left(client):
        assert_told(client.post("/api/samples", json={"scene": "flat"}))
    for job in others:
        client.delete(f"/api/jobs/{job}")


@pytest.mark.parametrize("last", ["no picture", "too many", "a pipe", "an empty file", "a loop"])
def test_a_folder_that_is_refused_in_the_end_leaves_no_pages(client, done, place, last):
    folder = place / "local" / last.replace(" ", "_")
    folder.mkdir()
    pages = np.random.default_rng(0).integers(0, 256, (4, 20, 20)).astype(np.uint8)
    tifffile.imwrite(folder / "a.tif", pages, photometric="minisblack")
    if last == "too many":
        tifffile.imwrite(folder / "b.tif", np.zeros((1001, 4, 4), np.uint8), photometric="minisblack")
    elif last == "a pipe":
        os.mkfifo(folder / "b.png")
    elif last == "a loop":
        (folder / "b.png").symlink_to("b.png")
    else:
        (folder / "b.png").write_bytes(b"no picture" if last == "no picture" else b"")
    job = client.post("/api/jobs", json={}).json()["id"]
    with nothing_left(client):
        assert_told(client.post(f"/api/jobs/{job}/folder", json={"path": str(folder)}))
    assert client.job(job)["frames"] == []
    client.delete(f"/api/jobs/{job}")


def test_a_folder_with_a_name_that_is_not_utf8_is_opened(client, done, place):
    folder = place / "local" / "odd"
    folder.mkdir()
    for number in range(2):
        (folder / os.fsdecode(b"caf\xe9%d.png" % number)).write_bytes(picture(number))
    job = client.post("/api/jobs", json={}).json()["id"]
    answer = client.post(f"/api/jobs/{job}/folder", json={"path": str(folder)})
    assert answer.status_code == 200, answer.text
    assert [frame["name"] for frame in answer.json()["frames"]] == ["caf0.png", "caf1.png"]
    assert client.fuse(job, method="average", align=False)["state"] == "done"
    client.delete(f"/api/jobs/{job}")


# --- odd requests -----------------------------------------------------------------------------------------------------

STROKES = {
    "no points": {"points": []},
    "one number": {"points": [[1]]},
    "three numbers": {"points": [[1, 2, 3]]},
    "letters": {"points": [["a", "b"]]},
    "outside": {"points": [[900, 900]]},
    "far outside": {"points": [[1e9, 0]]},
    "no radius": {"radius": 0},
    "negative radius": {"radius": -1},
    "a large radius": {"radius": 4001},
    "too hard": {"hardness": 2},
    "too soft": {"hardness": -0.1},
    "from the result": {"source": "result"},
    "from no frame": {"source": "frame-"},
    "from above": {"source": "frame-../job.json"},
    "from itself": {"source": "method-dsift"},
    "from a map": {"source": "depth"},
    "from nothing": {"source": None},
    "more": {"evil": 1},
    "too many": {"points": [[0, 0]] * 20_001},
    "no flow": {"flow": 0},
    "flow backwards": {"flow": -0.5},
    "too much flow": {"flow": 1.01},
    "no tolerance": {"tolerance": 0},
    "too much tolerance": {"tolerance": 2},
    "tolerance of letters": {"tolerance": "wide"},
    "a pen of no kind": {"pen": "tilt"},
    "pressure without a pen": {"pressures": [0.5]},
    "pressure of other points": {"pen": "size", "pressures": [0.5, 0.5]},
    "too much pressure": {"pen": "size", "pressures": [2]},
    "negative pressure": {"pen": "opacity", "pressures": [-0.1]},
    "pressure without end": {"pen": "both", "pressures": [0.5] * 20_001},
    "no gain": {"gain": 0},
    "too much gain": {"gain": 1e9},
    "dabs without end": {"flow": 0.5, "radius": 0.001, "points": [[5, 5], [1e6, 5]] * 5000},
    "dabs without end of a pen": {"pen": "size", "pressures": [0, 0], "radius": 5, "points": [[5, 5], [900_000, 5]]},
}


@pytest.mark.parametrize("kind", STROKES)
def test_no_odd_stroke_is_painted(client, done, kind):
    stroke = {"source": f"frame-{ids(client, done)[0]}", "points": [[5, 5]], "radius": 3, "hardness": 0.5}
    with nothing_left(client):
        assert_told(client.post(f"/api/jobs/{done}/strokes", json={**stroke, **STROKES[kind]}))
    assert client.job(done)["strokes"] == []


BODIES = {
    "not a number": b'{"source": "x", "points": [[NaN, 1]], "radius": 1, "hardness": 1}',
    "infinite": b'{"source": "x", "points": [[1, 1]], "radius": Infinity, "hardness": 1}',
    "too large": b'{"source": "x", "points": [[1, 1]], "radius": 1e999, "hardness": 1}',
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 5000,
    "open": b"{",
    "empty": b"",
    "null": b"null",
    "a list": b"[]",
    "not UTF-8": b"\xff\xfe",
    "half a letter": b'{"source": "\\ud800", "points": [[1, 1]], "radius": 1, "hardness": 1}',
    "a long number": b'{"radius": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("path", ["strokes", "start", "alternatives", "folder"])
@pytest.mark.parametrize("kind", BODIES)
def test_no_odd_body_is_a_mistake_of_the_server(client, done, path, kind):
    headers = {"content-type": "application/json"}
    answer = client.post(f"/api/jobs/{done}/{path}", content=BODIES[kind], headers=headers)
    if path == "start" and kind in ("empty", "null"):  # the usual options
        assert answer.status_code == 202
        client.post(f"/api/jobs/{done}/cancel")
        client.wait(done, lambda job: job["state"] not in ("queued", "running"))  # a process takes a moment to end
        assert client.fuse(done, method="dsift", align=False)["state"] == "done"
    else:
        assert_told(answer)


@pytest.mark.parametrize(
    "path",
    [
        "download?format=gif", "download?bits=7", "download?bits=-8", "download?format=jpeg&bits=16",
        "download?format=png&bits=32", "tiles/result/-1/0/0", "tiles/result/99/0/0", "tiles/result/0/-1/0",
        "tiles/result/0/99999999999999999999/0", "tiles/result/0/0/0?revision=x", "tiles/painted/0/0/0",
        "tiles/..%2f..%2fjob.json/0/0/0", "tiles/frame-../0/0/0", "tiles/method-..%2f/0/0/0", "maps/result.png",
        "maps/..%2fresult.png", "maps/depth_preview.png", "relief?side=1", "relief?side=513", "relief?side=nan",
        "frames/x/thumbnail", "frames/..%2f/thumbnail", "frames/%00/thumbnail",
    ],
)  # fmt: skip
def test_no_odd_address_is_a_mistake_of_the_server(client, done, path):
    with nothing_left(client):
        assert_told(client.get(f"/api/jobs/{done}/{path}"))


@pytest.mark.parametrize("name", ["", "..", "a/b", "\x00", "con", "<b>", "\u202e", "'\"", "é" * 300, "x" * 1001])
def test_a_file_that_is_no_picture_is_refused_under_any_name(client, done, name):
    with nothing_left(client):
        assert_told(client.post(f"/api/jobs/{done}/frames", params={"name": name}, content=b"no picture"))


@pytest.mark.parametrize("method", ["nope", "", "../x.onnx", "/dev/zero.onnx", "IPS", "x" * 101, 5])
@pytest.mark.parametrize("path", ["start", "alternatives"])
def test_no_method_of_a_stranger_is_a_file(client, done, path, method):
    assert_told(client.post(f"/api/jobs/{done}/{path}", json={"method": method}))


def test_a_frame_is_named_once_in_an_order(client, done):
    names = ids(client, done)
    for order in ([], names[:1], [names[0]] * 2, [*names, "x"], [*names, names[0]]):
        body = {"frames": [{"id": name, "included": True} for name in order]}
        assert_told(client.put(f"/api/jobs/{done}/frames", json=body))
    assert ids(client, done) == names


@pytest.mark.parametrize("text", ["9" * 400, "1" * 16, "0", "-1G", "nan", "inf", "1e9", "", "G", "1GG", "٣٣"])
def test_no_odd_size_is_a_limit(text):
    with pytest.raises(AllfocusError, match="is no size"):
        parse_bytes(text)


# --- what lies in the folder ------------------------------------------------------------------------------------------

NAME = "0123456789abcdef01234567"
DAMAGES = {
    "created": "yesterday", "changed": None, "frames": 5, "state": "sleeping", "revision": "x", "strokes": [{"id": 1}],
    "run": 5, "notices": [5], "options": {"method": []}, "alternatives": [{"method": "a", "state": "odd"}],
    "undone": {}, "name": 7, "error": [], "id": "x",
}  # fmt: skip


def a_job(work: Path, job_id: str = NAME, **changes) -> Path:
    folder = work / "jobs" / job_id
    (folder / "frames").mkdir(parents=True)
    job = Job(job_id, "stack", 1.0, 2.0, frames=[Frame("0123456789ab", "a.png", 4, 4, 3, 8, 9)])
    (folder / "frames" / "0123456789ab").write_bytes(picture(0))
    (folder / "job.json").write_text(json.dumps({**job_to_json(job), **changes}))
    (work / MARKER).write_text("{}")
    return folder


def opened(work: Path) -> JobStore:
    """The store of a folder, which is let go at once."""
    store = JobStore(work)
    store.close()
    return store


@pytest.mark.parametrize("field", DAMAGES)
def test_one_job_that_is_damaged_does_not_spoil_the_others(tmp_path, field):
    a_job(tmp_path, "f" * 24)
    folder = a_job(tmp_path, **{field: DAMAGES[field]})
    before = files_below(folder)
    assert list(opened(tmp_path).jobs) == ["f" * 24]
    assert files_below(folder) == before


@pytest.mark.parametrize(
    "options", [{"quality": 500}, {"prefer": "middle"}, {"bit_depth": 7}, {"slabs": [1, 2, 3]}, {"align": "perhaps"}]
)
def test_a_job_with_options_that_none_can_have_does_not_spoil_the_others(tmp_path, options):
    a_job(tmp_path, "f" * 24)
    folder = a_job(tmp_path, options=options)
    before = files_below(folder)
    assert list(opened(tmp_path).jobs) == ["f" * 24]
    assert files_below(folder) == before


def test_a_job_comes_back_with_the_options_that_it_had(tmp_path):
    options = FuseOptions("dsift", align=False, prefer="near", slabs=(8, 2), compression="lzw")
    a_job(tmp_path, options=asdict(options))
    assert opened(tmp_path).jobs[NAME].options == options


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"null", b"[" * 99_999, b'{"a":' * 50_000, b"\x00" * 999, b"\xff", b'{"id": 1e9}', b"9" * 5000],
)  # fmt: skip
def test_one_description_that_is_none_does_not_spoil_the_others(tmp_path, content):
    a_job(tmp_path, "f" * 24)
    folder = a_job(tmp_path)
    (folder / "job.json").write_bytes(content)
    assert list(opened(tmp_path).jobs) == ["f" * 24]
    assert (folder / "frames" / "0123456789ab").exists()


@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "folder"])
@pytest.mark.parametrize("name", ["job.json", LOCK])
def test_no_odd_file_holds_the_start_up(tmp_path, kind, name):
    folder = a_job(tmp_path) if name == "job.json" else tmp_path
    (tmp_path / MARKER).write_text("{}")
    (folder / name).unlink(missing_ok=True)
    make = {
        "pipe": os.mkfifo,
        "device": lambda path: path.symlink_to("/dev/zero"),
        "loop": lambda path: path.symlink_to(path),
        "folder": lambda path: path.mkdir(),
    }
    make[kind](folder / name)
    if name == LOCK:
        with pytest.raises(AllfocusError, match="cannot be used"):
            take_folder(tmp_path)
    else:
        assert not opened(tmp_path).jobs
        assert (folder / "frames" / "0123456789ab").exists()


@pytest.mark.parametrize("made", [(), (LOCK,), (LOCK, "jobs"), (LOCK, "jobs", "temporary"), (LOCK, "temporary")])
def test_a_first_start_that_was_killed_can_be_made_again(tmp_path, made):
    for name in made:
        (tmp_path / name).touch() if name == LOCK else (tmp_path / name).mkdir()
    opened(tmp_path)
    assert (tmp_path / MARKER).exists()


@pytest.mark.parametrize("below", ["", "thumbnails", f"layers/run-{'0' * 8}/painted"])
def test_what_a_killed_studio_had_under_way_goes_at_the_next_start(tmp_path, below):
    folder = a_job(tmp_path)
    place = folder / below
    place.mkdir(parents=True, exist_ok=True)
    # As a kill leaves it between writing a file and giving it its name, where files need one meanwhile.
    journal = Journal.create(place, new_token())
    hidden = place / f".x.{'a' * 8}.part"
    journal.write(temporary_record(hidden))
    hidden.write_bytes(b"half")
    os.close(journal.descriptor)
    (folder / "thumbnails").mkdir(exist_ok=True)
    (folder / "thumbnails" / f"{'e' * 12}.jpg").write_bytes(b"of a frame that was removed")
    store = opened(tmp_path)
    LayerCache(2**30, tmp_path)
    assert list(store.jobs) == [NAME]
    assert files_below(folder) == {"job.json", "frames/0123456789ab"}


@pytest.mark.parametrize("damage", ["level1.npy missing", "level0.npy missing", "empty", "short", "no array"])
def test_a_layer_that_was_half_deleted_is_made_again(tmp_path, damage):
    folder = tmp_path / "jobs" / NAME / "layers" / f"run-{'0' * 8}" / "result"
    write_layer(folder, np.zeros((300, 400, 3), np.uint16))
    assert LayerCache(2**30, tmp_path).used > 0
    file = folder / damage.split()[0] if "missing" in damage else folder / "level1.npy"
    if "missing" in damage:
        file.unlink()
    else:
        file.write_bytes({"empty": b"", "short": file.read_bytes()[:-10], "no array": b"x" * 200}[damage])
    cache = LayerCache(2**30, tmp_path)
    assert cache.used == 0
    cache.get(folder, 1, lambda: write_layer(folder, np.zeros((300, 400, 3), np.uint16)))
    assert files_below(folder) == {"level0.npy", "level1.npy"}


def test_two_starts_at_once_share_no_folder(tmp_path):
    taken, refused = [], []

    def start() -> None:
        try:
            taken.append(take_folder(tmp_path / "work"))
        except AllfocusError as error:
            refused.append(error)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1
    assert len(refused) == 7
    taken[0].close()
    shutil.rmtree(tmp_path / "work")
