"""The numbers printed in the paper of inter-image pixel shuffling (Lin, Ma, Wang 2025), Tables 1 to 3.

They are quoted, not measured: other code, other pictures, in part other compression. Reports keep them apart from what
was measured here and mark them as printed.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PrintedTable:
    """One table of the paper, or the half of it that is about one data set."""

    table: int
    """Its number in the paper."""
    metrics: tuple[str, ...]
    """The columns, by the names of our catalogue."""
    rows: dict[str, tuple[float, ...]]
    """Method -> one number a column, to the printed digit; the names are ours, the paper's "Ours" is ``ips-paper``."""
    pictures: int
    """How many pictures the whole set has."""


PAPER_NAMES: dict[str, str] = {
    "dsift": "DSIFT",
    "dct-corr": "DCT_Corr",
    "cnn": "CNN",
    "ifcnn": "IFCNN",
    "swinfusion": "SwinFusion",
    "u2fusion": "U2Fusion",
    "mff-gan": "MFF-GAN",
    "zmff": "ZMFF",
    "fusion2void": "Fusion2Void",
    "ips-paper": "IPS (the paper's own)",
}
"""How the paper writes the names of the methods, in its order."""

_SIX = ("Q_MI", "Q_SF", "Q_S", "Q_CB", "Q_AB/F", "Q_NCIE")
_TWO = ("PSNR", "SSIM")

PRINTED: dict[str, PrintedTable] = {
    "lytro": PrintedTable(
        table=1,
        metrics=_SIX,
        rows={
            "dsift": (1.0271, 0.0685, 0.8158, 0.7200, 0.6760, 0.8194),
            "dct-corr": (1.0197, 0.0674, 0.8173, 0.7103, 0.6419, 0.8191),
            "cnn": (1.0124, 0.0748, 0.8373, 0.7878, 0.7260, 0.8325),
            "ifcnn": (1.0325, 0.0745, 0.8253, 0.7169, 0.7206, 0.8270),
            "swinfusion": (1.0217, 0.0735, 0.8302, 0.7218, 0.7140, 0.8237),
            "u2fusion": (0.7027, 0.0721, 0.7213, 0.5533, 0.6089, 0.8191),
            "mff-gan": (0.7584, 0.0723, 0.8067, 0.6253, 0.6567, 0.8215),
            "zmff": (0.8466, 0.0752, 0.8407, 0.7165, 0.6996, 0.8253),
            "fusion2void": (1.0842, 0.0753, 0.8482, 0.7895, 0.7424, 0.8391),
            "ips-paper": (1.0572, 0.0769, 0.8618, 0.7692, 0.7461, 0.8392),
        },
        pictures=20,
    ),
    "mffw": PrintedTable(
        table=2,
        metrics=_SIX,
        rows={
            "dsift": (0.6902, 0.0835, 0.6460, 0.6210, 0.6064, 0.8168),
            "dct-corr": (0.6897, 0.0838, 0.6547, 0.6087, 0.5958, 0.8168),
            "cnn": (0.7152, 0.0833, 0.6423, 0.6207, 0.6048, 0.8175),
            "ifcnn": (0.7003, 0.0853, 0.6635, 0.5882, 0.5910, 0.8170),
            "swinfusion": (0.7001, 0.0621, 0.6333, 0.5650, 0.5834, 0.8167),
            "u2fusion": (0.6436, 0.0879, 0.5747, 0.5183, 0.5281, 0.8148),
            "mff-gan": (0.6617, 0.0919, 0.6255, 0.5491, 0.5591, 0.8158),
            "zmff": (0.7274, 0.0858, 0.7179, 0.6326, 0.6509, 0.8182),
            "fusion2void": (0.7881, 0.0920, 0.7294, 0.6457, 0.6758, 0.8216),
            "ips-paper": (0.9409, 0.0880, 0.7395, 0.6710, 0.7100, 0.8271),
        },
        pictures=13,
    ),
    "real-mff": PrintedTable(
        table=3,
        metrics=_TWO,
        rows={
            "dsift": (39.94, 0.987),
            "dct-corr": (30.65, 0.982),
            "cnn": (40.55, 0.988),
            "ifcnn": (40.77, 0.990),
            "swinfusion": (28.09, 0.978),
            "u2fusion": (31.70, 0.958),
            "mff-gan": (30.54, 0.963),
            "zmff": (33.18, 0.958),
            "fusion2void": (37.02, 0.966),
            "ips-paper": (42.19, 0.991),
        },
        pictures=710,
    ),
    "mfi-whu": PrintedTable(
        table=3,
        metrics=_TWO,
        rows={
            "dsift": (45.26, 0.992),
            "dct-corr": (42.97, 0.990),
            "cnn": (45.05, 0.993),
            "ifcnn": (40.61, 0.993),
            "swinfusion": (31.51, 0.951),
            "u2fusion": (24.23, 0.871),
            "mff-gan": (30.49, 0.967),
            "zmff": (32.13, 0.966),
            "fusion2void": (44.43, 0.996),
            "ips-paper": (47.52, 0.997),
        },
        pictures=120,
    ),
}
"""The paper's tables by data set."""
