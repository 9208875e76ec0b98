"""The server: the routes, the gatekeeper before them, and how it is started."""

import contextlib
import itertools
import logging
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable
from types import FrameType

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from allfocus.errors import AllfocusError, InputError
from allfocus.version import __version__
from allfocus.web.answers import describe_answers
from allfocus.web.door import Door, remove_door, write_door
from allfocus.web.finish_routes import make_finish_routes
from allfocus.web.job_routes import make_job_routes
from allfocus.web.library_routes import make_library_routes
from allfocus.web.open_routes import make_open_routes
from allfocus.web.page_routes import add_page_routes
from allfocus.web.preference_routes import make_preference_routes
from allfocus.web.preferences import Preferences
from allfocus.web.processes import TaskError
from allfocus.web.project_routes import make_project_routes
from allfocus.web.refusals import Refusal
from allfocus.web.result_routes import make_result_routes
from allfocus.web.security import Gatekeeper
from allfocus.web.settings import ServerSettings
from allfocus.web.studio import Studio
from allfocus.web.viewer_routes import make_viewer_routes
from allfocus.web.viewing import Viewer
from allfocus.web.wording import status_of

_log = logging.getLogger("allfocus.web")


def create_app(settings: ServerSettings) -> FastAPI:
    """The application, ready for any ASGI server; its studio is ``app.state.studio``.

    The work folder is taken when the application is made and let go when it is shut down.

    Raises:
        InputError, OutputError: the work folder cannot be used.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     app = create_app(ServerSettings(work=Path(folder)))
        ...     app.state.studio.close()
        >>> "/api/jobs" in app.openapi()["paths"]
        True
    """
    studio = Studio(settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        studio.close()

    app = FastAPI(
        title="allfocus studio",
        version=__version__,
        description="Fuse, inspect and retouch stacks of partly focused pictures.",
        lifespan=lifespan,
        docs_url=None,  # its page would load scripts from another host
        redoc_url=None,
    )
    app.state.studio = studio
    app.include_router(make_job_routes(studio))
    app.include_router(make_library_routes(studio))
    app.include_router(make_project_routes(studio))
    app.include_router(make_open_routes(studio))
    app.include_router(make_preference_routes(Preferences(settings.work)))
    viewer = Viewer(studio)
    app.include_router(make_viewer_routes(viewer))
    app.include_router(make_finish_routes(studio, viewer))
    app.include_router(make_result_routes(studio))
    add_page_routes(app, settings.reports)
    _add_error_answers(app)
    describe_answers(app)
    app.add_middleware(Gatekeeper, settings=settings)
    return app


def _add_error_answers(app: FastAPI) -> None:
    """Every error becomes ``{"error": sentence}``, those of the library with their code, and a status that fits."""

    @app.exception_handler(Refusal)
    async def refused(_: Request, error: Refusal) -> JSONResponse:
        headers = {"retry-after": str(error.retry_after)} if error.retry_after else None
        return _error_answer(error.status, error.text, headers, code=_code_behind(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first.get("loc", ()))
        wrong_type = first.get("loc") == ("body",) and first.get("type") in ("model_attributes_type", "json_type")
        if wrong_type:
            return _error_answer(415, "the body must be a JSON object, sent with Content-Type: application/json")
        return _error_answer(400, f"{where}: {first.get('msg', 'is not valid')}; see /docs")

    @app.exception_handler(FileNotFoundError)
    async def gone(_: Request, error: FileNotFoundError) -> JSONResponse:
        return _error_answer(404, "this was deleted meanwhile; GET /api/jobs lists what there is")

    @app.exception_handler(AllfocusError)
    async def failed(_: Request, error: AllfocusError) -> JSONResponse:
        return _error_answer(status_of(error), app.state.studio.told(error), code=error.code)

    @app.exception_handler(HTTPException)
    async def plain(_: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers or {})
        return _error_answer(error.status_code, f"{error.detail}; the interface is described at /docs", headers)

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        _log.error("unexpected error", exc_info=error)
        return _error_answer(500, "the server made a mistake; its log says more, and please report it")


def _code_behind(refusal: Refusal) -> str | None:
    """The code of the library's error that a refusal tells of; None where it is the studio's own."""
    cause = refusal.__cause__
    error = cause.error if isinstance(cause, TaskError) else cause
    return error.code if isinstance(error, AllfocusError) else None


def _error_answer(
    status: int, text: str, headers: dict[str, str] | None = None, *, code: str | None = None
) -> JSONResponse:
    # Half of a surrogate pair, which a client may send, cannot be written as UTF-8.
    shown = text.encode("utf-8", "replace").decode("utf-8")
    content = {"error": shown} if code is None else {"error": shown, "code": code}
    return JSONResponse(content, status_code=status, headers=headers)


def serve(settings: ServerSettings, *, ready: Callable[[str], None] | None = None) -> None:
    """Serve until the process is told to stop.

    Args:
        settings: Where to listen, and the limits.
        ready: Called in a thread with the address to open once the server listens.

    Raises:
        InputError: the address cannot be listened on, or the work folder is in use.
    """
    import uvicorn

    from allfocus.web.connections import ImpatientProtocol, limit_logs

    listener = _listen(settings)
    try:
        app = create_app(settings)
    except BaseException:
        listener.close()
        raise
    config = uvicorn.Config(
        app,
        http=ImpatientProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        lifespan="on",
    )
    write_door(settings.work, Door(_own_address(settings, listener), app.state.studio.key, settings.token))
    limit_logs()  # after the configuration has set the loggers up
    if ready is not None:
        threading.Thread(target=ready, args=(address_of(settings, listener),), daemon=True).start()

    presses = itertools.count(1)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            press = next(presses)
            if press > 2:
                os._exit(128 + sig)
            if press == 2:  # uvicorn would break off, with a traceback; the end takes two seconds at most
                os.write(2, b"\nallfocus: ending; Ctrl-C once more ends at once\n")
                return
            # Those who listen to a job would hold the server up until its patience ends.
            app.state.studio.bus.end_all()
            super().handle_exit(sig, frame)

    try:
        Server(config).run(sockets=[listener])
    finally:
        remove_door(settings.work)


def _own_address(settings: ServerSettings, listener: socket.socket) -> str:
    """The address under which programs of this machine reach the server."""
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}
    host = everywhere.get(settings.host, settings.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/"


def _listen(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named, connections send each answer at once; otherwise small ones would wait for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        raise InputError(
            f"{settings.host} port {settings.port} cannot be listened on ({error.strerror})",
            hint="{port} to another",
            code="in-use",
        ) from error
    return listener


def address_of(settings: ServerSettings, listener: socket.socket) -> str:
    """The address to open in a browser, with the token when there is one."""
    port = listener.getsockname()[1]
    host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(settings.host, settings.host)
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"?token={settings.token}" if settings.token else "")
