"""The Lytro set: twenty pairs and four triples of colour pictures, 520x520, from a light field camera."""

import re
from pathlib import Path

from allfocus.datasets.layouts import find_lettered, find_parallel, folders_below
from allfocus.datasets.samples import Dataset, Sample

_CITATION = (
    'M. Nejati, S. Samavi, S. Shirani, "Multi-focus Image Fusion Using Dictionary-Based Sparse Representation", '
    "Information Fusion 25, 2015, pp. 72-84, doi:10.1016/j.inffus.2014.10.004"
)
_LICENCE = "No licence stated; free for research when the paper is cited (its Readme.txt)."
_WHERE = (
    "the Lytro Multi-focus Dataset on its author M. Nejati's ResearchGate page; copies lie in the repositories of many "
    "methods, for example github.com/uzeful/IFCNN (Code/datasets/CMFDataset)"
)


def find_lytro(root: Path) -> list[Sample]:
    """Return the pairs below a folder; the triples, which lie in a folder called Triple..., are left out."""
    folders = [folder for folder in folders_below(root) if "triple" not in folder.relative_to(root).as_posix().lower()]
    return find_lettered(folders, _name) or find_parallel(root)


def find_lytro_triple(root: Path) -> list[Sample]:
    """Return the triples: from the folder called Triple... where there is one below ``root``, else from ``root``."""
    folders = folders_below(root)
    inner = [folder for folder in folders if "triple" in folder.relative_to(root).as_posix().lower()]
    return find_lettered(inner or folders, _name) or find_parallel(root)


def _name(stem: str) -> str | None:
    match = re.fullmatch(r"(?:colou?r[-_ ]?)?(?:lytro|c)[-_ ]?0*(\d+)", stem.lower())
    return f"lytro-{int(match[1]):02d}" if match else None


LYTRO = Dataset(
    name="lytro",
    title="Lytro",
    summary="20 pairs of colour pictures, 520x520, without a true picture; the set every paper reports",
    find=find_lytro,
    layout="lytro-01-A.jpg and lytro-01-B.jpg (or c_01_1.tif and c_01_2.tif, or imageA/1.png and imageB/1.png)",
    citation=_CITATION,
    licence=_LICENCE,
    where=_WHERE,
    counts=(20,),
)

LYTRO_TRIPLE = Dataset(
    name="lytro-triple",
    title="Lytro, triple series",
    summary="4 scenes with three sources each, 520x520, without a true picture",
    find=find_lytro_triple,
    layout="lytro-01-A.jpg, lytro-01-B.jpg and lytro-01-C.jpg",
    citation=_CITATION,
    licence=_LICENCE,
    where=_WHERE + ", folder Triple Series",
    counts=(4,),
    sources_each=3,
)
