"""The table of fusion methods, and `fuse`, which runs one of them on frames in memory."""

import contextlib
import difflib
import importlib
import importlib.resources
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import AllfocusError, InputError, MissingDependencyError
from allfocus.fusion.accelerators import require_provider
from allfocus.fusion.devices import DEVICES, TORCH_DEVICES
from allfocus.fusion.maps import FusedMaps, as_maps
from allfocus.fusion.validity import check_masks, fill_invalid, nearest_valid
from allfocus.images.image import ImageStack, shows_something
from allfocus.images.spool import FrameSpool, Mask
from allfocus.images.transfer import Curve
from allfocus.images.value_range import UNIT, ValueRange, plain_arrays, range_of_arrays
from allfocus.plugins import METHODS_GROUP, load_plugins
from allfocus.progress import CountProgress
from allfocus.rivals.catalogue import RIVALS, Rival
from allfocus.rivals.weight_files import FOLDER_VARIABLE, files_of, find_weights

if TYPE_CHECKING:
    from allfocus.fusion.lost_detail import LostDetail

Frames = Sequence[NDArray[Any]] | ImageStack | FrameSpool

PREFERENCES = ("near", "far")
NETWORK_ENDING = ".onnx"
"""How the name of a method ends that is the file of a network."""
WEIGHTS_SIGN = "@"
"""Between a method's name and the file of its weights."""


@dataclass(frozen=True)
class FusionResult:
    """What fusing a stack gives."""

    image: NDArray[Any]
    """The picture (H, W, 3) or (H, W), in the type and the units of the frames that were given."""
    decision: NDArray[np.int16] | None = None
    """Which frame each pixel came from (H, W), counted from 0, -1 where it is a mixture; None if a method has none."""
    depth: NDArray[np.float32] | None = None
    """Where in the stack each pixel is in focus (H, W), 0 the first frame and 1 the last; None without a decision.

    As the method knows it, pixel by pixel: a guess where there is no texture. ``smooth_depth`` of
    ``allfocus.fusion.depth`` makes a calm map of it.
    """
    confidence: NDArray[np.float32] | None = None
    """How sure the depth is (H, W): 0 a guess, 1 sure; None without a decision."""
    lost_detail: "LostDetail | None" = None
    """What some frame shows and the picture does not; None if it was not measured."""
    veil: NDArray[np.float32] | None = None
    """How opaque the veil was that was taken off (H, W), 0 for none; None for methods that do not."""


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

_BLENDS = Abilities(decides=False)
_SELECTS = Abilities(prefers=True, linear_light=True, unveils=True, streams=True, mends=True, devices=True)


