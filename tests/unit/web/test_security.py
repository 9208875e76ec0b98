"""Who may call the server, and what every answer carries."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from allfocus.cli.sizes import parse_bytes
from allfocus.errors import InputError
from allfocus.web.job_records import clean_name
from allfocus.web.security import host_name
from allfocus.web.settings import ServerSettings, is_loopback, make_token

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def guarded(run_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client without a token of a server that others can reach."""
    settings = ServerSettings(
        work=tmp_path_factory.mktemp("guarded"), host="0.0.0.0", token=TOKEN, names=("studio.test",)
    )
    with run_server(settings) as client:
        yield client


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://localhost.evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
        {"host": "evil.example"},
        {"host": "evil.example:8400"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "localhost@evil.example"},
        {"host": "[::1"},
        {"host": "192.168.1.1"},
        {"host": ""},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_of_another_site_is_refused(client: Any, headers: dict[str, str], method: str) -> None:
    count = len(client.get("/api/jobs").json())
    answer = client.request(method, "/api/jobs", headers=headers, json={} if method == "POST" else None)
    assert answer.status_code in (400, 403)
    assert "access-control-allow-origin" not in answer.headers
    assert len(client.get("/api/jobs").json()) == count


def test_the_page_of_our_own_origin_may_call(client: Any) -> None:
    own = str(client.base_url).rstrip("/")
    for headers in ({"origin": own}, {"origin": own, "sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}):
        assert client.get("/api/jobs", headers=headers).status_code == 200
    port = client.base_url.port
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "localhost", "LOCALHOST."):
        assert client.get("/api/health", headers={"host": host}).status_code == 200


def test_a_link_from_another_site_may_open_the_page_but_no_more(client: Any) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=link).status_code in (200, 404)
    assert client.get("/api/jobs", headers=link).status_code == 403
    assert client.post("/", headers=link).status_code == 403


def test_no_preflight_is_answered(client: Any) -> None:
    headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    answer = client.options("/api/jobs", headers=headers)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/", "/api/jobs", "/api/none", "/docs", "/static/none.js", "/openapi.json"])
def test_every_answer_carries_the_protecting_headers(client: Any, path: str) -> None:
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers or "uvicorn" in headers["server"]


def test_the_description_loads_nothing_from_elsewhere(client: Any) -> None:
    page = client.get("/docs").text
    assert "/api/jobs/{job_id}/strokes" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong-wrong-wrong-wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": "Bearer"},
        {"cookie": f"other={TOKEN}"},
        {"cookie": "allfocus_token="},
        {"cookie": "allfocus_token=\xe4"},
        {"x-token": TOKEN},
    ],
)
def test_without_the_token_nothing_is_given(guarded: Any, headers: dict[str, str]) -> None:
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    for path in (
        "/",
        "/api/jobs",
        f"/api/jobs?token={TOKEN}",
        "/docs",
        "/openapi.json",
        "/static/main.js",
        "/reports/a/b",
    ):
        answer = guarded.get(path, headers=encoded)
        assert answer.status_code == 401, path
        assert TOKEN not in answer.text
    assert guarded.post("/api/jobs", json={}, headers=encoded).status_code == 401


