"""Fusing planes larger than the memory: peak memory of a worker, time, validity, and agreement with the in-memory path.

Run: python benchmarks/gigapixel_planes.py FOLDER [--side 20000] [--planes 8] [--channels 4] [--workers 2] [--compare]
[--depth] [--regions 3]
Renders an OME-Zarr stack in blocks (a tilted, wavy specimen, so that focus moves through all planes), fuses it, opens
the result with ome-zarr, validates it, and prints one JSON object. --compare also fuses in memory and prints the
largest difference in levels; meant for --side 4000 in colour. With --channels there are so many channels of 16 bits
instead of colours of 8, each half as bright as the one before, which are decided together. --regions also fuses so many
squares of 2,048 pixels alone, and prints how far they are from the same place of the whole and how far both are from
the sharp texture. Memory is that of a worker as the kernel counts it, and that of this process with all it started,
added up every fifth of a second. FOLDER takes up to 11 GB at 20,000; started again, it goes on.

A gigapixel with 4 channels: python benchmarks/gigapixel_planes.py FOLDER --side 32000 --planes 2 --channels 4
--regions 3 (12 GB)
"""

import argparse
import contextlib
import json
import os
import shutil
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import cv2
import numpy as np
import psutil
import zarr
from numpy.typing import NDArray

from allfocus.batch.planes.fusion import fuse_planes
from allfocus.scenes.rendering import render_scene

TILE = 1000
WORKER_LIMIT = 3 * 10**9
"""Bytes at which a worker would be ended."""
BLURS = (0.0, 1.0, 2.0, 3.5, 5.0, 7.0)
"""Standard deviations of the blur at one to five planes from focus."""

REGION, MARGIN = 2048, 512
"""Pixels a side of a region that is compared, and around it of what is fused alone."""


