"""The one error that becomes an answer with a status code: what was refused, and what would work."""


class Refusal(Exception):  # noqa: N818 (an answer, and mostly nobody's error)
    """A request that is not carried out, with the HTTP status and the sentence that the client gets.

    Example:
        >>> Refusal(404, "there is no such job; list them at /api/jobs").status
        404
    """

    def __init__(self, status: int, text: str, *, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.retry_after = retry_after
        """Seconds after which asking again makes sense; None where it does not."""
