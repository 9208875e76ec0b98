"""The benchmark as a whole: what it writes, what it reuses, and what becomes of errors."""

import csv
import hashlib
import json
import multiprocessing
import os
import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import pytest

from allfocus.datasets.catalogue import find_dataset
from allfocus.errors import InputError, OutputError
from allfocus.evaluation import cells
from allfocus.evaluation.benchmark import FORMAT, evaluate
from allfocus.evaluation.cells import Cell, CellTask
from allfocus.evaluation.compression import JpegCompression
from allfocus.evaluation.workers import run_cells
from allfocus.fusion.detail_meter import measure_lost_detail
from allfocus.images.reading import read_image
from allfocus.images.writing import write_image
from allfocus.metrics.scoring import score

METHODS = ["laplacian-pyramid", "average"]


@pytest.fixture
def fusions(monkeypatch):
    """Which methods were really run."""
    run = []
    original = cells.fuse

    def count(frames, *, method, device, check):
        run.append(method)
        return original(frames, method=method, device=device, check=check)

    monkeypatch.setattr(cells, "fuse", count)
    return run


def quick(small_sets, output, **options):
    """A benchmark of two methods on the set with a truth, without the report."""
    chosen = {"metrics": ["PSNR", "Q_SF"], "workers": 1, "report": False, **options}
    return evaluate({"real-mff": small_sets / "real-mff"}, chosen.pop("methods", METHODS), output=output, **chosen)


def values(result):
    return {(cell.dataset, cell.sample, cell.method): dict(cell.scores) for cell in result.cells}


def test_every_method_is_scored_on_every_picture_as_score_does_it(small_sets, tmp_path):
    result = quick(small_sets, tmp_path / "out")
    assert [(cell.sample, cell.method) for cell in result.cells] == [
        (sample, method) for sample in "123" for method in METHODS
    ]
    fused = cells.read_levels(tmp_path / "out/fused/real-mff/average/2.png")
    sources = [cells.read_levels(small_sets / f"real-mff/{part}/2.png") for part in ("imageA", "imageB")]
    reference = cells.read_levels(small_sets / "real-mff/Fusion/2.png")
    expected = score(fused, sources, reference=reference, metrics=["PSNR", "Q_SF"])
    assert values(result)["real-mff", "2", "average"] == expected


def test_two_runs_and_two_workers_give_identical_numbers(small_sets, tmp_path):
    once = quick(small_sets, tmp_path / "one", methods=["ips", "average"])
    again = quick(small_sets, tmp_path / "two", methods=["ips", "average"], workers=2)
    assert not once.errors
    assert values(once) == values(again)
    for first, second in zip(once.summaries.values(), again.summaries.values(), strict=True):
        assert [row.estimates for row in first.methods] == [row.estimates for row in second.methods]


def test_a_second_run_computes_nothing(small_sets, tmp_path, fusions, monkeypatch):
    first = quick(small_sets, tmp_path / "out")
    assert len(fusions) == 6
    monkeypatch.setattr(cells, "score", lambda *arguments, **options: pytest.fail("scored again"))
    second = quick(small_sets, tmp_path / "out")
    assert len(fusions) == 6
    assert values(first) == values(second)
    assert [cell.seconds for cell in first.cells] == [cell.seconds for cell in second.cells]


def test_only_what_changed_is_computed_again(small_sets, tmp_path, fusions, monkeypatch):
    data = shutil.copytree(small_sets, tmp_path / "data")
    quick(data, tmp_path / "out")
    fusions.clear()
    shutil.copy(data / "real-mff/imageA/1.png", data / "real-mff/imageB/1.png")
    quick(data, tmp_path / "out")
    assert fusions == METHODS, "the picture changed: both methods, this picture only"
    fusions.clear()
    (tmp_path / "out/fused/real-mff/average/3.png").write_bytes(b"damaged")
    quick(data, tmp_path / "out")
    assert fusions == ["average"]
    fusions.clear()
    monkeypatch.setattr("allfocus.evaluation.benchmark.method_fingerprint", lambda name: name + " of another version")
    quick(data, tmp_path / "out")
    assert len(fusions) == 6


def test_another_protocol_or_metric_scores_anew_without_fusing(small_sets, tmp_path, fusions):
    grey = quick(small_sets, tmp_path / "out")
    fusions.clear()
    colour = quick(small_sets, tmp_path / "out", protocol="rgb-mean")
    more = quick(small_sets, tmp_path / "out", protocol="rgb-mean", metrics=["PSNR", "SSIM"])
    assert fusions == []
    assert values(grey) != values(colour)
    assert values(more)["real-mff", "1", "average"].keys() == {"PSNR", "SSIM"}


