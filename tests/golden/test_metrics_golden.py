"""Golden values of the metrics.

``metrics_golden.csv``, ``metrics_golden_rgb.csv`` and ``fmi_golden.csv`` lie beside the data folder. They were made
with GNU Octave 7.3 from the scripts that the field uses (sources and fused pictures from the public repositories named
in ``images.csv``); their DEFINITIONS.md says how. ``image_hashes.csv`` fixes the decoded pixels, checked first.

``SYNTHETIC`` needs no files. Birth certificate: printed by ``python tests/golden/test_metrics_golden.py`` (this
package, numpy 2.4.6 on x86-64) when the same code reproduced all 60 triples above to 1e-6 and nearly all to 1e-9.

Exceptions, with the reason:

* Q_Y on the triples of ``qy_illconditioned.csv``: the script divides rounding noise by rounding noise in flat windows;
  ours computes those exactly.
* FMI ``none`` on lytro_01: one window whose covariance is exactly zero is not exactly zero in the script (1.3e-4).
"""

import csv
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from allfocus.metrics import phase_congruency
from allfocus.metrics.catalogue import METRICS
from allfocus.metrics.chen_blum import contrast_preservation
from allfocus.metrics.chen_varshney import perceived_difference
from allfocus.metrics.correlation_of_differences import sum_of_correlations_of_differences
from allfocus.metrics.cvejic import covariance_weighted_quality
from allfocus.metrics.feature_information import feature_mutual_information
from allfocus.metrics.grey_levels import as_grey_levels
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
from allfocus.metrics.scoring import score
from allfocus.metrics.spatial_frequency import relative_spatial_frequency_error, spatial_frequency
from allfocus.metrics.structural_similarity import structural_similarity_index
from allfocus.metrics.tsallis_information import normalized_tsallis_information, tsallis_mutual_information
from allfocus.metrics.visual_information import visual_information_fidelity
from allfocus.metrics.xydeas_petrovic import edge_transfer
from allfocus.metrics.yang import agreement_weighted_quality

Pixels = NDArray[np.uint8]

# Column of the golden files -> (our function of fused, A, B; relative tolerance). The paper's eight come first.
PAPER: dict[str, tuple[Callable[[Pixels, Pixels, Pixels], float], float]] = {
    "QMI": (lambda f, a, b: normalized_mutual_information(f, [a, b]), 1e-12),
    "SF": (lambda f, a, b: spatial_frequency(f, [a, b]), 1e-12),
    "QS": (lambda f, a, b: structural_fusion_quality(f, [a, b]), 1e-11),
    "QCB": (lambda f, a, b: contrast_preservation(f, [a, b]), 1e-11),
    "QG": (lambda f, a, b: edge_transfer(f, [a, b]), 1e-9),
    "QNCIE": (lambda f, a, b: nonlinear_correlation_information(f, [a, b]), 1e-12),
    "PSNR_AF": (lambda f, a, b: peak_signal_to_noise(f, a), 1e-12),
    "PSNR_BF": (lambda f, a, b: peak_signal_to_noise(f, b), 1e-12),
    "SSIM_AF": (lambda f, a, b: structural_similarity_index(f, a), 1e-11),
    "SSIM_BF": (lambda f, a, b: structural_similarity_index(f, b), 1e-11),
}
OTHERS: dict[str, tuple[Callable[[Pixels, Pixels, Pixels], float], float]] = {
    "EN": (lambda f, a, b: histogram_entropy(f), 1e-12),
    "SD": (lambda f, a, b: column_standard_deviation(f), 1e-12),
    "AG": (lambda f, a, b: average_gradient(f), 1e-11),
    "EI": (lambda f, a, b: edge_intensity(f), 1e-12),
    "SCD": (lambda f, a, b: sum_of_correlations_of_differences(f, [a, b]), 1e-10),
    "QABF_RH": (lambda f, a, b: edge_transfer(f, [a, b], variant="hong"), 1e-11),
    "QG_ZL": (lambda f, a, b: edge_transfer(f, [a, b], variant="zheng-liu"), 1e-8),
    "QP": (lambda f, a, b: phase_congruency_quality(f, [a, b]), 1e-10),
    "QW": (lambda f, a, b: weighted_fusion_quality(f, [a, b]), 1e-11),
    "QE": (lambda f, a, b: edge_dependent_fusion_quality(f, [a, b]), 1e-11),
    # The script's weights of flat windows are rounding noise in these three, as DEFINITIONS.md section 9 says.
    "QS_ZL": (lambda f, a, b: structural_fusion_quality(f, [a, b], window="gaussian"), 1e-6),
    "QW_ZL": (lambda f, a, b: weighted_fusion_quality(f, [a, b], window="gaussian"), 1e-6),
    "VIFF": (lambda f, a, b: visual_information_fidelity(f, [a, b]), 1e-6),
    "QC": (lambda f, a, b: covariance_weighted_quality(f, [a, b]), 1e-11),
    "QY": (lambda f, a, b: agreement_weighted_quality(f, [a, b]), 1e-10),
    "QCV": (lambda f, a, b: perceived_difference(f, [a, b]), 1e-11),
    "QSF_Zheng": (lambda f, a, b: relative_spatial_frequency_error(f, [a, b]), 1e-11),
    "QTE": (lambda f, a, b: tsallis_mutual_information(f, [a, b], swap_marginals=True), 1e-11),
    "QTE_nava": (lambda f, a, b: normalized_tsallis_information(f, [a, b], swap_marginals=True), 1e-11),
}
PER_CHANNEL = {**PAPER, "QABF_RH": OTHERS["QABF_RH"]}

