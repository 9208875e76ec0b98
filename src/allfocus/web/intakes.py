"""Folders on their way into the studio: a dropped tree or a local folder, cut into stacks by the rules of ``batch``.

Nothing becomes a stack of the studio before somebody has seen how the pictures are cut. A dropped tree is copied to
``intake/ID/tree`` in the work folder under its own names, because the rules go by names, times and folders; a local
folder stays where it is.
"""

import contextlib
import os
import re
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allfocus.images.ome_zarr_folders import is_zarr
from allfocus.web import job_frames
from allfocus.web.job_records import clean_name
from allfocus.web.processes import TaskError
from allfocus.web.refusals import Refusal
from allfocus.web.store import size_of
from allfocus.web.work_folder import remove_known

if TYPE_CHECKING:
    from allfocus.web.studio import Studio

MOST_INTAKES = 20
"""At a time; whoever leaves the page without a word leaves one behind until the server ends."""
MOST_FILES = 20_000
"""Of one of them."""
DEEPEST = 20
"""Folders within folders."""

IN_INTAKE = re.compile(r"[0-9a-f]{24}/tree/.+")
"""What the folder of all intakes may hold, below it."""


@dataclass
class Intake:
    """A tree of pictures that waits to become stacks."""

    id: str
    name: str
    root: Path
    linked: bool
    """Whether the files stay where they are: they are the user's own, and never moved or deleted."""
    allowed: tuple[Path, ...] = ()
    """Folders that links of a linked tree may not lead out of; empty for any."""
    files: dict[str, int] = field(default_factory=dict)
    """Bytes of each file that came and is in no stack yet, by its path below the root; not for linked ones."""


