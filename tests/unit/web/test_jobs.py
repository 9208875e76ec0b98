"""Jobs over HTTP: from the first frame to the downloaded file."""

import io
import json
import shlex
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray

import allfocus
from allfocus.web.settings import ServerSettings


def write_tiff(pages: list[NDArray[Any]]) -> bytes:
    file = io.BytesIO()
    with tifffile.TiffWriter(file) as writer:
        for page in pages:
            writer.write(page, photometric="rgb", metadata=None)
    return file.getvalue()


def test_a_stack_is_fused_and_all_its_views_are_there(client: Any, frame_files: list[bytes]) -> None:
    job_id = client.make_job(frame_files, name="desk.tif")
    job = client.fuse(job_id, method="depth-map")
    assert job["state"] == "done", job["error"]
    result = job["result"]
    assert (result["width"], result["height"], result["bit_depth"], result["levels"]) == (128, 96, 8, 1)
    assert result["frames"] == ["frame_0.png", "frame_1.png", "frame_2.png"]
    assert (
        job["command"]
        == "allfocus fuse frame_0.png frame_1.png frame_2.png -o fused.tif --method depth-map --bit-depth 16"
    )
    assert {"result", "depth", "decision"} <= set(result["layers"])
    for layer in result["layers"]:
        tile = client.get(f"/api/jobs/{job_id}/tiles/{layer}/0/0/0")
        assert tile.status_code == 200, layer
        assert tile.headers["content-type"] in ("image/jpeg", "image/png")
    for name in ("depth", "depth-colour", "decision"):
        assert client.get(f"/api/jobs/{job_id}/maps/{name}.png").content.startswith(b"\x89PNG")
    relief = client.get(f"/api/jobs/{job_id}/relief", params={"side": 32}).json()
    assert (relief["width"], relief["height"], len(relief["depth"])) == (32, 24, 32 * 24)
    report = client.get(f"/api/jobs/{job_id}/report").text
    assert "frame_1.png" in report
    assert str(job_id) not in report
    thumbnail = client.get(f"/api/jobs/{job_id}/frames/{job['frames'][0]['id']}/thumbnail")
    assert thumbnail.content.startswith(b"\xff\xd8")


def test_a_thumbnail_that_several_ask_for_at_once_is_made_once(tmp_path: Path, frame_files: list[bytes]) -> None:
    from allfocus.web import job_frames
    from allfocus.web.studio import Studio

    studio = Studio(ServerSettings(work=tmp_path / "work"))
    make, made, all_ask = studio.pictures.run, [], threading.Barrier(6)

    def watched(name: str, values: dict[str, Any]) -> Any:
        made.append(name)
        return make(name, values)

    def ask(_: int) -> Path:
        all_ask.wait()
        return job_frames.thumbnail(studio, job_id, frame_id)

    try:
        job_id = studio.create("stack")["id"]
        part = tmp_path / "part"
        part.write_bytes(frame_files[0])
        frame_id = job_frames.add_upload(studio, job_id, part, "frame.png")["id"]
        studio.pictures.run = watched  # type: ignore[method-assign]  # a count beside the work itself
        with ThreadPoolExecutor(6) as threads:
            (path,) = set(threads.map(ask, range(6)))
        assert path.read_bytes().startswith(b"\xff\xd8")
        assert made == ["make_thumbnail"]
    finally:
        studio.close()


