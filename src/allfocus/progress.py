"""How long work tells how far it is, by two signatures and no others, and what it found on the way."""

from collections.abc import Callable

CountProgress = Callable[[int, int], None]
"""Called with how much is done, and how much there is."""

StepProgress = Callable[[str, int, int], None]
"""Called with the name of the step, such as "aligning", how much of it is done, and how much there is."""


class Notice(str):
    """A sentence for the user, about something that was found or changed.

    The studio knows a sentence by its words and shows it in the language of its page; so each form of one is written
    out where it is made, with values between the words (``tests/contracts/test_texts.py`` looks for translations).

    Example:
        >>> Notice("detail is lost", see="check_map").see
        'check_map'
    """

    see: str
    """The output (a field of ``FuseOutputs``) that shows more; empty where there is none."""

    def __new__(cls, text: str, *, see: str = "") -> "Notice":
        """A sentence, and the output that shows more."""
        made = super().__new__(cls, text)
        made.see = see
        return made
