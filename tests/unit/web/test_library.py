"""The library: names, sizes, the queue, and trees that are cut into stacks before anything starts."""

from pathlib import Path
from typing import Any

import pytest

from allfocus.stack.options import FuseOptions
from allfocus.web.fusion_queue import FusionQueue, Work
from allfocus.web.job_records import Alternative
from allfocus.web.queue_file import KeptQueue, read_queue
from allfocus.web.settings import ServerSettings
from allfocus.web.studio import Studio


def entry(client: Any, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = next(job for job in client.get("/api/library").json()["jobs"] if job["id"] == job_id)
    return found


def test_a_stack_is_renamed_and_its_download_has_the_new_name(client: Any, frame_files: list[bytes]) -> None:
    job_id = client.make_job(frame_files, name="DSC_1 to DSC_3")
    client.fuse(job_id, method="average", align=False)
    renamed = client.put(f"/api/jobs/{job_id}/name", json={"name": "  Goliath \x07beetle "})
    assert renamed.json()["name"] == entry(client, job_id)["name"] == "Goliath beetle"
    answer = client.get(f"/api/jobs/{job_id}/download")
    assert "Goliath%20beetle-fused.tif" in answer.headers["content-disposition"]
    assert client.put(f"/api/jobs/{job_id}/name", json={"name": ""}).status_code == 400
    assert client.put(f"/api/jobs/{job_id}/name", json={"name": "../.."}).json()["name"] == "Goliath beetle"


def test_the_library_tells_what_each_stack_takes_on_the_disk(client: Any, frame_files: list[bytes]) -> None:
    job_id = client.make_job(frame_files)
    frames = sum(map(len, frame_files))
    assert entry(client, job_id)["bytes"] == frames
    client.fuse(job_id, method="average", align=False)
    run = next((client.work / "jobs" / job_id).glob("run-*"))
    made = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    assert entry(client, job_id)["bytes"] == frames + made


def test_nothing_is_deleted_by_age_unless_a_lifetime_was_set(tmp_path: Path) -> None:
    studio = Studio(ServerSettings(work=tmp_path / "work"))
    job_id = studio.create("kept")["id"]
    assert studio.remove_old(studio.job(job_id).changed + 3600 * 24 * 365 * 100) == []
    assert studio.job(job_id).name == "kept"
    studio.close()


# --- the queue ---


def make_queue(done: list[str]) -> FusionQueue:
    queue = FusionQueue(lambda work: done.append(work.job_id), workers=1, waiting=9)
    queue.begin()
    return queue


def test_a_paused_queue_begins_nothing_and_then_goes_on_in_the_order_it_was_given() -> None:
    done: list[str] = []
    queue = make_queue(done)
    queue.pause(True)
    for name in "abcd":
        queue.submit(Work(name, "average"))
    queue.order(["c", "gone", "a"])
    assert [work.job_id for work in queue.snapshot()[1]] == ["c", "a", "b", "d"]
    assert [work.job_id for work in queue.cancel("b")] == ["b"]
    assert done == []
    queue.pause(False)
    while queue.waiting or queue.snapshot()[0]:
        pass
    queue.close()
    assert done == ["c", "a", "d"]


def test_what_waits_is_still_waiting_after_a_restart_in_its_order_and_paused(
    tmp_path: Path, frame_files: list[bytes], run_server: Any
) -> None:
    settings = ServerSettings(work=tmp_path / "work", workers=1)
    with run_server(settings) as client:
        done = client.make_job(frame_files, name="done")
        client.fuse(done, method="average", align=False)
        client.put("/api/queue/state", json={"paused": True})
        jobs = [client.make_job(frame_files, name=name) for name in "abc"]
        for job_id in jobs:
            assert client.post(f"/api/jobs/{job_id}/start", json={"method": "dsift", "align": False}).status_code == 202
        assert client.post(f"/api/jobs/{done}/alternatives", json={"method": "wavelet"}).status_code == 202
        client.put("/api/queue", json={"jobs": [jobs[2], done, jobs[0]]})
        client.post(f"/api/jobs/{jobs[0]}/cancel")
        before = client.get("/api/queue").json()
        assert [work["id"] for work in before["waiting"]] == [jobs[2], done, jobs[1]]
    with run_server(settings) as client:
        after = client.get("/api/queue").json()
        assert after == before
        assert [client.job(job_id)["state"] for job_id in jobs] == ["cancelled", "queued", "queued"]
        assert client.job(done)["state"] == "done"
        client.put("/api/queue/state", json={"paused": False})
        for job_id in (jobs[2], jobs[1]):
            job = client.wait(job_id, lambda job: job["state"] not in ("queued", "running"))
            assert (job["state"], job["result"]["method"]) == ("done", "dsift"), job["error"]
        shown = client.wait(done, lambda job: job["alternative"] is None)
        assert [(item["method"], item["state"]) for item in shown["alternatives"]] == [("wavelet", "done")]
    # A queue of which nothing is left leaves nothing.
    assert not (tmp_path / "work" / "queue.json").exists()
    with run_server(settings) as client:
        assert client.get("/api/queue").json() == {"paused": False, "running": [], "waiting": [], "seconds_left": 0.0}


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"paused": true}', '{"paused": 1, "waiting": [["a"]]}',
     '{"paused": true, "waiting": [[1, 2, 3, 4]]}',
     '{"paused": true, "waiting": [["a", "slabs", true, [2, "x"]]]}', '{"paused": true, "waiting": 7}'],
)  # fmt: skip
def test_a_damaged_queue_file_is_passed_over_and_said(tmp_path: Path, content: str, caplog: Any) -> None:
    (tmp_path / "queue.json").write_text(content)
    assert read_queue(tmp_path) == KeptQueue()
    assert "the queue cannot be read" in caplog.text