def test_without_resume_everything_is_computed(small_sets, tmp_path, fusions):
    quick(small_sets, tmp_path / "out")
    quick(small_sets, tmp_path / "out", resume=False)
    assert len(fusions) == 12


def broken_network(folder):
    """A network of one's own that cannot be run."""
    (folder / "broken.onnx").write_bytes(b"no network")
    return str(folder / "broken.onnx")


def test_a_missing_cell_is_an_error_row_and_has_no_mean(small_sets, tmp_path):
    result = quick(small_sets, tmp_path / "out", methods=["average", broken_network(tmp_path)])
    assert [cell.method for cell in result.errors] == ["broken.onnx"] * 3
    assert all("is no ONNX file" in cell.error for cell in result.errors)
    rows = list(csv.DictReader((tmp_path / "out/results.csv").read_text().splitlines()))
    assert len(rows) == 6
    failed = next(row for row in rows if row["method"] == "broken.onnx")
    assert failed["PSNR"] == "error"
    assert "is no ONNX file" in failed["error"]
    summary = result.summaries["real-mff"].methods[1]
    assert (summary.errors, summary.estimates, summary.mean_rank) == (3, {}, None)
    assert "error (3 of 3)" in (tmp_path / "out/results.md").read_text()


def test_one_failure_takes_the_mean_from_the_whole_method(small_sets, tmp_path, monkeypatch):
    original = cells.fuse

    def fail_once(frames, *, method, device, check):
        if method == "average" and not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            raise MemoryError("no room\nat all")
        return original(frames, method=method, device=device, check=check)

    monkeypatch.setattr(cells, "fuse", fail_once)
    result = quick(small_sets, tmp_path / "out")
    assert [cell.error for cell in result.errors] == ["MemoryError: no room at all"]
    assert result.summaries["real-mff"].methods[1].estimates == {}
    assert not quick(small_sets, tmp_path / "out").errors, "an error is tried again"


def test_the_result_file_passes_its_schema(small_sets, tmp_path):
    evaluate(
        {"real-mff": small_sets / "real-mff", "folder": small_sets / "folder"},
        ["average", broken_network(tmp_path)],
        output=tmp_path / "out",
        workers=1,
        report=False,
    )
    document = json.loads((tmp_path / "out/results.json").read_text())
    assert list(document) == [
        "format", "created", "commit", "modified", "versions", "machine", "settings", "errors", "summary", "rows",
    ]  # fmt: skip
    assert document["format"] == FORMAT
    assert document["commit"] is None or len(document["commit"]) == 40
    assert {"allfocus", "python", "numpy"} <= document["versions"].keys()
    assert document["machine"].keys() == {"system", "architecture", "processor", "cores"}
    assert document["settings"].keys() == {
        "datasets", "methods", "images", "metrics", "protocol", "jpeg", "limit", "workers", "seed", "device",
    }  # fmt: skip
    assert (document["settings"]["protocol"], document["settings"]["seed"]) == ("grey", 0)
    assert document["errors"] == 4
    assert len(document["rows"]) == 8
    for row in document["rows"]:
        assert row.keys() == {"dataset", "picture", "method", "scores", "lost_detail", "seconds", "sha256", "error"}
        assert bool(row["scores"]) != bool(row["error"])
        assert not row["scores"] or list(row["scores"]) == document["settings"]["metrics"][row["dataset"]]
    for summary in document["summary"].values():
        assert summary.keys() == {"pictures", "metrics", "methods", "first_against_best_rival", "friedman"}


def test_metrics_apply_where_they_can(small_sets, tmp_path):
    sets = {"real-mff": small_sets / "real-mff", "folder": small_sets / "folder"}
    evaluate(sets, ["average"], output=tmp_path / "a", metrics=["PSNR", "Q_MI"], workers=1, report=False)
    rows = list(csv.DictReader((tmp_path / "a/results.csv").read_text().splitlines()))
    assert {row["PSNR"] for row in rows if row["dataset"] == "folder"} == {"n/a"}
    assert all(float(row["PSNR"]) > 0 for row in rows if row["dataset"] == "real-mff")
    with pytest.raises(InputError, match="applies to"):
        evaluate({"folder": sets["folder"]}, ["average"], output=tmp_path / "b", metrics=["PSNR"], workers=1)
    each = {"real-mff": ["SSIM"], "folder": ["EN"]}
    result = evaluate(sets, ["average"], output=tmp_path / "c", metrics=each, workers=1, report=False)
    assert [list(cell.scores) for cell in result.cells] == [["SSIM"]] * 3 + [["EN"]]


