"""Tables: what is bold, what is printed, and what stands where nothing was measured."""

import math

import numpy as np
import pytest

from allfocus.errors import InputError
from allfocus.evaluation import fingerprints
from allfocus.evaluation.cells import Cell
from allfocus.evaluation.compression import JpegCompression, compress_and_read, parse_compression
from allfocus.evaluation.fingerprints import code_fingerprint, method_fingerprint
from allfocus.evaluation.printed_results import PAPER_NAMES, PRINTED
from allfocus.evaluation.summary import summarise
from allfocus.evaluation.tables import csv_table, markdown_tables, measured_table, printed_place, rank_table
from allfocus.fusion.methods import METHODS
from allfocus.metrics.catalogue import METRICS

CELLS = [
    Cell("lytro", sample, method, {"Q_MI": value, "Q_CV": 100 * value}, seconds=0.5)
    for sample, factor in (("a", 1.0), ("b", 1.1), ("c", 1.2))
    for method, value in (("ips", 0.9 * factor), ("dsift", 0.8 * factor), ("average", 0.7 * factor))
]


def test_the_best_is_bold_and_the_second_underlined_whatever_the_direction():
    lines = measured_table(summarise(CELLS, metrics={"lytro": ["Q_MI", "Q_CV"]})["lytro"]).splitlines()
    assert lines[0].startswith("| Method | Q_MI ↑ | Q_CV ↓ |")
    assert lines[2].startswith("| `ips` | **0.9900** | 99.00 |")
    assert lines[3].startswith("| `dsift` | <u>0.8800</u> | <u>88.00</u> |")
    assert lines[4].startswith("| `average` | 0.7700 | **77.00** |")


def test_the_comparison_is_with_the_best_rival_of_each_metric():
    summary = summarise(CELLS, metrics={"lytro": ["Q_MI", "Q_CV"]})["lytro"]
    assert [found.rival for found in summary.comparisons.values()] == ["dsift", "average"]
    assert [(found.wins, found.losses) for found in summary.comparisons.values()] == [(3, 0), (0, 3)]
    assert [row.mean_rank for row in summary.methods] == [2.0, 2.0, 2.0]


def test_places_are_tested_together_and_what_does_not_differ_significantly_is_marked():
    generator = np.random.default_rng(0)
    cells = [
        Cell("lytro", str(sample), method, {"Q_CV": level + generator.normal(0, 1)}, lost_detail=float(sample))
        for sample in range(30)
        for method, level in (("ips", 10), ("dsift", 10), ("average", 30))
    ]
    summary = summarise(cells, metrics={"lytro": ["Q_CV"]})["lytro"]
    found = summary.friedman["Q_CV"]
    assert found.p_value < 1e-9
    assert found.mean_ranks[2] == 3
    lines = rank_table(summary).splitlines()
    assert lines[2:4] == ["| Method | Q_CV |", "| --- | ---: |"]
    assert sorted(line.endswith(" = |") for line in lines[4:7]) == [False, False, True]
    assert lines[6] == "| `average` | 3.00 |"
    assert lines[7] == f"| critical difference | {found.critical_difference:.2f} |"
    assert lines[8] == "| Friedman, p | < 0.001 |"
    assert "Friedman" in markdown_tables({"lytro": summary}, protocol="grey")
    assert "| 14.50 | - |" in measured_table(summary).splitlines()[2]


def test_two_methods_or_one_picture_have_no_test_of_all():
    assert not summarise(CELLS[:3], metrics={"lytro": ["Q_MI"]})["lytro"].friedman
    pair = [cell for cell in CELLS if cell.method != "average"]
    assert not summarise(pair, metrics={"lytro": ["Q_MI"]})["lytro"].friedman


def test_printed_numbers_are_marked_and_apart():
    text = markdown_tables(summarise(CELLS, metrics={"lytro": ["Q_MI"]}), protocol="grey")
    measured, _, printed = text.partition("Printed in the paper, Table 1")
    assert "3 of 20 pictures, protocol `grey`" in measured
    assert "printed" not in measured
    assert printed.count("(printed)") == 10
    assert "| Fusion2Void (printed) | **1.0842** | <u>0.0753</u> |" in printed
    assert "Printed" not in markdown_tables(
        summarise(CELLS, metrics={"lytro": ["Q_MI"]}), protocol="grey", printed=False
    )


def test_the_paper_prints_ten_methods_for_four_sets_and_its_own_wins_where_it_says():
    assert list(PRINTED) == ["lytro", "mffw", "real-mff", "mfi-whu"]
    for table in PRINTED.values():
        assert list(table.rows) == list(PAPER_NAMES)
        assert set(table.rows) <= set(METHODS)
        assert all(len(row) == len(table.metrics) for row in table.rows.values())
        assert set(table.metrics) <= set(METRICS)
    assert printed_place("lytro", "Q_MI", "ips-paper") == 2
    assert printed_place("mfi-whu", "PSNR", "ips-paper") == 1


def test_csv_never_has_a_gap():
    failed = Cell("lytro", "d", "ips", error='it said "no", twice')
    perfect = Cell("real-mff", "e", "ips", {"Q_MI": 1.0, "PSNR": math.inf}, 1.0, lost_detail=0.25, sha256="ab12")
    text = csv_table([failed, perfect], metrics={"lytro": ["Q_MI"], "real-mff": ["Q_MI", "PSNR"]}, protocol="grey")
    assert text.splitlines() == [
        "dataset,picture,method,protocol,Q_MI,PSNR,lost_detail,seconds,sha256,error",
        'lytro,d,ips,grey,error,n/a,error,n/a,error,"it said ""no"", twice"',
        "real-mff,e,ips,grey,1.0,inf,0.25,1.0000,ab12,",
    ]


@pytest.mark.parametrize("text", ["75", "75,420", "75, 4:2:0"])
def test_compression_is_read_from_text(text):
    assert parse_compression(text) == JpegCompression(75, "4:2:0")


@pytest.mark.parametrize("text", ["", "0", "101,420", "75,411", "good"])
def test_compression_that_is_none_is_refused(text):
    with pytest.raises(InputError, match="75,4:2:0"):
        parse_compression(text)


def test_subsampling_blurs_colour_only():
    picture = np.zeros((32, 32, 3), np.uint8)
    picture[:, ::2, 0] = 255
    full = compress_and_read(picture, JpegCompression(95, "4:4:4")).astype(int)
    half = compress_and_read(picture, JpegCompression(95, "4:2:0")).astype(int)
    assert np.abs(full - picture).mean() < np.abs(half - picture).mean() / 3


def test_the_version_of_a_method_is_its_code_and_weights():
    known = {name: method_fingerprint(name) for name in METHODS}
    assert len(set(known.values())) == len(known)
    assert code_fingerprint("allfocus.fusion.average") != code_fingerprint("allfocus.fusion.dsift")


def test_the_version_of_code_covers_modules_that_are_imported_by_their_package(monkeypatch):
    # circuit.py has `from allfocus.scenes import drawing`.
    before = code_fingerprint.__wrapped__("allfocus.scenes.circuit")
    read = fingerprints._source
    changed = {"allfocus.scenes.drawing": "CHANGED = True"}
    monkeypatch.setattr(fingerprints, "_source", lambda module: changed.get(module) or read(module))
    assert code_fingerprint.__wrapped__("allfocus.scenes.circuit") != before
