"""What a server may do: where it listens, what it lets in, and how much room it takes."""

import ipaddress
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from allfocus.errors import InputError
from allfocus.images.limits import MAX_PIXELS
from allfocus.machine import cache_folder

GIBIBYTE = 2**30
SHORTEST_TOKEN = 16
"""Characters; a shorter one could be guessed by trying."""


WORK_VARIABLE = "ALLFOCUS_WORK"
"""The variable that names the studio's folder for every command, as ``--work`` does for one."""


@dataclass(frozen=True)
class ServerSettings:
    """The settings of one server; all limits are stated to clients at ``/api/limits``.

    Raises:
        InputError: a limit makes no sense, or the server would be open to the network without a token.

    Example:
        >>> ServerSettings(work=Path("studio")).is_local
        True
    """

    work: Path
    """Folder for the jobs; made when it is missing. One server at a time."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8400
    """Port to listen on; 0 takes any free one."""
    token: str | None = field(default=None, repr=False)
    """What clients must show; None for a server that only this machine can reach."""
    names: tuple[str, ...] = ()
    """Further host names under which the server may be called, for a server behind another one."""
    allow_folders: tuple[Path, ...] = ()
    """Folders below which clients may name local folders; none when empty."""
    reports: Path | None = None
    """Folder with reports of ``allfocus evaluate`` to show; None shows none."""
    workers: int = 1
    """Stacks that are fused at the same time."""
    jobs_waiting: int = 200
    """Starts that may wait for a worker; one more is told to come back later."""
    jobs: int = 200
    """Jobs that are kept at a time."""
    frames: int = 1000
    """Frames of one job."""
    upload_bytes: int = GIBIBYTE
    """Of one uploaded file."""
    pixels: int = MAX_PIXELS
    """Of one frame."""
    disk_bytes: int = 50 * GIBIBYTE
    """Of everything in the work folder."""
    cache_bytes: int = 10 * GIBIBYTE
    """Of the pictures that are prepared for the viewer, which can be made again; part of ``disk_bytes``."""
    lifetime_hours: float | None = None
    """After so long without a change a job is deleted; None deletes none."""
    device: str = "auto"
    """Where a network runs: "auto", "cpu" or "cuda"."""
    memory_bytes: int | None = field(default_factory=lambda: default_memory())
    """What each worker process may take; None sets no limit."""

    def __post_init__(self) -> None:
        for name in ("workers", "jobs", "frames", "upload_bytes", "pixels", "disk_bytes", "cache_bytes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.jobs_waiting < 0 or not (self.lifetime_hours is None or self.lifetime_hours > 0):
            raise InputError("the number of waiting jobs is 0 or more, and their lifetime more than 0 hours")
        if not 0 <= self.port <= 65535:
            raise InputError(f"port {self.port} does not exist; ports are 0 to 65535")
        if self.token is None and not self.is_local:
            raise InputError(
                f"a server on {self.host} can be reached by others and needs a token",
                hint="{token}",
                code="bad-option",
            )
        if self.token is not None and not re.fullmatch(rf"[A-Za-z0-9_.~-]{{{SHORTEST_TOKEN},}}", self.token):
            raise InputError(
                f"the token needs at least {SHORTEST_TOKEN} characters out of letters, digits and _ . ~ -; "
                "leave it out to get a random one"
            )
        for folder in (*self.allow_folders, *([self.reports] if self.reports else [])):
            if not os.path.isdir(folder):
                raise InputError(f"{folder}: is no folder; name one that exists")

    @property
    def is_local(self) -> bool:
        """True when only programs of this machine can reach the server."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether an address or name means this machine alone.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("example.org")
        (True, True, False, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def default_memory() -> int | None:
    """Three quarters of the memory of the machine; None where the system does not say."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    return total * 3 // 4 if total > 0 else None


def make_token() -> str:
    """A random token of 43 characters that nobody can guess."""
    return secrets.token_urlsafe(32)


def default_work_folder() -> Path:
    """Where jobs and presets are kept when a command is not told.

    It is the folder that the environment names, else one in the user's cache.
    """
    named = os.environ.get(WORK_VARIABLE)
    return Path(named) if named else cache_folder() / "studio"
