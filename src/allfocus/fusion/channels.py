"""Several channels, one decision: what the method sees of them, and every channel weighed by what it decided.

A microscope records the same planes in several colours of light. Were each channel fused by itself, a nucleus could
come from another plane than its membrane. So the method decides on a *composite*: the chosen channels, each brought to
its own robust range, because one of them is often a hundred times darker than another; a channel that shows nothing but
noise counts little. The frames that are then mixed hold all channels as they are. Fusing reads a frame twice, once
reduced to decide and once in full to take its pixels (:class:`allfocus.fusion.frame_source.FrameSource`): what is
decided on need not be what is taken.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.fusion.frame_checks import pick_pixels
from allfocus.fusion.method import Method
from allfocus.fusion.stack_fusion import FusionResult, fuse
from allfocus.fusion.windows import block_sharpness
from allfocus.images.spool import FrameSpool, Mask, SpooledFrame
from allfocus.progress import CountProgress, StepProgress

SAMPLED_FRAMES = 8
"""Frames of a stack by which the range of a channel is judged."""
SAMPLE_SIDE = 512
"""Pixels a side of the squares by which it is judged where frames are large."""
DARK, BRIGHT = 0.001, 0.999
"""Shares of the pixels of a channel that are taken to be below its range, and not above it."""
NOTHING, PLENTY = 10.0, 30.0
"""How many deviations of its noise the range of a channel spans that shows nothing (noise alone spans about eight), and
of one that counts in full."""

Everything = (slice(None), slice(None))


@dataclass(frozen=True)
class Composite:
    """What a method sees of several channels.

    Example:
        >>> seen = Composite((0, 1), (0.0, 0.1), (0.5, 0.1), (1.0, 1.0))
        >>> seen.compose(lambda channel: np.full((1, 1), (0.25, 0.2)[channel], np.float32)).round(2).tolist()
        [[[0.5, 0.75, 1.0]]]
    """

    chosen: tuple[int, ...]
    """The channels that are decided on, from 0."""
    lows: tuple[float, ...]
    """Of each of them the value that is seen as 0."""
    spans: tuple[float, ...]
    """How far above that is what is seen as 1."""
    weights: tuple[float, ...]
    """How much each counts: 0 for one that shows nothing, 1 for one that does."""

    def compose(self, read: Callable[[int], NDArray[np.float32]]) -> NDArray[np.float32]:
        """What is seen, (h, w) or (h, w, 3).

        One channel is seen as it is. Two become the outer colours, with their mean between; of more, every third one
        shares a colour.

        Args:
            read: Gives (h, w) of a channel, by its number.
        """
        if len(self.chosen) == 1:
            return read(self.chosen[0])
        parts = [
            np.asarray((read(channel) - np.float32(low)) / np.float32(span), np.float32)
            for channel, low, span in zip(self.chosen, self.lows, self.spans, strict=True)
        ]
        if len(parts) == 2:
            parts.insert(1, self._mean(parts, (0, 1)))
            return np.dstack([parts[0] * self._weight(0), parts[1], parts[2] * self._weight(1)])
        groups = [range(first, len(parts), 3) for first in range(3)]
        return np.dstack([self._mean(parts, group) for group in groups])

    def _weight(self, place: int) -> np.float32:
        return np.float32(self.weights[place])

    def _mean(self, parts: Sequence[NDArray[np.float32]], group: Sequence[int]) -> NDArray[np.float32]:
        total = np.float32(max(sum(self.weights[place] for place in group), 1.0))
        result = np.zeros_like(parts[0])
        for place in group:
            result += self._weight(place) * parts[place]
        return result / total


def sample_numbers(count: int) -> list[int]:
    """Up to :data:`SAMPLED_FRAMES` numbers of frames, evenly from the first to the last.

    Example:
        >>> sample_numbers(3), sample_numbers(15)
        ([0, 1, 2], [0, 2, 4, 6, 8, 10, 12, 14])
    """
    return _evenly(count - 1, SAMPLED_FRAMES)


def sample_squares(size: tuple[int, int]) -> list[tuple[slice, slice]]:
    """Up to nine squares that lie evenly over a picture of this size: enough to judge the range of its values.

    Example:
        >>> [columns.start for rows, columns in sample_squares((100, 2000))]
        [0, 950, 1900]
    """
    side = min(SAMPLE_SIDE, *size)
    return [
        (slice(top, top + side), slice(left, left + side))
        for top in _evenly(size[0] - side, 3)
        for left in _evenly(size[1] - side, 3)
    ]


def _evenly(last: int, count: int) -> list[int]:
    return sorted({round(last * number / max(1, count - 1)) for number in range(count)})


def measure_composite(chosen: Sequence[int], samples: Callable[[int], Sequence[NDArray[np.float32]]]) -> Composite:
    """How several channels are to be seen, from a look at some frames of each.

    Args:
        chosen: The channels to decide on, from 0.
        samples: Gives some frames (h, w) of a channel, in 0..1; the same part of each.
    """
    from allfocus.fusion.planning import estimate_noise

    lows, spans, weights = [], [], []
    for channel in chosen:
        seen = samples(channel)
        values = np.concatenate([frame[::2, ::2].ravel() for frame in seen])
        noise = estimate_noise(np.stack([block_sharpness(np.ascontiguousarray(frame)) for frame in seen]))
        dark, bright = (float(value) for value in np.quantile(values, (DARK, BRIGHT)))
        span = max(bright - dark, 1e-6)
        lows.append(dark)
        spans.append(span)
        ratio = span / max(noise, 1e-9)
        flat = bright - dark < 1e-6
        weights.append(0.0 if flat else min(1.0, max(0.0, (ratio - NOTHING) / (PLENTY - NOTHING))))
    if not any(weights):
        weights = [1.0] * len(weights)
    return Composite(tuple(chosen), tuple(lows), tuple(spans), tuple(weights))


class ChannelSpool(FrameSpool):
    """The same frames in several channels, each in a spool of its own, as frames that are decided on by a composite.

    Args:
        spools: One for each channel, made by :func:`allfocus.fusion.frame_source.open_spool`; they stay their owner's.
        chosen: The channels to decide on, from 0.
    """

    def __init__(self, spools: Sequence[FrameSpool], chosen: Sequence[int]) -> None:
        self._spools = tuple(spools)
        count = len(spools[0])
        self.composite = measure_composite(
            chosen, lambda channel: [spools[channel].level(index, 0)[Everything] for index in sample_numbers(count)]
        )
        self.reduction = spools[0].reduction
        self._frames = [_ChannelFrame([spool[index] for spool in spools]) for index in range(count)]
        self.reduced = [_ComposedFrame(self._spools, self.composite, index, 0) for index in range(count)]
        self.measures = [block_sharpness(np.ascontiguousarray(frame[Everything])) for frame in self.reduced]

    def level(self, index: int, level: int) -> SpooledFrame:
        """Returns what is decided on, reduced by 2 ** level beyond the reduced scale."""
        return _ComposedFrame(self._spools, self.composite, index, level)

    @property
    def valid(self) -> Sequence[Mask] | None:
        """Where each frame has pixels, in all channels alike; None for everywhere."""
        return self._spools[0].valid

    def close(self) -> None:
        """Leaves the spools to their owner."""


class _ChannelFrame(SpooledFrame):
    """A frame with all its channels (H, W, C), read in parts."""

    def __init__(self, frames: Sequence[SpooledFrame]) -> None:
        self._channels = frames
        self.shape = (*frames[0].shape[:2], len(frames))

    def __getitem__(self, area: tuple[slice, slice]) -> NDArray[np.float32]:
        return np.stack([frame[area] for frame in self._channels], axis=-1)

    def read_levels(self, area: tuple[slice, slice]) -> NDArray[Any]:
        """Returns a part as it is stored."""
        return np.stack([frame.read_levels(area) for frame in self._channels], axis=-1)


class _ComposedFrame(SpooledFrame):
    """What is decided on of one frame at one level, read in parts."""

    def __init__(self, spools: Sequence[FrameSpool], composite: Composite, index: int, level: int) -> None:
        self._parts = [spool.level(index, level) for spool in spools]
        self._composite = composite
        height, width = self._parts[0].shape[:2]
        self.shape = (height, width) if len(composite.chosen) == 1 else (height, width, 3)

    def __getitem__(self, area: tuple[slice, slice]) -> NDArray[np.float32]:
        return self._composite.compose(lambda channel: self._parts[channel][area])

    def read_levels(self, area: tuple[slice, slice]) -> NDArray[Any]:
        """Returns the same: it is not stored anywhere."""
        return self[area]


def fuse_channels(
    spools: Sequence[FrameSpool],
    *,
    decide_by: Sequence[int] | None,
    method: Method,
    prefer: str | None = None,
    device: str = "auto",
    unveil: bool = True,
    check: bool = True,
    progress: CountProgress | None = None,
    check_progress: StepProgress | None = None,
) -> FusionResult:
    """One picture with all channels (H, W, C), sharp wherever one of the frames is; each channel as float32 in 0..1.

    Where channels are decided together, haze is not removed and places with lost detail are not decided again: both
    would treat channels unlike.

    Args:
        spools: The frames of each channel (H, W), made by :func:`allfocus.fusion.frame_source.open_spool`.
        decide_by: The channels by which all are decided, from 0; None decides each channel by itself, and then gives no
            maps.
        method: That fuses.
        prefer: ``near`` or ``far``, for methods that know a preference.
        device: ``auto``, ``cpu`` or ``cuda``.
        unveil: Remove haze where each channel is decided by itself.
        check: Measure which detail was lost, on what was decided by.
        progress: Called as the work goes on.
        check_progress: Called while lost detail is measured, with "comparing", and brought back, with "mending".

    Raises:
        InputError: the method blends frames without a decision that channels could share.
    """
    if decide_by is None:
        options = {"prefer": prefer, "device": device, "unveil": unveil, "check": check}
        return _fuse_each(spools, method, progress, check_progress=check_progress, **options)
    if not method.abilities.decides:
        raise cannot_share(method)
    together = ChannelSpool(spools, decide_by)
    if method.abilities.streams:
        result = fuse(
            together, method=method, prefer=prefer, device=device, unveil=False, check=False, progress=progress
        )
    else:
        result = _fuse_by_decision(together, spools, method, prefer, progress)
    if not check:
        return result
    from allfocus.fusion.detail_meter import measure_lost_detail

    image = np.asarray(result.image, np.float32)
    shown = together.composite.compose(lambda channel: np.ascontiguousarray(image[..., channel]))
    tell = None if check_progress is None else partial(check_progress, "comparing")
    lost = measure_lost_detail(shown, _Composed(together), valid=together.valid, progress=tell)
    return dataclasses.replace(result, lost_detail=lost)


def cannot_share(method: Method) -> InputError:
    """The error for a method that makes no decision, asked to make one for all channels."""
    return InputError(
        f"{method.name} blends all frames and makes no decision that channels could share",
        hint=["{decide_by} to each", "use the method ips"],
        code="method-cannot",
    )


class _Composed(Sequence[NDArray[np.float32]]):
    """What is decided on of each frame at full scale, composed when it is asked for."""

    def __init__(self, spool: ChannelSpool) -> None:
        self._spool = spool

    def __len__(self) -> int:
        return len(self._spool)

    def __getitem__(self, index: Any) -> Any:
        frame = self._spool[index][Everything]
        return self._spool.composite.compose(lambda channel: np.ascontiguousarray(frame[..., channel]))


def _fuse_by_decision(
    together: ChannelSpool,
    spools: Sequence[FrameSpool],
    method: Method,
    prefer: str | None,
    progress: CountProgress | None,
) -> FusionResult:
    """Every channel picked by the decision of a method that wants its frames in memory."""
    seen = [np.clip(frame, 0, 1) for frame in _Composed(together)]
    found = fuse(seen, method=method, prefer=prefer, valid=_whole_masks(together), check=False, progress=progress)
    if found.decision is None or (found.decision < 0).any():
        raise cannot_share(method)
    channels = [pick_pixels([frame[Everything] for frame in spool], found.decision) for spool in spools]
    return dataclasses.replace(found, image=np.stack(channels, axis=-1), veil=None)


def _whole_masks(spool: FrameSpool) -> list[NDArray[np.bool_]] | None:
    masks = spool.valid
    return None if masks is None else [mask[Everything] for mask in masks]


def _fuse_each(
    spools: Sequence[FrameSpool], method: Method, progress: CountProgress | None, **options: Any
) -> FusionResult:
    results = []
    for number, spool in enumerate(spools):

        def tell(done: int, count: int, number: int = number) -> None:
            if progress is not None:
                progress(number * count + done, len(spools) * count)

        results.append(fuse(spool, method=method, progress=tell, **options))
    worst = max((own.lost_detail for own in results if own.lost_detail), key=lambda lost: lost.share, default=None)
    return FusionResult(np.stack([own.image for own in results], axis=-1), lost_detail=worst)
