"""Routes of the library: all stacks at a glance, their names, the queue, and trees that are cut into stacks."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from allfocus.batch.stacks import DEFAULT_GAP, LONGEST_GAP
from allfocus.web import library
from allfocus.web.bodies import CutStack, JobName, NewIntake, QueueOrder, QueueState
from allfocus.web.events import LIBRARY
from allfocus.web.job_frames import require_allowed_folder
from allfocus.web.job_routes import FILE_BODY
from allfocus.web.studio import Studio
from allfocus.web.uploads import receive_file


def make_library_routes(studio: Studio) -> APIRouter:
    """The routes under ``/api`` that are about many stacks."""
    router = APIRouter(prefix="/api", tags=["library"])

    @router.get("/library")
    def show() -> dict[str, Any]:
        """All stacks in a few words each, with their sizes, and the queue."""
        return library.show_library(studio)

    @router.get("/library/events", response_class=StreamingResponse)
    async def events() -> StreamingResponse:
        """A stream of server-sent events: state (as the library is shown) and progress of any job."""
        studio.bus.require_room()

        async def stream() -> AsyncIterator[str]:
            async for text in studio.bus.listen(LIBRARY, lambda: library.show_library(studio)):
                yield text

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    @router.put("/jobs/{job_id}/name")
    def rename(job_id: str, body: JobName) -> dict[str, Any]:
        """Give a job another name."""
        return library.rename(studio, job_id, body.name)

    @router.get("/queue")
    def queue() -> dict[str, Any]:
        """What runs and what waits, with the seconds until each is done."""
        return library.show_queue(studio)

    @router.put("/queue")
    def order(body: QueueOrder) -> dict[str, Any]:
        """Put what waits in another order."""
        return library.set_order(studio, body.jobs)

    @router.put("/queue/state")
    def pause(body: QueueState) -> dict[str, Any]:
        """Let nothing new begin, or go on; what runs is not interrupted."""
        return library.set_paused(studio, body.paused)

    @router.post("/intakes", status_code=201)
    def new_intake(body: NewIntake | None = None) -> dict[str, Any]:
        """Begin to take in a tree of pictures: files that will be sent, or a folder of the server's machine."""
        if body is None or body.path is None:
            return studio.intakes.create(body.name if body else "")
        folder, allowed = require_allowed_folder(studio, body.path)
        return studio.intakes.create(body.name or folder.name, folder, allowed)

    @router.get("/intakes/{intake_id}")
    def show_intake(intake_id: str) -> dict[str, Any]:
        """A tree that waits."""
        return studio.intakes.show(intake_id)

    @router.post("/intakes/{intake_id}/files", status_code=201, openapi_extra=FILE_BODY)
    async def add_file(
        intake_id: str, request: Request, path: Annotated[str, Query(min_length=1, max_length=4000)]
    ) -> dict[str, Any]:
        """Add a file to a tree: the body is the file, and ``path`` where it lay in it."""
        studio.intakes.require(intake_id)
        async with receive_file(request, studio) as part:
            return await run_in_threadpool(studio.intakes.add, intake_id, path, part)

    @router.get("/intakes/{intake_id}/stacks")
    def cut(
        intake_id: str,
        by: Literal["auto", "folder", "file", "time", "number", "shoot"] = "auto",
        gap: Annotated[float, Query(gt=0, le=LONGEST_GAP)] = DEFAULT_GAP,
        size: Annotated[int | None, Query(ge=2, le=100_000)] = None,
    ) -> dict[str, Any]:
        """How a tree is cut into stacks; nothing is made yet."""
        return studio.intakes.cut(intake_id, by=by, gap=gap, size=size if by == "number" else None)

    @router.post("/intakes/{intake_id}/jobs", status_code=201)
    def make_job(intake_id: str, body: CutStack) -> dict[str, Any]:
        """Make a job of one stack of a tree; files that cannot be read are left out and named.

        Where there are several positions or times and none is named, what there is to ``choose`` of instead.
        """
        which = {"position": body.position, "time": body.time}
        return studio.intakes.make_job(intake_id, body.name, body.frames, which)

    @router.delete("/intakes/{intake_id}", status_code=204)
    def delete(intake_id: str) -> None:
        """Forget a tree; files that were sent and are in no job are deleted, local ones stay."""
        studio.intakes.delete(intake_id)

    return router
