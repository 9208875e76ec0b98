"""Routes about results: tiles, strokes, maps, the relief, the report."""

import contextlib
import os
import secrets
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from allfocus.web.bodies import NewStroke, StrokeChange
from allfocus.web.stroke import Stroke
from allfocus.web.viewing import Viewer

FOREVER = "private, max-age=31536000, immutable"
"""For what an address with a revision shows, which never changes."""


class WholeFile(FileResponse):
    """A file that is sent whole, also to those who ask for a part of it, as HTTP allows.

    A part that does not exist would be answered by the framework before the file is opened, without our error and
    without a chance to tidy up.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        self.headers["accept-ranges"] = "none"
        headers = [(name, value) for name, value in scope["headers"] if name.lower() not in (b"range", b"if-range")]
        await super().__call__({**scope, "headers": headers}, receive, send)


class PassingFile(WholeFile):
    """A file that was made for one answer, and is deleted however that ends."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, and delete it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(self.path)


def make_viewer_routes(viewer: Viewer) -> APIRouter:
    """The routes under ``/api/jobs/{job_id}`` that need a result."""
    router = APIRouter(prefix="/api/jobs/{job_id}", tags=["results"])

    @router.get("/tiles/{layer}/{level}/{column}/{row}", response_class=Response)
    def tile(
        job_id: str,
        layer: str,
        level: int,
        column: int,
        row: int,
        revision: int | None = None,
        *,
        smoothed: bool = False,
    ) -> Response:
        """A piece of a layer, 256 pixels a side; level 0 is the full resolution and each further one halves it.

        ``smoothed`` gives it without loss and without noise, as the brush looks at it to stay within one thing.
        """
        content, media_type = viewer.tile(job_id, layer, level, column, row, smoothed)
        caching = FOREVER if revision is not None else "no-store"
        return Response(content, media_type=media_type, headers={"cache-control": caching})

    @router.post("/strokes", status_code=201)
    def add_stroke(job_id: str, body: NewStroke) -> dict[str, Any]:
        """Paint from a frame or another method's result into the result."""
        return viewer.add_stroke(job_id, Stroke(secrets.token_hex(6), **body.model_dump()))

    @router.put("/strokes/{stroke_id}")
    def change_stroke(job_id: str, stroke_id: str, body: StrokeChange) -> dict[str, Any]:
        """Leave a stroke out of the picture for now, or take it in again."""
        return viewer.hide_stroke(job_id, stroke_id, hidden=body.hidden)

    @router.post("/undo")
    def undo(job_id: str) -> dict[str, Any]:
        """Take back the last stroke."""
        return viewer.undo(job_id)

    @router.post("/redo")
    def redo(job_id: str) -> dict[str, Any]:
        """Paint again what was taken back last."""
        return viewer.redo(job_id)

    @router.get("/maps/{name}.png", response_class=FileResponse)
    def map_file(job_id: str, name: Literal["depth", "depth-colour", "decision", "confidence"]) -> FileResponse:
        """A map of the result."""
        path = viewer.map_file(job_id, name)
        return WholeFile(path, media_type="image/png", stat_result=path.stat())

    @router.get("/relief")
    def relief(job_id: str, side: Annotated[int, Query(ge=2, le=512)] = 256) -> dict[str, Any]:
        """The depth at a reduced size for a view in three dimensions."""
        return viewer.relief(job_id, side)

    @router.get("/report", response_class=FileResponse)
    def report(job_id: str) -> FileResponse:
        """The report of the fusion as an HTML page."""
        path = viewer.report_file(job_id)
        return WholeFile(path, media_type="text/html", stat_result=path.stat())

    return router
