"""The door of a running studio: how other programs of the same user find it and have it open their files.

A server that listens leaves ``door.json`` in its work folder, readable by its user alone: its address, its token, and a
key. Whoever shows the key may name any file of the machine, as the user could; pages in a browser never see it. The
file counts only while a server holds the lock of the folder: one that a killed server left opens nothing.
"""

import contextlib
import json
import os
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from allfocus.errors import AllfocusError, InputError
from allfocus.files.locking import lock
from allfocus.files.opening import open_plain, parse_json
from allfocus.web.work_folder import LOCK

DOOR = "door.json"
KEY_HEADER = "x-allfocus-key"
LONGEST_START = 20.0
"""Seconds that a server may take from holding its folder to listening."""
LONGEST_ANSWER = 600.0


@dataclass(frozen=True)
class Door:
    """How a running studio is reached."""

    address: str
    """Without the token."""
    key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)

    def page(self, place: str = "") -> str:
        """The address to open in a browser.

        Example:
            >>> Door("http://127.0.0.1:8400/", "k", "t").page("#/library")
            'http://127.0.0.1:8400/?token=t#/library'
        """
        return self.address + (f"?token={self.token}" if self.token else "") + place

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """What the studio answers.

        Raises:
            AllfocusError: it does not answer, or refuses; in its own words.
        """
        with self.open(method, path, body) as answer:
            return json.loads(answer.read())

    def open(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer of the studio, open for reading."""
        headers = {KEY_HEADER: self.key, "content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path.lstrip("/"), data, headers, method=method)
        # No proxy: the studio is on this machine, and its key is nobody else's business.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            return opener.open(request, timeout=LONGEST_ANSWER)
        except urllib.error.HTTPError as error:
            with error:
                raise InputError(_sentence_of(error.read())) from error
        except OSError as error:
            raise AllfocusError(f"the studio at {self.address} does not answer ({error})") from error


def _sentence_of(body: bytes) -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(parse_json(body)["error"])
    return "the studio refused"


def make_key() -> str:
    """A random key that nobody can guess."""
    return secrets.token_urlsafe(32)


def write_door(work: Path, door: Door) -> None:
    """Leave word of how a server is reached, for its user alone."""
    remove_door(work)
    # Made with these rights from the first moment on: a file that is narrowed afterwards was readable before.
    descriptor = os.open(work / DOOR, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(door), file)


def remove_door(work: Path) -> None:
    """Take that word back."""
    with contextlib.suppress(OSError):
        (work / DOOR).unlink()


def find_door(work: Path) -> Door | None:
    """The door of the studio that runs in a work folder; None where none does.

    Raises:
        AllfocusError: one runs there and cannot be asked.
    """
    end = time.monotonic() + LONGEST_START
    while _is_held(work):
        with contextlib.suppress(InputError, ValueError, KeyError, TypeError), open_plain(work / DOOR) as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_uid not in (os.getuid(), 0):
                raise AllfocusError(f"{work / DOOR}: belongs to another user, and is not believed")
            content = parse_json(file.read(10_000))
            token = content["token"]
            return Door(str(content["address"]), str(content["key"]), None if token is None else str(token))
        if time.monotonic() > end:
            raise AllfocusError(f"{work}: a server uses this folder and cannot be asked; stop it, or name another")
        time.sleep(0.1)
    return None


def _is_held(work: Path) -> bool:
    """Whether a server holds the folder; where the system knows no locks, whether it left its door."""
    try:
        with (work / LOCK).open("rb") as file:
            locked = lock(file)
    except OSError:
        return False
    return (work / DOOR).is_file() if locked is None else not locked


def open_in_studio(door: Door, paths: Sequence[Path], frames: Path | None) -> str:
    """The place on the page where what was opened is shown.

    Args:
        door: Of the studio.
        paths: Pictures, folders and project files.
        frames: Where the frames of projects may be.
    """
    body: dict[str, Any] = {"paths": [str(path) for path in paths], "frames": None if frames is None else str(frames)}
    place: str = door.ask("POST", "/api/open", body)["place"]
    return place
