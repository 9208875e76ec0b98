"""A fusion method as a value: its function, what it can be asked for, and what it needs to run."""

import importlib
import importlib.resources
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allfocus.rivals.weight_files import FOLDER_VARIABLE, files_of, find_weights

if TYPE_CHECKING:
    pass


NETWORK_ENDING = ".onnx"
"""How the name of a method ends that is the file of a network."""
WEIGHTS_SIGN = "@"
"""Between a method's name and the file of its weights."""


@dataclass(frozen=True)
class Abilities:
    """What a method can be asked for; its function is given only the arguments that it states here."""

    frames: tuple[int, int | None] = (2, None)
    """The least and the most frames that it takes; None for any number."""
    decides: bool = True
    """Says which frame each pixel came from, so that there are decision, depth and confidence maps."""
    prefers: bool = False
    """Knows a preference: takes ``prefer``."""
    linear_light: bool = False
    """Blends in linear light: takes ``curve``."""
    unveils: bool = False
    """Removes the haze of blurred foreground: takes ``unveil``, and makes a veil map."""
    streams: bool = False
    """Frames may stay on disk: takes a ``FrameSpool``, ``valid`` and ``progress``."""
    one_at_a_time: bool = False
    """Looks at whole frames one after the other, so that they may be read from disk each time they are asked for."""
    mends: bool = False
    """Where the check finds that detail was erased, the frame that shows it is taken (:mod:`.mending`)."""
    devices: bool = False
    """Runs a network: takes ``device``."""
    weights: bool = False
    """Runs on weights that are not part of allfocus: takes ``weights``, the name of a file."""


@dataclass(frozen=True)
class Method:
    """One way to fuse."""

    name: str
    summary: str
    paper: str = ""
    limits: str = ""
    title: str = ""
    """A plain title for those that most people choose; empty where the name will do."""
    licence: str = ""
    """Of the authors' program and weights, where that matters; ours are under that of allfocus."""
    cost: str = ""
    """What it takes, where that is much."""
    files: tuple[str, ...] = ()
    """Names under which its weights are looked for; see :mod:`allfocus.rivals.weight_files`."""
    origin: str = ""
    """Where its weights come from."""
    abilities: Abilities = field(default=Abilities())
    extra: str = ""
    """The extra of allfocus that it needs; empty where none."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What its function is always called with."""
    network: str = field(default="", repr=False)
    """The network behind it: a name in the folder of the shipped weights, or a file; empty for classical methods."""
    function: str | Callable[..., Any] = field(default="", repr=False)
    """Takes a list of float32 frames in 0..1 and returns :class:`FusedMaps`, or a picture alone. Either the function
    itself, or where it lives, as ``package.module:name``, from where it is loaded when it is used."""

    @property
    def missing(self) -> str:
        """Why the method cannot run here; empty when it can."""
        if self.extra and not all(importlib.util.find_spec(name) for name in EXTRAS[self.extra]):
            return f"it needs the extra {self.extra}: pip install 'allfocus[{self.extra}]'"
        if self.abilities.weights and self.weights is None:
            return f"it needs {self.needs}"
        return ""

    @property
    def weights(self) -> Path | None:
        """The file of its weights: the one that was named, or the one that is found; None where there is none."""
        if not self.abilities.weights:
            return None
        return Path(self.network) if self.network else find_weights(self.files)

    @property
    def needs(self) -> str:
        """What it needs besides allfocus itself; empty where nothing."""
        if self.abilities.weights:
            return (
                f"weights: name their file ({self.name}{WEIGHTS_SIGN}FILE), or put {self.files[0]} into the folder "
                f"that {FOLDER_VARIABLE} names ({self.origin})"
            )
        return f"the extra {self.extra}" if self.extra else ""

    @property
    def decides(self) -> bool:
        """Whether it says which frame each pixel came from."""
        return self.abilities.decides

    @property
    def module(self) -> str:
        """Where its function is defined."""
        return self.function.partition(":")[0] if isinstance(self.function, str) else self.function.__module__

    def load(self) -> Callable[..., Any]:
        """Its function."""
        if not isinstance(self.function, str):
            return self.function
        module, _, name = self.function.partition(":")
        loaded: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return loaded


EXTRAS = {"train": ("torch", "safetensors"), "rivals": ("torch",)}
"""What has to be there for methods that need an extra."""


def method_of(function: Callable[..., Any], *, name: str = "") -> Method:
    """The method that a function is: it takes a list of frames and returns a picture or :class:`FusedMaps`.

    Example:
        >>> method_of(lambda frames: sum(frames) / len(frames), name="mean").name
        'mean'
    """
    known = name or getattr(function, "__name__", type(function).__name__)
    lines = (function.__doc__ or "").strip().splitlines()
    return Method(known, lines[0] if lines else "a function of your own", function=function)


def weights_files(method: Method) -> list[Path]:
    """Returns the files of a method's network; none for classical methods, and for weights that are not at hand.

    Example:
        >>> from allfocus.fusion.methods import METHODS
        >>> [path.name for path in weights_files(METHODS["ips-hard"])]
        ['ips.onnx', 'ips.safetensors']
    """
    if method.abilities.weights:
        return [] if method.weights is None else [path for path in files_of(method.weights) if path.is_file()]
    if not method.network or method.network.endswith(NETWORK_ENDING):
        return [Path(method.network)] if method.network else []
    folder = Path(str(importlib.resources.files("allfocus") / "weights"))
    files = [folder / f"{method.network}{ending}" for ending in (NETWORK_ENDING, ".safetensors")]
    return [path for path in files if path.is_file()]
