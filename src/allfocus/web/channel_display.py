"""How a studio's results of several channels are looked at: what makes tiles of them, and how that is changed."""

from dataclasses import replace
from functools import partial
from typing import Any

from allfocus.images.channel_colours import COLOURS
from allfocus.web import layers
from allfocus.web.channels import NARROWEST, colour_channel_bytes
from allfocus.web.job_records import Run
from allfocus.web.refusals import Refusal
from allfocus.web.studio import Studio

Wish = tuple[bool, str, float, float]
"""Whether a channel is shown, in which colour, and from where to where."""


def shows(run: Run) -> layers.Show:
    """What makes of the samples of a run's layers what is looked at."""
    if run.shown:
        return partial(colour_channel_bytes, channels=run.shown)
    return partial(layers.to_bytes, white=run.white)


def shows_alike(run: Run) -> layers.Show:
    """The same whatever channels are looked at: by this the brush tells one thing from another, now and later."""
    channels = [
        replace(channel, shown=True, colour=COLOURS[number % len(COLOURS)], low=0.0, high=max(channel.white, NARROWEST))
        for number, channel in enumerate(run.shown)
    ]
    return partial(colour_channel_bytes, channels=channels) if channels else shows(run)


def show_channels(studio: Studio, job_id: str, wishes: list[Wish]) -> dict[str, Any]:
    """How the channels of the open result of a job are looked at from now on.

    Raises:
        Refusal: it has other channels, a range is none, or there is no result.
    """
    with studio.store.lock:
        job = studio.job(job_id)
        run = job.run
        if run is None:
            raise Refusal(409, "the job has no result yet; start it and wait until it is done")
        if len(wishes) != len(run.shown):
            raise Refusal(400, f"the result has {len(run.shown)} channels; say how each of them is shown")
        if any(high - low < NARROWEST for _, _, low, high in wishes):
            raise Refusal(400, "the range of a channel ends above its beginning")
        before = run.shown, run.shown_since
        run.shown = [
            replace(channel, shown=shown, colour=colour, low=low, high=high)
            for channel, (shown, colour, low, high) in zip(run.shown, wishes, strict=True)
        ]
        job.revision += 1
        run.shown_since = job.revision
        try:
            studio.store.save(job)
        except BaseException:
            run.shown, run.shown_since = before
            raise
        channels = [vars(channel) for channel in run.shown]
        return {"channels": channels, "revision": job.revision, "shown_since": run.shown_since}
