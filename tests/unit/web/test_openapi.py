"""The described interface: whatever a client sends, whether it fits the description or not, no answer is a 5xx."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allfocus.web import answers
from allfocus.web.answers import BEYOND_SUCCESS

schemathesis = pytest.importorskip("schemathesis")

STREAMS = ("/api/jobs/{job_id}/events", "/api/library/events")
"""Left out: they do not end."""

PAUSES = "/api/queue/state"
"""Left out: a paused queue would hold up all that follows; it is tested with the library."""

RENDERS = "/api/samples"
"""Left out: each success renders a scene, and what else it can answer is tested elsewhere."""


@pytest.fixture(scope="module")
def finished(client: Any, frame_files: list[bytes]) -> dict[str, Any]:
    """A finished job with a stroke."""
    job_id = client.make_job(frame_files)
    job = client.fuse(job_id, method="depth-map", align=False)
    body = {"source": f"frame-{job['frames'][0]['id']}", "points": [[20, 20]], "radius": 9, "hardness": 0.5}
    assert client.post(f"/api/jobs/{job_id}/strokes", json=body).status_code == 201
    found: dict[str, Any] = client.job(job_id)
    return found


def operations(client: Any) -> list[Any]:
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    found = [result.ok() for result in schema.get_all_operations()]
    return [operation for operation in found if operation.path not in (*STREAMS, PAUSES, RENDERS)]


def test_everything_of_the_contract_is_described(client: Any) -> None:
    described = {(op.method.upper(), op.path) for op in operations(client)}
    assert len(described) >= 24
    assert {
        ("POST", "/api/jobs"),
        ("POST", "/api/jobs/{job_id}/frames"),
        ("PUT", "/api/jobs/{job_id}/frames"),
        ("POST", "/api/jobs/{job_id}/start"),
        ("GET", "/api/jobs/{job_id}/tiles/{layer}/{level}/{column}/{row}"),
        ("POST", "/api/jobs/{job_id}/strokes"),
        ("GET", "/api/jobs/{job_id}/download"),
    } <= described


def test_every_status_code_is_described_and_none_that_is_never_sent(client: Any) -> None:
    schema = client.get("/openapi.json").json()
    told = {(method, path) for path, methods in schema["paths"].items() for method in methods}
    assert told == set(BEYOND_SUCCESS)
    assert "422" not in json.dumps(schema["paths"])
    assert "ValidationError" not in json.dumps(schema)
    # Every number that the code refuses with is in the table for some operation.
    sources = Path(answers.__file__).parent.glob("*.py")
    found = {int(code) for source in sources for code in re.findall(r"Refusal\((\d{3})", source.read_text())}
    assert found <= {status for statuses in BEYOND_SUCCESS.values() for status in statuses} | {401, 403, 413}


@pytest.mark.parametrize(("real", "mode"), [(False, "POSITIVE"), (True, "POSITIVE"), (True, "NEGATIVE")])
def test_no_request_makes_the_server_fail(client: Any, finished: dict[str, Any], real: bool, mode: str) -> None:
    statuses: dict[int, int] = {}
    known = {"job_id": finished["id"], "frame_id": finished["frames"][1]["id"], "layer": "result"}
    for operation in operations(client):
        if real and (operation.method.upper() == "DELETE" or "job_id" not in operation.path):
            continue
        # Making wrong requests is slow; bodies are where they go wrong in most ways.
        if mode == "POSITIVE" or operation.body:
            bombard(client, operation, mode, known if real else {}, statuses)
    assert set(statuses) & {400, 404}, statuses
    if mode == "POSITIVE":
        assert set(statuses) & {200, 201, 202}, statuses
    client.wait(finished["id"], lambda job: job["state"] not in ("queued", "running") and not job["alternative"])


def bombard(client: Any, operation: Any, mode: str, known: dict[str, str], statuses: dict[int, int]) -> None:
    """Send made-up requests to one operation; those with known names reach what lies behind the first check."""
    described = client.get("/openapi.json").json()["paths"][operation.path][operation.method.lower()]["responses"]

    @settings(max_examples=6, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def send(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=getattr(schemathesis.GenerationMode, mode)))
        case.path_parameters = {name: known.get(name, value) for name, value in (case.path_parameters or {}).items()}
        answer = case.call(base_url=str(client.base_url).rstrip("/"))
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
        assert str(answer.status_code) in described, (case.as_curl_command(), answer.status_code)
        assert answer.status_code < 500, (case.as_curl_command(), answer.text)
        if answer.status_code >= 400:
            assert isinstance(json.loads(answer.text)["error"], str)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the generator, about itself
        send()


ODD_BODIES = [
    b'{"name": "\\ud800"}', b'{"name": "\\u0000"}', b'{"name": null}', b'{"name": 1e999}', b'[]', b'null', b'"x"',
    b'', b'{', b'\xff\xfe',
    b'{"frames": [{"id": "\\ud800", "included": true}]}', b'{"frames": null}', b'{"path": "\\ud800"}',
    b'{"method": "\\ud800"}', b'{"method": "ips", "align": 2}', b'{"path": "\\u0000"}', b'{"scene": "\\ud83d"}',
    b'{"source": "\\ud800", "points": [[1, 1]], "radius": 3, "hardness": 1}',
    b'{"source": "result", "points": [[NaN, Infinity]], "radius": NaN, "hardness": -Infinity}',
    b'{"source": "result", "points": [[1e308, -1e308]], "radius": 1e-320, "hardness": 0}', b"[" * 100_000,
    b'{"radius": ' + b"9" * 5000 + b"}",
]  # fmt: skip


@pytest.mark.parametrize("path", ["", "/{job}/start", "/{job}/strokes", "/{job}/alternatives", "/{job}/folder", "PUT"])
def test_no_odd_body_makes_the_server_fail(client: Any, finished: dict[str, Any], path: str) -> None:
    url = "/api/jobs" + (f"/{finished['id']}/frames" if path == "PUT" else path.format(job=finished["id"]))
    for body in ODD_BODIES:
        headers = {"content-type": "application/json"}
        answer = client.request("PUT" if path == "PUT" else "POST", url, content=body, headers=headers)
        assert answer.status_code < 500, (body[:80], answer.text)
        if answer.status_code >= 400:
            assert isinstance(answer.json()["error"], str)
