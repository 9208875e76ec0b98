"""The benchmark against values that were not made by this package.

* ``metrics_golden.csv`` beside the data folder: scores of the authors' own fused pictures, computed with the field's
  scripts in GNU Octave 7.3 (its DEFINITIONS.md says how). Scoring the same files with ``images`` must give the same.
* The paper's LaTeX source: the numbers of Tables 1 to 3 as printed.
"""

import csv
import re

import pytest

from allfocus.evaluation.benchmark import evaluate
from allfocus.evaluation.compression import JpegCompression
from allfocus.evaluation.printed_results import PRINTED

COLUMNS = {"Q_MI": "QMI", "Q_SF": "SF", "Q_S": "QS", "Q_CB": "QCB", "Q_AB/F": "QG", "Q_NCIE": "QNCIE"}


@pytest.mark.parametrize(("dataset", "count"), [("lytro", 4), ("mffw", 4)])
def test_pictures_of_other_software_get_their_golden_scores(shared_data, shared_metrics, tmp_path, dataset, count):
    golden = {}
    for row in csv.DictReader((shared_metrics / "metrics_golden.csv").read_text().splitlines()):
        golden[row["pair"], row["algorithm"], row["metric"]] = float(row["value"])
    result = evaluate(
        {dataset: shared_data / "eval" / dataset},
        [],
        images={"DSIFT": shared_metrics / "images"},
        metrics=list(COLUMNS),
        output=tmp_path / "out",
        workers=1,
        limit=10,
        report=False,
    )
    scored = [cell for cell in result.cells if not cell.error]
    assert len(scored) == count
    for cell in scored:
        for metric, column in COLUMNS.items():
            expected = golden[cell.sample.replace("-", "_"), "DSIFT", column]
            scale = 255 if metric == "Q_SF" else 1
            assert cell.scores[metric] * scale == pytest.approx(expected, rel=1e-6), (cell.sample, metric)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dataset", "jpeg"), [("lytro", JpegCompression(75, "4:2:0")), ("mffw", JpegCompression(92, "4:4:4"))]
)
def test_our_dsift_and_dct_corr_score_as_their_authors_pictures_do(
    shared_data, shared_metrics, tmp_path, dataset, jpeg
):
    means = {}
    for row in csv.DictReader((shared_metrics / "dataset_means.csv").read_text().splitlines()):
        means[row["dataset"], row["algorithm"]] = row
    result = evaluate(
        {dataset: shared_data / "eval" / dataset},
        ["dsift", "dct-corr"],
        metrics=list(COLUMNS),
        jpeg=jpeg,
        output=tmp_path / "out",
        workers=1,
        report=False,
    )
    rows = {row.method: row for row in result.summaries[dataset].methods}
    for method, algorithm in (("dsift", "DSIFT"), ("dct-corr", "DCT_Corr")):
        for metric, column in COLUMNS.items():
            expected = float(means[dataset, algorithm][column]) / (255 if metric == "Q_SF" else 1)
            assert rows[method].estimates[metric].mean == pytest.approx(expected, abs=0.01), (method, metric)


def test_printed_numbers_are_those_of_the_paper(shared_data):
    sources = sorted((shared_data.parent / "paper").glob("*.txt"))
    if not sources:
        pytest.skip("the paper's LaTeX source is not beside the data folder")
    # Comments hold rows of other methods that were not printed.
    text = "\n".join(re.sub(r"(?<!\\)%.*", "", line) for line in sources[0].read_text().splitlines())
    tables = [table for table in re.findall(r"\\begin\{table\}.*?\\end\{table\}", text, re.DOTALL) if "DSIFT" in table]
    assert len(tables) == 3
    found = [_numbers(table) for table in tables]
    assert found[0] == list(PRINTED["lytro"].rows.values())
    assert found[1] == list(PRINTED["mffw"].rows.values())
    assert [row[:2] for row in found[2]] == list(PRINTED["real-mff"].rows.values())
    assert [row[2:] for row in found[2]] == list(PRINTED["mfi-whu"].rows.values())


def _numbers(table):
    rows = []
    for line in table.split("\\\\"):
        cells = line.split("&")[1:]
        numbers = [re.findall(r"\d+\.\d+", cell) for cell in cells]
        if cells and all(len(number) == 1 for number in numbers):
            rows.append(tuple(float(number[0]) for number in numbers))
    return rows
