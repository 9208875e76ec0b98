"""Who may call: the host name, the origin and the token of each request, limits on bodies, and headers on answers.

A server on this machine is reachable from every page that the user's browser shows. Three checks keep those out: the
Host must be one of ours (a foreign name that was pointed at 127.0.0.1 is not), the Origin must be our own, and where
others could reach the server, a token must be shown.
"""

import asyncio
import hmac
import ipaddress
import json
import re
import socket
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from allfocus.web.settings import ServerSettings

COOKIE = "allfocus_token"
LONGEST_SILENCE = 30.0
"""Seconds without a byte after which a body that is not an upload is given up."""
LONGEST_JSON = 2 * 2**20
"""Bytes of a body that is not an upload."""

UPLOADS = re.compile(r"/api/jobs/[^/]+/(frames|found-frames)|/api/intakes/[^/]+/files|/api/projects")
"""Addresses whose bodies are files, as long as the server's settings let them be."""

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "font-src 'self'; frame-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
REPORT_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""For reports, which hold their scripts and styles inside; they may not call the server."""

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "SAMEORIGIN",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Gatekeeper:
    """ASGI middleware that refuses requests that are not ours before anything else sees them."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._names = _own_names(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, or answer it with a refusal."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        send = _with_headers(send, scope["path"])
        refused = self._find_fault(scope, headers)
        if refused is not None:
            await _refuse(send, *refused)
            return
        if self._settings.token and "token" in _root_query(scope):
            await self._give_cookie(scope, send)
            return
        if not _is_upload(scope):
            length = headers.get("content-length", "0")
            if not length.isdecimal() or int(length) > LONGEST_JSON:
                await _refuse(send, 413, f"the body is longer than {LONGEST_JSON} bytes; send less at once")
                return
            receive = _limited(receive)
        await self._app(scope, receive, send)

    def _find_fault(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._is_own_host(host):
            return 403, "this name is not one of the server's own; call it by its address, or start it with --name"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return 403, "pages of another origin may not call this server"
        site = headers.get("sec-fetch-site", "none")
        opens_page = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        if site not in ("none", "same-origin") and not (opens_page and not scope["path"].startswith("/api/")):
            return 403, "pages of another site may not call this server"
        if self._settings.token and scope["path"] != "/api/health" and not self._shows_token(scope, headers):
            return 401, "a token is needed; open the address that the server printed when it started"
        return None

    def _is_own_host(self, host: str) -> bool:
        name = host_name(host)
        if name is None:
            return False
        if name in self._names:
            return True
        # Whoever can be reached from elsewhere is called by whatever address leads there; the token guards it.
        return not self._settings.is_local and _is_address(name)

    def _shows_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        shown = []
        kind, _, value = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            shown.append(value.strip())
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        if cookie is not None:
            shown.append(cookie.value)
        shown += _root_query(scope).get("token", [])
        token = (self._settings.token or "").encode()
        # All are compared, and each in the same time wherever it differs.
        return any([hmac.compare_digest(text.encode(), token) for text in shown])

    async def _give_cookie(self, scope: Scope, send: Send) -> None:
        """Answer ``/?token=T`` with a cookie, and with the address without the token, which might be seen or shared."""
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        cookie = f"{COOKIE}={self._settings.token}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000{secure}"
        headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def host_name(host: str) -> str | None:
    """The name in a Host header without its port, lower case; None when it is none.

    Example:
        >>> host_name("LocalHost:8400"), host_name("[::1]:80"), host_name("a@b"), host_name("")
        ('localhost', '::1', None, None)
    """
    if host.startswith("["):
        name, closed, port = host[1:].partition("]")
        port = port.removeprefix(":")
        closed_well = bool(closed)
    else:
        name, _, port = host.partition(":")
        closed_well = True
    plain = name and all(letter.isalnum() or letter in ".-_:%" for letter in name)
    if not plain or not closed_well or not (port == "" or port.isdecimal()):
        return None
    return name.lower().rstrip(".")


def _own_names(settings: ServerSettings) -> frozenset[str]:
    names = {"localhost", "127.0.0.1", "::1", settings.host, *settings.names}
    if not settings.is_local:
        names |= {socket.gethostname(), socket.getfqdn()}
    return frozenset(name.lower().rstrip(".") for name in names)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _root_query(scope: Scope) -> dict[str, list[str]]:
    """The query of the page's own address, the only one that may hold a token; empty for all others."""
    return parse_qs(scope["query_string"].decode("latin-1")) if scope["path"] == "/" else {}


def _is_upload(scope: Scope) -> bool:
    path: str = scope["path"]
    return scope["method"] == "POST" and UPLOADS.fullmatch(path) is not None


def _limited(receive: Receive) -> Receive:
    """Counts a body that comes without a length; too long a one ends early, and is then no longer valid.

    One that stops coming is given up.
    """
    seen, whole = 0, False

    async def counted() -> Message:
        nonlocal seen, whole
        if whole:  # what comes now is the news that the client is gone
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), LONGEST_SILENCE)
        except TimeoutError:
            return {"type": "http.disconnect"}
        whole = not message.get("more_body", False)
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > LONGEST_JSON:
                whole = True
                return {"type": "http.request", "body": b"", "more_body": False}
        return message

    return counted


def _with_headers(send: Send, path: str) -> Send:
    policy = REPORT_POLICY if path.startswith("/reports/") or path.endswith("/report") else PAGE_POLICY

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {key.lower() for key, _ in message.get("headers", [])}
            added = {**HEADERS, "content-security-policy": policy, "cache-control": "no-store"}
            extra = [(k.encode(), v.encode()) for k, v in added.items() if k.encode() not in present]
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        await send(message)

    return sending


async def _refuse(send: Send, status: int, text: str) -> None:
    body = json.dumps({"error": text}).encode()
    headers: list[tuple[bytes, bytes]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    # The rest of the body is not read: the connection ends with this answer.
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
