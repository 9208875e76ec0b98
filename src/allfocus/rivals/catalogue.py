"""The list of networks of the literature that are rebuilt here: what each is, whose it is, what it costs and needs.

`fusion.methods` makes methods of them. Nothing here imports torch, because lists of methods are made without it.
"""

from dataclasses import dataclass

PAIR = "of one core for a pair of 520 x 520"
FOLDED = "made for pairs: a stack is folded, the result so far with the next frame"


@dataclass(frozen=True)
class Rival:
    """One network of the literature."""

    name: str
    summary: str
    paper: str
    licence: str
    """Of the authors' code and weights; ours is written anew."""
    frames: str
    """How it takes stacks of more than two."""
    cost: str
    """Processor time, for a pair of the size of Lytro's."""
    function: str
    """Where its function lives, as ``package.module:name``."""
    files: tuple[str, ...] = ()
    """Files of weights that are looked for, the first that is there; none for what needs no weights."""
    origin: str = ""
    """Where its weights come from."""
    decides: bool = False
    """Whether it says which frame each pixel came from."""
    objective: str = ""
    """Where what trains it lives, as ``package.module:name``; empty for what is not trained."""


RIVALS: tuple[Rival, ...] = (
    Rival(
        "cnn",
        "a network compares patches of both frames; the map is cleaned and follows edges",
        "Liu, Chen, Peng, Wang, Information Fusion 36, 2017",
        "for research only",
        FOLDED,
        f"13 s {PAIR}",
        "allfocus.rivals.cnn:fuse_cnn",
        ("cnn.safetensors",),
        "the authors' cannot be had; trained anew",
        objective="allfocus.rivals.cnn:CnnObjective",
    ),
    Rival(
        "ifcnn",
        "the largest features of all frames, turned back into a picture",
        "Zhang, Liu, Sun, Yan, Zhao, Zhang, Information Fusion 54, 2020",
        "none stated",
        "any number at a time",
        f"2 s {PAIR}",
        "allfocus.rivals.ifcnn:fuse_ifcnn",
        ("ifcnn_max.pth", "IFCNN-MAX.pth", "ifcnn.safetensors"),
        "github.com/uzeful/IFCNN, Code/snapshots/IFCNN-MAX.pth",
        objective="allfocus.rivals.ifcnn:IfcnnObjective",
    ),
    Rival(
        "swinfusion",
        "attention in shifted windows, within each luminance and across both",
        "Ma, Tang, Fan, Huang, Mei, Ma, IEEE/CAA J. Automatica Sinica 9(7), 2022",
        "none stated",
        FOLDED,
        f"40 s {PAIR}",
        "allfocus.rivals.swinfusion:fuse_swinfusion",
        ("swinfusion.safetensors",),
        "the authors' cannot be had; trained anew",
        objective="allfocus.rivals.swinfusion:SwinFusionObjective",
    ),
    Rival(
        "u2fusion",
        "densely connected convolutions on both luminances, trained without truth for several kinds of fusion",
        "Xu, Ma, Jiang, Guo, Ling, IEEE Trans. PAMI 44(1), 2022",
        "none stated",
        FOLDED,
        f"6 s {PAIR}",
        "allfocus.rivals.u2fusion:fuse_u2fusion",
        ("u2fusion.index", "model.ckpt.index", "u2fusion.safetensors"),
        "github.com/hanna-xu/U2Fusion, model/model.ckpt",
        objective="allfocus.rivals.u2fusion:U2FusionObjective",
    ),
    Rival(
        "mff-gan",
        "two branches of convolutions on the luminances, trained against a network that looks for blur",
        "Zhang, Le, Shao, Xu, Ma, Information Fusion 66, 2021",
        "MIT",
        FOLDED,
        f"1 s {PAIR}",
        "allfocus.rivals.mff_gan:fuse_mff_gan",
        ("mff_gan_lytro.index", "mff_gan_mfi-whu.index", "mff-gan.safetensors"),
        "github.com/HaoZhang1018/MFF-GAN, checkpoint/Lytro_model and MFI-WHU_model",
        objective="allfocus.rivals.mff_gan:MffGanObjective",
    ),
    Rival(
        "zmff",
        "two untrained networks fitted to each stack, one draws the picture, one the focus of each frame",
        "Hu, Jiang, Liu, Ma, Information Fusion 92, 2023; the losses are our reading of it",
        "none stated",
        "any number at a time",
        "minutes on a GPU, hours without: 1,300 steps of fitting for each stack",
        "allfocus.rivals.zmff:fuse_zmff",
    ),
    Rival(
        "fusion2void",
        "an encoder for each frame and residual blocks on both, trained to fill in what is masked",
        "Lin, Lin, Ding, Huang, IEEE Trans. Circuits and Systems for Video Technology, 2024",
        "MIT",
        FOLDED,
        f"9 s {PAIR}",
        "allfocus.rivals.fusion2void:fuse_fusion2void",
        ("fusion2void.safetensors",),
        "the authors have published none; trained anew",
        objective="allfocus.rivals.fusion2void:Fusion2VoidObjective",
    ),
    Rival(
        "stackmff-v4",
        "a small network on each frame, attention between frames, the likeliest frame of each pixel",
        "Xie et al., StackMFF V4, arXiv 2512.21495, 2025",
        "MIT",
        "any number at a time",
        f"1 s {PAIR}",
        "allfocus.rivals.stackmff_v4:fuse_stackmff_v4",
        ("stackmff_v4.pth", "stackmffv4.pth", "stackmff-v4.safetensors"),
        "github.com/Xinzhe99/OpenFocus, weights",
        decides=True,
        objective="allfocus.rivals.stackmff_v4:StackMffV4Objective",
    ),
)
