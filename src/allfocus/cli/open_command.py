"""``allfocus open``: pictures, folders and projects in the studio, from file managers and other programs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allfocus.cli.examples import examples
from allfocus.cli.paths import PATH
from allfocus.cli.printing import echo
from allfocus.cli.serve_command import require_web, work_option
from allfocus.errors import InputError

if TYPE_CHECKING:
    from allfocus.web.door import Door


@click.command(
    "open",
    short_help="Open pictures, folders or projects in the studio.",
    epilog=examples(
        "allfocus open DSC*.tif",
        "allfocus open SHOOT",
        "allfocus open beetle.allfocus --frames /data/shoots",
    ),
)
@click.argument("paths", metavar="FILES...", nargs=-1, required=True, type=PATH)
@click.option("--frames", type=PATH, help="Where the frames of a project are.")
@work_option
@click.option("--port", type=click.IntRange(0, 65535), default=8400, show_default=True, help="Of a studio to start.")
@click.option("--no-browser", is_flag=True, help="Do not open the page; print its address.")
def open_command(paths: tuple[Path, ...], frames: Path | None, work: Path | None, port: int, no_browser: bool) -> None:
    """Open FILES in the studio: the one that runs, or else one that is started now (Ctrl-C stops it).

    Pictures become one stack and are read where they lie. A folder is cut into its stacks, which you see before
    anything starts. A project file (.allfocus) is opened with its result and strokes; frames that are not in it are
    looked for where they were, beside it, and below --frames.
    """
    require_web()
    from allfocus.web.door import find_door, open_in_studio
    from allfocus.web.server import serve
    from allfocus.web.settings import ServerSettings, default_work_folder

    named = [path.absolute() for path in paths]
    for path in (*named, *([frames] if frames else [])):
        if not os.path.exists(path):
            raise InputError("no such file or folder; check the name", where=path, code="no-such-file")
    place = work or default_work_folder()

    def show(door: "Door") -> None:
        address = door.page(open_in_studio(door, named, frames.absolute() if frames else None))
        if no_browser:
            echo(address)
        else:
            import webbrowser

            webbrowser.open(address)

    running = find_door(place)
    if running is not None:
        show(running)
        return
    failed: list[Exception] = []

    def ready(address: str) -> None:
        echo(f"the studio is at {address} (jobs in {place}; Ctrl-C stops it)", err=True)
        try:
            door = find_door(place)
            if door is not None:
                show(door)
        except Exception as error:  # the studio runs; what could not be opened is said, and the page shows the rest
            failed.append(error)
            echo(f"allfocus: {error}", err=True)

    try:
        serve(ServerSettings(work=place, port=port), ready=ready)
    except InputError as error:
        if error.code != "in-use":
            raise
        # Another program has the port, or another "allfocus open" was a moment faster.
        running = find_door(place)
        if running is None:
            serve(ServerSettings(work=place, port=0), ready=ready)
        else:
            show(running)
    if failed:
        raise failed[0]
