"""Examples at the end of a command's help and of its manual page."""

HEADING = "Examples:"


def examples(*lines: str) -> str:
    r"""The text after the options of a command, with its lines as they are.

    Example:
        >>> examples("allfocus methods")
        '\x08\nExamples:\n  allfocus methods'
    """
    return "\n  ".join([f"\b\n{HEADING}", *lines])  # \b is click's mark for lines that it does not join