def test_progress_is_told_as_it_happens_and_never_goes_back(client: Any, frame_files: list[bytes]) -> None:
    job_id = client.make_job(frame_files)
    events: list[tuple[str, Any]] = []
    with client.stream("GET", f"/api/jobs/{job_id}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            if line.startswith("data: "):
                events.append((name, json.loads(line.removeprefix("data: "))))
                if len(events) == 1:
                    client.post(f"/api/jobs/{job_id}/start", json={"method": "average"})
                if name == "state" and events[-1][1]["state"] == "done":
                    break
    assert events[0][0] == "state"
    assert events[0][1]["state"] == "new"
    progress = [content for name, content in events if name == "progress"]
    assert {"aligning", "reading", "fusing", "writing", "tiles"} <= {content["step"] for content in progress}
    fractions = [content["fraction"] for content in progress]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1


def test_frames_are_reordered_left_out_and_removed(client: Any, frame_files: list[bytes]) -> None:
    job_id = client.make_job([*frame_files, frame_files[0]])
    ids = [frame["id"] for frame in client.job(job_id)["frames"]]
    order = [{"id": name, "included": name != ids[3]} for name in reversed(ids)]
    job = client.put(f"/api/jobs/{job_id}/frames", json={"frames": order}).json()
    assert [frame["id"] for frame in job["frames"]] == ids[::-1]
    assert client.put(f"/api/jobs/{job_id}/frames", json={"frames": order[1:]}).status_code == 400
    assert client.put(f"/api/jobs/{job_id}/frames", json={"frames": [*order, order[0]]}).status_code == 400
    done = client.fuse(job_id, method="average", align=False)
    assert done["result"]["frames"] == ["frame_2.png", "frame_1.png", "frame_0.png"]
    assert len(client.delete(f"/api/jobs/{job_id}/frames/{ids[3]}").json()["frames"]) == 3
    assert client.delete(f"/api/jobs/{job_id}/frames/{ids[3]}").status_code == 404


def test_the_pages_of_a_tiff_become_frames(client: Any, small_stack: list[NDArray[np.float32]]) -> None:
    pages = [np.rint(frame * 65535).astype(np.uint16) for frame in small_stack]
    job_id = client.post("/api/jobs", json={}).json()["id"]
    answer = client.post(f"/api/jobs/{job_id}/frames", params={"name": "stack.tif"}, content=write_tiff(pages))
    assert answer.json()["pages"] == 3
    frames = client.job(job_id)["frames"]
    assert [frame["name"] for frame in frames] == ["stack.tif page 1", "stack.tif page 2", "stack.tif page 3"]
    assert {frame["bit_depth"] for frame in frames} == {16}
    assert client.fuse(job_id, method="average")["state"] == "done"


def test_a_frame_of_another_size_is_marked_and_refused_at_the_start(
    client: Any, frame_files: list[bytes], encode: Any
) -> None:
    job_id = client.make_job([*frame_files, encode(np.zeros((90, 128, 3), np.uint8))])
    assert [bool(frame["problem"]) for frame in client.job(job_id)["frames"]] == [False, False, False, True]
    answer = client.post(f"/api/jobs/{job_id}/start", json={"method": "average"})
    assert answer.status_code == 400
    assert "frame_3.png is 128x90" in answer.json()["error"]
    done = client.fuse(job_id, method="average", skip_bad=True)
    assert list(done["result"]["left_out"]) == ["frame_3.png"]


def test_a_damaged_frame_fails_the_job_with_the_clients_name_and_no_path(client: Any, frame_files: list[bytes]) -> None:
    damaged = bytearray(frame_files[1])
    damaged[len(damaged) // 2] ^= 0xFF
    job_id = client.make_job([frame_files[0], bytes(damaged), frame_files[2]])
    job = client.fuse(job_id, method="average")
    assert job["state"] == "failed"
    assert "frame_1.png" in job["error"]
    assert job["error_code"] == "input"
    assert str(client.work) not in json.dumps(job)
    assert job["result"] is None


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"method": "nonsense"}, 400),
        ({"method": "cnn"}, 400),
        ({"method": "average", "prefer": "near"}, 400),
        ({"method": "average", "mehtod": 1}, 400),
        ({"method": 3}, 400),
    ],
)
def test_options_that_cannot_be_carried_out_are_refused_before_the_start(
    client: Any, frame_files: list[bytes], options: dict[str, Any], status: int
) -> None:
    job_id = client.make_job(frame_files[:2])
    answer = client.post(f"/api/jobs/{job_id}/start", json=options)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert client.job(job_id)["state"] == "new"


def test_another_method_becomes_a_layer_of_the_same_size(client: Any, frame_files: list[bytes]) -> None:
    job_id = client.make_job(frame_files)
    assert client.post(f"/api/jobs/{job_id}/alternatives", json={"method": "average"}).status_code == 409
    client.fuse(job_id, method="depth-map")
    assert client.post(f"/api/jobs/{job_id}/alternatives", json={"method": "depth-map"}).status_code == 409
    assert client.post(f"/api/jobs/{job_id}/alternatives", json={"method": "average"}).status_code == 202
    job = client.wait(job_id, lambda job: job["alternative"] is None)
    assert job["alternatives"] == [{"method": "average", "state": "done", "error": None, "error_code": None}]
    assert job["state"] == "done"
    assert "method-average" in job["result"]["layers"]
    assert client.get(f"/api/jobs/{job_id}/tiles/method-average/0/0/0").status_code == 200


def test_starting_again_opens_the_new_result_and_the_revision_grows(client: Any, frame_files: list[bytes]) -> None:
    job_id = client.make_job(frame_files)
    first = client.fuse(job_id, method="average")["result"]
    second = client.fuse(job_id, method="depth-map")["result"]
    assert (first["method"], second["method"]) == ("average", "depth-map")
    assert second["revision"] > first["revision"]
    assert [result["open"] for result in client.job(job_id)["results"]] == [False, True]


