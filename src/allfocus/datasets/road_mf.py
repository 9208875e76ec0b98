"""Road-MF: pairs of real road scenes, made to test whether fusion helps to find cars and people."""

from pathlib import Path

from allfocus.datasets.layouts import find_lettered, find_numbered, find_parallel, folders_below
from allfocus.datasets.samples import Dataset, Sample


def find_road_mf(root: Path) -> list[Sample]:
    """Return the pairs below a folder: numbered one after the other as its authors have them, lettered, or parallel."""
    return find_parallel(root) or find_lettered(folders_below(root), str.lower) or find_numbered(root)


ROAD_MF = Dataset(
    name="road-mf",
    title="Road-MF",
    summary="80 pairs of colour pictures of road scenes, without a true picture",
    find=find_road_mf,
    layout="1.jpg and 2.jpg for the first pair, 3.jpg and 4.jpg for the second (or A/1.jpg and B/1.jpg)",
    citation=(
        'X. Li, X. Li, H. Tan, J. Li, "SAMF: Small-Area-Aware Multi-focus Image Fusion for Object Detection", '
        "ICASSP 2024, pp. 3845-3849, arXiv:2401.08357"
    ),
    licence="No licence stated; cite the paper.",
    where="github.com/ixilai/SAMF",
    counts=(80,),
)
