"""Routes for people: the page and its files, the description of the API, and reports of ``allfocus evaluate``."""

import html
import mimetypes
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from allfocus.web.refusals import Refusal

STATIC = Path(__file__).parent / "static"
REPORT_PAGES = ("report.html", "index.html")
REPORT_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".csv": "text/csv",
    ".md": "text/plain",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
}
"""What a report consists of; other files of its folder are not given out."""


def add_page_routes(app: FastAPI, reports: Path | None) -> None:
    """Add the page, ``/static``, ``/docs`` and the reports."""
    router = APIRouter()

    @router.get("/", include_in_schema=False)
    def page() -> FileResponse:
        if not (STATIC / "index.html").is_file():
            raise Refusal(404, "this installation has no page; use the HTTP interface, described at /docs")
        return FileResponse(STATIC / "index.html", media_type="text/html", headers={"cache-control": "no-cache"})

    @router.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(describe_api(app.openapi()))

    @router.get("/favicon.ico", include_in_schema=False)
    def icon() -> FileResponse:
        for name, kind in (("favicon.ico", "image/x-icon"), ("icon.svg", "image/svg+xml")):
            if (STATIC / name).is_file():
                return FileResponse(STATIC / name, media_type=kind)
        raise Refusal(404, "there is no icon")

    @router.get("/api/reports", tags=["reports"])
    def list_reports() -> list[dict[str, Any]]:
        """The reports of ``allfocus evaluate`` that the server was started with."""
        return find_reports(reports)

    @router.get("/reports/{name}/{path:path}", tags=["reports"], response_class=FileResponse)
    def report_file(name: str, path: str) -> FileResponse:
        """A file of a report."""
        file = find_report_file(reports, name, path)
        return FileResponse(file, media_type=REPORT_TYPES[file.suffix.lower()])

    app.include_router(router)
    # Browsers take a module only under this type, and some systems have others in their tables.
    mimetypes.add_type("text/javascript", ".js")
    app.mount("/static", _FreshFiles(directory=STATIC, check_dir=False), name="static")


class _FreshFiles(StaticFiles):
    """Files of the page, which browsers ask for anew each time, so that an upgrade shows at once."""

    def file_response(self, *values: Any, **options: Any) -> Response:
        answer = super().file_response(*values, **options)
        answer.headers["cache-control"] = "no-cache"
        return answer


def find_reports(folder: Path | None) -> list[dict[str, Any]]:
    """Name, title, time and address of the reports in a folder: itself, or folders in it, that hold a page."""
    if folder is None:
        return []
    entries = [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith(".")]
    found = []
    for name, place, shown in [("-", folder, folder.resolve().name), *((e.name, e, e.name) for e in entries)]:
        page = next((place / page for page in REPORT_PAGES if (place / page).is_file()), None)
        if page is not None:
            url = f"/reports/{quote(name, safe='')}/{page.name}"
            found.append({"name": shown, "title": _title(page) or shown, "created": page.stat().st_mtime, "url": url})
    return found


def _title(page: Path) -> str | None:
    with page.open("rb") as file:
        found = re.search(r"<title>([^<]*)</title>", file.read(4096).decode("utf-8", "replace"))
    return html.unescape(found[1]).strip() if found else None


def find_report_file(folder: Path | None, name: str, path: str) -> Path:
    """The file of a report.

    Args:
        folder: The folder with the reports.
        name: One of the folders in it; "-" is the folder itself.
        path: Below that.

    Raises:
        Refusal: there is no such file, or it is not part of a report.
    """
    missing = Refusal(404, "there is no such report; GET /api/reports lists all")
    if folder is None or "\x00" in name + path:
        raise missing
    root = folder.resolve()
    # Unlike Path.resolve, no error for a link that leads to itself.
    base = root if name == "-" else Path(os.path.realpath(root / name))
    try:
        file = Path(os.path.realpath(base / (path or REPORT_PAGES[0])))
        allowed = base == root or base.parent == root
        if not allowed or base not in file.parents or file.suffix.lower() not in REPORT_TYPES or not file.is_file():
            raise missing
    except OSError as error:  # a name longer than the system knows
        raise missing from error
    return file


def describe_api(description: dict[str, Any]) -> str:
    """A page that lists every route, without a script and without another host."""
    rows = []
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            about = html.escape(operation.get("description") or operation.get("summary", ""))
            values = ", ".join(html.escape(item["name"]) for item in operation.get("parameters", ()))
            rows.append(
                f"<tr><td>{method.upper()}</td><td><code>{html.escape(path)}</code></td><td>{about}</td><td>{values}</td></tr>"
            )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>allfocus studio: HTTP interface</title>'
        '<link rel="stylesheet" href="/static/docs.css">'
        "<h1>allfocus studio: HTTP interface</h1>"
        '<p>The whole description, for programs: <a href="/openapi.json">openapi.json</a>. '
        'Errors are <code>{"error": "what was wrong, and what would work"}</code>.</p>'
        "<table><thead><tr><th>method</th><th>path</th><th>what it does</th><th>parameters</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></html>"
    )
