"""Project files: what was saved is what is opened, here and on a machine that has no frames."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from allfocus.web.settings import ServerSettings


@pytest.fixture(scope="module")
def painted(client: Any, frame_files: list[bytes]) -> str:
    """A fused job with maps, another method's result and three strokes, one of them undone."""
    job_id: str = client.make_job(frame_files, name="beetle")
    job = client.fuse(job_id, method="depth-map")
    client.post(f"/api/jobs/{job_id}/alternatives", json={"method": "average"})
    client.wait(job_id, lambda job: job["alternatives"] and job["alternatives"][0]["state"] == "done")
    sources = [f"frame-{job['frames'][0]['id']}", "method-average", f"frame-{job['frames'][2]['id']}"]
    for place, source in enumerate(sources):
        body = {"source": source, "points": [[20 + 15 * place, 30], [60, 50]], "radius": 9, "hardness": 0.5}
        assert client.post(f"/api/jobs/{job_id}/strokes", json=body).status_code == 201
    assert client.post(f"/api/jobs/{job_id}/undo").status_code == 200
    return job_id


def save(client: Any, job_id: str, **how: str) -> bytes:
    answer = client.get(f"/api/jobs/{job_id}/project", params=how)
    assert answer.status_code == 200, answer.text
    return bytes(answer.content)


def open_in(client: Any, content: bytes) -> dict[str, Any]:
    answer = client.post("/api/projects", content=content)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_an_embedded_project_is_the_same_picture_on_another_machine(
    client: Any, painted: str, run_server: Any, tmp_path: Path
) -> None:
    content = save(client, painted)
    before = client.job(painted)
    picture = client.get(f"/api/jobs/{painted}/download").content
    with run_server(ServerSettings(work=tmp_path / "elsewhere")) as other:
        opened = open_in(other, content)
        assert other.get(f"/api/jobs/{opened['id']}/download").content == picture
        assert opened["id"] != painted
        for key in ("name", "options", "strokes", "redo_count", "state", "alternatives"):
            assert opened[key] == before[key], key
        assert opened["command"] == before["command"]
        assert opened["result"] == {**before["result"], "has_report": False}
        # Work goes on: what was undone comes back, frames and other methods can be painted from, and fused again.
        assert other.post(f"/api/jobs/{opened['id']}/redo").json()["redo_count"] == 0
        for layer in opened["result"]["layers"]:
            assert other.get(f"/api/jobs/{opened['id']}/tiles/{layer}/0/0/0").status_code == 200, layer
        assert other.get(f"/api/jobs/{opened['id']}/relief").status_code == 200
        assert other.fuse(opened["id"], method="average", align=False)["state"] == "done"
        # Nothing is left of it on its way.
        other.wait_until_nothing_is_left()


def test_every_result_goes_along_with_its_own_strokes(
    client: Any, frame_files: list[bytes], run_server: Any, tmp_path: Path
) -> None:
    job_id = client.make_job(frame_files, name="twice")
    first = client.fuse(job_id, method="depth-map")
    stroke = {"points": [[20, 30], [60, 50]], "radius": 9, "hardness": 0.5}
    source = f"frame-{first['frames'][0]['id']}"
    assert client.post(f"/api/jobs/{job_id}/strokes", json={**stroke, "source": source}).status_code == 201
    second = client.fuse(job_id, method="average")
    painted = {**stroke, "source": first["result"]["id"]}
    assert client.post(f"/api/jobs/{job_id}/strokes", json=painted).status_code == 201
    before = client.job(job_id)
    with run_server(ServerSettings(work=tmp_path / "elsewhere")) as other:
        opened = open_in(other, save(client, job_id))
        shown = ("id", "name", "method", "strokes", "open")
        told = [[{key: item[key] for key in shown} for item in job["results"]] for job in (opened, before)]
        assert told[0] == told[1]
        assert [item["strokes"] for item in opened["results"]] == [1, 1]
        for result in (first["result"]["id"], second["result"]["id"]):
            pictures = []
            for server, own in ((other, opened["id"]), (client, job_id)):
                assert server.post(f"/api/jobs/{own}/results/{result}/open").status_code == 200
                pictures.append(server.get(f"/api/jobs/{own}/download").content)
            assert pictures[0] == pictures[1]