def test_pictures_of_other_software_are_scored_like_a_method(small_sets, tmp_path):
    folder = tmp_path / "others/real-mff"
    folder.mkdir(parents=True)
    for number in (1, 2):
        shutil.copy(small_sets / f"real-mff/Fusion/{number}.png", folder / f"U2Fusion_{number:02}.png")
    result = quick(small_sets, tmp_path / "out", methods=["average"], images={"U2Fusion": tmp_path / "others"})
    scored = {cell.sample: cell for cell in result.cells if cell.method == "U2Fusion"}
    assert scored["1"].scores["PSNR"] == float("inf")
    assert scored["1"].seconds is None
    assert "no picture of 3" in scored["3"].error
    assert json.loads((tmp_path / "out/results.json").read_text())["rows"][1]["scores"]["PSNR"] == "inf"


def test_compression_before_scoring_costs_quality_but_leaves_pictures_of_others(small_sets, tmp_path):
    options = {"images": {"other": small_sets / "real-mff/Fusion"}, "limit": 1}
    plain = quick(small_sets, tmp_path / "out", **options)
    jpeg = quick(small_sets, tmp_path / "out", jpeg=JpegCompression(30), **options)
    assert jpeg.cells[0].scores["PSNR"] < plain.cells[0].scores["PSNR"]
    assert jpeg.cells[2].scores == plain.cells[2].scores
    assert jpeg.document["settings"]["jpeg"] == "30,4:2:0"
    assert read_image(tmp_path / "out/fused/real-mff/average/1.png").width == 96


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"methods": ["avrage"]}, "'average'"),
        ({"methods": []}, "nothing to evaluate"),
        ({"methods": ["average", "average"]}, "twice"),
        ({"protocol": "rgb"}, "rgb-mean"),
        ({"metrics": ["PSNRR"]}, "'PSNR'"),
        ({"metrics": {"lytro": ["Q_MI"]}}, "lytro"),
        ({"images": {"average": "x"}}, "plain name"),
        ({"workers": 0}, "workers is 1 or more"),
    ],
)
def test_wrong_names_fail_before_any_work(small_sets, tmp_path, options, words):
    with pytest.raises(InputError, match=words):
        quick(small_sets, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_else_is_left_alone(small_sets, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(OutputError, match="something else"):
        quick(small_sets, tmp_path)
    with pytest.raises(OutputError, match="is a file"):
        quick(small_sets, tmp_path / "letter.txt")


class DeadlyTask(CellTask):
    """Kills the process that runs it, but never the one that runs the tests."""

    @property
    def record(self) -> Path:
        if multiprocessing.parent_process() is not None:
            os._exit(1)
        return super().record


def test_a_worker_that_dies_costs_its_own_cell_only(small_sets, tmp_path):
    samples = find_dataset("real-mff", small_sets / "real-mff")
    good = CellTask("real-mff", samples[0], "average", "average", tmp_path, "key", ("Q_SF",), "key")
    bad = DeadlyTask("real-mff", samples[1], "average", "average", tmp_path, "key", ("Q_SF",), "key")
    found: dict[int, Cell] = dict(run_cells([bad, good, replace(good, sample=samples[2])], workers=2))
    assert "died" in found[0].error
    assert not found[1].error
    assert not found[2].error


def test_every_picture_has_its_lost_detail_and_the_hash_of_its_file(small_sets, tmp_path, monkeypatch):
    for number in "123":
        truth = read_image(small_sets / f"real-mff/Fusion/{number}.png").pixels
        write_image(cv2.GaussianBlur(truth, (0, 0), 6), tmp_path / f"{number}.png")
    images = {"blurred": tmp_path}
    result = quick(small_sets, tmp_path / "out", images=images)
    rows = list(csv.DictReader((tmp_path / "out/results.csv").read_text().splitlines()))
    assert len(rows) == 9
    for row, cell in zip(rows, result.cells, strict=True):
        file = tmp_path / "out/fused/real-mff" / row["method"] / f"{row['picture']}.png"
        assert row["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
        sources = [
            read_image(small_sets / f"real-mff/{part}/{row['picture']}.png").pixels for part in ("imageA", "imageB")
        ]
        assert (
            float(row["lost_detail"]) == cell.lost_detail == measure_lost_detail(read_image(file).pixels, sources).share
        )
    lost = {row.method: row.lost_detail for row in result.summaries["real-mff"].methods}
    assert lost["blurred"] > lost["laplacian-pyramid"] + 1
    # A record of a version that did not measure it is completed, and only by that.
    record = tmp_path / "out/fused/real-mff/average/1.json"
    kept = {key: value for key, value in json.loads(record.read_text()).items() if not key.startswith("lost_")}
    record.write_text(json.dumps(kept))
    monkeypatch.setattr(cells, "score", lambda *arguments, **options: pytest.fail("scored again"))
    again = quick(small_sets, tmp_path / "out", images=images)
    assert [cell.lost_detail for cell in again.cells] == [cell.lost_detail for cell in result.cells]
