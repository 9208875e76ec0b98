"""``allfocus serve``: the studio in a browser, and the same over HTTP."""

from typing import TYPE_CHECKING, Any

import click

from allfocus.cli.examples import examples
from allfocus.cli.paths import PATH
from allfocus.cli.printing import device_option, echo
from allfocus.cli.sizes import parse_bytes
from allfocus.errors import MissingDependencyError

if TYPE_CHECKING:
    from allfocus.web.settings import ServerSettings


work_option = click.option(
    "--work",
    type=PATH,
    help="The studio's folder, with its jobs and presets; else that of ALLFOCUS_WORK, or one in your cache.",
)


@click.command(
    short_help="Open the studio in a browser.",
    epilog=examples(
        "allfocus serve",
        "allfocus serve --work /data/studio --allow-folders /data/shoots",
    ),
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others need a token.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8400, show_default=True, help="Port; 0 takes a free one."
)
@click.option(
    "--token",
    envvar="ALLFOCUS_TOKEN",
    help="What clients must show (or in ALLFOCUS_TOKEN); generated and printed when listening beyond localhost.",
)
@click.option("--name", "names", multiple=True, help="A further host name the server is called by; once for each.")
@work_option
@click.option(
    "--allow-folders",
    multiple=True,
    type=PATH,
    help="A folder below which the page may open local folders; once for each.",
)
@click.option("--reports", type=PATH, help="A folder with reports of allfocus evaluate to show.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Stacks fused at a time.")
@click.option("--max-waiting", type=click.IntRange(min=0), default=200, show_default=True, help="Stacks that may wait.")
@click.option("--max-jobs", type=click.IntRange(min=1), default=200, show_default=True, help="Jobs kept at a time.")
@click.option("--max-frames", type=click.IntRange(min=1), default=1000, show_default=True, help="Frames of one job.")
@click.option("--max-upload", default="1G", show_default=True, help="Largest upload.")
@click.option(
    "--max-pixels", type=click.IntRange(min=1), help="Refuse frames with more pixels than this; default: 200 million."
)
@click.option("--max-disk", default="50G", show_default=True, help="Disk space of all jobs together.")
@click.option(
    "--max-cache", default="10G", show_default=True, help="Of that, for cached pictures, which can be made again."
)
@click.option("--lifetime", type=float, help="Hours after which an unchanged job is deleted; by default none ever is.")
@device_option
@click.option("--no-browser", is_flag=True, help="Do not open the page.")
def serve(no_browser: bool, **options: Any) -> None:
    """Open the studio: drop frames, fuse them, look at the result, and repair it with a brush.

    It listens on this machine only, unless --host says otherwise; then every client must show a token, which is
    printed at the start. Stop it with Ctrl-C; jobs are kept and listed again at the next start.
    """
    require_web()
    from allfocus.web.server import serve as run_server

    settings = _read_settings(options)

    def ready(address: str) -> None:
        echo(f"the studio is at {address} (jobs in {settings.work}; Ctrl-C stops it)", err=True)
        if not no_browser:
            import webbrowser

            webbrowser.open(address)

    run_server(settings, ready=ready)


def require_web() -> None:
    """Raise an error that names the extra of the studio where it is not installed."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("the studio needs the web extra: pip install 'allfocus[web]'") from error


def _read_settings(options: dict[str, Any]) -> "ServerSettings":
    from allfocus.images.limits import MAX_PIXELS
    from allfocus.web.settings import ServerSettings, default_work_folder, is_loopback, make_token

    token = options["token"]
    if token is None and not is_loopback(options["host"]):
        token = make_token()
    return ServerSettings(
        work=options["work"] or default_work_folder(),
        host=options["host"],
        port=options["port"],
        token=token,
        names=options["names"],
        allow_folders=options["allow_folders"],
        reports=options["reports"],
        workers=options["workers"],
        jobs_waiting=options["max_waiting"],
        jobs=options["max_jobs"],
        frames=options["max_frames"],
        upload_bytes=parse_bytes(options["max_upload"]),
        pixels=options["max_pixels"] or MAX_PIXELS,
        disk_bytes=parse_bytes(options["max_disk"]),
        cache_bytes=parse_bytes(options["max_cache"]),
        lifetime_hours=options["lifetime"],
        device=options["device"],
    )
