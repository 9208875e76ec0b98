"""The scores of one fused picture: every picture becomes planes of grey levels once, then each metric is applied.

A score means nothing without its protocol, so the protocol is always named with it:

* ``grey`` (canonical, the default): the pictures become grey first, see :mod:`allfocus.metrics.grey_levels`.
* ``rgb-mean``: each metric on R, G and B separately, then the mean of the three; how some papers score.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from allfocus.errors import InputError
from allfocus.metrics.catalogue import Metric, all_metrics, find_metric, metric_catalogue
from allfocus.metrics.grey_levels import Picture, as_eight_bit, as_grey_levels, check_same_size
from allfocus.plugins import telling_of_plugins

Protocol = Literal["grey", "rgb-mean"]

PROTOCOLS: tuple[Protocol, ...] = ("grey", "rgb-mean")
"""What :func:`score` accepts; the first is canonical."""


def score(
    fused: Picture,
    sources: Sequence[Picture],
    *,
    reference: Picture | None = None,
    protocol: Protocol = "grey",
    metrics: Sequence[str] | None = None,
) -> dict[str, float]:
    """Return the value of each metric by its name.

    Args:
        fused: the fused picture, (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1.
        sources: the two or more pictures it was made of, same height and width.
        reference: the true all-in-focus picture, for the metrics that need it.
        protocol: ``"grey"`` or ``"rgb-mean"``; see the top of this module.
        metrics: names or keys. By default all that the input allows: metrics with a reference only where one is given,
            metrics for two sources only where there are two, and only those whose windows fit into the pictures.

    Raises:
        InputError: The pictures cannot be scored together, a metric that was asked for cannot be applied to them, or
            there is no such metric or protocol.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
        >>> score(ramp, [ramp, ramp], reference=ramp, metrics=["Q_MI", "ssim"])
        {'Q_MI': 2.0, 'SSIM': 1.0}
    """
    if protocol not in PROTOCOLS:
        raise InputError(f"there is no protocol {protocol!r}; the protocols are: {', '.join(PROTOCOLS)}")
    if len(sources) < 2:
        raise InputError(f"a fused picture is scored against its sources: got {len(sources)}, needs at least 2")
    chosen = _choose(metrics, len(sources), reference is not None, np.shape(fused)[:2])
    named = {"the fused picture": fused, **{f"source {n}": source for n, source in enumerate(sources, start=1)}}
    if reference is not None:
        named["the reference"] = reference
    for what, picture in named.items():
        check_same_size(fused, picture, other=what, metric="score")
    channels = [[_read_only(plane) for plane in planes] for planes in _channels(named, protocol)]
    totals = dict.fromkeys((metric.name for metric in chosen), 0.0)
    for planes in channels:
        for metric in chosen:
            against = planes[-1] if metric.needs_reference else planes[1 : 1 + len(sources)]
            with telling_of_plugins(metric.name, metric_catalogue().packages):
                totals[metric.name] += float(metric.function(planes[0], against))
    return {name: total / len(channels) for name, total in totals.items()}


def _choose(names: Sequence[str] | None, source_count: int, has_reference: bool, size: tuple[int, ...]) -> list[Metric]:
    if isinstance(names, str):
        names = [names]
    chosen = list(all_metrics().values()) if names is None else [find_metric(name) for name in names]
    usable = []
    for metric in chosen:
        if metric.needs_reference and not has_reference:
            problem = f"{metric.name} compares with the true picture: give a reference"
        elif metric.most_sources is not None and source_count > metric.most_sources:
            problem = f"{metric.name} is defined for {metric.most_sources} sources, got {source_count}; leave it out"
        elif min(size, default=0) < metric.smallest:
            shown = "x".join(str(length) for length in size)
            problem = (
                f"{metric.name} needs pictures of at least {metric.smallest}x{metric.smallest} pixels, got {shown}"
            )
        else:
            usable.append(metric)
            continue
        if names is not None:
            raise InputError(problem)
    return usable


def _read_only(plane: Picture) -> Picture:
    """The same plane, which no metric can change for those after it."""
    view = plane.view()
    view.flags.writeable = False
    return view


def _channels(named: dict[str, Picture], protocol: Protocol) -> list[list[Picture]]:
    """Return for each channel to score the planes of all pictures, as uint8 (H, W), in the order of ``named``."""
    if protocol == "grey":
        # Converted once here; each metric then only casts to float64.
        return [[as_grey_levels(picture, what=what).astype("uint8") for what, picture in named.items()]]
    pictures = [as_eight_bit(picture, what=what) for what, picture in named.items()]
    for what, picture in zip(named, pictures, strict=True):
        if picture.ndim != pictures[0].ndim:
            raise InputError(
                f"protocol rgb-mean compares channel by channel, but {what} has shape {picture.shape} and the fused "
                f"picture {pictures[0].shape}; give all in colour or all in grey"
            )
    if pictures[0].ndim == 2:
        return [list(pictures)]
    return [[picture[..., channel] for picture in pictures] for channel in range(3)]
