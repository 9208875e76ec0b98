"""Routes about the results of a stack: the faults of the one that is open."""

from typing import Any

from fastapi import APIRouter

from allfocus.web import faults
from allfocus.web.bodies import Verdict
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

    return router
