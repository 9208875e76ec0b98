"""An adversary on results and faults: other jobs' names, paths, odd bodies, races, what somebody put on the disk."""

import io
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

pytest.importorskip("fastapi", reason="needs the extra web")

from studio_server import running_server

from allfocus.web.settings import ServerSettings

ODD_NAMES = [
    "%2e%2e", "..%2f..%2fjob.json", "run-00000000", "run-00000000%2f..", "run-", "%00", "run-0000000g", "*",
    "run-00000000%0a", "-1", "0", "null", "job.json", "layers", "x" * 5000, "%ff%fe", "%EF%BC%8E%EF%BC%8E",
]  # fmt: skip
ODD_BODIES = [
    b"", b"null", b"[]", b"{", b"[" * 100_000, b'{"name": 5}', b'{"deleted": "perhaps"}', b'{"deleted": []}',
    b'{"dismissed": 7}', b'{"evil": 1}', b'{"name": "' + b"x" * 1001 + b'"}', b"\xff\xfe", b'{"dismissed": null}',
]  # fmt: skip


def picture(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (48, 48, 3)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with running_server(ServerSettings(work=tmp_path_factory.mktemp("results") / "work")) as running:
        yield running


@pytest.fixture(scope="module")
def jobs(client: Any) -> tuple[str, str]:
    """One job with two results, and another with one."""
    first, second = (client.make_job([picture(seed), picture(seed + 1)]) for seed in (0, 5))
    for job in (first, first, second):
        assert client.fuse(job, method="average", align=False)["state"] == "done"
    return first, second


def assert_told(answer: Any) -> None:
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["error"]
    assert "/work" not in answer.text
    assert "Traceback" not in answer.text


def result_ids(client: Any, job: str) -> list[str]:
    return [result["id"] for result in client.job(job)["results"]]


def calls(client: Any, job: str, name: str) -> list[Any]:
    path = f"/api/jobs/{job}/results/{name}"
    return [
        client.post(f"{path}/open"),
        client.put(path, json={"deleted": True}),
        client.put(path, json={"name": "mine"}),
        client.delete(path),
        client.get(f"/api/jobs/{job}/tiles/{name}/0/0/0"),
        client.get(f"/api/jobs/{job}/tiles/retouched-{name}/0/0/0"),
        client.get(f"/api/jobs/{job}/tiles/difference-{name}/0/0/0"),
        client.put(f"/api/jobs/{job}/faults/{name}", json={"dismissed": True}),
    ]


def dab(client: Any, job: str, source: str, **changes: Any) -> Any:
    body = {"source": source, "points": [[20, 20]], "radius": 5, "hardness": 0.5, **changes}
    return client.post(f"/api/jobs/{job}/strokes", json=body)


def download(client: Any, job: str) -> bytes:
    content = client.get(f"/api/jobs/{job}/download").content
    return bytes(tifffile.imread(io.BytesIO(content)).tobytes())


def test_no_name_reaches_what_is_not_a_result_of_the_job(client, jobs) -> None:
    first, second = jobs
    before, shown = sorted(client.work.rglob("*")), [client.job(job) for job in jobs]
    for name in (*ODD_NAMES, *result_ids(client, second), second):
        for answer in calls(client, first, name):
            assert_told(answer)
        assert_told(dab(client, first, name))
        assert_told(dab(client, first, f"retouched-{name}"))
    assert [client.job(job) for job in jobs] == shown
    assert [path for path in sorted(client.work.rglob("*")) if path.is_file()] == [p for p in before if p.is_file()]


def test_no_odd_body_changes_a_result_or_a_fault(client, jobs) -> None:
    first, _ = jobs
    shown = client.job(first)
    headers = {"content-type": "application/json"}
    for path in (f"results/{result_ids(client, first)[0]}", "faults/f1"):
        for body in ODD_BODIES:
            assert_told(client.put(f"/api/jobs/{first}/{path}", content=body, headers=headers))
    assert client.job(first) == shown


FINISH_BODIES = [
    *ODD_BODIES, b'{"exposure": NaN}', b'{"exposure": 1e999}', b'{"spots": {"x": 1}}', b'{"crop": {"left": 1e300}}',
    b'{"spots": [' + b'{"x": 1, "y": 1, "radius": 1},' * 20_000 + b'{"x": 1, "y": 1, "radius": 1}]}',
    b'{"spots": [' + b'{"x": 1, "y": 1, "radius": 300},' * 199 + b'{"x": 1, "y": 1, "radius": 300}]}',
    b'{"scale_bar": {"pixel_size": 1, "corner": "../../x"}}', b'{"turns": ' + b"9" * 5000 + b"}", b'{"x": -1, "y": 1}',
    b'{"x": 1e400, "y": 1}', b'{"x": "1; DROP", "y": []}',
]  # fmt: skip


def test_no_odd_finish_is_kept_or_shown(client, jobs) -> None:
    first, _ = jobs
    shown = client.job(first)
    headers = {"content-type": "application/json"}
    for method, path in (("PUT", "finish"), ("POST", "finish/preview"), ("POST", "finish/grey")):
        for body in FINISH_BODIES:
            assert_told(client.request(method, f"/api/jobs/{first}/{path}", content=body, headers=headers))
        for name in (*ODD_NAMES, "0" * 24):
            answer = client.request(
                method, f"/api/jobs/{name}/{path}", json={} if "grey" not in path else {"x": 1, "y": 1}
            )
            assert_told(answer)
    for place in ("0/0/1", "9/0/0", "-1/0/0", "0/x/0", f"0/0/{2**80}", "%2e%2e/0/0", "0/0/1%00"):
        assert_told(client.get(f"/api/jobs/{first}/finished/{place}"))
    assert client.job(first) == shown


@pytest.mark.parametrize(
    "name", ["{stack}\r\nX: y", "../../../{stack}", "{stack.__init__.__globals__}", "\x00", "a" * 199]
)
def test_no_name_of_an_export_is_a_path_a_header_or_a_program(client, jobs, name) -> None:
    first, _ = jobs
    answer = client.get(f"/api/jobs/{first}/download", params={"name": name, "format": "jpeg"})
    assert answer.status_code in (200, 400)
    assert "x" not in answer.headers
    told = answer.headers.get("content-disposition", "")
    assert not set("\r\n\0/\\") & set(told)
    assert "%2F" not in told


@pytest.mark.parametrize("name", ["<b>x</b>", "\x00\x1b[31m", "‮cod", "", "..", "a/../b", "x" * 1000, "'\"\r\nX: y"])
def test_a_name_is_shown_as_one_plain_line_and_never_a_path_or_a_header(client, jobs, name) -> None:
    first, _ = jobs
    result = client.job(first)["result"]["id"]
    answer = client.put(f"/api/jobs/{first}/results/{result}", json={"name": name})
    assert answer.status_code == 200, answer.text
    shown = answer.json()["result"]["name"]
    assert 0 < len(shown) <= 120
    assert not set("\r\n\0\x1b/\\‮") & set(shown)
    sent = client.get(f"/api/jobs/{first}/download")
    assert sent.status_code == 200
    assert "x" not in sent.headers


def test_a_deleted_result_is_neither_painted_from_nor_shown(client, jobs) -> None:
    first, _ = jobs
    closed = next(result["id"] for result in client.job(first)["results"] if not result["open"])
    client.put(f"/api/jobs/{first}/results/{closed}", json={"deleted": True})
    for layer in (closed, f"retouched-{closed}", f"difference-{closed}"):
        assert_told(client.get(f"/api/jobs/{first}/tiles/{layer}/0/0/0"))
    assert_told(dab(client, first, closed))
    client.put(f"/api/jobs/{first}/results/{closed}", json={"deleted": False})


def test_strokes_and_openings_at_the_same_time_never_mix_two_results(client, jobs) -> None:
    first, _ = jobs
    names = result_ids(client, first)
    frame = f"frame-{client.job(first)['frames'][0]['id']}"

    def act(number: int) -> int:
        if number % 3 == 0:
            return int(client.post(f"/api/jobs/{first}/results/{names[number % 2]}/open").status_code)
        return int(dab(client, first, frame, points=[[4 + number, 20]]).status_code)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(act, range(36)))
    assert set(found) <= {200, 201, 409}, found
    # What the layers show is what the strokes that are noted give, painted anew.
    painted = {}
    for name in names:
        client.post(f"/api/jobs/{first}/results/{name}/open")
        painted[name] = (len(client.job(first)["strokes"]), download(client, first))
    for layer in (client.work / "jobs" / first / "layers").glob("*/painted"):
        shutil.rmtree(layer)
    for name in names:
        client.post(f"/api/jobs/{first}/results/{name}/open")
        assert (len(client.job(first)["strokes"]), download(client, first)) == painted[name]
        for _ in range(painted[name][0]):
            assert client.post(f"/api/jobs/{first}/undo").status_code == 200
    assert sum(count for count, _ in painted.values()) == found.count(201)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "huge", "numbers", "deep"])
def test_a_list_of_faults_that_somebody_put_there_is_refused_and_told_nothing_of(client, jobs, tmp_path, kind) -> None:
    _, second = jobs
    folder = client.work / "jobs" / second / result_ids(client, second)[0]
    path, aside = folder / "faults.json", tmp_path / "aside.json"
    shutil.move(path, aside)
    secret = tmp_path / "secret"
    secret.write_text("a secret of the machine")
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        contents = {
            "huge": b"[" + b"1," * 4_000_000 + b"1]",
            "numbers": b"[" + b"9" * 5000 + b"]",
            "deep": b"[" * 10**6,
        }
        path.write_bytes(contents[kind])
    try:
        answer = client.get(f"/api/jobs/{second}/faults")
        assert_told(answer)
        assert "secret" not in answer.text
    finally:
        path.rmdir() if kind == "folder" else path.unlink()
        shutil.move(aside, path)
    assert client.get(f"/api/jobs/{second}/faults").status_code == 200
