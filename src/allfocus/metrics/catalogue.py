"""The table of metrics: what each stands for, its range, its paper, and how it misleads.

Adding a metric: one new file with one function, one entry here, one test.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from allfocus.errors import InputError
from allfocus.metrics.artifacts import fusion_artifacts
from allfocus.metrics.chen_blum import contrast_preservation
from allfocus.metrics.chen_varshney import perceived_difference
from allfocus.metrics.correlation_of_differences import sum_of_correlations_of_differences
from allfocus.metrics.cvejic import covariance_weighted_quality
from allfocus.metrics.feature_information import feature_mutual_information
from allfocus.metrics.image_statistics import (
    average_gradient,
    column_standard_deviation,
    edge_intensity,
    histogram_entropy,
)
from allfocus.metrics.mutual_information import normalized_mutual_information
from allfocus.metrics.nonlinear_correlation import nonlinear_correlation_information
from allfocus.metrics.peak_signal_noise_ratio import peak_signal_to_noise
from allfocus.metrics.phase_congruency import phase_congruency_quality
from allfocus.metrics.piella import (
    edge_dependent_fusion_quality,
    structural_fusion_quality,
    weighted_fusion_quality,
)
from allfocus.metrics.spatial_frequency import (
    normalized_spatial_frequency,
    spatial_frequency,
)
from allfocus.metrics.structural_similarity import structural_similarity_index
from allfocus.metrics.tsallis_information import tsallis_mutual_information
from allfocus.metrics.visual_information import visual_information_fidelity
from allfocus.metrics.xydeas_petrovic import edge_transfer
from allfocus.metrics.yang import agreement_weighted_quality
from allfocus.plugins import METRICS_GROUP, Catalogue, add_plugins


@dataclass(frozen=True)
class Metric:
    """One way to put a number on a fused picture."""

    name: str
    """As papers write it, for example ``Q_AB/F``."""
    key: str
    """The name for files and options: lower case letters, digits and underscores."""
    full_name: str
    """What the name stands for."""
    function: Callable[..., float]
    """Takes (fused, sources), or (fused, reference) where ``needs_reference``."""
    lowest: float
    """Lower end of the range; ``-inf`` where there is none."""
    highest: float
    """Upper end of the range; ``inf`` where there is none."""
    paper: str
    """Where it was proposed."""
    pathologies: str
    """Known ways in which it misleads."""
    direction: Literal["higher", "lower"] = "higher"
    """Which values are better."""
    needs_reference: bool = False
    """Compares with the true picture instead of the sources."""
    most_sources: int | None = None
    """Largest number of sources that the definition allows; None: any number from two on."""
    smallest: int = 1
    """Least height and width in pixels that its windows need."""


_ENTRIES = (
    Metric(
        name="Q_MI",
        key="q_mi",
        full_name="normalised mutual information",
        function=normalized_mutual_information,
        lowest=0,
        highest=2,
        paper="Hossny, Nahavandi, Creighton, Electronics Letters 44(18), 2008",
        pathologies="Rewards copying one source; falls with any smooth blending or noise, however invisible.",
    ),
    Metric(
        name="Q_SF",
        key="q_sf",
        full_name="spatial frequency / 255",
        function=normalized_spatial_frequency,
        lowest=0,
        highest=2**0.5,
        paper="Eskicioglu, Fisher, IEEE Trans. Communications 43, 1995",
        pathologies="Looks at the fused picture alone: noise, ringing and over-sharpening score higher.",
    ),
    Metric(
        name="Q_S",
        key="q_s",
        full_name="Piella's fusion quality index",
        function=structural_fusion_quality,
        lowest=-1,
        highest=1,
        paper="Piella, Heijmans, ICIP 2003",
        pathologies="A second script uses the SSIM window and gives about 0.07 more; tables with it do not compare.",
        smallest=8,
    ),
    Metric(
        name="Q_CB",
        key="q_cb",
        full_name="Chen and Blum's contrast preservation",
        function=contrast_preservation,
        lowest=0,
        highest=1,
        paper="Chen, Blum, Image and Vision Computing 27(10), 2009",
        pathologies="Depends on whether each picture is stretched to 0..255 first (here it is, as is usual).",
    ),
    Metric(
        name="Q_AB/F",
        key="q_abf",
        full_name="Xydeas and Petrovic's edge transfer",
        function=edge_transfer,
        lowest=0,
        highest=0.9749,
        paper="Xydeas, Petrovic, Electronics Letters 36(4), 2000",
        pathologies="Perfect is 0.9748, not 1; the frame of the picture counts as an edge; three scripts differ.",
    ),
    Metric(
        name="Q_NCIE",
        key="q_ncie",
        full_name="nonlinear correlation information entropy",
        function=nonlinear_correlation_information,
        lowest=0,
        highest=1,
        paper="Wang, Shen, Jin, in: Image Fusion: Algorithms and Applications, 2008",
        pathologies="All useful variation lies in about 0.81..0.85; follows Q_MI.",
    ),
    Metric(
        name="PSNR",
        key="psnr",
        full_name="peak signal-to-noise ratio in dB",
        function=peak_signal_to_noise,
        lowest=0,
        highest=float("inf"),
        paper="textbook",
        pathologies="A shift of the whole picture by half a pixel costs more than visible blur at the focus boundary.",
        needs_reference=True,
    ),
    Metric(
        name="SSIM",
        key="ssim",
        full_name="structural similarity index",
        function=structural_similarity_index,
        lowest=-1,
        highest=1,
        paper="Wang, Bovik, Sheikh, Simoncelli, IEEE Trans. Image Processing 13(4), 2004",
        pathologies="Window, padding and grey conversion move the third digit between libraries.",
        needs_reference=True,
        smallest=11,
    ),
    Metric(
        name="Q_W",
        key="q_w",
        full_name="weighted fusion quality index",
        function=weighted_fusion_quality,
        lowest=-1,
        highest=1,
        paper="Piella, Heijmans, ICIP 2003",
        pathologies="As Q_S: a second script uses the SSIM window and other constants.",
        smallest=8,
    ),
    Metric(
        name="Q_E",
        key="q_e",
        full_name="edge-dependent fusion quality index",
        function=edge_dependent_fusion_quality,
        lowest=-1,
        highest=1,
        paper="Piella, Heijmans, ICIP 2003",
        pathologies="The frame of the picture counts as an edge.",
        smallest=8,
    ),
    Metric(
        name="Q_Y",
        key="q_y",
        full_name="Yang's similarity measure",
        function=agreement_weighted_quality,
        lowest=-1,
        highest=1,
        paper="Yang, Zhang, Wang, Liu, Information Fusion 9(2), 2008",
        pathologies="Published values are rounding noise where windows are flat; here those are computed exactly.",
        most_sources=2,
        smallest=7,
    ),
    Metric(
        name="Q_C",
        key="q_c",
        full_name="Cvejic's similarity measure",
        function=covariance_weighted_quality,
        lowest=-1,
        highest=1,
        paper="Cvejic, Loza, Bull, Canagarajah, International Journal of Signal Processing 2(3), 2005",
        pathologies="Two weights cut off at 0 and 1 make it jump.",
        most_sources=2,
        smallest=8,
    ),
    Metric(
        name="Q_CV",
        key="q_cv",
        full_name="Chen and Varshney's perceived difference",
        function=perceived_difference,
        lowest=0,
        highest=float("inf"),
        paper="Chen, Varshney, Information Fusion 8(2), 2007",
        pathologies="Edge strength to the fifth power: a few blocks with hard edges decide.",
        direction="lower",
    ),
    Metric(
        name="Q_P",
        key="q_p",
        full_name="phase congruency of features",
        function=phase_congruency_quality,
        lowest=-1,
        highest=2,
        paper="Zhao, Laganiere, Liu, Int. J. Innovative Computing, Information and Control 3(6), 2007",
        pathologies="Identical pictures do not give exactly 1; values slightly above 1 can occur.",
        smallest=2,
    ),
    Metric(
        name="VIFF",
        key="viff",
        full_name="visual information fidelity for fusion",
        function=visual_information_fidelity,
        lowest=0,
        highest=float("inf"),
        paper="Han, Cai, Cao, Xu, Information Fusion 14(2), 2013",
        pathologies="Raising the contrast scores above 1.",
        smallest=41,
    ),
    Metric(
        name="FMI",
        key="fmi",
        full_name="feature mutual information (horizontal gradient, 3x3 windows)",
        function=feature_mutual_information,
        lowest=float("-inf"),
        highest=1,
        paper="Haghighat, Razian, AICT 2014",
        pathologies="Tables often use thinned Sobel edges instead, which depend on the program that ran them.",
        smallest=3,
    ),
    Metric(
        name="SCD",
        key="scd",
        full_name="sum of the correlations of differences",
        function=sum_of_correlations_of_differences,
        lowest=-2,
        highest=2,
        paper="Aslantas, Bendes, AEU Int. J. Electronics and Communications 69(12), 2015",
        pathologies="Made for sources of different kinds; says little about focus stacks.",
        most_sources=2,
    ),
    Metric(
        name="EN",
        key="en",
        full_name="entropy of the histogram in bits",
        function=histogram_entropy,
        lowest=0,
        highest=8,
        paper="textbook",
        pathologies="Looks at the fused picture alone; noise raises it.",
    ),
    Metric(
        name="SD",
        key="sd",
        full_name="mean standard deviation of the columns",
        function=column_standard_deviation,
        lowest=0,
        highest=float("inf"),
        paper="textbook",
        pathologies="Not the standard deviation of the picture; depends on which way it is turned.",
        smallest=2,
    ),
    Metric(
        name="AG",
        key="ag",
        full_name="average gradient",
        function=average_gradient,
        lowest=0,
        highest=float("inf"),
        paper="textbook",
        pathologies="Looks at the fused picture alone; noise raises it.",
    ),
    Metric(
        name="EI",
        key="ei",
        full_name="edge intensity",
        function=edge_intensity,
        lowest=0,
        highest=float("inf"),
        paper="textbook",
        pathologies="Looks at the fused picture alone; noise raises it.",
    ),
    Metric(
        name="SF",
        key="sf",
        full_name="spatial frequency on the 0..255 scale",
        function=spatial_frequency,
        lowest=0,
        highest=float("inf"),
        paper="Eskicioglu, Fisher, IEEE Trans. Communications 43, 1995",
        pathologies="255 times Q_SF; noise raises it.",
    ),
    Metric(
        name="N_AB/F",
        key="n_abf",
        full_name="fusion artifacts",
        function=fusion_artifacts,
        lowest=0,
        highest=1,
        paper="Petrovic, Xydeas, ICCV 2005; Shreyamsha Kumar, Signal, Image and Video Processing 7(6), 2013",
        pathologies="A blurred result has no artifacts and scores well.",
        direction="lower",
        smallest=2,
    ),
    Metric(
        name="Q_TE",
        key="q_te",
        full_name="Tsallis mutual information, order 1.85",
        function=tsallis_mutual_information,
        lowest=0,
        highest=float("inf"),
        paper="Cvejic, Canagarajah, Bull, Electronics Letters 42(11), 2006",
        pathologies="Not normalised. Published values come from a script with swapped marginals and do not compare.",
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ENTRIES}
"""Every metric of ours by its name, in the order in which reports print them."""

PAPER_METRICS: tuple[str, ...] = ("Q_MI", "Q_SF", "Q_S", "Q_CB", "Q_AB/F", "Q_NCIE", "PSNR", "SSIM")
"""The eight that the paper of inter-image pixel shuffling reports; the last two need a reference."""


@cache
def metric_catalogue() -> Catalogue[Metric]:
    """Our metrics with those that installed packages offer, and which of these are passed over."""
    return add_plugins(
        METRICS, METRICS_GROUP, lambda name, value: value if isinstance(value, Metric) else None, words=_plain_names
    )


def all_metrics() -> dict[str, Metric]:
    """Every metric by its name: ours, then those that installed packages offer (entry points ``allfocus.metrics``)."""
    return metric_catalogue().entries


def find_metric(name: str) -> Metric:
    """Return the metric with this name or key; upper and lower case and underscores do not matter.

    Raises:
        InputError: There is none; the message names the nearest.

    Example:
        >>> find_metric("qmi").name
        'Q_MI'
    """
    by_plain_name = {word: metric for metric in all_metrics().values() for word in _plain_names(metric)}
    if _plain(name) in by_plain_name:
        return by_plain_name[_plain(name)]
    nearest = difflib.get_close_matches(_plain(name), by_plain_name, n=1, cutoff=0.0)
    raise InputError(
        f"there is no metric {name!r}; did you mean {by_plain_name[nearest[0]].name!r}? "
        f"The metrics are: {', '.join(all_metrics())}"
    )


def _plain_names(metric: Metric) -> set[str]:
    return {_plain(metric.name), _plain(metric.key)}


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