def test_a_stack_that_no_file_names_waits_all_the_same(tmp_path: Path) -> None:
    """The server may be killed after a stack was marked as waiting and before the queue was written down."""
    settings = ServerSettings(work=tmp_path / "work")
    studio = Studio(settings)
    studio.fusions.queue.pause(True)
    job = studio.job(studio.create("waiting")["id"])
    job.alternatives = [Alternative("wavelet", "queued")]
    studio.store.queue(job, FuseOptions(method="average"))
    studio.close()
    studio = Studio(settings)
    assert [(work.job_id, work.method) for work in studio.fusions.queue.snapshot()[1]] == [(job.id, "average")]
    assert studio.job(job.id).alternatives == []
    studio.close()


def test_a_queue_that_cannot_be_written_down_goes_on(tmp_path: Path, caplog: Any) -> None:
    studio = Studio(ServerSettings(work=tmp_path / "work"))
    (tmp_path / "work" / "queue.json").mkdir()
    studio.fusions.queue.pause(True)
    assert studio.fusions.queue.paused
    assert "would not outlast a restart" in caplog.text
    studio.close()


def test_the_queue_tells_order_and_time_and_can_be_paused(client: Any, frame_files: list[bytes]) -> None:
    first = client.make_job(frame_files, name="first")
    client.fuse(first, method="average", align=False)  # from which the time is known
    waiting = [client.make_job(frame_files, name=name) for name in ("one", "two")]
    assert client.put("/api/queue/state", json={"paused": True}).json()["paused"]
    try:
        for job_id in waiting:
            assert client.post(f"/api/jobs/{job_id}/start", json={"method": "average"}).json()["state"] == "queued"
        queue = client.put("/api/queue", json={"jobs": waiting[::-1]}).json()
        assert [work["name"] for work in queue["waiting"]] == ["two", "one"]
        seconds = [work["seconds_left"] for work in queue["waiting"]]
        assert 0 < seconds[0] < seconds[1] <= queue["seconds_left"] + 0.05
        client.post(f"/api/jobs/{waiting[1]}/cancel")
        assert [work["name"] for work in client.get("/api/queue").json()["waiting"]] == ["one"]
    finally:
        client.put("/api/queue/state", json={"paused": False})
    assert client.wait(waiting[0], lambda job: job["state"] == "done")
    assert client.job(waiting[1])["state"] == "cancelled"