def _method_of_rival(rival: Rival) -> Method:
    return Method(
        rival.name,
        rival.summary,
        rival.paper,
        rival.frames,
        abilities=Abilities(decides=rival.decides, devices=True, weights=bool(rival.files)),
        extra="rivals",
        licence=rival.licence,
        cost=rival.cost,
        files=rival.files,
        origin=rival.origin,
        function=rival.function,
    )


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "ips",
            "our network: weighs the frames of each pixel by how likely they are in focus",
            "Inter-image pixel shuffling (Lin, Ma, Wang 2025), extended",
            "pictures above 1.2 megapixels are decided at half scale",
            abilities=_SELECTS,
            network="ips",
            title="Learned focus (recommended)",
            function="allfocus.fusion.learned:fuse_ips",
        ),
        Method(
            "ips-hard",
            "the same network, every pixel copied from the likeliest frame: for measuring in the result",
            "Inter-image pixel shuffling (Lin, Ma, Wang 2025), extended",
            "farther from the truth than ips where a choice is nearly even",
            abilities=_SELECTS,
            options={"hard": True},
            network="ips",
            title="Learned focus, copies only",
            function="allfocus.fusion.learned:fuse_ips",
        ),
        Method(
            "ips-paper",
            "the paper's own network, for reproduction",
            "Inter-image pixel shuffling (Lin, Ma, Wang 2025)",
            "exactly 2 frames; slow without a GPU",
            abilities=Abilities(frames=(2, 2), decides=False, devices=True),
            extra="train",
            network="ips-paper",
            function="allfocus.fusion.paper:fuse_ips_paper",
        ),
        Method(
            "dsift",
            "dense SIFT as activity, refined by feature matching",
            "Liu, Liu, Wang, Information Fusion 23, 2015",
            "more than 2 frames are fused one after the other",
            function="allfocus.fusion.dsift:fuse_dsift",
        ),
        Method(
            "dct-corr",
            "correlation of 8x8 blocks with their blurred selves in the DCT domain",
            "Amin-Naji, Aghagolzadeh, 2018",
            function="allfocus.fusion.dct_corr:fuse_dct_corr",
        ),
        Method(
            "laplacian-pyramid",
            "largest Laplacian coefficient at each scale, as published: 4 levels, each channel alone",
            "Burt, Adelson, IEEE Trans. Communications, 1983",
            "halos at depth edges; adds up noise; colours of detail may mix",
            abilities=_BLENDS,
            title="Pyramid, as published",
            function="allfocus.fusion.laplacian_pyramid:fuse_laplacian_pyramid",
        ),
        Method(
            "laplacian-pyramid-energy",
            "most Laplacian energy over 3x3 pixels at each of all scales, colours together: better on stacks",
            "Burt, Kolczynski, ICCV, 1993",
            "halos at depth edges; adds up noise",
            abilities=_BLENDS,
            title="Pyramid: all fine detail",
            function="allfocus.fusion.laplacian_pyramid:fuse_laplacian_pyramid_energy",
        ),
        Method(
            "guided-filter",
            "saliency weights smoothed by a guided filter, two scales",
            "Li, Kang, Hu, IEEE Trans. Image Processing 22, 2013",
            abilities=_BLENDS,
            title="Guided filter: clean edges",
            function="allfocus.fusion.guided_filter:fuse_guided_filter",
        ),
        Method(
            "wavelet",
            "largest coefficient of an undecimated wavelet transform",
            "Starck, Fadili, Murtagh, IEEE Trans. Image Processing 16, 2007",
            abilities=_BLENDS,
            title="Wavelets",
            function="allfocus.fusion.wavelet:fuse_wavelet",
        ),
        Method(
            "depth-map",
            "the sharpest frame of each pixel by a smoothed focus measure",
            "Nayar, Nakagawa, IEEE Trans. PAMI 16, 1994",
            "hard edges between frames",
            title="Depth map: smooth surfaces",
            function="allfocus.fusion.depth_map:fuse_depth_map",
        ),
        Method(
            "average",
            "the mean of the frames; what fusion must beat",
            abilities=_BLENDS,
            title="Plain average",
            function="allfocus.fusion.average:fuse_average",
        ),
        *map(_method_of_rival, RIVALS),
    )
}  # fmt: skip


@cache
def all_methods() -> dict[str, Method]:
    """Every method by its name: ours, then those that installed packages offer."""
    own = load_plugins(METHODS_GROUP, _accept_plugin)
    return {**METHODS, **{method.name: method for method in own if method.name not in METHODS}}


def _accept_plugin(name: str, value: object) -> Method | None:
    if isinstance(value, Method):
        return value
    return method_of(value, name=name) if callable(value) else None


def method_of(function: Callable[..., Any], *, name: str = "") -> Method:
    """The method that a function is: it takes a list of frames and returns a picture or :class:`FusedMaps`.

    Example:
        >>> method_of(lambda frames: sum(frames) / len(frames), name="mean").name
        'mean'
    """
    known = name or getattr(function, "__name__", type(function).__name__)
    lines = (function.__doc__ or "").strip().splitlines()
    return Method(known, lines[0] if lines else "a function of your own", function=function)


def list_methods() -> list[Method]:
    """Returns all methods, our default first; those that cannot run with what is installed say why in `missing`."""
    return list(all_methods().values())


def find_method(name: str) -> Method:
    """Returns the method called `name`, or that of a network of one's own: the path of a file that ends in ``.onnx``.

    A method that runs on weights which are not part of allfocus is also found as ``NAME@FILE``.

    Raises:
        InputError: there is none; the message names the nearest. Or the method takes no weights, or their file is not
            there.
    """
    if not isinstance(name, str):
        raise InputError(
            f"method = {name!r}; it is a name out of allfocus methods, or that of a network's file",
            code="unknown-method",
        )
    known = all_methods()
    if name in known:
        return known[name]
    if name.endswith(NETWORK_ENDING):
        if not Path(name).is_file():
            raise InputError(
                "there is no such file; allfocus export writes a network as one", where=name, code="no-such-file"
            )
        own = {"weights": name}
        return replace(METHODS["ips"], name=name, summary="a network of your own", options=own, network=name)
    stem, sign, file = name.partition(WEIGHTS_SIGN)
    if sign and stem in known:
        return _with_weights(known[stem], file)
    nearest = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.0)[0]
    raise InputError(
        f"unknown method {name!r}; did you mean {nearest!r}? (allfocus methods lists all)", code="unknown-method"
    )


