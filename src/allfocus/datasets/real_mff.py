"""Real-MFF: pairs rendered from light fields, with an all-in-focus picture of the same light field as the truth."""

from allfocus.datasets.layouts import find_parallel
from allfocus.datasets.samples import Dataset

REAL_MFF = Dataset(
    name="real-mff",
    title="Real-MFF",
    summary="710 pairs of colour pictures, 625x433, with the true picture from the light field",
    find=find_parallel,
    layout="imageA/117.png, imageB/117.png and Fusion/117.png",
    citation=(
        'J. Zhang, Q. Liao, S. Liu, H. Ma, W. Yang, J.-H. Xue, "Real-MFF: A large realistic multi-focus image dataset '
        'with ground truth", Pattern Recognition Letters 138, 2020, arXiv:2003.12779'
    ),
    licence="MIT (the authors' repository).",
    where="github.com/Zancelot/Real-MFF",
    counts=(710,),
    has_reference=True,
)
