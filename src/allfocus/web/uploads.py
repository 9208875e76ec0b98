"""Uploads: a request's body straight to disk, piece by piece, within the limits."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from allfocus.web.disk_room import Reservation
from allfocus.web.refusals import Refusal
from allfocus.web.studio import Studio

PIECE = 2**20
"""Bytes that are collected before they are written."""

LONGEST_SILENCE = 60.0
"""Seconds without a byte after which an upload is given up."""

_FORMS = ("multipart/", "application/x-www-form-urlencoded", "application/json", "text/")


@contextlib.asynccontextmanager
async def receive_file(request: Request, studio: Studio, *, limit: int | None = None) -> AsyncIterator[Path]:
    """The file that a request's body holds, in the folder for temporary files, from which it is deleted in the end.

    Args:
        request: The request.
        studio: Whose limits hold.
        limit: Bytes that it may have; None for what a picture may.

    Raises:
        Refusal: the body is no plain file, too long, empty, or there is no room for it.
    """
    kind = request.headers.get("content-type", "").strip().lower()
    if kind.startswith(_FORMS):
        raise Refusal(415, f"a {kind.partition(';')[0]} body is no picture; send the file itself as the body")
    limit = limit or studio.settings.upload_bytes
    length = request.headers.get("content-length")
    if length is not None and (not length.isdecimal() or int(length) > limit):
        raise Refusal(413, f"the file is larger than the limit of {limit} bytes; use smaller files")
    target = studio.store.temporary / f"{secrets.token_hex(8)}.part"
    room = Reservation(studio.room)
    try:
        # Without a length nobody knows how much will come; room is then asked for as it does.
        await run_in_threadpool(room.grow, int(length or 0))
        await _write(_pieces(request, limit), target, None if length is not None else room)
        yield target
    finally:
        room.release()
        target.unlink(missing_ok=True)


async def _write(pieces: AsyncIterator[bytes], target: Path, room: Reservation | None) -> None:
    total = 0
    with target.open("xb") as file:
        try:
            async for piece in pieces:
                if room is not None:
                    await run_in_threadpool(room.grow, len(piece))
                await run_in_threadpool(file.write, piece)
                total += len(piece)
            await run_in_threadpool(file.flush)
        except OSError as error:
            raise Refusal(507, "the disk of the server is full; delete jobs that are no longer needed") from error
        except ClientDisconnect as error:
            raise Refusal(400, "the upload was broken off") from error
    if not total:
        raise Refusal(415, "the body is empty; send the file itself as the body")


async def _pieces(request: Request, limit: int) -> AsyncIterator[bytes]:
    """The body in pieces of about a mebibyte."""
    stream = request.stream().__aiter__()
    held: list[bytes] = []
    size = total = 0
    while True:
        try:
            chunk = await asyncio.wait_for(stream.__anext__(), LONGEST_SILENCE)
        except StopAsyncIteration:
            break
        except TimeoutError as error:
            raise Refusal(408, f"nothing came for {LONGEST_SILENCE:.0f} seconds; send the file again") from error
        total += len(chunk)
        if total > limit:
            raise Refusal(413, f"the file is larger than the limit of {limit} bytes; use smaller files")
        held.append(chunk)
        size += len(chunk)
        if size >= PIECE:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)