def _with_weights(method: Method, file: str) -> Method:
    if not method.abilities.weights:
        able = ", ".join(name for name, other in all_methods().items() if other.abilities.weights)
        raise InputError(f"{method.name} takes no weights from outside", hint=f"these do: {able}", code="method-cannot")
    if not Path(file).is_file():
        raise InputError("there is no such file of weights", where=file or method.name, code="no-such-file")
    return replace(method, name=f"{method.name}{WEIGHTS_SIGN}{file}", network=file)


def absolute_name(name: str) -> str:
    """Returns a name that means the same method to a process in another folder.

    Example:
        >>> absolute_name("ips"), absolute_name("/networks/own.onnx"), absolute_name("ifcnn@/weights/max.pth")
        ('ips', '/networks/own.onnx', 'ifcnn@/weights/max.pth')
    """
    if name.endswith(NETWORK_ENDING):
        return str(Path(name).absolute())
    stem, sign, file = name.partition(WEIGHTS_SIGN)
    return f"{stem}{sign}{Path(file).absolute()}" if sign else name


def short_name(name: str) -> str:
    """Returns a name for tables and folders: of files only their own names.

    Example:
        >>> short_name("ips"), short_name("/networks/own.onnx"), short_name("ifcnn@/weights/max.pth")
        ('ips', 'own.onnx', 'ifcnn@max.pth')
    """
    if name.endswith(NETWORK_ENDING):
        return Path(name).name
    stem, sign, file = name.partition(WEIGHTS_SIGN)
    return f"{stem}{sign}{Path(file).name}" if sign else name


def weights_files(method: Method) -> list[Path]:
    """Returns the files of a method's network; none for classical methods, and for weights that are not at hand.

    Example:
        >>> [path.name for path in weights_files(find_method("ips-hard"))]
        ['ips.onnx', 'ips.safetensors']
    """
    if method.abilities.weights:
        return [] if method.weights is None else [path for path in files_of(method.weights) if path.is_file()]
    if not method.network or method.network.endswith(NETWORK_ENDING):
        return [Path(method.network)] if method.network else []
    folder = Path(str(importlib.resources.files("allfocus") / "weights"))
    files = [folder / f"{method.network}{ending}" for ending in (NETWORK_ENDING, ".safetensors")]
    return [path for path in files if path.is_file()]


def require_method(
    name: str | Method,
    *,
    device: str = "auto",
    prefer: str | None = None,
    maps: bool = False,
    veil_map: bool = False,
    unveil: bool = True,
    linear_light: bool | None = None,
    listed: bool = False,
) -> Method:
    """Returns the method called `name` if it can do what is asked; meant to be asked before the long work begins.

    With `listed`, only a name of the table will do, and no file of a network: for names that come from strangers.

    Raises:
        InputError: there is no such method or device, it knows no preference or linear light, or makes no decision,
            depth or veil maps.
        MissingDependencyError: the method cannot run with what is installed.
    """
    if listed and name not in all_methods():
        raise InputError(f"unknown method {name!r}; valid are {', '.join(all_methods())}", code="unknown-method")
    chosen = name if isinstance(name, Method) else find_method(name)
    name, abilities = chosen.name, chosen.abilities
    if chosen.missing:
        ready = ", ".join(other.name for other in list_methods() if not other.missing)
        lacks = "missing-weights" if chosen.missing.startswith("it needs weights") else None
        raise MissingDependencyError(f"{name} cannot run: {chosen.missing}; methods that can: {ready}", code=lacks)
    if device not in DEVICES:
        raise InputError(f"unknown device {device!r}; valid are {', '.join(DEVICES)}", code="bad-option")
    if chosen.extra in EXTRAS and device not in TORCH_DEVICES:
        raise _cannot(f"{name} runs in torch, on a processor or an NVIDIA GPU, not on {device}", "{device=default}")
    if abilities.devices and device not in TORCH_DEVICES:
        require_provider(device)
    if prefer is not None and prefer not in PREFERENCES:
        raise InputError(f"prefer = {prefer!r}; it is near or far", code="bad-option")
    if prefer is not None and not abilities.prefers:
        raise _cannot(f"{name} knows no preference for {prefer} frames", "{prefer=default}")
    if linear_light and not abilities.linear_light:
        raise _cannot(f"{name} works on the values as they are stored, not in linear light", "{linear_light=default}")
    if maps and not abilities.decides:
        raise _cannot(f"{name} blends all frames and makes no decision or depth map", "leave it out")
    if veil_map and not abilities.unveils:
        raise _cannot(f"{name} removes no haze, so there is no map of it", "{veil_map=default}")
    if veil_map and not unveil:
        raise InputError(
            "a map of the haze was asked for, but it is to be left on",
            hint=["{unveil=default}", "{veil_map=default}"],
            code="method-cannot",
        )
    return chosen


