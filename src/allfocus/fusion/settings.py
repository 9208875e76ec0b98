"""How the learned methods decide and take pixels: what benchmarks vary. It travels with the plan of a fusion."""

from dataclasses import dataclass

from allfocus.network.contract import FAINTEST_OPACITY


@dataclass(frozen=True, kw_only=True)
class DecisionSettings:
    """At which scales, in which windows and how firmly focus is decided.

    Example:
        >>> import dataclasses
        >>> from allfocus.fusion.methods import METHODS
        >>> smaller = dataclasses.replace(METHODS["ips"], options={"settings": DecisionSettings(core=256)})
        >>> smaller.options["settings"].core
        256
    """

    largest_full_scale: int = 1_200_000
    """Pictures with more pixels are decided at half scale, at a quarter of the cost. Blur is measured in pixels by the
    network but not by a lens: on rendered scenes half scale is better from about a megapixel on (docs/history.md)."""
    largest_whole_side: int = 1280
    """Pixels of the longer side at which a picture is seen whole, if that fits the memory with all frames. Edges
    between frames are then found more exactly than by correcting what a level above has decided
    (benchmarks/context.py)."""
    plan_pixels: int = 2_000_000
    """Pixels times frames up to which a level is seen whole with all frames: about 700 MB at 350 bytes each."""
    whole_factor: int = 2
    """A picture that is decided whole at its finest level may have this many times as many: nothing comes after it that
    would take memory, and thin things before busy ones are lost less often than when a level above has already decided
    (benchmarks/lost_things.py --factors)."""
    context_pixels: int = 1_200_000
    """Pictures whose finest level has no more pixels are decided with context at every level, which finds edges most
    exactly (benchmarks/context.py)."""
    refined_pixels: int = 400_000
    """In larger ones, levels of more pixels are refined by their detail alone, at two fifths of the cost: their context
    has been seen at the levels above."""
    margin: int = 48
    """Pixels that the network sees beyond a core on each side: its reach, rounded up to a multiple of its step."""
    core: int = 512
    """Side of the largest core."""
    smallest_core: int = 64
    """Below this a core is not split, however many frames compete: its margin would cost more than it saves."""
    working_pixels: int = 900_000
    """Pixels times frames that a window may hold, about 270 MB; where more frames compete, windows are smaller."""
    refiner_pixels: int = 1_200_000
    """The same of a window that is refined by its detail alone."""
    lonely_candidate: float = -3.5
    """What lacks company (:data:`allfocus.fusion.decisions.LONELY`) and is further behind than this, odds of 33 to 1,
    is out too. Such lone pixels would keep frames in windows where they have lost everywhere else; a quarter of the
    cost of a receding surface (benchmarks/context.py)."""
    sharpness: float = 1.5
    """Where there is detail the logits count this many times, so that pixels are copied rather than mixed: the largest
    factor that loses at most 0.02 dB in the mean of seven rendered scenes (benchmarks/sharpness.py)."""
    alike: float = 0.006
    """Where the frames that would be mixed show the same detail, but for this share of its energy, there is nothing to
    gain by mixing: the logits count `alike_sharpness` times. The best of several pairs in the mean of those scenes and
    of a receding surface whose neighbours are all nearly sharp (benchmarks/sharpness.py --alike). Noise is
    more than that, so that noisy frames are mixed as before."""
    alike_sharpness: float = 32.0
    """See :attr:`alike`."""
    faintest_opacity: float = FAINTEST_OPACITY
    """A veil fainter than this is left where it is, and one twice as opaque is taken off wholly: pixels without a veil
    stay exactly as they are. Of five values 0.05 is 0.03 dB better in the mean of rendered scenes (benchmarks/veil.py),
    but more pixels are spoilt by it than gained (docs/history.md)."""

    def scale(self, height: int, width: int) -> int:
        """Returns by how much a picture of this size is reduced before focus is decided: 1 or 2.

        Example:
            >>> DecisionSettings().scale(800, 1200), DecisionSettings().scale(4000, 6000)
            (1, 2)
        """
        return 1 if height * width <= self.largest_full_scale else 2


AS_CHOSEN = DecisionSettings()
"""The settings that the benchmarks led to."""
