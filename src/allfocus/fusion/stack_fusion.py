"""A stack -> one picture: `fuse` runs a method on frames in memory, and checks what it lost."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import AllfocusError, InputError
from allfocus.fusion.frames_on_disk import FramesOnDisk, ThinnedFrames, require_memory
from allfocus.fusion.maps import FusedMaps, as_maps, require_sound_maps
from allfocus.fusion.validity import EVERYTHING, check_masks, fill_invalid, nearest_valid
from allfocus.images.image import ImageStack, shows_something
from allfocus.images.spool import FrameSpool, Mask
from allfocus.images.transfer import Curve
from allfocus.images.value_range import UNIT, ValueRange, plain_arrays, range_of_arrays
from allfocus.plugins import telling_of_plugins
from allfocus.progress import CountProgress, StepProgress

if TYPE_CHECKING:
    from allfocus.fusion.lost_detail import LostDetail
from allfocus.fusion.method import NETWORK_ENDING, Method, method_of
from allfocus.fusion.method_choice import require_method
from allfocus.fusion.methods import METHODS, method_catalogue

MOST_SAMPLED = 100_000_000
"""Values of a stack, at the most, that its range is told by."""

Frames = Sequence[NDArray[Any]] | ImageStack | FrameSpool


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
    check_progress: StepProgress | None = None,
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
        check_progress: called while lost detail is measured ("comparing") and brought back ("mending").

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
    with _telling_of_others(chosen):
        function = chosen.load()
    abilities = chosen.abilities
    if progress is not None:
        progress(0, 1)
    pictures, values, dtype = _prepare(frames, valid, chosen)
    _require_count(chosen, len(pictures))
    masks = _masks(frames, valid, pictures)
    if isinstance(pictures, FrameSpool):
        pictures = FramesOnDisk(pictures, masks, progress) if abilities.one_at_a_time else pictures
    elif masks is not None:
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
    with _telling_of_others(chosen):
        made = function(_untouchable(pictures, chosen), **chosen.options, **options)
    shape = (frames if isinstance(frames, FrameSpool) else pictures)[0].shape
    sound = require_sound_maps(as_maps(made), shape, len(pictures), name=chosen.name)
    maps = _complete(sound, pictures, masks)
    if progress is not None and not abilities.streams:
        progress(1, 1)
    lost = None
    if check:
        # A spool holds its frames at the scale that is measured.
        source = frames if isinstance(frames, FrameSpool) else pictures
        maps, lost = _checked(maps, source, masks, chosen, check_progress)
    image = values.from_unit(maps.image, dtype)
    return FusionResult(image, maps.decision, maps.depth, maps.confidence, lost_detail=lost, veil=maps.veil)


@contextlib.contextmanager
def _telling_of_others(method: Method) -> Iterator[None]:
    """Make an error of ours of whatever somebody's network, or the method of an installed package, ends with."""
    try:
        with telling_of_plugins(method.name, method_catalogue().packages):
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


def _untouchable(
    pictures: Sequence[NDArray[np.float32]] | FrameSpool, method: Method
) -> Sequence[NDArray[np.float32]] | FrameSpool:
    """The frames as a method of others gets them: what it wrote into them would be the caller's, and measured later."""
    if not isinstance(pictures, list) or METHODS.get(method.name) is method:
        return pictures
    views = [frame.view() for frame in pictures]
    for view in views:
        view.flags.writeable = False
    return views


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
    progress: StepProgress | None,
) -> tuple[FusedMaps, "LostDetail"]:
    """The maps, decided again where detail was erased if the method does that, and what is lost in them."""
    # Loaded here, because a list of methods needs no OpenCV.
    from allfocus.fusion.detail_meter import measure_lost_detail
    from allfocus.fusion.mending import mend_lost_detail

    if not method.abilities.mends or maps.decision is None or maps.depth is None:
        tell = None if progress is None else partial(progress, "comparing")
        return maps, measure_lost_detail(maps.image, source, valid=masks, progress=tell)
    hard = bool(method.options.get("hard", False))
    mended = mend_lost_detail(maps.image, maps.decision, maps.depth, source, valid=masks, hard=hard, progress=progress)
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
    method: Method,
) -> tuple[Sequence[NDArray[np.float32]] | FrameSpool, ValueRange, np.dtype[Any]]:
    """Returns the frames in 0..1 as the methods want them, and the range and type in which the result is given back."""
    if isinstance(frames, FrameSpool):
        if method.abilities.streams or method.abilities.one_at_a_time:
            return frames, UNIT, np.dtype(np.float32)
        if len(frames):
            require_memory(method, len(frames), frames[0].shape)
        return [frame[EVERYTHING] for frame in frames], UNIT, np.dtype(np.float32)
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

    # Every ninth pixel is looked at for the range; of many large frames fewer, which tell it as well.
    apart = 1 + int((len(pictures) * pictures[0].size / 9 / MOST_SAMPLED) ** 0.5)
    _, span = value_range(ThinnedFrames(pictures, apart))
    noise = estimate_noise(np.stack([block_sharpness(frame) for frame in pictures]))
    return stack_evidence(pictures, max(noise, LEAST_NOISE * span))
