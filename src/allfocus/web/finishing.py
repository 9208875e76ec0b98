"""The finish of results: kept with them, shown before it is kept, and the finished picture as tiles."""

import threading
from collections import OrderedDict
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.finishing.curves import Curves, follow_curve
from allfocus.finishing.finish import NARROWEST_LEVELS, Finish
from allfocus.finishing.framing import Framing, find_frame
from allfocus.finishing.healing import spot_area
from allfocus.finishing.rendering import finish_piece
from allfocus.finishing.scale_bar import bar_length, name_length
from allfocus.finishing.tones import balance, balance_to_grey, tone_tables
from allfocus.images.conversion import from_integers
from allfocus.images.transfer import Curve, find_curve
from allfocus.web import layers
from allfocus.web.healed_levels import HealedLevel
from allfocus.web.job_records import TILE_SIDE, Job, Run
from allfocus.web.refusals import Refusal
from allfocus.web.studio import Studio
from allfocus.web.viewing import Viewer, visible_strokes

CURVE_STEPS = 129
"""Heights of a free curve by which it is drawn."""
FINE_BINS, BINS = 4096, 256
"""Of the histogram of what was fused, and of that which is shown."""
SAMPLED_SIDE = 400
"""Pixels along each side of a picture that its histogram is made of."""
KEPT_HISTOGRAMS = 32
CLIPPED_SHARE = 0.001
"""Of the pixels, that automatic levels make black, and as many white."""
PICKED_REACH = 2
"""Pixels around one that is picked as grey, over which the mean is taken."""


