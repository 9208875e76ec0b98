"""What a benchmark set consists of, and the checks that every set passes before anything is measured on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from allfocus.errors import InputError


@dataclass(frozen=True)
class Sample:
    """One scene: the partly focused pictures and, where there is one, the true picture."""

    name: str
    """Unique within its set, for example ``lytro-01``."""
    sources: tuple[Path, ...]
    """Two or more picture files of one size, in the set's own order (A, B, C or 1, 2, 3)."""
    reference: Path | None = None
    """The all-in-focus picture, of the same size; None where the set has none."""


@dataclass(frozen=True)
class Dataset:
    """A benchmark set: what it is, whom to cite, and how to find it in a folder."""

    name: str
    """What the user types, for example ``lytro``."""
    title: str
    """The name that papers use."""
    summary: str
    """What is in it."""
    find: Callable[[Path], list[Sample]]
    """Returns the samples below a folder, unchecked; an empty list where it recognises nothing."""
    layout: str
    """How the files must be named, for the error message."""
    citation: str
    """The paper to cite."""
    licence: str
    """What its authors say about use."""
    where: str
    """Where to get it, in words."""
    counts: tuple[int, ...] = ()
    """Numbers of samples of the whole set; several where different editions are in circulation; empty: any number."""
    sources_each: int | None = 2
    """Pictures in each sample; None: two or more."""
    has_reference: bool = False
    """Whether every sample has a true picture."""


def check_samples(dataset: Dataset, samples: Sequence[Sample], *, whole: bool = False) -> None:
    """Raise unless the samples are complete, readable, and of one size each.

    Args:
        dataset: what the samples must conform to.
        samples: what was found.
        whole: also insist on the full number of samples; otherwise a part of a set is accepted.

    Raises:
        InputError: Names the sample and what is wrong with it.
    """
    names = [sample.name for sample in samples]
    for sample in samples:
        if names.count(sample.name) > 1:
            twice = [str(other.sources[0]) for other in samples if other.name == sample.name]
            raise InputError(
                f"{dataset.name}: {sample.name} was found more than once ({', '.join(twice)}); "
                "point at one of these folders"
            )
        _check_complete(dataset, sample)
        _check_sizes(dataset, sample)
    if dataset.counts and (len(samples) > max(dataset.counts) or (whole and len(samples) not in dataset.counts)):
        expected = " or ".join(str(count) for count in dataset.counts)
        raise InputError(
            f"{dataset.name}: found {len(samples)} samples, the set has {expected}; "
            f"first {names[0]}, last {names[-1]}. Remove what does not belong to it, or complete it"
        )


def read_size(path: Path) -> tuple[int, int]:
    """Return (width, height) of a picture file without decoding it.

    Raises:
        InputError: The file is not a picture that can be read.
    """
    try:
        with Image.open(path) as picture:
            return picture.size
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as problem:
        raise InputError(f"{path} cannot be read as a picture ({problem}); replace the file") from problem


def _check_complete(dataset: Dataset, sample: Sample) -> None:
    found, needed = len(sample.sources), dataset.sources_each
    if (needed is not None and found != needed) or found < 2:
        have = ", ".join(path.name for path in sample.sources) or "none"
        wanted = "at least 2" if needed is None else str(needed)
        raise InputError(
            f"{dataset.name}: {sample.name} has {found} source picture(s) ({have}), expected {wanted}; "
            f"the files must be named like {dataset.layout}"
        )
    if dataset.has_reference and sample.reference is None:
        raise InputError(
            f"{dataset.name}: {sample.name} has no true picture beside {sample.sources[0]}; "
            f"the files must be named like {dataset.layout}"
        )


def _check_sizes(dataset: Dataset, sample: Sample) -> None:
    first = sample.sources[0]
    expected = read_size(first)
    for path in (*sample.sources[1:], *([sample.reference] if sample.reference else [])):
        found = read_size(path)
        if found != expected:
            raise InputError(
                f"{dataset.name}: the pictures of {sample.name} differ in size: {first} is "
                f"{expected[0]}x{expected[1]}, {path} is {found[0]}x{found[1]} (width x height). "
                "Nothing is cropped in silence: mend or remove this sample"
            )
