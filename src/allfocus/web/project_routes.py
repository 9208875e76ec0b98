"""Routes about project files: save a job as one, open one as a job, and say where its frames are."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool

from allfocus.web import projects
from allfocus.web.bodies import FolderName
from allfocus.web.job_frames import require_allowed_folder
from allfocus.web.job_routes import FILE_BODY
from allfocus.web.studio import Studio
from allfocus.web.uploads import receive_file
from allfocus.web.viewer_routes import PassingFile

MEDIA_TYPE = "application/vnd.allfocus+zip"


def make_project_routes(studio: Studio) -> APIRouter:
    """The routes under ``/api`` that are about project files."""
    router = APIRouter(prefix="/api", tags=["projects"])

    @router.get("/jobs/{job_id}/project", response_class=FileResponse)
    def save(job_id: str, frames: Literal["embedded", "linked"] = "embedded") -> FileResponse:
        """A job as a project file, with its frames in it or only their names and hashes."""
        path, name = projects.save_project(studio, job_id, embed=frames == "embedded")
        return PassingFile(path, media_type=MEDIA_TYPE, filename=name)

    @router.post("/projects", status_code=201, openapi_extra=FILE_BODY)
    async def open_project(
        request: Request, name: Annotated[str, Query(max_length=1000)] = "project.allfocus"
    ) -> dict[str, Any]:
        """Open a project file, which is the body, as a new job; frames that are not part of it are marked absent."""
        async with receive_file(request, studio, limit=studio.settings.disk_bytes) as part:
            job = await run_in_threadpool(projects.open_project, studio, part, name, trust_paths=False)
        return studio.show(job)

    @router.post("/jobs/{job_id}/found-frames", openapi_extra=FILE_BODY)
    async def restore(
        job_id: str, request: Request, name: Annotated[str, Query(max_length=1000)] = "frame"
    ) -> dict[str, Any]:
        """Send the file of a frame that is absent; which it is, its content tells."""
        studio.job(job_id)
        async with receive_file(request, studio) as part:
            return await run_in_threadpool(projects.restore_frame, studio, job_id, part, name)

    @router.post("/jobs/{job_id}/find-frames")
    def find(job_id: str, body: FolderName) -> dict[str, Any]:
        """Look for the absent frames of a job in a folder of the server's machine."""
        folder, _ = require_allowed_folder(studio, body.path)
        return projects.relink(studio, studio.job(job_id), [folder])

    return router
