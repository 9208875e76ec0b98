"""Sharp photos for training: read once, kept as bytes on the device, crops drawn there in batches."""

import csv
import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from allfocus.errors import InputError
from allfocus.images.listing import PLAIN_SUFFIXES

LARGEST_SIDE = 1024
"""Larger photos are reduced: training crops are small, and reducing makes a photo sharper per pixel."""


@dataclass
class PhotoBank:
    """All photos as one flat byte tensor (pixels, 3), with the place and size of each."""

    pixels: Tensor
    offsets: Tensor
    heights: Tensor
    widths: Tensor
    smallest_side: int
    """The smallest height or width of all photos: no crop may be larger."""
    names: list[str]
    skipped: list[str] = field(default_factory=list)
    """Files that could not be used, each with the reason."""

    @property
    def device(self) -> torch.device:
        """The device that holds the photos."""
        return self.pixels.device

    def crop(self, count: int, size: tuple[int, int], generator: torch.Generator) -> Tensor:
        """Returns `count` random crops (count, 3, height, width), float32 in 0..1, flipped and transposed at random."""
        device = self.device
        chosen = torch.randint(len(self.names), (count,), generator=generator, device=device)
        random = torch.rand(count, 2, generator=generator, device=device)
        height, width = size
        top = (random[:, 0] * (self.heights[chosen] - height + 1)).long()
        left = (random[:, 1] * (self.widths[chosen] - width + 1)).long()
        turns = torch.rand(count, 3, generator=generator, device=device)[:, :, None] < 0.5
        rows, columns = torch.arange(height, device=device), torch.arange(width, device=device)
        rows = top[:, None] + torch.where(turns[:, 0], height - 1 - rows, rows)
        columns = left[:, None] + torch.where(turns[:, 1], width - 1 - columns, columns)
        # Flipped and transposed by where pixels are taken from: so they are moved once, and as bytes.
        down, across = self.offsets[chosen, None] + rows * self.widths[chosen, None], columns
        if height == width:
            down, across = torch.where(turns[:, 2], across, down), torch.where(turns[:, 2], down, across)
        crops = self.pixels[down[:, :, None] + across[:, None, :]]
        return crops.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format) / 255.0


def load_photos(
    folder: Path,
    *,
    smallest_side: int,
    licence_classes: Sequence[str] = (),
    device: torch.device | str = "cpu",
    part: tuple[int, int, bool] | None = None,
) -> PhotoBank:
    """Returns the usable photos below `folder`.

    Args:
        folder: pictures, searched recursively; a SOURCES.csv in it may give a `licence_class` per `file`.
        smallest_side: photos smaller than this cannot give a crop and are skipped.
        licence_classes: keep only these classes of SOURCES.csv; empty keeps all.
        device: where the photos are kept.
        part: (every, phase, inside): keep only the files whose place in the sorted list is (inside) or is not (not
            inside) `phase` modulo `every`; this is how photos are held out for validation.

    Raises:
        InputError: the folder is missing or holds no usable photo; the message names the first reasons.
    """
    arrays, names = [], []
    skipped: list[str] = []
    for path in _find_photos(folder, licence_classes, part):
        try:
            array = _read_photo(path)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            skipped.append(f"{path.name}: {error}")
            continue
        if min(array.shape[:2]) < smallest_side:
            skipped.append(f"{path.name}: {array.shape[1]}x{array.shape[0]} is smaller than {smallest_side} pixels")
            continue
        arrays.append(array)
        names.append(path.name)
    if not arrays:
        raise InputError(f"{folder}: no usable photo among {len(skipped)} ({'; '.join(skipped[:3])})")
    counts = torch.tensor([array.shape[0] * array.shape[1] for array in arrays])
    return PhotoBank(
        pixels=torch.from_numpy(np.concatenate([array.reshape(-1, 3) for array in arrays])).to(device),
        offsets=(counts.cumsum(0) - counts).to(device),
        heights=torch.tensor([array.shape[0] for array in arrays], device=device),
        widths=torch.tensor([array.shape[1] for array in arrays], device=device),
        smallest_side=min(min(array.shape[:2]) for array in arrays),
        names=names,
        skipped=skipped,
    )


def load_banks(
    folder: Path,
    *,
    smallest_side: int,
    licence_classes: Sequence[str] = (),
    held_out_every: int = 0,
    validates: bool = True,
    device: torch.device | str = "cpu",
) -> tuple[PhotoBank, PhotoBank]:
    """Returns the photos to train on and those held out; the same twice when none are held out or nobody asks for them.

    Args:
        folder: see :func:`load_photos`, as for what is not named here.
        smallest_side: photos smaller than this are skipped.
        licence_classes: keep only these.
        held_out_every: one photo of so many is held out; 0 for none.
        validates: whether those held out will be looked at.
        device: where the photos are kept.
    """
    load = functools.partial(
        load_photos, folder, smallest_side=smallest_side, licence_classes=licence_classes, device=device
    )
    if not held_out_every:
        bank = load()
        return bank, bank
    bank = load(part=(held_out_every, held_out_every - 1, False))
    return bank, load(part=(held_out_every, held_out_every - 1, True)) if validates else bank


def _find_photos(folder: Path, licence_classes: Sequence[str], part: tuple[int, int, bool] | None) -> list[Path]:
    """Returns the files to read, sorted; where none is left, an error says which condition was the last straw."""
    if not os.path.isdir(folder):
        raise InputError(f"{folder}: no such folder; give a folder of sharp photos")
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in PLAIN_SUFFIXES)
    if not paths:
        raise InputError(f"{folder}: no usable photo (no file ends in {', '.join(PLAIN_SUFFIXES)})")
    if licence_classes:
        paths = _keep_licences(folder, paths, licence_classes)
    if part is None:
        return paths
    every, phase, inside = part
    kept = [path for place, path in enumerate(paths) if (place % every == phase) == inside]
    if not kept:
        raise InputError(
            f"{folder}: {len(paths)} photos are too few to hold out every {every}th for validation; "
            f"set data.held_out_every to a number from 2 to {len(paths)}, or to 0 to hold none out"
        )
    return kept


def _keep_licences(folder: Path, paths: list[Path], licence_classes: Sequence[str]) -> list[Path]:
    table = folder / "SOURCES.csv"
    if not table.is_file():
        raise InputError(
            f"licence classes {', '.join(licence_classes)} are wanted but there is no SOURCES.csv",
            where=folder,
            hint=[
                "add one with columns file, licence_class",
                "take all photos by changing the recipe: data.licence_classes=[]",
            ],
        )
    with table.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    if rows and not {"file", "licence_class"} <= rows[0].keys():
        raise InputError(f"{table}: needs the columns file and licence_class, found {', '.join(rows[0])}")
    classes = {row["file"]: row["licence_class"] for row in rows}
    kept = [path for path in paths if classes.get(path.name) in licence_classes]
    if not kept:
        raise InputError(
            f"{table}: gives none of the {len(paths)} photos a licence class {' or '.join(licence_classes)}; "
            "complete it, or set data.licence_classes=[]"
        )
    return kept


def _read_photo(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    with Image.open(path) as picture:
        if picture.mode.startswith(("I", "F")):
            # Pillow would clip the values to 255 instead of scaling them: an all but white picture.
            raise ValueError(f"pixels of type {picture.mode} are not 8 bits; save it as an 8-bit picture")
        rgb = picture.convert("RGB")
    if max(rgb.size) > LARGEST_SIDE:
        rgb.thumbnail((LARGEST_SIDE, LARGEST_SIDE), Image.Resampling.LANCZOS)
    return np.asarray(rgb, dtype=np.uint8)