def test_a_deleted_job_is_gone_with_all_its_files(client: Any, frame_files: list[bytes]) -> None:
    job_id = client.make_job(frame_files)
    client.fuse(job_id, method="average")
    assert client.delete(f"/api/jobs/{job_id}").status_code == 204
    assert client.get(f"/api/jobs/{job_id}").status_code == 404
    assert job_id not in [job["id"] for job in client.get("/api/jobs").json()]
    assert not (client.work / "jobs" / job_id).exists()


def test_a_restart_finds_jobs_results_and_strokes_again(
    run_server: Any, tmp_path: Path, frame_files: list[bytes]
) -> None:
    settings = ServerSettings(work=tmp_path / "work")
    with run_server(settings) as client:
        job_id = client.make_job(frame_files, name="kept")
        frame = client.fuse(job_id, method="depth-map")["frames"][0]["id"]
        stroke = {"source": f"frame-{frame}", "points": [[40, 40], [70, 50]], "radius": 12, "hardness": 0.5}
        assert client.post(f"/api/jobs/{job_id}/strokes", json=stroke).status_code == 201
        before = client.job(job_id)
        file = client.get(f"/api/jobs/{job_id}/download").content
    with run_server(settings) as client:
        assert client.job(job_id) == before
        again = client.get(f"/api/jobs/{job_id}/download").content
        assert np.array_equal(tifffile.imread(io.BytesIO(again)), tifffile.imread(io.BytesIO(file)))


def test_old_jobs_are_deleted_after_their_lifetime(tmp_path: Path) -> None:
    from allfocus.web.studio import Studio

    studio = Studio(ServerSettings(work=tmp_path, lifetime_hours=2))
    try:
        job_id = studio.create("old")["id"]
        assert studio.remove_old(time.time() + 3600) == []
        assert studio.remove_old(time.time() + 3 * 3600) == [job_id]
        assert studio.show_all() == []
    finally:
        studio.close()