def _cannot(what: str, instead: str) -> InputError:
    return InputError(what, hint=[instead, "use the method ips"], code="method-cannot")


def fuse(
    frames: Frames,
    *,
    method: str | Method | Callable[..., Any] = "ips",
    prefer: str | None = None,
    device: str = "auto",
    valid: Sequence[NDArray[np.bool_]] | None = None,
    curve: Curve | None = None,
    unveil: bool = True,
    check: bool = True,
    progress: CountProgress | None = None,
) -> FusionResult:
    """Returns one picture that is sharp wherever one of the frames is.

    Args:
        frames: two or more registered pictures of one size, (H, W, 3) RGB or (H, W), of one type. uint8, uint16 and
            float within 0..1 are taken as brightness. Float of any other range, int8, int16, int32 and uint32 have a
            unit of their own, in which the result comes back (:mod:`allfocus.images.value_range` says how exactly).
        method: a name of :func:`list_methods`, with ``@FILE`` behind it where it takes weights from outside, the path
            of a network of your own (.onnx, from ``allfocus export``), or a function that takes a list of float32
            frames in 0..1 and returns a picture or :class:`FusedMaps`.
        prefer: ``near`` or ``far``: which end of the stack (its first frame is near) wins where frames conflict; only
            for the method ips.
        device: ``auto``, ``cpu``, ``cuda`` or another name of ``fusion.devices``; only the learned methods care.
        valid: for each frame (H, W), True where it has a pixel: the others are never chosen. None when all frames are
            whole; the alpha of an ImageStack and the masks of a FrameSpool are found without it.
        curve: the transfer curve of the frames (:func:`allfocus.images.transfer.find_curve`), for blending in linear
            light. Only for the method ips.
        unveil: remove the haze that blurred foreground lays over what is behind it. Only for the method ips.
        check: measure which detail of the frames the picture lost, as ``lost_detail`` of the result; it takes a few
            hundredths of the time. With ips, places from which detail was erased are then decided again.
        progress: called as the work goes on.

    Raises:
        InputError: the frames do not fit together, or the method is unknown or does not take that many frames.
        MissingDependencyError: the method cannot run with what is installed.

    Example:
        >>> import allfocus
        >>> scene = allfocus.render_scene("desk", frames=3, size=(64, 80))
        >>> result = fuse(scene.frames, method="ips")
        >>> result.image.shape, result.decision.shape
        ((64, 80, 3), (64, 80))
    """
    given = method_of(method) if callable(method) and not isinstance(method, Method) else method
    chosen = require_method(given, device=device, prefer=prefer, linear_light=curve is not None)
    function, abilities = chosen.load(), chosen.abilities
    if progress is not None:
        progress(0, 1)
    pictures, values, dtype = _prepare(frames, valid, whole=not abilities.streams)
    _require_count(chosen, len(pictures))
    masks = _masks(frames, valid, pictures)
    if masks is not None and not isinstance(pictures, FrameSpool):
        pictures = fill_invalid(pictures, masks)
    offered: dict[str, tuple[bool, object]] = {
        "device": (abilities.devices, device),
        "prefer": (abilities.prefers, prefer),
        "curve": (abilities.linear_light, curve),
        "unveil": (abilities.unveils, unveil),
        "valid": (abilities.streams, masks),
        "progress": (abilities.streams, progress),
        "weights": (abilities.weights, None if chosen.weights is None else str(chosen.weights)),
    }
    options = {name: value for name, (taken, value) in offered.items() if taken}
    with _telling_of_network(chosen):
        made = function(pictures, **chosen.options, **options)
    maps = _complete(as_maps(made), pictures, masks)
    if progress is not None and not abilities.streams:
        progress(1, 1)
    lost = None
    if check:
        # A spool holds its frames at the scale that is measured.
        source = frames if isinstance(frames, FrameSpool) else pictures
        maps, lost = _checked(maps, source, masks, chosen)
    image = values.from_unit(maps.image, dtype)
    return FusionResult(image, maps.decision, maps.depth, maps.confidence, lost_detail=lost, veil=maps.veil)


@contextlib.contextmanager
def _telling_of_network(method: Method) -> Iterator[None]:
    """Make an InputError of whatever the runtime of networks says about somebody's file."""
    try:
        yield
    except (AllfocusError, MemoryError):
        raise
    except Exception as error:
        if not method.name.endswith(NETWORK_ENDING):
            raise
        # onnxruntime has errors of its own for each thing that a file may ask for.
        why = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise InputError(
            f"cannot be run as a network ({why}); allfocus export writes one", where=method.name
        ) from error