class Intakes:
    """All trees that wait; forgotten when the server ends, with the copies that were made of them."""

    def __init__(self, studio: "Studio") -> None:
        self._studio = studio
        self._all: dict[str, Intake] = {}
        self._lock = threading.Lock()
        self._home = studio.settings.work / "intake"
        self._clear()

    def create(self, name: str, root: Path | None = None, allowed: Sequence[Path] = ()) -> dict[str, Any]:
        """A new intake, as clients see it.

        Args:
            name: What the tree is called.
            root: A local folder whose files stay where they are; None for files that are sent.
            allowed: Folders that its links may not lead out of; empty for any.
        """
        with self._lock:
            if len(self._all) >= MOST_INTAKES:
                raise Refusal(507, f"{MOST_INTAKES} folders wait to be cut into stacks; finish or discard one first")
            own = secrets.token_hex(12)
            place = Path(os.path.normpath(root or self._home / own / "tree"))
            self._all[own] = Intake(own, clean_name(name, "folder"), place, root is not None, tuple(allowed))
        if root is None:
            self._studio.room.require(0)
            place.mkdir(parents=True)
        return self.show(own)

    def require(self, intake_id: str) -> Intake:
        """The intake with this id.

        Raises:
            Refusal: there is none.
        """
        found = self._all.get(intake_id)
        if found is None:
            raise Refusal(404, "this folder does not wait here any more; drop it again")
        return found

    def show(self, intake_id: str) -> dict[str, Any]:
        """An intake as clients see it."""
        intake = self.require(intake_id)
        return {"id": intake.id, "name": intake.name, "linked": intake.linked, "files": len(intake.files)}

    def add(self, intake_id: str, path: str, part: Path) -> dict[str, Any]:
        """Put a file that arrived at its place below the root.

        Args:
            intake_id: The intake.
            path: Where it lay below the folder that was dropped, with ``/`` between folders.
            part: The file as it arrived; gone afterwards.
        """
        intake = self.require(intake_id)
        if intake.linked:
            raise Refusal(409, "this folder is read where it lies; it takes no files")
        below = clean_path(path)
        target, size = intake.root / below, size_of(part)
        with self._lock:
            if len(intake.files) >= MOST_FILES:
                raise Refusal(413, f"a folder holds {MOST_FILES} pictures at most; drop a part of it")
            if below in intake.files or os.path.lexists(target):
                raise Refusal(409, f"{below}: a file of this name came already")
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(part, target)
            except OSError as error:
                raise Refusal(400, f"{below}: cannot be stored under this name ({error.strerror})") from error
            intake.files[below] = size
        self._studio.room.count_coming(size)
        return {"path": below, "bytes": size}

    def cut(self, intake_id: str, *, by: str, gap: float, size: int | None) -> dict[str, Any]:
        """How the pictures are cut into stacks, and by what; see ``tasks.cut_into_stacks``."""
        intake = self.require(intake_id)
        values = {"folder": str(intake.root), "by": by, "gap": gap, "size": size}
        try:
            found: dict[str, Any] = self._studio.pictures.run("cut_into_stacks", values)
        except TaskError as error:
            raise Refusal(400, self._studio.told(error.error)) from error
        return found

    def make_job(
        self, intake_id: str, name: str, paths: Sequence[str], which: Mapping[str, str | None] = job_frames.NEITHER
    ) -> dict[str, Any]:
        """A new job with these files as its frames, and what could not be read of them.

        Where there are several positions or times and none is named, what there is to ``choose`` of instead.

        Args:
            intake_id: The intake.
            name: Of the job.
            paths: Of the files below the root, in order, as :meth:`cut` gave them; or that of an OME-Zarr.
            which: The ``position`` and the ``time`` to take of several.

        Raises:
            Refusal: one is not there, or no two of them can be read; then there is no job.
        """
        intake = self.require(intake_id)
        files = [self._find(intake, path) for path in paths]
        job_id = self._studio.create(name)["id"]
        try:
            left_out = job_frames.add_files(
                self._studio, job_id, files, linked=intake.linked, skip_bad=True, which=which
            )
        except job_frames.Undecided as undecided:
            self._studio.delete(job_id)
            if len(files) > 1:
                raise
            return {"choose": undecided.choice}
        except BaseException:
            self._studio.delete(job_id)
            raise
        finally:
            self._forget_moved(intake, paths)
        return {"job": self._studio.show(self._studio.job(job_id)), "left_out": left_out}

    def _find(self, intake: Intake, path: str) -> Path:
        if "\x00" in path or intake.root not in Path(os.path.normpath(intake.root / path)).parents:
            raise Refusal(403, f"{path!r}: does not lie in the folder")
        file = Path(os.path.realpath(intake.root / path))
        if intake.allowed and not any(folder in file.parents for folder in intake.allowed):
            raise Refusal(403, f"{path}: leads out of the folders that the server was started with")
        if not os.path.isfile(file) and not (os.path.isdir(file) and is_zarr(file)):
            raise Refusal(404, f"{path}: there is no such file in the folder")
        return file

    def _forget_moved(self, intake: Intake, paths: Sequence[str]) -> None:
        """Count what became frames no longer as on its way."""
        with self._lock:
            gone = [path for path in paths if path in intake.files and not (intake.root / path).exists()]
            size = sum(intake.files.pop(path) for path in gone)
        self._studio.room.count_coming(-size)

    def delete(self, intake_id: str) -> None:
        """Forget an intake, with the copies that were made for it."""
        intake = self.require(intake_id)
        with self._lock:
            self._all.pop(intake_id, None)
        if not intake.linked:
            remove_known(self._home, IN_INTAKE, intake_id)
            self._studio.room.count_coming(-sum(intake.files.values()))

    def close(self) -> None:
        """Forget all."""
        self._all.clear()
        self._clear()

    def _clear(self) -> None:
        remove_known(self._home, IN_INTAKE)
        with contextlib.suppress(OSError):  # not there, or something that we do not know is in it
            self._home.rmdir()


def clean_path(text: str) -> str:
    r"""A path below a folder, fit to be made there: each part a plain name.

    Raises:
        Refusal: it is none.

    Example:
        >>> clean_path("shots/a/DSC_1.tif")
        'shots/a/DSC_1.tif'
    """
    parts = text.replace("\\", "/").split("/")
    cleaned = [clean_name(part, "") for part in parts]
    if not text or len(parts) > DEEPEST or not all(cleaned):
        raise Refusal(400, "this is no path below a folder; use plain names with / between them")
    return "/".join(cleaned)
