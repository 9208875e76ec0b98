"""Where a running scheduler is said to be: an address, or the file that it writes."""

import os
import re
import time
from pathlib import Path
from typing import Any

from allfocus.errors import InputError
from allfocus.files.opening import open_plain, parse_json

SCHEMES = ("tcp", "tls", "ucx", "ws", "wss")
"""Ways to speak to a scheduler."""
LARGEST_FILE = 2**24
"""Bytes of its file that are read."""
LONGEST_WRITING = 1.0
"""Seconds that a scheduler may take to write its file: until then it may be half of one."""


def about_encryption(address: str) -> str:
    """A hint for an address that may be spoken to in the wrong way."""
    if address.startswith("tls://"):
        return ", or check that it uses TLS with certificates of the same CA"
    return ", or call it by tls:// if it uses TLS" if address.startswith("tcp://") else ""


def is_scheduler_file(address: str) -> bool:
    """Whether a scheduler is named by its file."""
    return address.endswith(".json") or os.path.isfile(address)


def read_scheduler_file(path: Path, seconds: float) -> str:
    """The address in the file of a scheduler, which is waited for: Dask itself would wait for ever.

    Raises:
        InputError: It does not come, is no plain file, or holds no address.
    """
    deadline = time.monotonic() + seconds
    while not os.path.lexists(path):
        if time.monotonic() >= deadline:
            raise InputError(
                "no such file; check the name, or start a scheduler that writes it", where=path, code="no-such-file"
            )
        time.sleep(0.1)
    deadline = time.monotonic() + min(seconds, LONGEST_WRITING)
    while True:
        try:
            with open_plain(path) as file:
                return str(parse_json(file.read(LARGEST_FILE))["address"])
        except (ValueError, KeyError, TypeError) as error:
            if time.monotonic() >= deadline:
                raise InputError(
                    "is no file of a Dask scheduler; name the one that it was told to write",
                    where=path,
                    code="bad-option",
                ) from error
        time.sleep(0.05)


def require_address(address: str) -> None:
    """Raise InputError for what cannot be the address of a scheduler, or lacks the certificates that it needs.

    Raises:
        InputError: It is none.
        OSError, ValueError: The settings of TLS name files that are missing or no certificates.
    """
    import distributed

    found = re.fullmatch(r"(?:([a-z]+)://)?(?:\[[0-9A-Fa-f:.%\w]+\]|[^\s\[\]/:\x00]+):([0-9]{1,5})/?", address)
    if found is None or found[1] not in (None, *SCHEMES) or not 0 < int(found[2]) < 65536:
        raise InputError(
            "is no address of a scheduler; write it like tcp://host:8786, or name its file",
            where=repr(address),
            code="bad-option",
        )
    security: Any = distributed.Security
    if found[1] in ("tls", "wss") and security().get_connection_args("client").get("ssl_context") is None:
        raise InputError(
            f"{address}: an encrypted connection needs certificates: set distributed.comm.tls (ca-file, client.key "
            "and client.cert) in Dask's configuration, or DASK_DISTRIBUTED__COMM__TLS__CA_FILE and the like; see "
            "docs/how-to/cluster.md"
        )
