"""Several results of one stack: every fusion is kept with its strokes, any can be opened, compared and painted from."""

import io
import json
from typing import Any

import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from PIL import Image

from allfocus.errors import OutputError
from allfocus.scenes.rendering import render_scene
from allfocus.web import store as store_module
from allfocus.web.job_records import Job, KeptResult, Run, job_from_json, job_to_json
from allfocus.web.kept_results import MOST_RESULTS, keep_open_result
from allfocus.web.settings import ServerSettings

METHODS = ("average", "depth-map", "laplacian-pyramid")


@pytest.fixture(scope="module")
def stack(client: Any, frame_files: list[bytes]) -> str:
    """The id of a job with three results; the last one is open."""
    job_id: str = client.make_job(frame_files)
    for method in METHODS:
        assert client.fuse(job_id, method=method, align=False)["state"] == "done"
    return job_id


def ids(client: Any, job_id: str) -> dict[str, str]:
    return {result["name"]: result["id"] for result in client.job(job_id)["results"]}


def opened(client: Any, job_id: str, name: str) -> dict[str, Any]:
    answer = client.post(f"/api/jobs/{job_id}/results/{ids(client, job_id)[name]}/open")
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def pixels(client: Any, job_id: str) -> bytes:
    content = client.get(f"/api/jobs/{job_id}/download", params={"format": "tiff"}).content
    return bytes(tifffile.imread(io.BytesIO(content)).tobytes())


def tile(client: Any, job_id: str, layer: str) -> NDArray[np.uint8]:
    answer = client.get(f"/api/jobs/{job_id}/tiles/{layer}/0/0/0")
    assert answer.status_code == 200, answer.text
    return np.asarray(Image.open(io.BytesIO(answer.content)))


def dab(client: Any, job_id: str, source: str, x: float = 40) -> Any:
    body = {"source": source, "points": [[x, 40]], "radius": 15, "hardness": 0.5}
    return client.post(f"/api/jobs/{job_id}/strokes", json=body)


def test_every_fusion_is_kept_named_and_opened_with_the_strokes_that_belong_to_it(client, stack) -> None:
    assert [result["name"] for result in client.job(stack)["results"]] == list(METHODS)
    plain = {}
    for name in METHODS:
        assert opened(client, stack, name)["result"]["method"] == name
        plain[name] = pixels(client, stack)
    assert len(set(plain.values())) == 3
    frame = client.job(stack)["frames"][0]["id"]
    opened(client, stack, "average")
    assert dab(client, stack, f"frame-{frame}").status_code == 201
    painted = pixels(client, stack)
    assert painted != plain["average"]
    job = opened(client, stack, "depth-map")
    assert job["strokes"] == []
    assert pixels(client, stack) == plain["depth-map"]
    assert {result["name"]: result["strokes"] for result in job["results"]} == {
        **dict.fromkeys(METHODS, 0),
        "average": 1,
    }
    assert len(opened(client, stack, "average")["strokes"]) == 1
    assert pixels(client, stack) == painted
    client.post(f"/api/jobs/{stack}/undo")
    assert pixels(client, stack) == plain["average"]


def test_a_revision_never_names_two_pictures(client, stack) -> None:
    seen = set()
    for name in (*METHODS, *METHODS):
        revision = opened(client, stack, name)["result"]["revision"]
        assert revision not in seen
        seen.add(revision)
    again = opened(client, stack, METHODS[-1])["result"]["revision"]
    assert again == revision, "opening what is open changes nothing"


def test_any_two_results_can_be_compared_and_the_difference_is_theirs(client, stack) -> None:
    names = ids(client, stack)
    first = opened(client, stack, "average")["result"]
    own = tile(client, stack, "result").astype(int)
    assert np.abs(tile(client, stack, f"difference-{names['depth-map']}").astype(int)).max() > 40
    other = tile(client, stack, names["depth-map"])
    job = opened(client, stack, "depth-map")
    assert np.array_equal(tile(client, stack, "result"), other)
    assert np.array_equal(tile(client, stack, names["average"]), own)
    assert names["average"] in job["result"]["layers"]
    assert names["depth-map"] not in job["result"]["layers"], "itself, as long as it has no strokes"
    assert first["layers"] != job["result"]["layers"]


