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

WHOLE_KEY, REFINE_KEY = "allfocus.whole", "allfocus.refine"
"""Under which an ONNX file holds the graphs of the coarsest level and of the refiner, in base64."""
INPUTS = ("frames", "inside", "behind", "veil_above")
"""Of the graph of a level; the coarsest level has the first two alone."""
OUTPUTS = ("logits", "veil")
"""Of all graphs."""