# --- trees ---


def send_tree(client: Any, files: dict[str, bytes]) -> str:
    intake: str = client.post("/api/intakes", json={"name": "shoot"}).json()["id"]
    for path, content in files.items():
        answer = client.post(f"/api/intakes/{intake}/files", params={"path": path}, content=content)
        assert answer.status_code == 201, answer.text
    return intake


def cut(client: Any, intake: str, **how: Any) -> dict[str, list[str]]:
    found = client.get(f"/api/intakes/{intake}/stacks", params=how).json()
    return {stack["name"]: stack["frames"] for stack in found["stacks"]}


def test_a_tree_is_cut_as_a_batch_cuts_it_and_only_then_becomes_jobs(client: Any, frame_files: list[bytes]) -> None:
    names = [f"{folder}/DSC_{number}.png" for folder in ("a", "b/deep") for number in (9, 10, 11)]
    before = client.get("/api/library").json()
    intake = send_tree(client, {name: frame_files[place % 3] for place, name in enumerate(names)})
    assert cut(client, intake, by="folder") == {"a": names[:3], "b/deep": names[3:]}
    assert len(cut(client, intake, by="file")) == 6
    assert cut(client, intake, by="number", size=2)["a/DSC_9"] == names[:2]
    coming = client.get("/api/library").json()
    assert len(coming["jobs"]) == len(before["jobs"])
    assert coming["used_bytes"] - before["used_bytes"] == 2 * sum(map(len, frame_files))
    made = client.post(f"/api/intakes/{intake}/jobs", json={"name": "deep one", "frames": names[3:]}).json()
    assert [frame["name"] for frame in made["job"]["frames"]] == ["DSC_9.png", "DSC_10.png", "DSC_11.png"]
    assert client.fuse(made["job"]["id"], method="average", align=False)["state"] == "done"
    again = client.post(f"/api/intakes/{intake}/jobs", json={"name": "again", "frames": names[3:]})
    assert again.status_code == 404
    assert client.delete(f"/api/intakes/{intake}").status_code == 204
    assert not (client.work / "intake" / intake).exists()
    client.delete(f"/api/jobs/{made['job']['id']}")
    assert client.get("/api/library").json()["used_bytes"] == before["used_bytes"]


def test_two_stacks_in_one_folder_are_told_apart_by_their_numbers(client: Any, frame_files: list[bytes]) -> None:
    numbers = (1, 2, 3, 7, 8, 9)
    intake = send_tree(client, {f"DSC_{number}.png": frame_files[number % 3] for number in numbers})
    found = client.get(f"/api/intakes/{intake}/stacks").json()
    assert found["by"] == "number"
    assert [len(stack["frames"]) for stack in found["stacks"]] == [3, 3]


def test_a_picture_left_alone_by_a_gap_does_not_make_a_stack(client: Any, frame_files: list[bytes]) -> None:
    intake = send_tree(client, {f"DSC_{number}.png": frame_files[0] for number in (1, 2, 4)})
    found = client.get(f"/api/intakes/{intake}/stacks").json()
    assert (found["by"], len(found["stacks"])) == ("folder", 1)