def test_with_the_token_it_opens(guarded: Any) -> None:
    assert guarded.get("/api/jobs", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert guarded.get("/api/jobs", headers={"cookie": f"a=b; allfocus_token={TOKEN}"}).status_code == 200
    answer = guarded.get(f"/?token={TOKEN}")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    assert {"HttpOnly", "SameSite=Strict"} <= set(answer.headers["set-cookie"].split("; "))
    guarded.cookies.clear()
    assert guarded.get("/?token=wrong").status_code == 401
    assert guarded.get("/api/health").json()["status"] == "ok"


def test_a_server_for_others_is_called_by_its_addresses_and_names_only(guarded: Any) -> None:
    token = {"authorization": f"Bearer {TOKEN}"}
    for host in ("192.168.1.7:8400", "[fe80::1]:8400", "studio.test", socket.gethostname()):
        assert guarded.get("/api/jobs", headers={**token, "host": host}).status_code == 200, host
    assert guarded.get("/api/jobs", headers={**token, "host": "evil.example"}).status_code == 403


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "image/png", ""]
)
def test_a_body_that_is_not_called_json_is_not_taken_for_it(client: Any, kind: str) -> None:
    job_id = client.make_job([])
    headers = {"content-type": kind} if kind else {}
    content = b'{"method": "average"}'
    for path in (f"/api/jobs/{job_id}/start", f"/api/jobs/{job_id}/strokes", "/api/jobs", "/api/samples"):
        answer = client.post(path, content=content, headers=headers)
        assert answer.status_code == 415, (path, answer.text)


def test_a_long_body_is_refused_with_and_without_its_length(client: Any) -> None:
    long = b'{"name": "' + b"x" * 3_000_000 + b'"}'
    headers = {"content-type": "application/json"}
    assert client.post("/api/jobs", content=long, headers=headers).status_code == 413

    def pieces() -> Iterator[bytes]:
        yield from (long[start : start + 65536] for start in range(0, len(long), 65536))

    assert client.post("/api/jobs", content=pieces(), headers=headers).status_code in (400, 413)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "example.org", "::"])
def test_a_server_for_others_needs_a_token(host: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="token"):
        ServerSettings(work=tmp_path, host=host)
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "values",
    [{"token": "short"}, {"token": "with spaces in the token"}, {"workers": 0}, {"port": 70000}, {"lifetime_hours": 0},
     {"upload_bytes": 0}, {"jobs_waiting": -1}, {"reports": Path("/none/such")}, {"allow_folders": (Path("/none"),)}],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        ServerSettings(work=tmp_path, **values)


def test_tokens_differ_and_are_hidden(tmp_path: Path) -> None:
    token = make_token()
    assert token != make_token()
    assert token not in repr(ServerSettings(work=tmp_path, token=token))


def test_sizes_are_read_and_nonsense_is_refused() -> None:
    assert [parse_bytes(text) for text in ("2g", "1.5 MiB", "10KB", "7")] == [2**31, 3 * 2**19, 10000, 7]
    for text in ("", "G", "-1G", "0", "1X", "1e9"):
        with pytest.raises(InputError):
            parse_bytes(text)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("/etc/passwd", "passwd"),
        ("..\\..\\windows\\system.ini", "system.ini"),
        ("a\x00b\n\r\tc.png", "abc.png"),
        ("..", "frame"),
        ("/", "frame"),
        ("", "frame"),
        ("\u202egnp.exe", "gnp.exe"),
        ("\ud800x.png", "x.png"),
        ("x" * 300 + ".tif", "x" * 89 + "…" + "x" * 26 + ".tif"),
        ("Ä ö.tif", "Ä ö.tif"),
        ("<script>.png", "<script>.png"),
    ],
)
def test_names_of_clients_are_only_shown(given: str, shown: str) -> None:
    assert clean_name(given, "frame") == shown


def test_two_servers_cannot_share_a_folder(client: Any) -> None:
    from allfocus.web.store import JobStore

    with pytest.raises(InputError, match="another server"):
        JobStore(client.work)


def test_host_names_are_told_apart() -> None:
    assert host_name("example.org:80") == "example.org"
    assert host_name("[::1]:x") is None
    assert host_name("a b") is None


def test_connections_send_small_answers_at_once(tmp_path: Path) -> None:
    from allfocus.web.server import _listen, address_of

    settings = ServerSettings(work=tmp_path, port=0)
    with _listen(settings) as listener:
        assert listener.proto == socket.IPPROTO_TCP
        assert httpx.URL(address_of(settings, listener)).port == listener.getsockname()[1]
        with pytest.raises(InputError, match="cannot be listened on"):
            _listen(ServerSettings(work=tmp_path, port=listener.getsockname()[1]))