# A few triples of each set for every run; the rest is marked slow.
QUICK = {
    ("lytro_01", "DSIFT"),
    ("lytro_04", "IFCNN-MAX-official-png"),
    ("mffw_03", "IFCNN"),
}
PARTS = 4
"""Into which the others are divided, so that several processes can share them."""


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def _decoded(path: Path) -> Pixels:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def _triples(shared_data: Path, shared_metrics: Path, quick: bool) -> dict[tuple[str, str], tuple[Pixels, ...]]:
    """Fused, A and B of every triple whose fused picture is at hand, by (pair, algorithm)."""
    found = {}
    for row in _rows(shared_metrics / "images.csv"):
        key = (row["pair"], row["algorithm"])
        fused = shared_metrics / "images" / row["fused_file"]
        if not fused.exists() or (key in QUICK) != quick:
            continue
        separator = "-" if row["dataset"] == "lytro" else "_"
        stem = row["pair"].replace("_", separator)
        sources = [shared_data / "eval" / row["dataset"] / f"{stem}{separator}{letter}.jpg" for letter in "AB"]
        found[key] = tuple(_decoded(path) for path in (fused, *sources))
    assert found
    return found


def _check_grey(names: dict, shared_data: Path, shared_metrics: Path, quick: bool, part: int | None = None) -> int:
    triples = _triples(shared_data, shared_metrics, quick)
    if part is not None:  # whole pairs, so that what is known of their sources is of use
        pairs = sorted({pair for pair, _ in triples})
        triples = {key: found for key, found in triples.items() if pairs.index(key[0]) % PARTS == part}
    noise = {("QY", row["pair"], row["algorithm"]) for row in _rows(shared_metrics / "qy_illconditioned.csv")}
    wrong, checked = [], 0
    for row in _rows(shared_metrics / "metrics_golden.csv"):
        key = (row["pair"], row["algorithm"])
        if row["metric"] not in names or key not in triples or (row["metric"], *key) in noise:
            continue
        function, tolerance = names[row["metric"]]
        found, expected = function(*triples[key]), float(row["value"])
        checked += 1
        if not abs(found - expected) <= tolerance * abs(expected):
            wrong.append((row["metric"], *key, found, expected))
    assert not wrong, wrong
    return checked


def _check_channels(shared_data: Path, shared_metrics: Path, quick: bool) -> int:
    triples = _triples(shared_data, shared_metrics, quick)
    wrong, checked = [], 0
    for row in _rows(shared_metrics / "metrics_golden_rgb.csv"):
        key = (row["pair"], row["algorithm"])
        if key not in triples:
            continue
        function, tolerance = PER_CHANNEL[row["metric"]]
        channel = "RGB".index(row["channel"])
        found, expected = function(*(picture[..., channel] for picture in triples[key])), float(row["value"])
        checked += 1
        if not abs(found - expected) <= tolerance * abs(expected):
            wrong.append((row["metric"], *key, row["channel"], found, expected))
    assert not wrong, wrong
    return checked


