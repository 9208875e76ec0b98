"""Faults in the studio: found with the result, mended by strokes that undo takes back, dismissed for good."""

import io
import json
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray

from allfocus.fusion.detail_meter import measure_lost_detail
from allfocus.web.settings import ServerSettings


@pytest.fixture(scope="module")
def leg_stack() -> list[NDArray[np.uint8]]:
    """Even ground, and three legs that one frame each shows; the average of all loses them."""
    ground = 150 + 8 * np.random.default_rng(3).standard_normal((160, 240)).astype(np.float32)
    frames = []
    for number in range(6):
        frame = cv2.GaussianBlur(ground, (0, 0), 1.0)
        for place in range(3):
            leg = np.zeros_like(ground)
            cv2.line(leg, (30 + 70 * place, 40), (60 + 70 * place, 110), 1.0, 3, cv2.LINE_AA)
            frame *= 1 - 0.9 * (leg if number == 2 * place else cv2.GaussianBlur(leg, (0, 0), 15))
        frames.append(np.repeat(np.rint(frame).astype(np.uint8)[..., None], 3, axis=2))
    return frames


@pytest.fixture(scope="module")
def shared_job(client: Any, encode: Any, leg_stack: list[NDArray[np.uint8]]) -> dict[str, Any]:
    """A job whose result has lost the legs."""
    job_id = client.make_job([encode(frame) for frame in leg_stack])
    done: dict[str, Any] = client.fuse(job_id, method="average", align=False)
    assert done["state"] == "done", done
    return done


@pytest.fixture
def job(client: Any, shared_job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same; what a test does to it is taken back."""
    yield shared_job
    shown = client.job(shared_job["id"])
    for _ in shown["strokes"]:
        client.post(f"/api/jobs/{shown['id']}/undo")
    for name in shown["result"]["dismissed"]:
        client.put(f"/api/jobs/{shown['id']}/faults/{name}", json={"dismissed": False})


def faults_of(client: Any, job_id: str) -> list[dict[str, Any]]:
    answer = client.get(f"/api/jobs/{job_id}/faults")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


def paint(client: Any, job_id: str, fault: dict[str, Any]) -> Any:
    body = {"source": fault["layer"], "fault": fault["id"], **{k: fault[k] for k in ("points", "radius", "hardness")}}
    return client.post(f"/api/jobs/{job_id}/strokes", json=body)


def lost_share(client: Any, job_id: str, frames: list[NDArray[np.uint8]]) -> float:
    content = client.get(f"/api/jobs/{job_id}/download", params={"format": "tiff"}).content
    result = tifffile.imread(io.BytesIO(content)).astype(np.float32) / 65535
    return measure_lost_detail(result, [frame.astype(np.float32) / 255 for frame in frames]).share


def test_the_three_lost_legs_come_first_and_three_strokes_bring_them_back(client, job, leg_stack) -> None:
    faults = faults_of(client, job["id"])
    assert job["result"]["faults"] == len(faults)
    assert [fault["kind"] for fault in faults[:3]] == ["lost"] * 3
    by_layer = {f"frame-{frame['id']}": number for number, frame in enumerate(job["frames"])}
    assert {by_layer[fault["layer"]] for fault in faults[:3]} == {0, 2, 4}
    before = lost_share(client, job["id"], leg_stack)
    for fault in faults[:3]:
        assert paint(client, job["id"], fault).status_code == 201
    assert lost_share(client, job["id"], leg_stack) < 0.02 * before
    assert [stroke["fault"] for stroke in client.job(job["id"])["strokes"]] == [fault["id"] for fault in faults[:3]]


def test_undo_takes_the_mending_back_bit_for_bit(client, job, leg_stack) -> None:
    before = client.get(f"/api/jobs/{job['id']}/download", params={"format": "png"}).content
    fault = faults_of(client, job["id"])[0]
    assert paint(client, job["id"], fault).status_code == 201
    assert client.get(f"/api/jobs/{job['id']}/download", params={"format": "png"}).content != before
    assert client.post(f"/api/jobs/{job['id']}/undo").json()["strokes"] == []
    assert client.get(f"/api/jobs/{job['id']}/download", params={"format": "png"}).content == before
    assert client.post(f"/api/jobs/{job['id']}/redo").json()["strokes"][0]["fault"] == fault["id"]


def test_a_verdict_is_kept_and_can_be_taken_back(client, job) -> None:
    path = f"/api/jobs/{job['id']}/faults"
    assert client.put(f"{path}/f2", json={"dismissed": True}).json() == {"dismissed": ["f2"]}
    assert client.put(f"{path}/f1", json={"dismissed": True}).json() == {"dismissed": ["f2", "f1"]}
    assert client.put(f"{path}/f2", json={"dismissed": True}).json() == {"dismissed": ["f1", "f2"]}
    saved = json.loads((client.work / "jobs" / job["id"] / "job.json").read_bytes())
    assert saved["run"]["dismissed"] == ["f1", "f2"]
    assert client.put(f"{path}/f2", json={"dismissed": False}).json() == {"dismissed": ["f1"]}
    assert client.job(job["id"])["result"]["dismissed"] == ["f1"]


NO_FAULTS = ["f0", "f999", "f1000", "x", "f-1", "f01", "..", "%2e%2e%2fjob.json", "f1%00", "f%EF%BC%91", "f" * 9000]


def test_names_that_are_no_fault_are_told_so(client, job) -> None:
    fault = faults_of(client, job["id"])[0]
    for name in NO_FAULTS:
        answer = client.put(f"/api/jobs/{job['id']}/faults/{name}", json={"dismissed": True})
        assert answer.status_code in (404, 405), (name, answer.text)
        assert paint(client, job["id"], {**fault, "id": name}).status_code in (400, 404), name
    assert client.job(job["id"])["strokes"] == []
    assert client.job(job["id"])["result"]["dismissed"] == []


def test_a_job_from_before_opens_and_says_that_it_has_no_list(tmp_path, run_server, frame_files) -> None:
    settings = ServerSettings(work=tmp_path / "work")
    with run_server(settings) as client:
        job_id = client.make_job(frame_files)
        client.fuse(job_id, method="average", align=False)
    path = settings.work / "jobs" / job_id / "job.json"
    content = json.loads(path.read_bytes())
    for name in ("faults", "dismissed"):
        del content["run"][name]
    path.write_text(json.dumps(content))
    (path.parent / content["run"]["folder"] / "faults.json").unlink()
    with run_server(settings) as client:
        assert client.job(job_id)["state"] == "done"
        assert client.job(job_id)["result"]["faults"] is None
        answer = client.get(f"/api/jobs/{job_id}/faults")
        assert answer.status_code == 404
        assert "fuse the stack again" in answer.json()["error"]


def test_a_damaged_list_is_told_and_spoils_nothing_else(client, job) -> None:
    folder = next(path for path in (client.work / "jobs" / job["id"]).iterdir() if path.name.startswith("run-"))
    whole = (folder / "faults.json").read_bytes()
    for content in (
        b"",
        b"[",
        b"{}",
        b'[{"kind": 1}]',
        b"[" * 100_000,
        b"[1e999]",
        whole[:-9],
        b" " * 5_000_000 + whole,
    ):
        (folder / "faults.json").write_bytes(content)
        answer = client.get(f"/api/jobs/{job['id']}/faults")
        assert answer.status_code == 404, answer.text
        assert str(client.work) not in answer.text
        assert client.get(f"/api/jobs/{job['id']}/tiles/result/0/0/0").status_code == 200
    (folder / "faults.json").write_bytes(whole)
    assert faults_of(client, job["id"])
