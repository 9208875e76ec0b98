"""What happens beside the pixels of a run: progress, notices, times, and frames that are left out."""

import time
from collections.abc import Callable, Iterable

from allfocus.errors import AllfocusError
from allfocus.progress import Notice, StepProgress


class RunNotes:
    """Progress, notices, times and left-out frames of one run; tells them as they happen, and keeps them."""

    def __init__(self, progress: StepProgress | None = None, notice: Callable[[str], None] | None = None) -> None:
        self.tell: StepProgress = progress or (lambda step, done, count: None)
        self._notice = notice
        self.notices: list[str] = []
        """Each sentence once, in order."""
        self.left_out: dict[str, str] = {}
        """Names of frames, with the reason."""
        self.seconds: dict[str, float] = {}
        """Time of each step."""
        self._began = time.perf_counter()

    def say(self, sentence: str, *, see: str = "") -> None:
        """Notes a sentence for the user, and tells it if it is new and not empty."""
        if sentence and sentence not in self.notices:
            self.notices.append(sentence)
            if self._notice is not None:
                self._notice(Notice(sentence, see=see))

    def say_all(self, sentences: Iterable[str]) -> None:
        """Notes several sentences."""
        for sentence in sentences:
            self.say(sentence)

    def leave_out(self, name: str, reason: Exception | str) -> None:
        """Notes that a frame is left out."""
        if isinstance(reason, AllfocusError):
            # How to leave such frames out is no news where they are.
            reason = f"{reason.where}: {reason.message}" if reason.where else reason.message
        self.left_out[name] = str(reason)
        self.say(Notice(f"left out {name}: {reason}"))

    def end_step(self, step: str) -> None:
        """Notes the time since the step before as that of this one; that of a step with several parts adds up."""
        now = time.perf_counter()
        self.seconds[step] = round(self.seconds.get(step, 0) + now - self._began, 3)
        self._began = now
