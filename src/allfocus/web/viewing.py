"""What is looked at and painted: layers on disk when they are needed, tiles of them, strokes, undo, redo, maps."""

import json
import secrets
import shutil
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import OutputError
from allfocus.images.writing import replace_file
from allfocus.web import layers
from allfocus.web.channel_display import shows, shows_alike
from allfocus.web.dabs import ReadGuide
from allfocus.web.faults import require_fault
from allfocus.web.healed_levels import HealedLevel
from allfocus.web.job_records import ACTIVE, Job, Run
from allfocus.web.named_locks import NamedLocks
from allfocus.web.processes import TaskError
from allfocus.web.refusals import Refusal
from allfocus.web.retouching import Samples, paint, replay, stroke_area, stroke_work
from allfocus.web.stroke import MOST_POINTS, MOST_STROKES, MOST_WORK, MOST_WORK_OF_ALL, Stroke
from allfocus.web.studio import Studio
from allfocus.web.work_folder import RUN_NAME

SOURCES = ("frame-", "method-", "run-")
"""How the names of layers begin that a stroke may take from."""


class Viewer:
    """The layers of a studio's jobs."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._painting_locks = NamedLocks()
        self._profiles: dict[str, bytes | None] = {}

    def _painting(self, job_id: str) -> threading.Lock:
        """The lock that is held while the strokes of a job are painted."""
        return self._painting_locks.of(job_id)

    # --- layers ---

    def require_result(self, job_id: str) -> tuple[Job, Run]:
        """The job and its finished run.

        Raises:
            Refusal: it has none yet.
        """
        job = self._studio.job(job_id)
        if job.run is None:
            raise Refusal(409, "the job has no result yet; start it and wait until it is done")
        return job, job.run

    def layer(self, job: Job, run: Run, name: str) -> Path:
        """The folder of a layer, which is made now when it is not there.

        Args:
            job: The job.
            run: Its finished run.
            name: A name of ``job.layers()``, except differences and results with their strokes.
        """
        folder = self._studio.store.folder(job.id)
        if RUN_NAME.fullmatch(name):
            return self.layer(job, self._fitting(job, run, name), "result")
        if name.startswith("method-"):
            return folder / run.folder / "alternatives" / name
        target = folder / "layers" / run.folder / name
        working_depth = 8 if name in run.maps else run.working_depth
        size = layers.layer_bytes(run.width, run.height, 3 if name in run.maps else run.channels, working_depth)
        return self._studio.cache.get(target, size, lambda: self._make(job, run, name, target, size))

    def _make(self, job: Job, run: Run, name: str, target: Path, size: int) -> None:
        run_folder = self._studio.store.folder(job.id) / run.folder
        values: dict[str, Any] = {"layer": str(target)}
        self._studio.room.require(size)
        if name == "result":
            task = "write_channel_result_layer" if run.shown else "write_result_layer"
            depth = {"working_depth": run.working_depth, "white": run.layer_white}
            values |= {"path": str(run_folder / "result.tif"), **depth}
        elif name in run.maps:
            task = "write_map_layer"
            values |= {"path": str(run_folder / f"{name}.png")}
        else:
            frame_id = name.removeprefix("frame-")
            frame = job.frame(frame_id)
            if frame is None or frame_id not in run.frames:
                raise Refusal(404, "the result has no such layer")
            task = "write_channel_frame_layer" if run.shown else "write_frame_layer"
            values |= {
                "path": str(self._studio.store.frame_path(job, frame)),
                "name": frame.name,
                "run": str(run_folder),
                "crop": run.crop,
                "place": run.frames.index(frame_id),
                "working_depth": run.working_depth,
                "white": run.layer_white,
                "max_pixels": self._studio.settings.pixels,
            }
        try:
            self._studio.pictures.run(task, values)
        except TaskError as error:
            raise Refusal(409, f"this layer cannot be made: {self._studio.told(error.error)}") from error

    def shown(self, job: Job, run: Run, name: str) -> Path:
        """The folder of a layer as it is shown: results with their strokes."""
        if name.startswith("retouched-"):
            return self.shown(job, self._fitting(job, run, name.removeprefix("retouched-")), "result")
        if name == "result" and job.strokes_of(run):
            with self._painting(job.id):
                return self._painted(job, run)
        return self.layer(job, run, name)

    def _fitting(self, job: Job, run: Run, name: str) -> Run:
        """Another run of the job, on the grid of this one."""
        other = job.find_run(name)
        if other is None or not other.fits(run):
            raise Refusal(404, "the job has no such result of this size")
        return other

    # --- tiles ---

    def tile(self, job_id: str, name: str, level: int, column: int, row: int, smoothed: bool) -> tuple[bytes, str]:
        """The file of a tile, and its media type; a smoothed one is what the brush looks at to stay within one thing.

        Raises:
            Refusal: there is no such job, layer or tile.
        """
        job, run = self.require_result(job_id)
        if name not in job.layers():
            raise Refusal(404, "the result has no such layer; its layers are listed in the job")
        if not (0 <= level < run.levels and 0 <= column < 2**20 and 0 <= row < 2**20):
            raise Refusal(404, "there is no such tile")
        if smoothed and not name.startswith(SOURCES):
            raise Refusal(404, "only layers that the brush paints from have smoothed tiles")
        read = self._guide(job, run, name) if smoothed else partial(self._tile_pixels, job, run, name)
        try:
            pixels = read(level, column, row)
        except FileNotFoundError:  # deleted between making and reading, to make room for others
            try:
                pixels = read(level, column, row)
            except FileNotFoundError as error:
                raise Refusal(429, "the server is short of room for layers; try again", retry_after=2) from error
        if not pixels.size:
            raise Refusal(404, "there is no such tile")
        if name in run.maps or smoothed:
            return layers.png_bytes(pixels), "image/png"
        profile = None if name.startswith("difference-") else self.profile(job, run)
        return layers.jpeg_bytes(pixels, icc_profile=profile), "image/jpeg"

    def _tile_pixels(self, job: Job, run: Run, name: str, level: int, column: int, row: int) -> NDArray[np.uint8]:
        if name == "result" and run.finish.spots:
            healed = HealedLevel(self.shown(job, run, name), level, run.finish.spots, white=run.white)
            return layers.to_bytes(healed[layers.tile_area(column, row)], run.white)
        if not name.startswith("difference-"):
            show = layers.to_bytes if name in run.maps else shows(run)
            return layers.read_tile(self.shown(job, run, name), level, column, row, show=show)
        rest = name.removeprefix("difference-")
        other = self.shown(job, run, f"frame-{rest}" if rest in run.frames else rest)
        result = self.shown(job, run, "result")
        tiles = [layers.read_tile(folder, level, column, row, show=shows(run)) for folder in (result, other)]
        return layers.difference(*tiles)

    def profile(self, job: Job, run: Run) -> bytes | None:
        """The colour profile of the result, which every tile carries so that its colours are right."""
        if run.folder not in self._profiles:
            import tifffile

            with tifffile.TiffFile(self._studio.store.folder(job.id) / run.folder / "result.tif") as file:
                found = file.pages.first.tags.get("InterColorProfile")
                self._profiles[run.folder] = bytes(found.value) if found is not None else None
        return self._profiles[run.folder]

    # --- strokes ---

    def add_stroke(self, job_id: str, stroke: Stroke) -> dict[str, Any]:
        """The stroke that was painted, the new revision, and the area that changed."""
        job, run = self.require_paintable(job_id)
        if stroke.fault is not None:
            require_fault(run, stroke.fault)
        source, points = stroke.source, stroke.points
        known = source in job.layers() or source == run.folder
        if not known or not source.startswith(SOURCES):
            raise Refusal(400, "a stroke takes from a frame or from a result as it was fused; see the layers")
        if len(job.strokes) >= MOST_STROKES or sum(len(s.points) for s in job.strokes) + len(points) > MOST_POINTS:
            raise Refusal(413, "there are too many strokes; download the result and start anew from it")
        area = stroke_area(stroke, run.width, run.height)
        if area[0] >= area[2] or area[1] >= area[3]:
            raise Refusal(400, f"the stroke lies outside the picture, which is {run.width}x{run.height}")
        size = (run.width, run.height)
        work = stroke_work(stroke, *size)
        if work > MOST_WORK or work + sum(stroke_work(each, *size) for each in job.strokes) > MOST_WORK_OF_ALL:
            raise Refusal(413, "the stroke has too many points for so large a brush; paint it in parts, or with less")
        with self._painting(job_id):
            samples = self._open(job, run, source)
            folder = self._painted(job, run, create=True)
            _mark(folder, None)
            painted: Samples = layers.open_level(folder, 0, writable=True)
            paint(painted, stroke, samples, area, self._guide(job, run, source))
            layers.refresh_levels(folder, area, white=run.layer_white)
            with self._studio.store.lock:
                self._commit(job, run, [*job.strokes, stroke], [])
                answer = {"stroke": vars(stroke), "revision": job.revision, "area": list(area)}
            _mark(folder, job.strokes)
        return answer

    def undo(self, job_id: str) -> dict[str, Any]:
        """The job's strokes without the last, and the area that changed."""
        return self._replay(job_id, back=True)

    def redo(self, job_id: str) -> dict[str, Any]:
        """The job's strokes with the one undone last, and the area that changed."""
        return self._replay(job_id, back=False)

    def hide_stroke(self, job_id: str, stroke_id: str, *, hidden: bool) -> dict[str, Any]:
        """The job's strokes, one of them left out of the picture or taken in again, and the area that changed."""
        job, run = self.require_paintable(job_id)
        with self._painting(job_id):
            stroke = next((item for item in job.strokes if item.id == stroke_id), None)
            if stroke is None:
                raise Refusal(404, "the result has no such stroke; its strokes are listed in the job")
            strokes = [replace(item, hidden=hidden) if item is stroke else item for item in job.strokes]
            return self._repaint(job, run, stroke, strokes, job.undone)

    def _replay(self, job_id: str, *, back: bool) -> dict[str, Any]:
        job, run = self.require_paintable(job_id)
        with self._painting(job_id):
            moving = job.strokes if back else job.undone
            if not moving:
                raise Refusal(409, "there is no stroke to undo" if back else "there is no stroke to redo")
            stroke = moving[-1]
            strokes = job.strokes[:-1] if back else [*job.strokes, stroke]
            return self._repaint(job, run, stroke, strokes, [*job.undone, stroke] if back else job.undone[:-1])

    def _repaint(
        self, job: Job, run: Run, changed: Stroke, strokes: list[Stroke], undone: list[Stroke]
    ) -> dict[str, Any]:
        """Paint the area of a stroke again with these strokes; called with the painting lock held."""
        area = stroke_area(changed, run.width, run.height)
        folder = self._painted(job, run, create=True)
        _mark(folder, None)
        self._replay_area(job, run, folder, strokes, area)
        with self._studio.store.lock:
            self._commit(job, run, strokes, undone)
            answer = {
                "revision": job.revision,
                "area": list(area),
                "strokes": [vars(item) for item in job.strokes],
                "redo_count": len(job.undone),
            }
        _mark(folder, job.strokes)
        return answer

    def require_paintable(self, job_id: str) -> tuple[Job, Run]:
        """The job and its finished run, if that may be changed now."""
        job, run = self.require_result(job_id)
        if job.state in ACTIVE:
            raise Refusal(409, "the job is being fused again; wait for it or cancel it")
        return job, run

    def _commit(self, job: Job, run: Run, strokes: list[Stroke], undone: list[Stroke]) -> None:
        """Note the strokes that are painted now; when that fails, the job is as before, and is painted so again."""
        if job.run is not run or job.state in ACTIVE or job.id not in self._studio.store.jobs:
            raise Refusal(409, "another result was opened meanwhile; the stroke was not painted")
        before = (job.strokes, job.undone)
        job.strokes, job.undone = strokes, undone
        job.revision += 1
        try:
            self._studio.store.save(job)
        except OutputError:
            job.strokes, job.undone = before
            raise

    def _painted(self, job: Job, run: Run, *, create: bool = False) -> Path:
        """The folder of a result with exactly its strokes; called with the painting lock held."""
        strokes = job.strokes_of(run)
        if not strokes and not create:
            return self.layer(job, run, "result")
        original = self.layer(job, run, "result")
        target = original.with_name("painted")
        size = layers.layer_bytes(run.width, run.height, run.channels, run.working_depth)
        self._studio.cache.get(target, size, lambda: _copy(original, target))
        if _marked(target) != visible_strokes(strokes):
            # Cut short by a crash, or fresh: the strokes are painted again from the original.
            everything = (0, 0, run.width, run.height)
            self._replay_area(job, run, target, strokes, everything)
            _mark(target, strokes)
        return target

    def _replay_area(self, job: Job, run: Run, folder: Path, strokes: list[Stroke], area: layers.Area) -> None:
        original: Samples = layers.open_level(self.layer(job, run, "result"), 0)
        painted: Samples = layers.open_level(folder, 0, writable=True)
        shown = [stroke for stroke in strokes if not stroke.hidden]
        replay(painted, original, shown, partial(self._open, job, run), area, partial(self._guide, job, run))
        layers.refresh_levels(folder, area, white=run.layer_white)

    def _open(self, job: Job, run: Run, name: str) -> Samples:
        opened: Samples = layers.open_level(self.layer(job, run, name), 0)
        return opened

    def _guide(self, job: Job, run: Run, name: str) -> ReadGuide:
        """What reads the smoothed tiles of a layer."""
        return lambda *place: layers.read_guide_tile(self.layer(job, run, name), *place, show=shows_alike(run))

    # --- files ---

    def map_file(self, job_id: str, name: str) -> Path:
        """The file of a map: depth, depth-colour, decision or confidence."""
        _, run = self.require_result(job_id)
        kind = "depth" if name == "depth-colour" else name
        if kind not in run.maps:
            raise Refusal(404, f"{run.method} makes no {kind} map; fuse with ips to get one")
        return self._studio.store.folder(job_id) / run.folder / f"{name}.png"

    def relief(self, job_id: str, side: int) -> dict[str, Any]:
        """The depth at a reduced size, row by row."""
        self.map_file(job_id, "depth")
        _, run = self.require_result(job_id)
        depth = np.load(self._studio.store.folder(job_id) / run.folder / "relief.npy")
        scale = min(1.0, side / max(depth.shape))
        size = (max(1, round(depth.shape[1] * scale)), max(1, round(depth.shape[0] * scale)))
        small = cv2.resize(depth, size, interpolation=cv2.INTER_AREA).reshape(size[::-1])
        return {"width": size[0], "height": size[1], "depth": [round(float(value), 4) for value in small.ravel()]}

    def report_file(self, job_id: str) -> Path:
        """The HTML report of the job's fusion."""
        _, run = self.require_result(job_id)
        if not run.has_report:
            raise Refusal(404, "there is no report for this job")
        return self._studio.store.folder(job_id) / run.folder / "report.html"


def _copy(original: Path, target: Path) -> None:
    temporary = target.with_name(f"{secrets.token_hex(4)}.part")
    shutil.copytree(original, temporary)
    temporary.rename(target)
    _mark(target, [])


def visible_strokes(strokes: list[Stroke]) -> list[str]:
    """The ids of the strokes that are in the picture."""
    return [stroke.id for stroke in strokes if not stroke.hidden]


def _mark(folder: Path, strokes: list[Stroke] | None) -> None:
    """Note which strokes a painted layer holds; None while it is being changed."""
    if strokes is None:
        (folder / "strokes.json").unlink(missing_ok=True)
    else:
        content = json.dumps(visible_strokes(strokes)).encode()
        replace_file(folder / "strokes.json", content, overwrite=True)


def _marked(folder: Path) -> list[str] | None:
    try:
        found: list[str] = json.loads((folder / "strokes.json").read_bytes())
    except (OSError, ValueError):
        return None
    return found