def test_local_folders_open_only_below_the_allowed_ones(
    run_server: Any, tmp_path: Path, stack_folder: Path, frame_files: list[bytes]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.png").write_bytes(frame_files[0])
    allowed = tmp_path / "allowed"
    (allowed / "stack").mkdir(parents=True)
    for file in stack_folder.iterdir():
        (allowed / "stack" / file.name).write_bytes(file.read_bytes())
    (allowed / "stack" / "link.png").symlink_to(outside / "secret.png")
    (allowed / "way-out").symlink_to(outside)
    with run_server(ServerSettings(work=tmp_path / "work", allow_folders=(allowed,))) as client:
        assert client.get("/api/limits").json()["local_folders"] is True
        job_id = client.make_job([])
        for path in (outside, allowed / ".." / "outside", allowed / "way-out", "/", "~", "\x00", "stack"):
            answer = client.post(f"/api/jobs/{job_id}/folder", json={"path": str(path)})
            assert answer.status_code in (400, 403), path
        job = client.post(f"/api/jobs/{job_id}/folder", json={"path": str(allowed / "stack")}).json()
        assert [frame["name"] for frame in job["frames"]] == ["frame_0.png", "frame_1.png", "frame_2.png"]
        assert str(tmp_path) not in json.dumps(job)
        assert client.fuse(job_id, method="average")["state"] == "done"
    assert (allowed / "stack" / "frame_0.png").exists()


def test_local_folders_are_off_unless_asked_for(client: Any, stack_folder: Path) -> None:
    job_id = client.make_job([])
    assert client.post(f"/api/jobs/{job_id}/folder", json={"path": str(stack_folder)}).status_code == 403


def test_reports_are_listed_and_nothing_beside_them_is_given_out(run_server: Any, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    (folder / "lytro").mkdir(parents=True)
    (folder / "lytro" / "report.html").write_text("<title>Lytro &amp; more</title>hello")
    (folder / "lytro" / "weights.bin").write_text("no")
    (tmp_path / "secret.html").write_text("secret")
    (folder / "lytro" / "link.html").symlink_to(tmp_path / "secret.html")
    with run_server(ServerSettings(work=tmp_path / "work", reports=folder)) as client:
        found = client.get("/api/reports").json()
        assert [(item["name"], item["title"]) for item in found] == [("lytro", "Lytro & more")]
        page = client.get(found[0]["url"])
        assert "hello" in page.text
        assert "connect-src 'none'" in page.headers["content-security-policy"]
        beyond = ("lytro/../../secret.html", "lytro/%2e%2e/%2e%2e/secret.html", "..%2fsecret.html", "../secret.html")
        within = ("lytro/link.html", "lytro/weights.bin", "lytro/%00.html", "lytro/none.html", "a" * 300 + "/x.html")
        for path in (*beyond, *within):
            answer = client.get(f"/reports/{path}")
            assert answer.status_code == 404, path


def test_the_page_learns_the_endings_of_pictures_from_the_server(client: Any) -> None:
    from allfocus.images.listing import SUFFIXES

    assert set(client.get("/api/limits").json()["endings"]) == SUFFIXES
    script = (Path(allfocus.__file__).parent / "web" / "static" / "uploads.js").read_text()
    assert not [ending for ending in SUFFIXES if f'"{ending}"' in script or f"|{ending[1:]}|" in script]


def test_a_sample_stack_can_be_tried(client: Any) -> None:
    assert "desk" in client.get("/api/limits").json()["samples"]
    answer = client.post("/api/samples", json={"scene": "flat"})
    assert answer.status_code == 201
    assert len(answer.json()["frames"]) == 8
    assert client.post("/api/samples", json={"scene": "../desk"}).status_code == 400


def test_one_odd_frame_is_named_and_not_all_the_others(client: Any, frame_files: list[bytes], encode: Any) -> None:
    job_id = client.make_job([encode(np.zeros((90, 128, 3), np.uint8)), *frame_files])
    assert [bool(frame["problem"]) for frame in client.job(job_id)["frames"]] == [True, False, False, False]
    answer = client.post(f"/api/jobs/{job_id}/start", json={"method": "average"})
    assert answer.status_code == 400
    assert "frame_0.png is 128x90, but frame_1.png is 128x96" in answer.json()["error"]
    done = client.fuse(job_id, method="average", align=False, skip_bad=True)
    assert done["result"]["frames"] == ["frame_1.png", "frame_2.png", "frame_3.png"]
    assert list(done["result"]["left_out"]) == ["frame_0.png"]
    assert done["command"].startswith("allfocus fuse frame_1.png frame_2.png frame_3.png -o fused.tif")


def test_the_command_makes_the_downloaded_picture(
    client: Any, small_stack: list[NDArray[np.float32]], run_command: Any, tmp_path: Path
) -> None:
    pages = [np.rint(frame * 255).astype(np.uint8) for frame in small_stack]
    (tmp_path / "some pages.tif").write_bytes(write_tiff(pages))
    job_id = client.post("/api/jobs", json={}).json()["id"]
    content = (tmp_path / "some pages.tif").read_bytes()
    assert client.post(f"/api/jobs/{job_id}/frames", params={"name": "some pages.tif"}, content=content).is_success
    command = shlex.split(client.fuse(job_id, method="depth-map")["command"])
    assert command[:3] == ["allfocus", "fuse", "some pages.tif"]
    answer = run_command(*command[1:], cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    downloaded = client.get(f"/api/jobs/{job_id}/download", params={"format": "tiff"}).content
    made = tifffile.imread(tmp_path / "fused.tif")
    assert made.dtype == np.uint16
    assert np.array_equal(made, tifffile.imread(io.BytesIO(downloaded)))


def test_the_command_is_that_of_the_result_whatever_was_changed_since(client: Any, frame_files: list[bytes]) -> None:
    job_id = client.make_job(frame_files)
    before = client.fuse(job_id, method="depth-map")["command"]
    frames = client.job(job_id)["frames"]
    order = [{"id": frame["id"], "included": number > 0} for number, frame in enumerate(frames)]
    assert client.put(f"/api/jobs/{job_id}/frames", json={"frames": order[::-1]}).json()["command"] == before


def test_some_pages_of_a_file_have_no_command(client: Any, small_stack: list[NDArray[np.float32]]) -> None:
    content = write_tiff([np.rint(frame * 65535).astype(np.uint16) for frame in small_stack])
    job_id = client.post("/api/jobs", json={}).json()["id"]
    client.post(f"/api/jobs/{job_id}/frames", params={"name": "stack.tif"}, content=content)
    job = client.job(job_id)
    assert job["command"] == "allfocus fuse stack.tif -o fused.tif"
    order = [{"id": frame["id"], "included": number > 0} for number, frame in enumerate(job["frames"])]
    assert client.put(f"/api/jobs/{job_id}/frames", json={"frames": order}).json()["command"] == ""