class TreeMemory:
    """The most memory that this process and all that it started had at a time; a context manager."""

    def __init__(self) -> None:
        self.peak = 0
        """Bytes; what processes share counts for each of them."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "TreeMemory":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        root = psutil.Process()
        while not self._ended.wait(0.2):
            total = 0
            for process in (root, *root.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += process.memory_info().rss
            self.peak = max(self.peak, total)


def blurred_tiles() -> list[NDArray[np.float32]]:
    """A sharp texture that continues mirrored at its edges, and blurred copies of it."""
    sharp = render_scene("circuit", frames=2, size=(TILE, TILE), aperture=0.0).truth
    return [
        np.asarray(
            sharp if sigma == 0 else cv2.GaussianBlur(sharp, (0, 0), sigma, borderType=cv2.BORDER_REFLECT), np.float32
        )
        for sigma in BLURS
    ]


def height_of(rows: NDArray[np.float32], columns: NDArray[np.float32], side: int, planes: int) -> NDArray[np.float32]:
    """The plane in which each pixel is in focus, as a real number: tilted from corner to corner, with waves."""
    y, x = rows[:, None] / side, columns[None, :] / side
    tilt = 0.5 * (x + y) + 0.12 * np.sin(9 * x) * np.cos(7 * y)
    return np.asarray(np.clip(tilt, 0, 1) * (planes - 1), np.float32)


def blurred(levels: NDArray[np.float32], distance: NDArray[np.float32]) -> NDArray[np.uint8]:
    """A tile whose blur follows the distance from focus: linearly between the blurred copies."""
    distance = np.minimum(distance, len(levels) - 1)
    picture = np.zeros(levels.shape[1:], np.float32)
    for number in range(int(distance.min()), int(np.ceil(distance.max())) + 1):
        weight = np.maximum(1 - np.abs(distance - number), 0)
        picture += levels[number] * weight[..., None]
    return np.rint(picture * 255).astype(np.uint8)


def as_channels(colours: NDArray[np.uint8], channels: int) -> NDArray[Any]:
    """(layers, rows, columns) of a colour tile: its colours, or so many channels of 16 bits."""
    if not channels:
        return np.moveaxis(colours, 2, 0)
    layers = [colours[..., number % 3].astype(np.uint16) * (200 >> number % 6) for number in range(channels)]
    return np.stack(layers)


def render_planes(path: Path, side: int, planes: int, channels: int = 0) -> None:
    if (path / "finished").exists():
        return
    group = zarr.open_group(str(path), mode="w")
    array = group.create_array(
        "0",
        shape=(channels or 3, planes, side, side),
        chunks=(1 if channels else 3, 1, TILE, TILE),
        dtype="uint16" if channels else "uint8",
        dimension_names=["c", "z", "y", "x"],
    )
    tiles = blurred_tiles()
    for top in range(0, side, TILE):
        for left in range(0, side, TILE):
            height, width = min(TILE, side - top), min(TILE, side - left)
            flips = (slice(None, None, -1 if top // TILE % 2 else 1), slice(None, None, -1 if left // TILE % 2 else 1))
            levels = np.stack([tile[flips][:height, :width] for tile in tiles])
            rows, columns = (
                np.arange(first, first + length, dtype=np.float32) for first, length in ((top, height), (left, width))
            )
            focus = height_of(rows, columns, side, planes)
            for plane in range(planes):
                place = (slice(None), plane, slice(top, top + height), slice(left, left + width))
                array[place] = as_channels(blurred(levels, np.abs(focus - plane)), channels)
    describe(group, channels)
    (path / "finished").touch()


def describe(group: Any, channels: int) -> None:
    described: dict[str, Any] = {
        "version": "0.5",
        "multiscales": [
            {
                "name": "rendered slide",
                "axes": [{"name": "c", "type": "channel"}]
                + [{"name": axis, "type": "space", "unit": "micrometer"} for axis in "zyx"],
                "datasets": [
                    {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1.0, 1.5, 0.25, 0.25]}]}
                ],
            }
        ],
    }
    if channels:
        window = {"min": 0, "max": 65535, "start": 0, "end": 51000}
        shown = [{"label": f"dye {number}", "color": "00FFFF", "window": window} for number in range(channels)]
        described["omero"] = {"channels": shown}
    group.attrs["ome"] = described


def check_result(path: Path) -> dict[str, object]:
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader
    from ome_zarr_models import open_ome_zarr

    model = open_ome_zarr(zarr.open_group(str(path), mode="r"))
    nodes = list(Reader(parse_url(str(path)))())
    return {
        "validates_as": type(model).__module__ + "." + type(model).__name__,
        "levels": [list(level.shape) for level in nodes[0].data],
    }


def compare(source: Path, result: Path) -> dict[str, float]:
    import allfocus

    planes: Any = zarr.open_group(str(source), mode="r")["0"]
    fused: Any = zarr.open_group(str(result), mode="r")["0"]
    frames = [np.ascontiguousarray(np.moveaxis(planes[:, index], 0, 2)) for index in range(planes.shape[1])]
    expected = allfocus.fuse(frames, method="ips", device="cpu").image.astype(np.int16)
    found = np.moveaxis(np.asarray(fused[:]), 0, 2).astype(np.int16)
    difference = np.abs(expected - found)
    return {"largest_difference_in_levels": int(difference.max()), "share_that_differs": float((difference > 0).mean())}


def compare_regions(folder: Path, source: Path, result: Path, count: int) -> list[dict[str, Any]]:
    """Regions from corner to corner, each as the whole has it and as it comes out of fusing it alone."""
    planes: Any = zarr.open_group(str(source), mode="r")["0"]
    fused: Any = zarr.open_group(str(result), mode="r")["0"]
    side = planes.shape[-1]
    channels = planes.shape[0] if planes.dtype == np.uint16 else 0
    sharp = blurred_tiles()[0]
    rows: list[dict[str, Any]] = []
    for corner in np.linspace(0, side - REGION, count + 2).astype(int)[1:-1]:
        top, left = int(corner), int(side - REGION - corner if len(rows) % 2 else corner)
        inner = slice(top, top + REGION), slice(left, left + REGION)
        outer = tuple(slice(max(0, own.start - MARGIN), min(side, own.stop + MARGIN)) for own in inner)
        alone = fuse_alone(folder, planes[(slice(None), slice(None), *outer)], channels)
        place = tuple(
            slice(own.start - around.start, own.stop - around.start) for own, around in zip(inner, outer, strict=True)
        )
        one, other = (
            np.asarray(own, np.float32) for own in (fused[(slice(None), *inner)], alone[(slice(None), *place)])
        )
        truth = as_channels(np.rint(sharp_region(sharp, *inner) * 255).astype(np.uint8), channels).astype(np.float32)
        full = truth.max(axis=(1, 2), keepdims=True)
        apart = np.abs(one - other) / full
        rows.append(
            {
                "top": top,
                "left": left,
                "share_that_differs_by_more_than_1_of_255": round(float((apart > 1 / 255).mean()), 5),
                "db_between_them": decibels(one, other, full),
                "db_of_the_whole": decibels(one, truth, full),
                "db_alone": decibels(other, truth, full),
                "db_of_the_best_plane": max(
                    decibels(np.asarray(planes[(slice(None), number, *inner)], np.float32), truth, full)
                    for number in range(planes.shape[1])
                ),
            }
        )
    return rows


def fuse_alone(folder: Path, samples: NDArray[Any], channels: int) -> NDArray[Any]:
    """What planes (layers, planes, rows, columns) give when there is nothing else."""
    source, result = folder / "region.zarr", folder / "region_fused.zarr"
    group = zarr.open_group(str(source), mode="w")
    group.create_array("0", data=samples, chunks=(1, 1, TILE, TILE), dimension_names=["c", "z", "y", "x"])
    describe(group, channels)
    fuse_planes(source, result, workers=1, memory_limit=WORKER_LIMIT, overwrite=True)
    fused: Any = zarr.open_group(str(result), mode="r")["0"]
    found = np.asarray(fused[:])
    for path in (source, result):
        shutil.rmtree(path)
    return found


def sharp_region(tile: NDArray[np.float32], rows: slice, columns: slice) -> NDArray[np.float32]:
    """The texture of which the planes are blurred copies: a tile, mirrored at each of its edges."""

    def places(own: slice) -> NDArray[np.intp]:
        number = np.arange(own.start, own.stop)
        return np.where(number // TILE % 2, TILE - 1 - number % TILE, number % TILE)

    return tile[np.ix_(places(rows), places(columns))]


def decibels(one: NDArray[np.float32], other: NDArray[np.float32], full: NDArray[np.float32]) -> float:
    error = float(np.mean(np.square((one - other) / full)))
    return round(-10 * float(np.log10(max(error, 1e-12))), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--side", type=int, default=20_000)
    parser.add_argument("--planes", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--block", type=int, default=4096)
    parser.add_argument("--channels", type=int, default=0)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--regions", type=int, default=0, help="compare so many with what they give alone")
    parser.add_argument("--depth", action="store_true", help="measure depth and its error too")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    kind = f"{arguments.side}_{arguments.channels}" if arguments.channels else str(arguments.side)
    source = arguments.folder / f"planes_{kind}.zarr"
    result = arguments.folder / f"fused_{kind}.zarr"
    began = time.perf_counter()
    render_planes(source, arguments.side, arguments.planes, arguments.channels)
    rendering = time.perf_counter() - began
    before = os.times()
    with TreeMemory() as memory:
        fused = fuse_planes(
            source,
            result,
            workers=arguments.workers,
            block=arguments.block,
            maps=("depth", "error") if arguments.depth else (),
            memory_limit=WORKER_LIMIT,
            overwrite=True,
            progress=lambda step, done, count: print(f"{step} {done}/{count}", flush=True),
        )
    after = os.times()
    processor = sum(after[:4]) - sum(before[:4])
    report: dict[str, object] = {
        "size": list(fused.size),
        "planes": fused.planes,
        "channels": arguments.channels or "colour",
        "workers": arguments.workers,
        "rendering_seconds": round(rendering, 1),
        "fusing_seconds": round(fused.seconds, 1),
        "processor_seconds": round(processor, 1),
        "blocks_done_by_an_earlier_run": fused.blocks_done_before,
        "peak_worker_megabytes": round(fused.peak_memory / 1e6),
        "peak_megabytes_of_all_processes": round(memory.peak / 1e6),
        **check_result(result),
    }
    if arguments.compare:
        report |= compare(source, result)
    if arguments.regions:
        report["regions"] = compare_regions(arguments.folder, source, result, arguments.regions)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
