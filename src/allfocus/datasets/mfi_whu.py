"""MFI-WHU: photos blurred by hand-made masks, with the sharp photo as the truth."""

from allfocus.datasets.layouts import find_parallel
from allfocus.datasets.samples import Dataset

MFI_WHU = Dataset(
    name="mfi-whu",
    title="MFI-WHU",
    summary="120 pairs of colour pictures of different sizes, blurred with masks, with the true picture",
    find=find_parallel,
    layout="source_1/6.jpg, source_2/6.jpg and full_clear/6.jpg",
    citation=(
        'H. Zhang, Z. Le, Z. Shao, H. Xu, J. Ma, "MFF-GAN: An unsupervised generative adversarial network with '
        'adaptive and gradient joint constraints for multi-focus image fusion", Information Fusion 66, 2021, pp. 40-53'
    ),
    licence="MIT (the authors' repository); the photos come from public sets.",
    where="github.com/HaoZhang1018/MFI-WHU",
    counts=(120,),
    has_reference=True,
)