def test_decoded_pictures_and_their_grey_levels_have_the_recorded_hashes(
    shared_data: Path, shared_metrics: Path
) -> None:
    at_hand = {path.name: path for path in (shared_metrics / "images").iterdir()}
    for name in ("lytro", "mffw"):
        at_hand |= {path.name.replace("-", "_"): path for path in (shared_data / "eval" / name).glob("*.jpg")}
    checked = 0
    for row in _rows(shared_metrics / "image_hashes.csv"):
        path = at_hand.get(row["path"].split("/")[-1])
        if path is not None:
            pixels = _decoded(path)
            assert hashlib.sha256(pixels.tobytes()).hexdigest() == row["sha256_rgb_uint8_rowmajor"], path
            grey = as_grey_levels(pixels).astype(np.uint8)
            assert hashlib.sha256(grey.tobytes()).hexdigest() == row["sha256_gray_uint8_rowmajor"], path
            checked += 1
    assert checked >= 60 + 2 * 33


def test_every_golden_metric_is_known(shared_metrics: Path) -> None:
    recorded = {row["metric"] for row in _rows(shared_metrics / "metrics_golden.csv")}
    assert recorded == set(PAPER) | set(OTHERS)


def test_the_papers_metrics_agree_on_a_sample(shared_data: Path, shared_metrics: Path) -> None:
    assert _check_grey(PAPER, shared_data, shared_metrics, quick=True) == len(PAPER) * len(QUICK)


def test_the_other_metrics_agree_on_a_sample(shared_data: Path, shared_metrics: Path) -> None:
    assert _check_grey(OTHERS, shared_data, shared_metrics, quick=True) >= (len(OTHERS) - 1) * len(QUICK)


def test_single_channels_agree_on_a_sample(shared_data: Path, shared_metrics: Path) -> None:
    assert _check_channels(shared_data, shared_metrics, quick=True) > 0