def test_strokes_take_from_another_result_as_it_was_fused_whatever_is_painted_there_later(client, stack) -> None:
    names = ids(client, stack)
    frame = client.job(stack)["frames"][0]["id"]
    opened(client, stack, "average")
    before = pixels(client, stack)
    assert dab(client, stack, names["depth-map"]).status_code == 201
    painted = pixels(client, stack)
    assert painted != before
    opened(client, stack, "depth-map")
    assert dab(client, stack, f"frame-{frame}").status_code == 201
    job = opened(client, stack, "average")
    assert f"retouched-{names['depth-map']}" in job["result"]["layers"]
    assert not np.array_equal(
        tile(client, stack, f"retouched-{names['depth-map']}"), tile(client, stack, names["depth-map"])
    )
    assert dab(client, stack, f"retouched-{names['depth-map']}").status_code == 400
    client.post(f"/api/jobs/{stack}/undo")
    assert pixels(client, stack) == before
    client.post(f"/api/jobs/{stack}/redo")
    assert pixels(client, stack) == painted
    client.post(f"/api/jobs/{stack}/undo")
    opened(client, stack, "depth-map")
    client.post(f"/api/jobs/{stack}/undo")


def test_painting_from_the_open_result_as_it_was_fused_takes_strokes_off(client, stack) -> None:
    job = opened(client, stack, "average")
    before = pixels(client, stack)
    assert dab(client, stack, f"frame-{job['frames'][0]['id']}").status_code == 201
    own = client.job(stack)["result"]["id"]
    assert own in client.job(stack)["result"]["layers"]
    body = {"source": own, "points": [[40, 40]], "radius": 40, "hardness": 0.9}
    assert client.post(f"/api/jobs/{stack}/strokes", json=body).status_code == 201
    assert pixels(client, stack) == before
    for _ in range(2):
        client.post(f"/api/jobs/{stack}/undo")


def test_a_hidden_stroke_is_left_out_of_the_picture_and_comes_back_bit_for_bit(client, stack) -> None:
    job = opened(client, stack, "average")
    first, second = (f"frame-{frame['id']}" for frame in job["frames"][:2])
    plain = pixels(client, stack)
    dab(client, stack, second, x=50)
    only_second = pixels(client, stack)
    client.post(f"/api/jobs/{stack}/undo")
    stroke = dab(client, stack, first).json()["stroke"]["id"]
    dab(client, stack, second, x=50)  # over the first
    both = pixels(client, stack)
    path = f"/api/jobs/{stack}/strokes/{stroke}"
    answer = client.put(path, json={"hidden": True}).json()
    assert [item["hidden"] for item in answer["strokes"]] == [True, False]
    assert pixels(client, stack) == only_second
    opened(client, stack, "depth-map")
    opened(client, stack, "average")
    assert pixels(client, stack) == only_second
    assert client.put(path, json={"hidden": False}).status_code == 200
    assert pixels(client, stack) == both
    for name in ("x", "..%2fjob.json", "%00", "0" * 12):
        assert client.put(f"/api/jobs/{stack}/strokes/{name}", json={"hidden": True}).status_code == 404
    for body in ({}, {"hidden": "perhaps"}, {"hidden": True, "opacity": 5}):
        assert client.put(path, json=body).status_code == 400
    for _ in range(2):
        client.post(f"/api/jobs/{stack}/undo")
    assert pixels(client, stack) == plain


@pytest.mark.parametrize(
    "change", [{"opacity": 0}, {"opacity": 1.1}, {"opacity": "x"}, {"mode": "burn"}, {"mode": None}]
)
def test_no_odd_opacity_or_mode_is_painted_or_loaded(client, stack, change) -> None:
    job = client.job(stack)
    body = {"source": f"frame-{job['frames'][0]['id']}", "points": [[20, 20]], "radius": 5, "hardness": 0.5, **change}
    assert client.post(f"/api/jobs/{stack}/strokes", json=body).status_code == 400
    record = job_to_json(Job("0" * 24, "x", 0, 0, run=run_record("run-00000000")))
    record["strokes"] = [{"id": "1", **body}]
    with pytest.raises(ValueError, match=r"stroke|validation"):
        job_from_json(record)


