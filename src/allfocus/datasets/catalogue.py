"""The table of benchmark sets, and :func:`find_dataset`, which finds and checks one in a folder.

Adding a set: one new file, one entry here, one test.
"""

import difflib
import os
from functools import cache
from os import PathLike
from pathlib import Path

from allfocus.datasets.folder_of_stacks import FOLDER
from allfocus.datasets.lytro import LYTRO, LYTRO_TRIPLE
from allfocus.datasets.mffw import MFFW
from allfocus.datasets.mfi_whu import MFI_WHU
from allfocus.datasets.mfifb import MFIFB
from allfocus.datasets.real_mff import REAL_MFF
from allfocus.datasets.road_mf import ROAD_MF
from allfocus.datasets.samples import Dataset, Sample, check_samples
from allfocus.errors import InputError
from allfocus.plugins import DATASETS_GROUP, Catalogue, add_plugins, telling_of_plugins

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset for dataset in (LYTRO, LYTRO_TRIPLE, MFFW, MFIFB, REAL_MFF, MFI_WHU, ROAD_MF, FOLDER)
}
"""Every benchmark set by its name, in the order in which reports print them."""


@cache
def dataset_catalogue() -> Catalogue[Dataset]:
    """Our benchmark sets with those that installed packages offer, and which of these are passed over."""
    return add_plugins(DATASETS, DATASETS_GROUP, lambda name, value: value if isinstance(value, Dataset) else None)


def all_datasets() -> dict[str, Dataset]:
    """Every benchmark set by its name: ours, then those that installed packages offer (``allfocus.datasets``)."""
    return dataset_catalogue().entries


def find_dataset(name: str, root: str | PathLike[str], *, whole: bool = False) -> list[Sample]:
    """Return the samples of a benchmark set in their order, checked: complete, readable, one size each.

    Args:
        name: a key of :func:`all_datasets`, for example ``"lytro"``.
        root: the folder that holds the set; several ways of naming the files are recognised.
        whole: insist on the full number of samples; otherwise a part of the set will do.

    Raises:
        InputError: There is no such set, it is not in that folder (the message says where to get it), a sample is
            incomplete, or its pictures differ in size.

    Example:
        >>> find_dataset("lytro", "no-such-folder")  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        allfocus.errors.InputError: lytro: there is no folder no-such-folder ...
    """
    known = all_datasets()
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
        raise InputError(
            f"there is no data set {name!r}; did you mean {nearest!r}? The data sets are: {', '.join(known)}"
        )
    dataset, folder = known[name], Path(root)
    if not os.path.isdir(folder):
        raise InputError(f"{name}: there is no folder {folder}; get {dataset.title} from: {dataset.where}")
    with telling_of_plugins(name, dataset_catalogue().packages):
        samples = list(dataset.find(folder))
    if not samples:
        raise InputError(
            f"{name}: no pictures of {dataset.title} in {folder}; expected files like {dataset.layout}. "
            f"Get it from: {dataset.where}"
        )
    with telling_of_plugins(name, dataset_catalogue().packages):
        check_samples(dataset, samples, whole=whole)
    return samples
