"""MFFW, multi-focus in the wild: pairs from the internet with strong defocus spread, many of them misregistered."""

import re
from pathlib import Path

from allfocus.datasets.layouts import find_lettered, find_parallel, find_stack_folders, folders_below
from allfocus.datasets.samples import Dataset, Sample


def find_mffw(root: Path) -> list[Sample]:
    """Return the pairs below a folder."""
    return find_lettered(folders_below(root), _name) or find_parallel(root) or find_stack_folders(root)


def _name(stem: str) -> str | None:
    match = re.fullmatch(r"mffw2?[-_ ]?0*(\d+)", stem.lower())
    return f"mffw-{int(match[1]):02d}" if match else None


MFFW = Dataset(
    name="mffw",
    title="MFFW",
    summary="13 pairs (19 in the paper) of colour pictures of different sizes, strong defocus spread, no true picture",
    find=find_mffw,
    layout="mffw_01_A.jpg and mffw_01_B.jpg (in one folder or one folder a pair)",
    citation=(
        'S. Xu, X. Wei, C. Zhang, J. Liu, J. Zhang, "MFFW: A new dataset for multi-focus image fusion", '
        "arXiv:2002.04780, 2020"
    ),
    licence="No licence stated; its authors ask to cite the paper.",
    where="github.com/xingchenzhang/MFIFB, folder input (the 13 pairs mffw_01 to mffw_13)",
    counts=(13, 19),
)