def test_a_deleted_result_comes_back_and_one_removed_for_good_leaves_nothing(client, frame_files) -> None:
    stack = client.make_job(frame_files)
    client.fuse(stack, method="average", align=False)
    only = client.job(stack)["result"]["id"]
    path = f"/api/jobs/{stack}/results"
    assert client.put(f"{path}/{only}", json={"deleted": True}).status_code == 409, "the only one"
    client.fuse(stack, method="average", align=False)
    names = ids(client, stack)
    assert list(names) == ["average", "average 2"]
    second = names["average 2"]
    assert client.delete(f"{path}/{second}").status_code == 409, "not deleted before"
    job = client.put(f"{path}/{second}", json={"deleted": True}).json()
    assert job["result"]["id"] == only
    assert [result["deleted"] for result in job["results"]] == [False, True]
    assert second not in job["result"]["layers"]
    assert client.post(f"{path}/{second}/open").status_code == 409
    assert client.get(f"/api/jobs/{stack}/tiles/{second}/0/0/0").status_code == 404
    job = client.put(f"{path}/{second}", json={"deleted": False, "name": "../second\n one "}).json()
    assert job["results"][1]["name"] == "second one"
    assert client.post(f"{path}/{second}/open").json()["result"]["id"] == second
    # Painted from: the files must stay.
    assert dab(client, stack, only).status_code == 201
    client.put(f"{path}/{only}", json={"deleted": True})
    assert client.delete(f"{path}/{only}").status_code == 409
    client.post(f"/api/jobs/{stack}/undo")
    dab(client, stack, f"frame-{job['frames'][0]['id']}")  # which forgets what was undone
    assert client.delete(f"{path}/{only}").json()["results"][0]["id"] == second
    folder = client.work / "jobs" / stack
    assert [place.name for place in folder.glob("run-*")] == [second]
    assert [place.name for place in (folder / "layers").iterdir()] == [second]


def test_all_is_there_after_a_restart_and_a_job_from_before_opens(tmp_path, run_server, frame_files) -> None:
    settings = ServerSettings(work=tmp_path / "work")
    with run_server(settings) as client:
        job_id = client.make_job(frame_files)
        client.fuse(job_id, method="average", align=False)
        dab(client, job_id, f"frame-{client.job(job_id)['frames'][1]['id']}")
        client.fuse(job_id, method="depth-map", align=False)
        before = client.job(job_id)
    with run_server(settings) as client:
        assert client.job(job_id) == before
        assert opened(client, job_id, "average")["strokes"] != []
    # As version 0.1 and the first days of 0.2 wrote it.
    path = settings.work / "jobs" / job_id / "job.json"
    content = json.loads(path.read_bytes())
    del content["others"]
    for name in ("name", "created", "options", "notices", "faults", "dismissed"):
        del content["run"][name]
    for stroke in content["strokes"]:
        del stroke["fault"]
    path.write_text(json.dumps(content))
    with run_server(settings) as client:
        job = client.job(job_id)
        assert (job["state"], len(job["strokes"])) == ("done", 1)
        assert [(result["name"], result["open"]) for result in job["results"]] == [("average", True)]


def test_slabs_are_results_on_the_same_grid_each_of_its_own_frames(client, encode) -> None:
    frames = render_scene("slope", frames=4, size=(96, 128), shake=3.0).frames
    stack = client.make_job([encode(np.rint(frame * 255).astype(np.uint8)) for frame in frames])
    done = client.fuse(stack, method="average")
    assert done["result"]["aligned"]
    for size, overlap in ((4, 0), (5, 1), (3, 3), (1, 0)):
        answer = client.post(f"/api/jobs/{stack}/slabs", json={"size": size, "overlap": overlap})
        assert answer.status_code == 400, (size, overlap, answer.text)
    assert client.post(f"/api/jobs/{stack}/slabs", json={"size": 2, "overlap": 1}).status_code == 202
    job = client.wait(stack, lambda job: not job["alternative"])
    made = {result["name"]: result for result in job["results"]}
    assert list(made) == ["average", "average 1–2", "average 2–3", "average 3–4"]
    assert all(result["comparable"] and result["frames"] == 2 for name, result in made.items() if "–" in name)
    assert job["result"]["id"] == done["result"]["id"], "the open one stays open"
    names = [f"frame-{frame['id']}" for frame in job["frames"]]
    layers = client.work / "jobs" / stack / "layers"
    aligned = []
    for name in names:
        tile(client, stack, name)  # which makes the layer
        aligned.append(np.load(layers / job["result"]["id"] / name / "level0.npy").astype(float))
    slab = np.load(layers / made["average 2–3"]["id"] / "result" / "level0.npy").astype(float)
    assert np.abs(slab - (aligned[1] + aligned[2]) / 2).max() <= 1, "of 65535 levels"
    assert np.abs(slab - (aligned[0] + aligned[1]) / 2).max() > 1000
    shown = opened(client, stack, "average 2–3")["result"]
    assert (shown["slab"], shown["faults"]) == ([2, 3], None)
    tile(client, stack, names[1])
    again = np.load(layers / shown["id"] / names[1] / "level0.npy")
    assert np.array_equal(again, aligned[1]), "frames lie where they lay"
    assert dab(client, stack, names[3]).status_code == 201


