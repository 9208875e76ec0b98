"""Routes about jobs: make them, give them frames, start them, watch them, delete them."""

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from allfocus.fusion.methods import list_methods
from allfocus.images.listing import SUFFIXES
from allfocus.scenes.catalogue import SCENES
from allfocus.stack.options import FuseOptions
from allfocus.version import __version__
from allfocus.web import job_frames
from allfocus.web.bodies import FolderName, FrameOrder, NewJob, OtherMethod, SampleName, StartOptions
from allfocus.web.intakes import MOST_FILES
from allfocus.web.studio import Studio
from allfocus.web.uploads import receive_file

_FILE = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
FILE_BODY = {"requestBody": {"required": True, "content": _FILE}}


def make_job_routes(studio: Studio) -> APIRouter:
    """The routes under ``/api`` that need no result."""
    router = APIRouter(prefix="/api", tags=["jobs"])

    @router.get("/health")
    def health() -> dict[str, str]:
        """Say that the server is there."""
        return {"status": "ok", "version": __version__}

    @router.get("/limits")
    def limits() -> dict[str, Any]:
        """What the server takes."""
        settings = studio.settings
        names = ("upload_bytes", "frames", "pixels", "disk_bytes", "lifetime_hours", "jobs", "workers")
        return {
            **{name: getattr(settings, name) for name in names},
            "local_folders": bool(settings.allow_folders),
            "jobs_waiting": settings.jobs_waiting,
            "waiting_now": studio.fusions.waiting,
            "used_bytes": studio.room.used(),
            "samples": list(SCENES),
            "endings": sorted(SUFFIXES),
            "folder_files": MOST_FILES,
        }

    @router.get("/methods")
    def methods() -> list[dict[str, Any]]:
        """The ways to fuse, with what each can be asked for; those that need an extra say which."""
        shown = ("name", "title", "summary", "limits", "decides", "missing")
        return [
            {
                **{key: getattr(method, key) for key in shown},
                "available": not method.missing,
                "abilities": asdict(method.abilities),
            }
            for method in list_methods()
        ]

    @router.post("/jobs", status_code=201)
    def create(body: NewJob | None = None) -> dict[str, Any]:
        """Make a job without frames."""
        return studio.create(body.name if body else "")

    @router.post("/samples", status_code=201)
    def sample(body: SampleName) -> dict[str, Any]:
        """Make a job with a rendered stack in it, to try things with."""
        return job_frames.add_sample(studio, body.scene)

    @router.get("/jobs")
    def list_jobs() -> list[dict[str, Any]]:
        """All jobs, the newest first."""
        return studio.show_all()

    @router.get("/jobs/{job_id}")
    def read(job_id: str) -> dict[str, Any]:
        """One job."""
        return studio.show(studio.job(job_id))

    @router.delete("/jobs/{job_id}", status_code=204)
    def delete(job_id: str) -> None:
        """Cancel and delete a job with all its files."""
        studio.delete(job_id)

    @router.post("/jobs/{job_id}/frames", status_code=201, openapi_extra=FILE_BODY)
    async def upload(
        job_id: str,
        request: Request,
        name: Annotated[str, Query(max_length=1000)] = "frame",
        position: Annotated[str | None, Query(max_length=1000)] = None,
        time: Annotated[str | None, Query(max_length=20)] = None,
    ) -> dict[str, Any]:
        """Add a frame: the body is the file. A file with several pictures gives several frames.

        Of a file with several positions or times one is taken; where none is named, the answer has what there is to
        ``choose`` of, and nothing is added.
        """
        job_frames.require_frames(studio, job_id)
        which = {"position": position, "time": time}
        async with receive_file(request, studio) as part:
            return await run_in_threadpool(job_frames.add_upload, studio, job_id, part, name, which)

    @router.post("/jobs/{job_id}/folder")
    def add_folder(job_id: str, body: FolderName) -> dict[str, Any]:
        """Add the pictures of a folder of the server's machine."""
        return job_frames.add_folder(studio, job_id, body.path)

    @router.put("/jobs/{job_id}/frames")
    def arrange(job_id: str, body: FrameOrder) -> dict[str, Any]:
        """Put the frames in a new order, and say which take part."""
        return job_frames.arrange(studio, job_id, [(choice.id, choice.included) for choice in body.frames])

    @router.delete("/jobs/{job_id}/frames/{frame_id}")
    def remove_frame(job_id: str, frame_id: str) -> dict[str, Any]:
        """Take a frame out of a job for good."""
        return job_frames.remove_frame(studio, job_id, frame_id)

    @router.get("/jobs/{job_id}/frames/{frame_id}/thumbnail", response_class=Response)
    def thumbnail(job_id: str, frame_id: str) -> Response:
        """A small JPEG of a frame."""
        content = job_frames.thumbnail(studio, job_id, frame_id).read_bytes()
        return Response(content, media_type="image/jpeg", headers={"cache-control": "private, max-age=604800"})

    @router.post("/jobs/{job_id}/start", status_code=202)
    def start(job_id: str, body: StartOptions | None = None) -> dict[str, Any]:
        """Fuse the frames."""
        return studio.fusions.start(job_id, FuseOptions(**(body or StartOptions()).model_dump()))

    @router.post("/jobs/{job_id}/alternatives", status_code=202)
    def alternative(job_id: str, body: OtherMethod) -> dict[str, Any]:
        """Fuse the frames of a finished job with another method as well."""
        return studio.fusions.start_alternative(job_id, body.method)

    @router.post("/jobs/{job_id}/cancel", status_code=202)
    def cancel(job_id: str) -> dict[str, Any]:
        """End what runs for a job."""
        return studio.fusions.cancel(job_id)

    @router.get("/jobs/{job_id}/events", response_class=StreamingResponse)
    async def events(job_id: str) -> StreamingResponse:
        """A stream of server-sent events: state, progress, notice."""
        job = studio.job(job_id)
        studio.bus.require_room()

        async def stream() -> AsyncIterator[str]:
            async for text in studio.bus.listen(job_id, lambda: studio.show(job)):
                yield text

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    return router
