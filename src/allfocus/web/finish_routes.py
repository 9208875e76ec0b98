"""Routes about the finish of a result, the finished picture, and the files that leave the studio."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse, Response

from allfocus.finishing.finish import finish_from_json
from allfocus.web.bodies import FinishBody, Place
from allfocus.web.exports import CHANNEL_FORMATS, FORMATS, MEDIA_TYPES, Export, export_result, make_size, show_formats
from allfocus.web.finishing import Finishing
from allfocus.web.studio import Studio
from allfocus.web.viewer_routes import FOREVER, PassingFile
from allfocus.web.viewing import Viewer

Format = Literal["tiff", "png", "jpeg", "webp", "heif", "ome-tiff", "ome-zarr"]
assert {*FORMATS, *CHANNEL_FORMATS} == set(Format.__args__)  # type: ignore[attr-defined]  # the names of a Literal


def make_finish_routes(studio: Studio, viewer: Viewer) -> APIRouter:
    """The routes under ``/api`` that are about finishing and files."""
    router = APIRouter(prefix="/api", tags=["finish"])
    finishing = Finishing(studio, viewer)

    @router.get("/formats")
    def formats() -> list[dict[str, Any]]:
        """The formats that results can be exported in."""
        return show_formats()

    @router.put("/jobs/{job_id}/finish")
    def keep(job_id: str, body: FinishBody) -> dict[str, Any]:
        """Keep a finish with the open result, in the place of the one that it had."""
        return finishing.keep(job_id, finish_from_json(body.model_dump()))

    @router.post("/jobs/{job_id}/finish/preview")
    def preview(job_id: str, body: FinishBody) -> dict[str, Any]:
        """What a finish would do: tone curves and the histogram; nothing is kept."""
        return finishing.preview(job_id, finish_from_json(body.model_dump()))

    @router.post("/jobs/{job_id}/finish/grey")
    def pick_grey(job_id: str, body: Place) -> dict[str, float]:
        """The white balance that makes a place of the result grey."""
        return finishing.pick_grey(job_id, body.x, body.y)

    @router.get("/jobs/{job_id}/finished/{level}/{column}/{row}", response_class=Response)
    def tile(job_id: str, level: int, column: int, row: int, revision: int | None = None) -> Response:
        """A piece of the finished picture, 256 pixels a side; level 0 is the full resolution."""
        caching = FOREVER if revision is not None else "no-store"
        content = finishing.tile(job_id, level, column, row)
        return Response(content, media_type="image/jpeg", headers={"cache-control": caching})

    @router.get("/jobs/{job_id}/download", response_class=FileResponse)
    def download(
        job_id: str,
        format: Format = "tiff",
        bits: Annotated[Literal["8", "10", "16", "32"] | None, Query()] = None,
        quality: Annotated[int, Query(ge=1, le=100)] = 95,
        profile: Literal["keep", "srgb"] = "keep",
        long_side: Annotated[int | None, Query(ge=1, le=100_000)] = None,
        percent: Annotated[float | None, Query(ge=1, le=400, allow_inf_nan=False)] = None,
        name: Annotated[str, Query(max_length=200)] = "",
    ) -> FileResponse:
        """The result with its strokes and its finish as a file."""
        size = make_size(long_side, percent)
        export = Export(format, int(bits) if bits else None, quality, profile == "srgb", size, name)
        path, called = export_result(studio, viewer, job_id, export)
        return PassingFile(path, media_type=MEDIA_TYPES[format], filename=called)

    return router
