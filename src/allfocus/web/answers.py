"""The status codes that each operation can answer with, for the description of the interface."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from allfocus.errors import CODES

MEANINGS = {
    206: "A part of the file, as asked for",
    400: "What was sent makes no sense",
    401: "A token is needed",
    403: "Not from here, or not this",
    404: "There is no such thing",
    408: "Nothing came for too long",
    409: "Not in the present state of the job",
    413: "Too large, too long or too many",
    415: "Not a kind of content that is taken here",
    416: "There is no such part of the file",
    429: "Busy; come back later",
    507: "No room for it on the disk",
}
EVERYWHERE = (401, 403, 413)
"""Before an operation is reached."""

BEYOND_SUCCESS: dict[tuple[str, str], tuple[int, ...]] = {
    ("get", "/api/health"): (),
    ("get", "/api/limits"): (),
    ("get", "/api/methods"): (),
    ("get", "/api/reports"): (),
    ("get", "/api/jobs"): (),
    ("post", "/api/jobs"): (400, 415, 507),
    ("post", "/api/samples"): (400, 415, 429, 507),
    ("get", "/api/jobs/{job_id}"): (404,),
    ("delete", "/api/jobs/{job_id}"): (404,),
    ("post", "/api/jobs/{job_id}/frames"): (400, 404, 408, 409, 415, 429, 507),
    ("put", "/api/jobs/{job_id}/frames"): (400, 404, 409, 415, 507),
    ("post", "/api/jobs/{job_id}/folder"): (400, 404, 409, 415, 429, 507),
    ("delete", "/api/jobs/{job_id}/frames/{frame_id}"): (404, 409, 507),
    ("get", "/api/jobs/{job_id}/frames/{frame_id}/thumbnail"): (404, 415, 429, 507),
    ("post", "/api/jobs/{job_id}/start"): (400, 404, 409, 415, 429, 507),
    ("post", "/api/jobs/{job_id}/alternatives"): (400, 404, 409, 415, 429, 507),
    ("post", "/api/jobs/{job_id}/cancel"): (404, 409, 507),
    ("get", "/api/jobs/{job_id}/events"): (404, 429),
    ("get", "/api/jobs/{job_id}/tiles/{layer}/{level}/{column}/{row}"): (400, 404, 409, 429, 507),
    ("post", "/api/jobs/{job_id}/strokes"): (400, 404, 409, 415, 429, 507),
    ("put", "/api/jobs/{job_id}/strokes/{stroke_id}"): (400, 404, 409, 415, 429, 507),
    ("post", "/api/jobs/{job_id}/undo"): (404, 409, 429, 507),
    ("post", "/api/jobs/{job_id}/redo"): (404, 409, 429, 507),
    ("get", "/api/jobs/{job_id}/faults"): (404, 409),
    ("put", "/api/jobs/{job_id}/channels"): (400, 404, 409, 415, 507),
    ("post", "/api/jobs/{job_id}/slabs"): (400, 404, 409, 415, 429, 507),
    ("post", "/api/jobs/{job_id}/results/{result_id}/open"): (404, 409, 507),
    ("put", "/api/jobs/{job_id}/results/{result_id}"): (400, 404, 409, 415, 507),
    ("delete", "/api/jobs/{job_id}/results/{result_id}"): (404, 409, 507),
    ("put", "/api/jobs/{job_id}/faults/{fault_id}"): (400, 404, 409, 415, 507),
    ("get", "/api/jobs/{job_id}/download"): (206, 400, 404, 409, 416, 429, 507),
    ("get", "/api/formats"): (),
    ("put", "/api/jobs/{job_id}/finish"): (400, 404, 409, 415, 507),
    ("post", "/api/jobs/{job_id}/finish/preview"): (400, 404, 409, 415, 429, 507),
    ("post", "/api/jobs/{job_id}/finish/grey"): (400, 404, 409, 415, 429, 507),
    ("get", "/api/jobs/{job_id}/finished/{level}/{column}/{row}"): (400, 404, 409, 429, 507),
    ("get", "/api/jobs/{job_id}/maps/{name}.png"): (206, 400, 404, 409, 416),
    ("get", "/api/jobs/{job_id}/relief"): (400, 404, 409),
    ("get", "/api/jobs/{job_id}/report"): (206, 400, 404, 409, 416),
    ("get", "/reports/{name}/{path}"): (206, 400, 404, 416),
    ("get", "/api/library"): (),
    ("get", "/api/library/events"): (429,),
    ("put", "/api/jobs/{job_id}/name"): (400, 404, 415, 507),
    ("get", "/api/queue"): (),
    ("put", "/api/queue"): (400, 415),
    ("put", "/api/queue/state"): (400, 415),
    ("post", "/api/intakes"): (400, 404, 415, 507),
    ("get", "/api/intakes/{intake_id}"): (404,),
    ("post", "/api/intakes/{intake_id}/files"): (400, 404, 408, 409, 415, 507),
    ("get", "/api/intakes/{intake_id}/stacks"): (400, 404, 429),
    ("post", "/api/intakes/{intake_id}/jobs"): (400, 404, 409, 415, 429, 507),
    ("delete", "/api/intakes/{intake_id}"): (404,),
    ("get", "/api/jobs/{job_id}/project"): (206, 400, 404, 409, 416, 429, 507),
    ("post", "/api/projects"): (400, 408, 409, 415, 429, 507),
    ("post", "/api/jobs/{job_id}/found-frames"): (400, 404, 408, 415, 507),
    ("get", "/api/preferences"): (),
    ("put", "/api/preferences/options"): (400, 415, 507),
    ("put", "/api/presets/{name}"): (400, 404, 409, 415, 507),
    ("delete", "/api/presets/{name}"): (400, 404, 507),
    ("post", "/api/open"): (400, 404, 409, 415, 429, 507),
    ("post", "/api/jobs/{job_id}/find-frames"): (400, 404, 409, 415, 429, 507),
}
"""What each operation can answer besides its success and what holds everywhere."""

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {"type": "string", "description": "What was wrong, and what would work"},
        "code": {
            "type": "string",
            "enum": list(CODES),
            "description": "Which error of the library it is, if it is one",
        },
    },
}


def describe_answers(app: FastAPI) -> None:
    """Make the description of the interface name every status code that there is, and none that there is not."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema:
            return app.openapi_schema
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        for path, operations in schema["paths"].items():
            for method, operation in operations.items():
                _describe(operation, (method, path))
        for name in ("HTTPValidationError", "ValidationError"):  # the framework's own, which are never sent
            schema.get("components", {}).get("schemas", {}).pop(name, None)
        schema.setdefault("components", {}).setdefault("schemas", {})["Error"] = _ERROR
        app.openapi_schema = schema
        return schema

    app.openapi = describe  # type: ignore[method-assign]  # as FastAPI's documentation does


def _describe(operation: dict[str, Any], key: tuple[str, str]) -> None:
    answers = operation["responses"]
    answers.pop("422", None)
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    for status in sorted({*EVERYWHERE, *BEYOND_SUCCESS[key]}):
        answers[str(status)] = {"description": MEANINGS[status]}
        if status >= 400 and status != 416:
            answers[str(status)]["content"] = content