def test_a_zip_of_a_project_can_be_looked_into(client: Any, painted: str, tmp_path: Path) -> None:
    file = tmp_path / "p.allfocus"
    file.write_bytes(save(client, painted))
    with zipfile.ZipFile(file) as archive:
        manifest = json.loads(archive.read("project.json"))
        alignment = manifest["files"][next(name for name in manifest["files"] if name.endswith("alignment.json"))]
        transforms = json.loads(archive.read(f"results/{alignment['sha256']}"))
    assert manifest["job"]["options"]["method"] == "depth-map"
    assert len(manifest["job"]["strokes"]) == 2
    assert transforms is None or "transforms" in transforms
    assert str(client.work) not in json.dumps(manifest)
    assert not any(name.endswith("report.html") for name in manifest["files"])


def test_a_linked_project_asks_for_its_frames_and_takes_no_others(
    client: Any, painted: str, run_server: Any, tmp_path: Path, frame_files: list[bytes]
) -> None:
    content = save(client, painted, frames="linked")
    assert len(content) < len(save(client, painted)) - len(frame_files[1]) // 2
    with run_server(ServerSettings(work=tmp_path / "elsewhere")) as other:
        opened = open_in(other, content)
        job_id, frames = opened["id"], opened["frames"]
        assert [frame["absent"] for frame in frames] == [False, True, False]  # two were painted from
        assert "say where the frames" in frames[1]["problem"]
        assert other.get("/api/library").json()["jobs"][0]["missing"] == 1
        assert other.get(f"/api/jobs/{job_id}/frames/{frames[1]['id']}/thumbnail").status_code == 404
        # The result is there to be seen and saved; what needs the frames says what is missing.
        assert other.get(f"/api/jobs/{job_id}/download").content == client.get(f"/api/jobs/{painted}/download").content
        refused = other.post(f"/api/jobs/{job_id}/start", json={"method": "average"})
        assert (refused.status_code, "not on this machine" in refused.text) == (400, True)
        assert other.get(f"/api/jobs/{job_id}/project").status_code == 409
        place = f"/api/jobs/{job_id}/found-frames"
        assert other.post(place, content=frame_files[0], params={"name": "a.png"}).status_code == 400
        assert other.post(place, content=frame_files[1]).status_code == 200
        assert other.post(place, content=frame_files[1]).status_code == 400
        assert [frame["problem"] for frame in other.job(job_id)["frames"]] == [None] * 3


def test_absent_frames_outlast_a_restart_and_are_found_in_a_folder_by_their_content(
    client: Any, painted: str, run_server: Any, tmp_path: Path, frame_files: list[bytes]
) -> None:
    content = save(client, painted, frames="linked")
    photos = tmp_path / "photos"
    (photos / "deep").mkdir(parents=True)
    for number, file in enumerate(frame_files):
        (photos / "deep" / f"renamed{number}.png").write_bytes(file)
    (photos / "frame_0.png").write_bytes(b"x" * len(frame_files[0]))
    settings = ServerSettings(work=tmp_path / "elsewhere", allow_folders=(photos,))
    with run_server(settings) as other:
        job_id = open_in(other, content)["id"]
    with run_server(settings) as other:
        assert len(other.job(job_id)["frames"]) == 3
        assert other.post(f"/api/jobs/{job_id}/find-frames", json={"path": str(tmp_path)}).status_code == 403
        found = other.post(f"/api/jobs/{job_id}/find-frames", json={"path": str(photos)}).json()
        assert [frame["problem"] for frame in found["frames"]] == [None] * 3
        assert other.get(f"/api/jobs/{job_id}/download").status_code == 200
        assert other.fuse(job_id, method="average", align=False)["state"] == "done"
        other.delete(f"/api/jobs/{job_id}")
    assert len(list((photos / "deep").iterdir())) == 3


def test_a_job_without_a_result_is_a_project_too(client: Any, frame_files: list[bytes]) -> None:
    opened = open_in(client, save(client, client.make_job(frame_files, name="to do")))
    assert (opened["state"], opened["name"], opened["result"]) == ("new", "to do", None)
    assert [frame["name"] for frame in opened["frames"]] == ["frame_0.png", "frame_1.png", "frame_2.png"]


def test_saving_the_same_twice_gives_the_same_file(client: Any, painted: str) -> None:
    assert save(client, painted) == save(client, painted)
