"""MFIFB, the multi-focus image fusion benchmark: 105 pairs collected from Lytro, MFFW, Savic, Aymaz and others."""

from pathlib import Path

from allfocus.datasets.layouts import find_lettered, folders_below
from allfocus.datasets.samples import Dataset, Sample


def find_mfifb(root: Path) -> list[Sample]:
    """Return the pairs below ``root/input`` or, where there is no such folder, below ``root``."""
    base = root / "input" if (root / "input").is_dir() else root
    # Results of the methods lie in a folder beside the sources; they are no sources.
    folders = [folder for folder in folders_below(base) if not folder.name.lower().startswith(("fused", "output"))]
    return find_lettered(folders, _name)


def _name(stem: str) -> str:
    return stem.lower().replace("_", "-").replace(" ", "-")


MFIFB = Dataset(
    name="mfifb",
    title="MFIFB",
    summary="105 pairs of different sizes, colour and grey, collected from other sets; no true picture",
    find=find_mfifb,
    layout="input/aymaz_01/aymaz_01_A.bmp and input/aymaz_01/aymaz_01_B.bmp",
    citation='X. Zhang, "Multi-focus Image Fusion: A Benchmark", arXiv:2005.01116, 2020',
    licence="No licence stated; its author asks to cite the paper, and those of the sets it is made of.",
    where="github.com/xingchenzhang/MFIFB",
    counts=(105,),
)
