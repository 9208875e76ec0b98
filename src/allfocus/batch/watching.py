"""Which stacks of a folder that still fills are complete: those in which nothing has changed for a while."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from allfocus.batch.manifest import FrameStates, frame_states
from allfocus.batch.stacks import Stack


@dataclass
class _Sight:
    states: FrameStates
    since: float
    given: bool = False


class SettledStacks:
    """Remembers what every stack looked like, and gives it out once it has not changed for a while.

    Only what is seen here counts, not the times that the files carry: a copy may bring its old times along.

    Args:
        root: The folder that is watched.
        settle: Seconds without a change.
    """

    def __init__(self, root: Path, *, settle: float) -> None:
        self._root = root
        self._settle = settle
        self._seen: dict[str, _Sight] = {}
        self.unsettled = 0
        """Stacks that still changed at the last look."""
        self.stuck: list[Stack] = []
        """Stacks that no longer change, but have a known problem: those that wait for more frames, and strays."""

    def ready(
        self, stacks: Iterable[Stack], now: float, *, busy: Callable[[str], bool] = lambda name: False
    ) -> list[Stack]:
        """The stacks that are complete and have not been given out as they are now.

        A stack with a known problem (too few frames) is not complete. One that changes later is given out again.

        Args:
            stacks: What the folder holds now.
            now: Seconds on a clock that only goes forward.
            busy: Whether a stack of that name is still being fused.
        """
        found = []
        self.unsettled = 0
        self.stuck = []
        for stack in stacks:
            states = frame_states(stack.frames, self._root)
            sight = self._seen.get(stack.name)
            if sight is None or sight.states != states:
                self._seen[stack.name] = sight = _Sight(states, now)
            if sight.given:
                continue
            if now - sight.since < self._settle or busy(stack.name):
                self.unsettled += 1
            elif stack.problem:
                self.stuck.append(stack)
            else:
                sight.given = True
                found.append(stack)
        return found
