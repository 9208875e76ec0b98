"""The table of fusion methods, and `fuse`, which runs one of them on frames in memory."""

import difflib
import importlib
import importlib.resources
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import AllfocusError, InputError, MissingDependencyError
from allfocus.fusion.validity import check_masks, fill_invalid, nearest_valid
from allfocus.images.image import ImageStack, shows_something
from allfocus.images.tiling import FrameSpool, Mask
from allfocus.images.transfer import Curve
from allfocus.images.value_range import UNIT, ValueRange, plain_arrays, range_of_arrays

if TYPE_CHECKING:
    from allfocus.fusion.lost_detail import LostDetail

Progress = Callable[[int, int], None]
"""Called with the steps done and the steps in all."""


DEVICES = ("auto", "cpu", "cuda")
NETWORK_ENDING = ".onnx"
"""How the name of a method ends that is the file of a network."""


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
class Method:
    """One way to fuse."""

    name: str
    summary: str
    paper: str = ""
    limits: str = ""
    decides: bool = True
    """True if the method says which frame each pixel came from."""
    selects: bool = False
    """True for those by our network: frames may stay on disk, a preference and linear light are known."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What its function is always called with."""
    network: str = field(default="", repr=False)
    """The network behind it: a name in the folder of the shipped weights, or a file; empty for classical methods."""
    missing: str = ""
    """Why the method cannot run yet; empty for those that can."""
    function: str = field(default="", repr=False)
    """Where its function lives, as module:name; loaded when it is used."""


def _planned(name: str, summary: str, paper: str) -> Method:
    return Method(name, summary, paper, missing="its network has not been rebuilt and trained here yet")


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "ips",
            "our network: weighs the frames of each pixel by how likely they are in focus",
            "Inter-image pixel shuffling (Lin, Ma, Wang 2025), extended",
            "pictures above 1.2 megapixels are decided at half scale",
            selects=True,
            network="ips",
            function="learned:fuse_ips",
        ),
        Method(
            "ips-hard",
            "the same network, every pixel copied from the likeliest frame: for measuring in the result",
            "Inter-image pixel shuffling (Lin, Ma, Wang 2025), extended",
            "farther from the truth than ips where a choice is nearly even",
            selects=True,
            options={"hard": True},
            network="ips",
            function="learned:fuse_ips",
        ),
        Method(
            "ips-paper",
            "the paper's own network, for reproduction",
            "Inter-image pixel shuffling (Lin, Ma, Wang 2025)",
            "exactly 2 frames; needs the train extra; slow without a GPU",
            decides=False,
            network="ips-paper",
            function="paper:fuse_ips_paper",
        ),
        Method(
            "dsift",
            "dense SIFT as activity, refined by feature matching",
            "Liu, Liu, Wang, Information Fusion 23, 2015",
            "more than 2 frames are fused one after the other",
            function="dsift:fuse_dsift",
        ),
        Method(
            "dct-corr",
            "correlation of 8x8 blocks with their blurred selves in the DCT domain",
            "Amin-Naji, Aghagolzadeh, 2018",
            function="dct_corr:fuse_dct_corr",
        ),
        Method(
            "laplacian-pyramid",
            "largest Laplacian coefficient at each scale, as published: 4 levels, each channel alone",
            "Burt, Adelson, IEEE Trans. Communications, 1983",
            "halos at depth edges; adds up noise; colours of detail may mix",
            decides=False,
            function="laplacian_pyramid:fuse_laplacian_pyramid",
        ),
        Method(
            "laplacian-pyramid-energy",
            "most Laplacian energy over 3x3 pixels at each of all scales, colours together: better on stacks",
            "Burt, Kolczynski, ICCV, 1993",
            "halos at depth edges; adds up noise",
            decides=False,
            function="laplacian_pyramid:fuse_laplacian_pyramid_energy",
        ),
        Method(
            "guided-filter",
            "saliency weights smoothed by a guided filter, two scales",
            "Li, Kang, Hu, IEEE Trans. Image Processing 22, 2013",
            decides=False,
            function="guided_filter:fuse_guided_filter",
        ),
        Method(
            "wavelet",
            "largest coefficient of an undecimated wavelet transform",
            "Starck, Fadili, Murtagh, IEEE Trans. Image Processing 16, 2007",
            decides=False,
            function="wavelet:fuse_wavelet",
        ),
        Method(
            "depth-map",
            "the sharpest frame of each pixel by a smoothed focus measure",
            "Nayar, Nakagawa, IEEE Trans. PAMI 16, 1994",
            "hard edges between frames",
            function="depth_map:fuse_depth_map",
        ),
        Method(
            "average", "the mean of the frames; what fusion must beat", decides=False, function="average:fuse_average"
        ),
        _planned("cnn", "a convolutional network that classifies patches", "Liu, Chen, Peng, Wang, 2017"),
        _planned("ifcnn", "a general fusion network, elementwise maximum", "Zhang, Liu, Sun, Yan, Zhao, Zhang, 2020"),
        _planned("swinfusion", "long-range learning with Swin transformers", "Ma, Tang, Fan, Huang, Mei, Ma, 2022"),
        _planned("u2fusion", "unified unsupervised fusion", "Xu, Ma, Jiang, Guo, Ling, 2022"),
        _planned("mff-gan", "unsupervised adversarial fusion", "Zhang, Le, Shao, Xu, Ma, 2021"),
        _planned("zmff", "zero-shot fusion by deep priors", "Hu, Jiang, Liu, Ma, 2023"),
        _planned("fusion2void", "unsupervised fusion by inpainting as proxy task", "Lin, Lin, Li, Ding, 2024"),
    )
}  # fmt: skip


