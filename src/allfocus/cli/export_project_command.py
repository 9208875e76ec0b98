"""``allfocus export-project``: a stack of the studio as a project file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from allfocus.cli.examples import examples
from allfocus.cli.paths import PATH
from allfocus.cli.printing import echo, json_option, overwrite_option, print_json, print_table
from allfocus.cli.serve_command import require_web, work_option
from allfocus.errors import InputError, OutputError

if TYPE_CHECKING:
    from allfocus.web.door import Door


@click.command(
    "export-project",
    short_help="Save a stack of the studio as a project file.",
    epilog=examples(
        "allfocus export-project",
        "allfocus export-project beetle -o beetle.allfocus --linked",
    ),
)
@click.argument("stack", required=False)
@click.option("-o", "--output", type=PATH, help="The file to write; its ending is .allfocus.")
@click.option("--linked", is_flag=True, help="Leave the frames out; whoever opens it is asked where they are.")
@work_option
@overwrite_option
@json_option
def export_project(
    stack: str | None, output: Path | None, linked: bool, work: Path | None, overwrite: bool, as_json: bool
) -> None:
    """Save STACK, by its name or id, with options, transforms, results and strokes; without STACK, list what there is.

    The studio may be running or not. Frames are put into the file, unless --linked leaves them where they are.
    """
    require_web()
    from allfocus.web.door import find_door
    from allfocus.web.settings import default_work_folder

    place = work or default_work_folder()
    if not os.path.isdir(place / "jobs"):
        raise InputError(
            "holds no stacks of a studio; make some with allfocus serve, or name the studio's folder with --work",
            where=place,
        )
    door = find_door(place)
    source = _Running(door) if door is not None else _Resting(place)
    try:
        if stack is None:
            _list(source.stacks(), as_json=as_json)
            return
        found = _find(source.stacks(), stack)
        target = output or Path(f"{found['name']}.allfocus")
        if target.suffix.lower() != ".allfocus":
            raise InputError("a project file ends with .allfocus", where=target, code="bad-option")
        if os.path.lexists(target) and not overwrite:
            raise OutputError("exists already", where=target, hint="{overwrite=on} to replace it", code="output-exists")
        source.save(found["id"], target, embed=not linked, overwrite=overwrite)
    finally:
        source.close()
    if as_json:
        print_json({"output": str(target), "id": found["id"], "name": found["name"], "bytes": target.stat().st_size})
    else:
        echo(target)


def _list(stacks: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json({"stacks": [{key: each[key] for key in ("id", "name", "state", "frames")} for each in stacks]})
    else:
        rows = [(each["name"], each["id"], each["state"], str(each["frames"])) for each in stacks]
        print_table(("name", "id", "state", "frames"), rows)


def _find(stacks: list[dict[str, Any]], wanted: str) -> dict[str, Any]:
    matches = [each for each in stacks if wanted in (each["id"], each["name"])]
    if len(matches) != 1:
        known = (
            f"{len(matches)} stacks have this name; give the id of one" if matches else "the studio has no such stack"
        )
        raise InputError(f"{known} (allfocus export-project lists them)", where=wanted)
    return matches[0]


def put_project(content: BinaryIO, target: Path, *, length: int | None, overwrite: bool) -> None:
    """Copy a project to a file without a name beside the target, which gets its name when it is whole.

    Args:
        content: Where it is read from.
        target: The file to write.
        length: How many bytes there must be; None when nobody said.
        overwrite: Replace a file of that name, also one that appears meanwhile.

    Raises:
        OutputError: it cannot be written, or not all of it came.
    """
    import mmap
    import shutil
    import tempfile

    from allfocus.files.placing import StagedFiles

    try:
        with tempfile.TemporaryFile(dir=target.parent, prefix=".allfocus-") as file:
            shutil.copyfileobj(content, file, 2**20)
            file.flush()
            if file.tell() == 0 or length not in (None, file.tell()):
                raise OutputError("the studio ended before all of it was there; try again", where=target)
            with (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
                memoryview(mapped) as whole,
                StagedFiles(overwrite=overwrite) as files,
            ):
                files.add(target, whole)
    except OSError as error:
        raise OutputError(f"could not be written ({error.strerror or error})", where=target) from error


class _Running:
    """The stacks of a studio that runs."""

    def __init__(self, door: "Door") -> None:
        self._door = door

    def stacks(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._door.ask("GET", "/api/library")["jobs"]
        return found

    def save(self, job_id: str, target: Path, *, embed: bool, overwrite: bool) -> None:
        frames = "embedded" if embed else "linked"
        with self._door.open("GET", f"/api/jobs/{job_id}/project?frames={frames}") as answer:
            # Reading by pieces, http.client says nothing of an answer that ends early.
            length = answer.headers.get("content-length")
            put_project(answer, target, length=None if length is None else int(length), overwrite=overwrite)

    def close(self) -> None:
        return None


class _Resting:
    """The stacks of a studio that does not run."""

    def __init__(self, work: Path) -> None:
        from allfocus.web.settings import ServerSettings
        from allfocus.web.studio import Studio

        self._studio = Studio(ServerSettings(work=work))

    def stacks(self) -> list[dict[str, Any]]:
        from allfocus.web.library import show_library

        found: list[dict[str, Any]] = show_library(self._studio)["jobs"]
        return found

    def save(self, job_id: str, target: Path, *, embed: bool, overwrite: bool) -> None:
        from allfocus.web.projects import save_project
        from allfocus.web.refusals import Refusal

        try:
            path, _ = save_project(self._studio, job_id, embed=embed)
        except Refusal as refusal:
            raise InputError(refusal.text) from refusal
        try:
            with path.open("rb") as content:
                put_project(content, target, length=path.stat().st_size, overwrite=overwrite)
        finally:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        self._studio.close()
