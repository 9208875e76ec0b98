"""Errors of the library in the words of the studio: switches for options, no paths of this machine, HTTP statuses."""

from pathlib import Path

from allfocus.errors import AllfocusError, OutputError
from allfocus.stack.option_fields import STUDIO
from allfocus.stack.options import offered

STATUSES = {
    "too-many-pixels": 413,
    "too-many-pictures": 413,
    "too-many-bytes": 413,
    "not-a-picture": 415,
    "damaged-picture": 415,
    "unsupported-picture": 415,
}
"""The HTTP status of errors whose code has one of its own."""

REFUSED, NO_ROOM = 400, 507


def status_of(error: AllfocusError, *, otherwise: int | None = None) -> int:
    """The HTTP status that an error is answered with.

    Args:
        error: What was raised.
        otherwise: For codes without a status of their own; by default 507 where something could not be written, and
            400 for everything else.

    Example:
        >>> [status_of(error) for error in (AllfocusError(code="too-many-pixels"), OutputError(), AllfocusError())]
        [413, 507, 400]
    """
    usual = NO_ROOM if isinstance(error, OutputError) else REFUSED
    return STATUSES.get(error.code, usual if otherwise is None else otherwise)


def studio_words(name: str, state: str) -> str | None:
    """How the studio says that an option is set; None for those that it does not offer.

    Example:
        >>> studio_words("align", "off"), studio_words("max_pixels", "set")
        ('switch off “Align the frames”', None)
    """
    about = offered(STUDIO).get(name)
    if about is None:
        return None
    verbs = {"on": "switch on", "off": "switch off", "default": "reset"}
    return f"{verbs.get(state, 'set')} “{about.title}”"


def tell_error(error: AllfocusError, work: Path, *, called: str | None = None) -> str:
    """The sentence of an error for a client: files of the work folder, which is nobody's business, are not named.

    Args:
        error: What was raised.
        work: The work folder.
        called: What the client calls the file that the error is about; None where it says so itself.
    """
    plain = error.to_plain()
    if called is not None:
        error.where = called
    elif error.where and error.where.startswith(str(work)):
        error.where = None
    try:
        return error.told(studio_words)
    finally:
        error.where = plain["where"]