def list_methods() -> list[Method]:
    """Returns all methods, our default first; those that cannot run yet say why in `missing`."""
    return list(METHODS.values())


def find_method(name: str) -> Method:
    """Returns the method called `name`, or that of a network of one's own: the path of a file that ends in ``.onnx``.

    Raises:
        InputError: there is none; the message names the nearest.
    """
    if not isinstance(name, str):
        raise InputError(f"method = {name!r}; it is a name out of allfocus methods, or that of a network's file")
    if name in METHODS:
        return METHODS[name]
    if name.endswith(NETWORK_ENDING):
        if not Path(name).is_file():
            raise InputError(f"{name}: there is no such file; allfocus export writes a network as one")
        own = {"weights": name}
        return replace(METHODS["ips"], name=name, summary="a network of your own", options=own, network=name)
    nearest = difflib.get_close_matches(name.lower(), METHODS, n=1, cutoff=0.0)[0]
    raise InputError(f"unknown method {name!r}; did you mean {nearest!r}? (allfocus methods lists all)")


def absolute_name(name: str) -> str:
    """Returns a name that means the same method to a process in another folder.

    Example:
        >>> absolute_name("ips"), absolute_name("/networks/own.onnx")
        ('ips', '/networks/own.onnx')
    """
    return str(Path(name).absolute()) if name.endswith(NETWORK_ENDING) else name


def weights_files(method: Method) -> list[Path]:
    """Returns the files of a method's network; none for classical methods.

    Example:
        >>> [path.name for path in weights_files(find_method("ips-hard"))]
        ['ips.onnx', 'ips.safetensors']
    """
    if not method.network or method.network.endswith(NETWORK_ENDING):
        return [Path(method.network)] if method.network else []
    folder = Path(str(importlib.resources.files("allfocus") / "weights"))
    files = [folder / f"{method.network}{ending}" for ending in (NETWORK_ENDING, ".safetensors")]
    return [path for path in files if path.is_file()]


def require_method(
    name: str,
    *,
    device: str = "auto",
    prefer: str | None = None,
    maps: bool = False,
    linear_light: bool | None = None,
    listed: bool = False,
) -> Method:
    """Returns the method called `name` if it can do what is asked; meant to be asked before the long work begins.

    With `listed`, only a name of the table will do, and no file of a network: for names that come from strangers.

    Raises:
        InputError: there is no such method or device, it knows no preference or linear light, or makes no decision and
            depth maps.
        MissingDependencyError: the method cannot run with what is installed.
    """
    if listed and name not in METHODS:
        raise InputError(f"unknown method {name!r}; valid are {', '.join(METHODS)}")
    chosen = find_method(name)
    if chosen.missing:
        ready = ", ".join(other.name for other in METHODS.values() if not other.missing)
        raise MissingDependencyError(f"{name} cannot run: {chosen.missing}; methods that can: {ready}")
    if prefer is not None and (prefer not in ("near", "far") or not chosen.selects):
        raise InputError(f"prefer = {prefer!r}; it is near or far, and only the method ips knows it")
    if linear_light and not chosen.selects:
        raise InputError(f"{name} works on the values as they are stored; only the method ips blends in linear light")
    if device not in DEVICES:
        raise InputError(f"unknown device {device!r}; valid are {', '.join(DEVICES)}")
    if maps and not chosen.decides:
        raise InputError(f"{name} blends all frames and makes no decision or depth map; leave it out or use ips")
    return chosen