class Finishing:
    """The finishes of a studio's results; its methods may be called from any thread."""

    def __init__(self, studio: Studio, viewer: Viewer) -> None:
        self._studio = studio
        self._viewer = viewer
        self._histograms: OrderedDict[object, NDArray[np.float64]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, job_id: str, finish: Finish) -> dict[str, Any]:
        """Keep a finish with the open result; the area whose pixels change in the result itself comes back with it.

        Raises:
            Refusal: it does not fit the picture, or the job is at work.
        """
        with self._studio.store.lock:
            job, run = _require_picture(*self._viewer.require_paintable(job_id))
            frame = _require_fitting(finish, run)
            before, run.finish = run.finish, finish
            job.revision += 1
            try:
                self._studio.store.save(job)
            except BaseException:
                run.finish = before
                raise
            return {
                "finish": finish.to_json(),
                "finished_size": [frame.width, frame.height],
                "revision": job.revision,
                "area": _changed_area(before, finish, run),
            }

    def preview(self, job_id: str, finish: Finish) -> dict[str, Any]:
        """What a finish would do, without keeping it.

        ``tables`` give what becomes of each of 256 levels of a tile, 0..1, for each channel; ``histogram`` counts the
        finished picture; ``curves`` are heights of each free curve, for drawing; ``auto`` are levels that use the whole
        range.
        """
        job, run = _require_picture(*self._viewer.require_result(job_id))
        frame = _require_fitting(finish, run)
        curve = self._curve(job, run)
        tables = tone_tables(finish, curve, channels=run.channels, shown_white=run.white)
        counts = self._count(job, run, frame, finish)
        fine = tone_tables(finish, curve, channels=run.channels, shown_white=run.white, size=FINE_BINS)
        places = np.rint(fine * (BINS - 1)).astype(int)
        shown = [np.bincount(place, each, BINS) for place, each in zip(places, counts, strict=True)]
        bar = finish.scale_bar
        return {
            "tables": [[round(float(value), 5) for value in table] for table in tables],
            "histogram": [[round(float(value), 6) for value in each / max(each.sum(), 1)] for each in shown],
            "curves": _draw_curves(finish.curves),
            "auto": _auto_levels(counts, finish, curve, run),
            "finished_size": [frame.width, frame.height],
            "scale_bar": name_length(bar_length(bar, frame.width)) if bar is not None else None,
        }

    def pick_grey(self, job_id: str, x: float, y: float) -> dict[str, float]:
        """The temperature and tint that make the colour at a place of the result grey."""
        job, run = _require_picture(*self._viewer.require_result(job_id))
        if run.channels != 3:
            raise Refusal(409, "the result has one channel; there is no colour to balance")
        if not (0 <= x < run.width and 0 <= y < run.height):
            raise Refusal(400, f"this place lies outside the picture, which is {run.width}x{run.height}")
        samples = layers.open_level(self._viewer.shown(job, run, "result"), 0)
        rows = slice(max(0, int(y) - PICKED_REACH), int(y) + PICKED_REACH + 1)
        columns = slice(max(0, int(x) - PICKED_REACH), int(x) + PICKED_REACH + 1)
        colour = from_integers(np.array(samples[rows, columns])).mean(axis=(0, 1), dtype=np.float64)
        found = balance_to_grey(colour.astype(np.float32), self._curve(job, run))
        if found is None:
            raise Refusal(409, "this place is too dark or too bright to tell its colour; pick another")
        return {"temperature": found[0], "tint": found[1]}

    def tile(self, job_id: str, level: int, column: int, row: int) -> bytes:
        """A tile of the finished picture as a JPEG file.

        Raises:
            Refusal: there is no such job or tile.
        """
        job, run = _require_picture(*self._viewer.require_result(job_id))
        finish = run.finish
        frame = find_frame(finish, run.width, run.height)
        if not 0 <= level < layers.level_count(frame.width, frame.height):
            raise Refusal(404, "there is no such tile")
        width, height = -(-frame.width // 2**level), -(-frame.height // 2**level)
        left, top = column * TILE_SIDE, row * TILE_SIDE
        if not (0 <= left < width and 0 <= top < height):
            raise Refusal(404, "there is no such tile")
        area = (left, top, min(left + TILE_SIDE, width), min(top + TILE_SIDE, height))
        # A crop may be small enough to have fewer levels than the picture, never more.
        samples = HealedLevel(self._viewer.shown(job, run, "result"), level, finish.spots, white=run.white)
        pixels = finish_piece(samples, finish, frame, area, curve=self._curve(job, run), level=level, white=run.white)
        return layers.jpeg_bytes(layers.to_bytes(pixels), icc_profile=self._viewer.profile(job, run))

    def _curve(self, job: Job, run: Run) -> Curve | None:
        return find_curve(self._viewer.profile(job, run), None, channels=run.channels)

    def _count(self, job: Job, run: Run, frame: Framing, finish: Finish) -> NDArray[np.float64]:
        """(channels, FINE_BINS): how often each value is in the part that is kept, before the tones."""
        key = (run.folder, tuple(visible_strokes(job.strokes_of(run))), frame)
        with self._lock:
            if key in self._histograms:
                self._histograms.move_to_end(key)
                return self._histograms[key]
        samples = layers.open_level(self._viewer.shown(job, run, "result"), 0)
        counts = _count_values(samples, frame, run.white)
        with self._lock:
            self._histograms[key] = counts
            while len(self._histograms) > KEPT_HISTOGRAMS:
                self._histograms.popitem(last=False)
        return counts


def _require_picture(job: Job, run: Run) -> tuple[Job, Run]:
    if run.shown:
        raise Refusal(409, "finishing is for pictures; each of several channels has a colour and a range of its own")
    return job, run


def _require_fitting(finish: Finish, run: Run) -> Framing:
    try:
        frame = find_frame(finish, run.width, run.height)
        if finish.scale_bar is not None:
            bar_length(finish.scale_bar, frame.width)
    except InputError as error:
        raise Refusal(400, error.message) from error
    return frame


def _draw_curves(curves: Curves) -> dict[str, list[float]]:
    across = np.linspace(0, 1, CURVE_STEPS, dtype=np.float32)
    return {
        name: [round(float(height), 4) for height in follow_curve(across, points)]
        for name, points in asdict(curves).items()
    }


def _changed_area(before: Finish, after: Finish, run: Run) -> list[int]:
    """The smallest area around all spots that came or went; empty when none did."""
    spots = set(before.spots) ^ set(after.spots)
    areas = [spot_area(spot, run.width, run.height) for spot in spots]
    if not areas:
        return [0, 0, 0, 0]
    return [
        min(area[0] for area in areas),
        min(area[1] for area in areas),
        max(area[2] for area in areas),
        max(area[3] for area in areas),
    ]


def _count_values(samples: NDArray[Any], frame: Framing, white: float) -> NDArray[np.float64]:
    across = (np.arange(min(SAMPLED_SIDE, frame.width)) + 0.5) * frame.width / min(SAMPLED_SIDE, frame.width)
    down = (np.arange(min(SAMPLED_SIDE, frame.height)) + 0.5) * frame.height / min(SAMPLED_SIDE, frame.height)
    (a, b, x), (c, d, y) = frame.matrix
    height, width = samples.shape[:2]
    columns = np.clip((a * across[None, :] + b * down[:, None] + x).astype(int), 0, width - 1)
    rows = np.clip((c * across[None, :] + d * down[:, None] + y).astype(int), 0, height - 1)
    found = from_integers(samples[rows, columns]).reshape(rows.size, -1)
    places = np.rint(np.clip(found / np.float32(white), 0, 1) * (FINE_BINS - 1)).astype(int)
    return np.stack([np.bincount(each, minlength=FINE_BINS) for each in places.T]).astype(np.float64)


def _auto_levels(counts: NDArray[np.float64], finish: Finish, curve: Curve | None, run: Run) -> dict[str, float]:
    """Black and white points between which nearly all values lie, after exposure and white balance."""
    row = np.linspace(0, run.white, FINE_BINS, dtype=np.float32)[None]
    pixels = row if run.channels == 1 else np.repeat(row[..., None], 3, axis=2)
    values = balance(pixels, finish, curve).reshape(FINE_BINS, run.channels).T
    lows, highs = [], []
    for each, value in zip(counts, values, strict=True):
        share = np.cumsum(each) / max(each.sum(), 1)
        lows.append(float(value[np.searchsorted(share, CLIPPED_SHARE)]))
        highs.append(float(value[min(FINE_BINS - 1, int(np.searchsorted(share, 1 - CLIPPED_SHARE)))]))
    black, white = round(min(lows), 4), round(max(highs), 4)
    if white - black < 2 * NARROWEST_LEVELS:
        return {"black": 0.0, "white": 1.0}
    return {"black": black, "white": white}
