"""How long work tells how far it is: two signatures, and no others."""

from collections.abc import Callable

CountProgress = Callable[[int, int], None]
"""Called with how much is done, and how much there is."""

StepProgress = Callable[[str, int, int], None]
"""Called with the name of the step, such as "aligning", how much of it is done, and how much there is."""