def fuse(
    frames: Sequence[NDArray[Any]] | ImageStack | FrameSpool,
    *,
    method: str = "ips",
    prefer: str | None = None,
    device: str = "auto",
    valid: Sequence[NDArray[np.bool_]] | None = None,
    curve: Curve | None = None,
    unveil: bool = True,
    check: bool = True,
    progress: Progress | None = None,
) -> FusionResult:
    """Returns one picture that is sharp wherever one of the frames is.

    Args:
        frames: two or more registered pictures of one size, (H, W, 3) RGB or (H, W), of one type. uint8, uint16 and
            float within 0..1 are taken as brightness. Float of any other range, int8, int16, int32 and uint32 have a
            unit of their own, in which the result comes back (:mod:`allfocus.images.value_range` says how exactly).
        method: a name of :func:`list_methods`, or the path of a network of your own (.onnx, from ``allfocus export``).
        prefer: ``near`` or ``far``: which end of the stack (its first frame is near) wins where frames conflict; only
            for the method ips.
        device: ``auto``, ``cpu`` or ``cuda``; only the learned methods care.
        valid: for each frame (H, W), True where it has a pixel: the others are never chosen. None when all frames are
            whole; the alpha of an ImageStack and the masks of a FrameSpool are found without it.
        curve: the transfer curve of the frames (:func:`allfocus.images.transfer.find_curve`); pixels that are mixed
            from several frames are then mixed in linear light. Only for the method ips.
        unveil: take the veil of near things that are out of focus off what lies behind them. Only for the method ips.
        check: measure which detail of the frames the picture lost, as ``lost_detail`` of the result; it takes a few
            hundredths of the time.
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
    chosen = require_method(method, device=device, prefer=prefer, linear_light=curve is not None)
    module, _, name = chosen.function.partition(":")
    function = getattr(importlib.import_module(f"allfocus.fusion.{module}"), name)
    options: dict[str, Any] = {**chosen.options, **({"device": device} if module in ("learned", "paper") else {})}
    if progress is not None:
        progress(0, 1)
    pictures, values, dtype = _prepare(frames, valid, whole=not chosen.selects)
    masks = _masks(frames, valid, pictures)
    if masks is not None and not isinstance(pictures, FrameSpool):
        pictures = fill_invalid(pictures, masks)
    if chosen.selects:
        options |= {"progress": progress, "prefer": prefer, "valid": masks, "curve": curve, "unveil": unveil}
        try:
            image, decision, depth, confidence, veil = function(pictures, **options)
        except (AllfocusError, MemoryError):
            raise
        except Exception as error:
            if not method.endswith(NETWORK_ENDING):
                raise
            # Somebody's file: onnxruntime has errors of its own for each thing that it may ask for.
            why = (str(error) or type(error).__name__).splitlines()[0][:200]
            raise InputError(f"{method}: cannot be run as a network ({why}); allfocus export writes one") from error
        result = FusionResult(values.from_unit(image, dtype), decision, depth, confidence, veil=veil)
        return _checked(result, image, frames, pictures, masks) if check else result
    whole = cast(list[NDArray[np.float32]], pictures)
    image, decision, *_ = function(whole, **options)
    if decision is not None and masks is not None:
        decision = nearest_valid(decision, masks)
    confidence = _confidence(whole) if decision is not None else None
    if progress is not None:
        progress(1, 1)
    depth = _depth(decision, len(pictures))
    result = FusionResult(values.from_unit(image, dtype), decision, depth, confidence)
    return _checked(result, image, frames, pictures, masks) if check else result


def _checked(
    result: FusionResult,
    image: NDArray[np.float32],
    frames: Sequence[NDArray[Any]] | ImageStack | FrameSpool,
    pictures: Sequence[NDArray[np.float32]] | FrameSpool,
    masks: Sequence[Mask] | None,
) -> FusionResult:
    """The result with the detail that it lost; `image` and `pictures` in the same values."""
    # Loaded here, because a list of methods needs no OpenCV.
    from allfocus.fusion.lost_detail import measure_lost_detail

    # A spool holds its frames at the scale that is measured.
    source = frames if isinstance(frames, FrameSpool) else pictures
    return replace(result, lost_detail=measure_lost_detail(image, source, valid=masks))


def _masks(
    frames: Sequence[NDArray[Any]] | ImageStack | FrameSpool,
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
    frames: Sequence[NDArray[Any]] | ImageStack | FrameSpool,
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


def _depth(decision: NDArray[np.int16] | None, frames: int) -> NDArray[np.float32] | None:
    if decision is None:
        return None
    return np.asarray(np.clip(decision, 0, None) / max(1, frames - 1), np.float32)


def _confidence(pictures: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    # Loaded here, because a list of methods needs no OpenCV.
    from allfocus.fusion.blending import stack_evidence
    from allfocus.fusion.learned import LEAST_NOISE, estimate_noise, value_range
    from allfocus.fusion.windows import block_sharpness

    _, span = value_range(pictures)
    noise = estimate_noise(np.stack([block_sharpness(frame) for frame in pictures]))
    return stack_evidence(pictures, max(noise, LEAST_NOISE * span))