def test_what_cannot_be_read_of_a_stack_is_named_and_the_rest_becomes_a_job(
    client: Any, frame_files: list[bytes]
) -> None:
    files = {"1.png": frame_files[0], "2.png": b"no picture", "3.png": frame_files[2]}
    intake = send_tree(client, files)
    made = client.post(f"/api/intakes/{intake}/jobs", json={"name": "x", "frames": list(files)}).json()
    assert [frame["name"] for frame in made["job"]["frames"]] == ["1.png", "3.png"]
    assert list(made["left_out"]) == ["2.png"]
    known = len(client.get("/api/jobs").json())
    nothing = send_tree(client, {"1.png": b"no", "2.png": b"none"})
    refused = client.post(f"/api/intakes/{nothing}/jobs", json={"name": "x", "frames": ["1.png", "2.png"]})
    assert refused.status_code == 415
    assert len(client.get("/api/jobs").json()) == known


def test_a_local_folder_is_cut_where_it_lies_and_nothing_in_it_is_moved(
    run_server: Any, tmp_path: Path, frame_files: list[bytes]
) -> None:
    shoot = tmp_path / "shoot"
    for stack in ("a", "b"):
        (shoot / stack).mkdir(parents=True)
        for number, content in enumerate(frame_files):
            (shoot / stack / f"{number}.png").write_bytes(content)
    (tmp_path / "secret.png").write_bytes(frame_files[0])
    (shoot / "b" / "9.png").symlink_to(tmp_path / "secret.png")
    with run_server(ServerSettings(work=tmp_path / "work", allow_folders=(shoot,))) as client:
        intake = client.post("/api/intakes", json={"path": str(shoot)}).json()["id"]
        stacks = cut(client, intake, by="folder")
        assert set(stacks) == {"a", "b"}
        made = client.post(f"/api/intakes/{intake}/jobs", json={"name": "a", "frames": stacks["a"]}).json()["job"]
        assert client.fuse(made["id"], method="average", align=False)["state"] == "done"
        linked = client.post(f"/api/intakes/{intake}/jobs", json={"name": "b", "frames": stacks["b"]})
        assert linked.status_code == 403
        client.delete(f"/api/jobs/{made['id']}")
        client.delete(f"/api/intakes/{intake}")
    assert sorted(path.name for path in (shoot / "a").iterdir()) == ["0.png", "1.png", "2.png"]


@pytest.mark.parametrize(
    "path", ["../x.png", "/etc/x.png", "a/../../x.png", "a//b.png", "..\\x.png", "\x00", "a/" * 40 + "x.png", "é" * 250]
)
def test_no_path_of_a_client_leads_out_of_its_tree(client: Any, frame_files: list[bytes], path: str) -> None:
    intake = send_tree(client, {"1.png": frame_files[0]})
    answer = client.post(f"/api/intakes/{intake}/files", params={"path": path}, content=frame_files[0])
    assert answer.status_code in (400, 201), answer.text
    root = (client.work / "intake" / intake).resolve()
    inside = [file for file in client.work.parent.rglob("*.png") if root in file.resolve().parents]
    assert sorted(client.work.parent.rglob("x.png")) == sorted(file for file in inside if file.name == "x.png")
    taken = client.post(f"/api/intakes/{intake}/jobs", json={"name": "x", "frames": [path, "../../job.json"]})
    assert taken.status_code in (400, 403, 404)
    twice = client.post(f"/api/intakes/{intake}/files", params={"path": "1.png"}, content=frame_files[0])
    assert twice.status_code == 409


def test_trees_that_nobody_finished_are_gone_after_a_restart(tmp_path: Path) -> None:
    studio = Studio(ServerSettings(work=tmp_path / "work"))
    intake = studio.intakes.create("x")["id"]
    part = tmp_path / "part"
    part.write_bytes(b"1234")
    studio.intakes.add(intake, "a/1.png", part)
    stranger = tmp_path / "work/intake/precious.txt"
    stranger.write_text("not ours")
    studio.close()
    studio = Studio(ServerSettings(work=tmp_path / "work"))
    assert [path.name for path in (tmp_path / "work/intake").rglob("*")] == ["precious.txt"]
    studio.close()