@pytest.fixture
def maps_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The feature maps of each picture are computed once, though several fused pictures have the same sources."""
    plain, known = phase_congruency._feature_maps, {}

    def feature_maps(levels, bank):
        key = hashlib.sha256(levels.tobytes()).digest(), levels.shape
        if key not in known:
            known[key] = plain(levels, bank)
        return known[key].copy()

    monkeypatch.setattr(phase_congruency, "_filter_bank", cache(phase_congruency._filter_bank))
    monkeypatch.setattr(phase_congruency, "_feature_maps", feature_maps)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_metrics_agree_on_all_other_triples(
    shared_data: Path, shared_metrics: Path, maps_once: None, part: int
) -> None:
    assert _check_grey({**PAPER, **OTHERS}, shared_data, shared_metrics, quick=False, part=part) > 1000 / PARTS


@pytest.mark.slow
def test_single_channels_agree_on_all_other_triples(shared_data: Path, shared_metrics: Path) -> None:
    assert _check_channels(shared_data, shared_metrics, quick=False) > 500


def test_rgb_mean_is_the_mean_of_the_golden_channels(shared_data: Path, shared_metrics: Path) -> None:
    fused, first, second = _triples(shared_data, shared_metrics, quick=True)["lytro_01", "DSIFT"]
    golden = [
        float(row["value"])
        for row in _rows(shared_metrics / "metrics_golden_rgb.csv")
        if (row["pair"], row["algorithm"], row["metric"]) == ("lytro_01", "DSIFT", "QS")
    ]
    assert len(golden) == 3
    found = score(fused, [first, second], protocol="rgb-mean", metrics=["Q_S"])
    assert found["Q_S"] == pytest.approx(sum(golden) / 3, rel=1e-10)


def test_feature_information_agrees_on_the_recorded_crops(shared_data: Path, shared_metrics: Path) -> None:
    triples = {**_triples(shared_data, shared_metrics, True), **_triples(shared_data, shared_metrics, False)}
    checked = 0
    for row in _rows(shared_metrics / "fmi_golden.csv"):
        feature = row["metric"].removeprefix("FMI_")
        if feature == "edge" or (row["pair"], feature) == ("lytro_01", "none"):
            continue
        pictures = [
            as_grey_levels(picture).astype(np.uint8)[100:164, 100:164]
            for picture in triples[row["pair"], row["algorithm"]]
        ]
        found = feature_mutual_information(pictures[0], pictures[1:], feature=feature)
        assert found == pytest.approx(float(row["value"]), rel=1e-12)
        checked += 1
    assert checked == 7


def synthetic_triple() -> tuple[Pixels, Pixels, Pixels, Pixels]:
    """Fused, two sources and the truth, (61, 74, 3); whole-number arithmetic only, so the same on every machine."""
    rows, columns = np.indices((61, 74))
    state, noise = 12345, []
    for _ in range(61 * 74 * 3):
        state = (state * 1103515245 + 12345) % 2**31
        noise.append(state >> 16 & 63)
    texture = np.array(noise).reshape(61, 74, 3)
    base = np.stack([(rows * 5 + columns * 2) % 160, (rows // 9 + columns // 7) % 2 * 120, columns * 2], axis=2)
    truth = np.clip(base + texture, 0, 255)
    padded = np.pad(truth, ((2, 2), (2, 2), (0, 0)), mode="edge")
    blurred = sum(padded[i : i + 61, j : j + 74] for i in range(5) for j in range(5)) // 25
    left = (columns < 37)[..., None]
    first, second = np.where(left, truth, blurred), np.where(left, blurred, truth)
    fused = np.where((columns < 34)[..., None], first, np.where((columns > 39)[..., None], second, blurred))
    return tuple(picture.astype(np.uint8) for picture in (fused, first, second, truth))


SYNTHETIC: dict[str, dict[str, float]] = {
    "grey": {
        "Q_MI": 1.1995619796005994,
        "Q_SF": 0.16162875279676572,
        "Q_S": 0.9010530163999974,
        "Q_CB": 0.8469655803483329,
        "Q_AB/F": 0.6566781290754431,
        "Q_NCIE": 0.839780555714918,
        "PSNR": 31.119969505143384,
        "SSIM": 0.9610892045652428,
        "Q_W": 0.9054676708680578,
        "Q_E": 0.7975614690559731,
        "Q_Y": 0.9705882823629628,
        "Q_C": 0.8841231701954912,
        "Q_CV": 234.00455406001913,
        "Q_P": 0.7833689135938467,
        "VIFF": 0.954685580139108,
        "FMI": 0.5250772625459226,
        "SCD": 1.2023237268620828,
        "EN": 7.162006921471501,
        "SD": 38.48360007756617,
        "AG": 22.865702839594633,
        "EI": 146.09978775825792,
        "SF": 41.21533196317526,
        "N_AB/F": 0.002354992363769106,
        "Q_TE": 64.34483664707525,
    },
    "rgb-mean": {
        "Q_MI": 1.3015432736580757,
        "Q_SF": 0.1936497633815009,
        "Q_S": 0.8828275520595735,
        "Q_CB": 0.8151693233616055,
        "Q_AB/F": 0.6853134392609098,
        "Q_NCIE": 0.8516142747294274,
        "PSNR": 30.50502027114526,
        "SSIM": 0.9494768304083983,
        "Q_W": 0.8984252023818002,
        "Q_E": 0.8015664069474723,
        "Q_Y": 0.9551336062037047,
        "Q_C": 0.8807412363742704,
        "Q_CV": 228.84952085538097,
        "Q_P": 0.6987346541410581,
        "VIFF": 0.9124861415703677,
        "FMI": 0.5154757706332234,
        "SCD": 0.899745170563142,
        "EN": 7.388395422613573,
        "SD": 42.264938053641025,
        "AG": 27.455105770247986,
        "EI": 143.41149773614487,
        "SF": 49.38068966228273,
        "N_AB/F": 0.002462588204200067,
        "Q_TE": 83.25474827875648,
    },
}


@pytest.mark.parametrize("protocol", ["grey", "rgb-mean"])
def test_the_synthetic_triple_scores_as_recorded(protocol: str) -> None:
    fused, first, second, truth = synthetic_triple()
    found = score(fused, [first, second], reference=truth, protocol=protocol)
    assert list(found) == list(METRICS)
    assert found == pytest.approx(SYNTHETIC[protocol], rel=1e-9)


if __name__ == "__main__":
    f, a, b, t = synthetic_triple()
    print({protocol: score(f, [a, b], reference=t, protocol=protocol) for protocol in ("grey", "rgb-mean")})
