"""Routes about the results of a stack: open, name, delete and restore them; the faults of the one that is open."""

from typing import Any

from fastapi import APIRouter

from allfocus.web import faults, results
from allfocus.web.bodies import ChannelWishes, ResultChange, SlabSizes, Verdict
from allfocus.web.channel_display import show_channels
from allfocus.web.studio import Studio


def make_result_routes(studio: Studio) -> APIRouter:
    """The routes under ``/api/jobs/{job_id}`` about results as a whole."""
    router = APIRouter(prefix="/api/jobs/{job_id}", tags=["results"])

    @router.get("/faults")
    def list_faults(job_id: str) -> list[dict[str, Any]]:
        """The places of the result that are worth a look, worst first, each with the stroke that mends it."""
        return faults.list_faults(studio, job_id)

    @router.put("/faults/{fault_id}")
    def judge_fault(job_id: str, fault_id: str, body: Verdict) -> dict[str, Any]:
        """Dismiss a fault, or take that back."""
        return faults.judge_fault(studio, job_id, fault_id, dismissed=body.dismissed)

    @router.put("/channels")
    def look_at(job_id: str, body: ChannelWishes) -> dict[str, Any]:
        """Look at the channels of the result in another way; what is kept of them does not change."""
        return show_channels(studio, job_id, [(own.shown, own.colour, own.low, own.high) for own in body.channels])

    @router.post("/slabs", status_code=202)
    def make_slabs(job_id: str, body: SlabSizes) -> dict[str, Any]:
        """Fuse every few neighbouring frames by themselves, each into a result of its own on the same grid."""
        return studio.fusions.start_slabs(job_id, body.size, body.overlap)

    @router.post("/results/{result_id}/open")
    def open_result(job_id: str, result_id: str) -> dict[str, Any]:
        """Show, check and paint another result of the stack from now on."""
        return results.open_result(studio, job_id, result_id)

    @router.put("/results/{result_id}")
    def change(job_id: str, result_id: str, body: ResultChange) -> dict[str, Any]:
        """Name a result, delete it, or restore it."""
        return results.change_result(studio, job_id, result_id, name=body.name, deleted=body.deleted)

    @router.delete("/results/{result_id}")
    def remove(job_id: str, result_id: str) -> dict[str, Any]:
        """Remove a result that was deleted for good, with its files."""
        return results.remove_result(studio, job_id, result_id)

    return router