def _require_count(method: Method, count: int) -> None:
    least, most = method.abilities.frames
    if count < least:
        raise InputError(f"fusion needs at least {least} frames, got {count}; give every picture of the stack")
    if most is not None and count > most:
        number = f"exactly {most}" if least == most else f"at most {most}"
        raise InputError(
            f"{method.name} fuses {number} frames, got {count}", hint="use the method ips", code="method-cannot"
        )


def _complete(
    maps: FusedMaps, pictures: Sequence[NDArray[np.float32]] | FrameSpool, masks: Sequence[Mask] | None
) -> FusedMaps:
    """The maps of a method that only says which frame each pixel came from, with what follows from that."""
    if maps.decision is None or maps.depth is not None:
        return maps
    decision = maps.decision if masks is None else nearest_valid(maps.decision, masks)
    depth = np.asarray(np.clip(decision, 0, None) / max(1, len(pictures) - 1), np.float32)
    confidence = maps.confidence
    if confidence is None and not isinstance(pictures, FrameSpool):
        confidence = _confidence(pictures)
    return maps._replace(decision=decision, depth=depth, confidence=confidence)


def _checked(
    maps: FusedMaps,
    source: Sequence[NDArray[np.float32]] | FrameSpool,
    masks: Sequence[Mask] | None,
    method: Method,
) -> tuple[FusedMaps, "LostDetail"]:
    """The maps, decided again where detail was erased if the method does that, and what is lost in them."""
    # Loaded here, because a list of methods needs no OpenCV.
    from allfocus.fusion.lost_detail import measure_lost_detail
    from allfocus.fusion.mending import mend_lost_detail

    if not method.abilities.mends or maps.decision is None or maps.depth is None:
        return maps, measure_lost_detail(maps.image, source, valid=masks)
    hard = bool(method.options.get("hard", False))
    mended = mend_lost_detail(maps.image, maps.decision, maps.depth, source, valid=masks, hard=hard)
    return maps._replace(image=mended.image, decision=mended.decision, depth=mended.depth), mended.lost


def _masks(
    frames: Frames,
    valid: Sequence[NDArray[np.bool_]] | None,
    pictures: Sequence[NDArray[np.float32]] | FrameSpool,
) -> Sequence[Mask] | None:
    """Returns where each frame has pixels, as given or as the frames themselves say; None for everywhere."""
    if valid is not None:
        return check_masks(valid, len(pictures), pictures[0].shape[:2])
    if isinstance(frames, FrameSpool):
        return frames.valid
    if isinstance(frames, ImageStack) and any(image.alpha is not None for image in frames):
        whole = np.ones(pictures[0].shape[:2], bool)
        return [whole if image.alpha is None else shows_something(image.alpha) for image in frames]
    return None


def _prepare(
    frames: Frames,
    valid: Sequence[NDArray[np.bool_]] | None,
    *,
    whole: bool,
) -> tuple[list[NDArray[np.float32]] | FrameSpool, ValueRange, np.dtype[Any]]:
    """Returns the frames in 0..1 as the methods want them, and the range and type in which the result is given back."""
    if isinstance(frames, FrameSpool):
        everything = (slice(None), slice(None))
        return ([frame[everything] for frame in frames] if whole else frames), UNIT, np.dtype(np.float32)
    given = list(frames.frames) if isinstance(frames, ImageStack) else plain_arrays(frames)
    if not given:
        raise InputError("fusion needs at least 2 frames, got 0; give every picture of the stack")
    if valid is None and isinstance(frames, ImageStack):
        seen: Sequence[NDArray[np.bool_] | None] | None = [
            None if image.alpha is None else shows_something(image.alpha) for image in frames
        ]
    else:
        seen = None if valid is None else [np.asarray(mask, bool) for mask in valid]
    values = range_of_arrays(given, seen)
    return [values.to_unit(frame) for frame in given], values, given[0].dtype


def _confidence(pictures: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    # Loaded here, because a list of methods needs no OpenCV.
    from allfocus.fusion.blending import stack_evidence
    from allfocus.fusion.planning import LEAST_NOISE, estimate_noise, value_range
    from allfocus.fusion.windows import block_sharpness

    _, span = value_range(pictures)
    noise = estimate_noise(np.stack([block_sharpness(frame) for frame in pictures]))
    return stack_evidence(pictures, max(noise, LEAST_NOISE * span))
