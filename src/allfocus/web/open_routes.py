"""The route by which other programs of the same user have the studio open files of the machine; see ``door``."""

import hmac
import os
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header

from allfocus.images.listing import SUFFIXES, natural_order
from allfocus.web import job_frames, projects
from allfocus.web.bodies import LocalFiles
from allfocus.web.door import KEY_HEADER
from allfocus.web.project_files import SUFFIX
from allfocus.web.refusals import Refusal
from allfocus.web.studio import Studio

LIBRARY = "#/library"


def make_open_routes(studio: Studio) -> APIRouter:
    """The route under ``/api`` that only those who know the studio's key may call."""
    router = APIRouter(prefix="/api", tags=["open"])

    @router.post("/open", status_code=201)
    def open_files(
        body: LocalFiles, key: Annotated[str, Header(alias=KEY_HEADER, max_length=200)] = ""
    ) -> dict[str, Any]:
        """Open files of the server's machine where they lie: pictures as one stack, folders in stacks, projects."""
        if not hmac.compare_digest(key.encode(), studio.key.encode()):
            raise Refusal(403, "only programs of the user who started the studio may name files (allfocus open)")
        paths = [require_path(text) for text in body.paths]
        frames = None if body.frames is None else require_path(body.frames)
        return {"place": open_paths(studio, paths, frames)}

    return router


def require_path(text: str) -> Path:
    """A file or folder that there is.

    Raises:
        Refusal: there is none.
    """
    if "\x00" in text or not os.path.isabs(text) or not os.path.exists(text):
        raise Refusal(404, f"{text[:200]!r}: there is no such file or folder; give its whole path")
    return Path(text)


def open_paths(studio: Studio, paths: list[Path], frames: Path | None) -> str:
    """The place on the page where what was opened is shown; see :func:`make_open_routes`."""
    places = []
    for path in paths:
        if path.suffix.lower() == SUFFIX and os.path.isfile(path):
            # Beside it, and not all below: that may be somebody's whole disk.
            beside = [file for file in path.parent.iterdir() if file.is_file()]
            search = beside if frames is None else [*beside, frames]
            job = projects.open_project(studio, path, path.name, search, trust_paths=True)
            places.append(f"#/stack/{job.id}")
        elif os.path.isdir(path):
            places.append(open_folder(studio, path))
    pictures = [path for path in paths if os.path.isfile(path) and path.suffix.lower() != SUFFIX]
    if pictures:
        places.append(open_pictures(studio, pictures))
    waiting = [place for place in places if place.startswith("#/intake/")]
    return places[0] if len(places) == 1 else waiting[0] if waiting else LIBRARY


def open_folder(studio: Studio, folder: Path) -> str:
    """A folder of one stack becomes a job at once; any other waits for somebody to see how it is cut."""
    intake = studio.intakes.create(folder.name, folder)["id"]
    stacks = studio.intakes.cut(intake, by="auto", gap=10.0, size=None)["stacks"]
    if len(stacks) != 1 or stacks[0]["problem"]:
        return f"#/intake/{intake}"
    try:
        made = studio.intakes.make_job(intake, stacks[0]["name"], stacks[0]["frames"])
    finally:
        studio.intakes.delete(intake)
    return f"#/stack/{made['job']['id']}"


def open_pictures(studio: Studio, pictures: list[Path]) -> str:
    """Pictures that were named together are one stack, in natural order; a file manager hands them over in any."""
    ordered = sorted(pictures, key=lambda path: natural_order(path.name))
    known = [path for path in ordered if path.suffix.lower() in SUFFIXES] or ordered
    name = known[0].stem if len(known) == 1 else f"{known[0].stem} to {known[-1].stem}"
    job_id = studio.create(name)["id"]
    try:
        job_frames.add_files(studio, job_id, [Path(os.path.realpath(path)) for path in ordered], linked=True)
    except BaseException:
        studio.delete(job_id)
        raise
    return f"#/stack/{job_id}"
