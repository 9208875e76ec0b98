"""Every error that allfocus raises on purpose.

Each message says what was wrong, where (file, frame number, expected and found value), and what would work.
The command line prints that message on one line and leaves with the error's ``exit_code``.
"""


class AllfocusError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 1


class InputError(AllfocusError):
    """A file, frame, folder or option that cannot be used; the user can mend it."""

    exit_code = 2


class MissingDependencyError(AllfocusError):
    """An optional package is not installed; the message names the extra that brings it."""

    exit_code = 2


class MemoryShortageError(AllfocusError):
    """There is not enough memory for the work; no file is at fault."""


class OutputError(AllfocusError):
    """A result could not be written; nothing half-written is left behind."""

    exit_code = 2


class TrainingError(AllfocusError):
    """Training cannot go on, for example because the loss is no longer a number."""


class ExportError(AllfocusError):
    """An exported model does not reproduce the network it was made from."""
