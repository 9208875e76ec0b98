"""What the networks in torch and those that run them without it agree on; nothing heavy is loaded for it."""

SIZE_MULTIPLE = 8
"""Height and width must be multiples of this; callers pad and crop back."""
LEFT_OUT = -1e4
"""The logit of a source that is left out: it weighs nothing, and stays out on the levels below."""
LARGEST_OPACITY = 0.85
"""A veil more opaque than this hides too much for taking it off to tell anything but noise."""
FAINTEST_OPACITY = 0.1
"""A veil fainter than this is left where it is while the network is trained, and by default when it is used
(:class:`allfocus.fusion.settings.DecisionSettings`)."""

GRAPH_KEYS = {
    "context": None,
    "whole": "allfocus.whole",
    "refine": "allfocus.refine",
    "inner-context": "allfocus.inner-context",
    "inner-refine": "allfocus.inner-refine",
}
"""The graphs of a network: levels decided with context, the coarsest level, levels refined by their detail alone; and
two of them for parts of a picture that do not reach beyond its end, where nothing has to be hidden. Under which key an
ONNX file holds each in its metadata, in base64; None for the file itself (see :mod:`.graph_file`)."""
INPUTS = ("frames", "inside", "behind", "veil_above")
"""Of the graph of a level."""
OUTPUTS = ("logits", "veil")
"""Of all graphs."""


def graph_inputs(kind: str) -> tuple[str, ...]:
    """Returns the names of a graph's inputs.

    Example:
        >>> graph_inputs("whole"), graph_inputs("inner-refine")
        (('frames', 'inside'), ('frames', 'behind', 'veil_above'))
    """
    if kind == "whole":
        return INPUTS[:2]
    return tuple(name for name in INPUTS if name != "inside" or not kind.startswith("inner"))
