"""The studio's routes for trees, projects and local files under attack: limits hold, nothing outside is touched."""

import io
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra web")

from studio_server import running_server

from allfocus.web import intakes
from allfocus.web.door import Door, write_door
from allfocus.web.settings import ServerSettings

KEY = "k" * 43


@pytest.fixture
def client(tmp_path, monkeypatch):
    """A client of a studio with little room and a key that we know."""
    monkeypatch.setattr("allfocus.web.studio.make_key", lambda: KEY)
    settings = ServerSettings(work=tmp_path / "work", upload_bytes=5000, disk_bytes=20_000, jobs=5)
    with running_server(settings) as running:
        yield running


def tree_of(client) -> str:
    return client.post("/api/intakes", json={"name": "x"}).json()["id"]


def send(client, intake, path, content=b"1234"):
    return client.post(f"/api/intakes/{intake}/files", params={"path": path}, content=content)


def test_a_tree_takes_no_file_beyond_the_limits(client, monkeypatch):
    monkeypatch.setattr(intakes, "MOST_FILES", 3)
    intake = tree_of(client)
    assert send(client, intake, "large.png", b"x" * 5001).status_code == 413
    assert [send(client, intake, f"{number}.png").status_code for number in range(4)] == [201, 201, 201, 413]
    other = tree_of(client)
    statuses = [send(client, other, f"{number}.png", b"x" * 4999).status_code for number in range(3)]
    monkeypatch.setattr(intakes, "MOST_FILES", 99)
    statuses += [send(client, other, f"more{number}.png", b"x" * 4999).status_code for number in range(3)]
    assert statuses[-1] == 507
    client.delete(f"/api/intakes/{other}")
    assert send(client, intake, "again.png", b"x" * 4999).status_code == 201  # the room is free again


def test_only_so_many_trees_wait_at_a_time(client, monkeypatch):
    monkeypatch.setattr(intakes, "MOST_INTAKES", 2)
    made = [client.post("/api/intakes").status_code for _ in range(3)]
    assert made == [201, 201, 507]


@pytest.mark.parametrize("own", ["..", "../../jobs", "0" * 24, "%2e%2e", "x" * 500])
def test_no_id_of_a_tree_leads_anywhere(client, own):
    for answer in (
        client.delete(f"/api/intakes/{own}"),
        client.get(f"/api/intakes/{own}/stacks"),
        send(client, own, "a.png"),
        client.post(f"/api/intakes/{own}/jobs", json={"name": "x", "frames": ["a.png"]}),
    ):
        assert answer.status_code in (400, 404, 405)


@pytest.mark.parametrize("how", [{"by": "evil"}, {"gap": "nan"}, {"gap": "-1"}, {"gap": "inf"}, {"size": "1"}])
def test_a_tree_is_cut_only_in_ways_that_there_are(client, how):
    assert client.get(f"/api/intakes/{tree_of(client)}/stacks", params=how).status_code == 400


def test_local_folders_stay_closed_unless_the_server_was_started_with_them(client, tmp_path):
    for path in ("/", "/etc", str(tmp_path), "../..", "\x00"):
        assert client.post("/api/intakes", json={"path": path}).status_code == 403
    job = client.post("/api/jobs").json()["id"]
    assert client.post(f"/api/jobs/{job}/find-frames", json={"path": "/"}).status_code == 403


def test_a_page_of_another_site_cannot_reach_the_new_routes(client):
    evil = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
    for method, path in (
        ("POST", "/api/projects"), ("POST", "/api/open"), ("POST", "/api/intakes"), ("PUT", "/api/queue/state"),
        ("PUT", "/api/presets/x"), ("GET", "/api/library"), ("GET", "/api/preferences"), ("GET", "/api/library/events"),
    ):  # fmt: skip
        assert client.request(method, path, headers=evil, json={}).status_code == 403
        assert client.request(method, path, headers={"host": "evil.example"}, json={}).status_code == 403


def test_without_the_key_nothing_is_opened_and_with_it_only_what_there_is(client, tmp_path):
    body = {"paths": [str(tmp_path)]}
    assert client.post("/api/open", json=body).status_code == 403
    assert client.post("/api/open", json=body, headers={"x-allfocus-key": "x" * 43}).status_code == 403
    key = {"x-allfocus-key": KEY}
    for path in ("relative.png", "/nowhere/at/all.png", "/\x00", "../x"):
        assert client.post("/api/open", json={"paths": [path]}, headers=key).status_code == 404
    assert client.get("/api/jobs").json() == []


def test_a_project_that_is_none_leaves_nothing_behind(client, tmp_path):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../evil", bytes(10**6))
    for content in (b"x" * 3000, bomb.getvalue()):
        answer = client.post("/api/projects", params={"name": "../../p.allfocus"}, content=content)
        assert answer.status_code == 400
        assert str(tmp_path) not in answer.text
    assert client.post("/api/projects", content=b"x" * 30_000).status_code in (413, 507)
    assert client.get("/api/jobs").json() == []
    assert list((tmp_path / "work/temporary").iterdir()) == []
    assert list(tmp_path.parent.rglob("evil")) == []


def test_a_key_is_never_told(client):
    for path in ("/api/limits", "/api/library", "/api/preferences", "/api/queue", "/openapi.json", "/docs", "/"):
        assert KEY not in client.get(path).text


def test_a_door_that_is_a_link_is_replaced_and_not_written_through(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "door.json").symlink_to(precious)
    write_door(tmp_path, Door("http://127.0.0.1:1/", "k"))
    assert precious.read_text() == "precious"
    assert not Path(tmp_path / "door.json").is_symlink()