def run_record(folder: str, **changes: Any) -> Run:
    values = {
        "folder": folder, "method": "average", "width": 5, "height": 4, "channels": 3, "bit_depth": 8,
        "working_depth": 16, "frames": [], "names": [], "left_out": {}, "seconds": {}, "aligned": False, "maps": [],
        "has_report": False, "bytes": 1, "first_revision": 1,
    }  # fmt: skip
    return Run(**{**values, **changes})


@pytest.mark.parametrize(
    "others",
    [
        ["../../etc"], ["run-00000000/.."], [""], ["run-0000000g"], ["run-00000001", "run-00000001"],
        ["run-00000000"], ["/etc"], ["run-00000001\n"],
    ],
)  # fmt: skip
def test_a_description_with_results_that_are_none_of_ours_is_refused(others: list[str]) -> None:
    job = Job("0" * 24, "x", 0, 0, run=run_record("run-00000000"))
    job_from_json(json.loads(json.dumps(job_to_json(job))))
    job.others = [KeptResult(run_record(name)) for name in others]
    with pytest.raises(ValueError, match="none of ours"):
        job_from_json(json.loads(json.dumps(job_to_json(job))))


def test_a_result_without_size_or_with_an_unknown_state_is_refused() -> None:
    job = Job("0" * 24, "x", 0, 0, run=run_record("run-00000000"))
    job.others = [KeptResult(run_record("run-00000001", width=0))]
    with pytest.raises(ValueError, match="no size"):
        job_from_json(job_to_json(job))
    content = job_to_json(job)
    odd = {"run": {**content["run"], "folder": "run-00000002"}, "alternatives": [{"method": "x", "state": "odd"}]}
    content["others"] = [odd]
    with pytest.raises(ValueError, match="odd"):
        job_from_json(content)


@pytest.mark.parametrize("slab", [[1], [1, 2, 3], [0, 2], [3, 2], ["a", "b"]])
def test_a_slab_without_frames_is_refused(slab: list[Any]) -> None:
    content = job_to_json(Job("0" * 24, "x", 0, 0, run=run_record("run-00000000", slab=[1, 2])))
    assert job_from_json(content).run is not None
    content["run"]["slab"] = slab
    with pytest.raises(ValueError, match=r"slab|validation"):
        job_from_json(content)


def test_what_cannot_be_saved_did_not_happen(client, stack, monkeypatch) -> None:
    names, before = ids(client, stack), client.job(stack)

    def fail(*values: Any, **options: Any) -> None:
        raise OutputError("the disk is full", where="job.json", code="disk-full")

    closed = next(name for name in METHODS if names[name] != before["result"]["id"])
    with monkeypatch.context() as change:
        change.setattr(store_module, "replace_file", fail)
        path = f"/api/jobs/{stack}/results/{names[closed]}"
        for answer in (client.post(f"{path}/open"), client.put(path, json={"deleted": True, "name": "other"})):
            assert answer.status_code == 507, answer.text
    assert client.job(stack) == before


def test_there_is_an_end_to_results(client, frame_files, run_server, tmp_path) -> None:
    settings = ServerSettings(work=tmp_path / "work")
    with run_server(settings) as own:
        job_id = own.make_job(frame_files)
    path = settings.work / "jobs" / job_id / "job.json"
    job = job_from_json(json.loads(path.read_bytes()))
    for number in range(MOST_RESULTS):
        job.run = run_record(f"run-{number:08x}")
        (path.parent / job.run.folder).mkdir()
        (path.parent / job.run.folder / "result.tif").write_bytes(b"II*\0")
        keep_open_result(job)
    path.write_text(json.dumps(job_to_json(job)))
    with run_server(settings) as own:
        answer = own.post(f"/api/jobs/{job_id}/start", json={"method": "average"})
        assert answer.status_code == 409
        assert "for good" in answer.json()["error"]
