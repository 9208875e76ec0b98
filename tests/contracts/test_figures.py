"""A figure that stands in two places is the same in both: README and results page quote one run."""

import json
import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
RESULTS = ROOT / "docs" / "results.md"
CARD = ROOT / "src" / "allfocus" / "weights" / "ips.md"
SETS = ("Lytro", "MFFW", "Real-MFF", "MFI-WHU")


def rows(text: str) -> list[list[str]]:
    """The rows of the Markdown tables in a text, without rules and emphasis."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not re.fullmatch(r"[|:\- ]+", line)]
    return [[re.sub(r"\*\*|</?u>|`| ↑| ↓", "", cell).strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture(scope="module")
def measured() -> dict[tuple[str, str, str], str]:
    """(set, method, metric) -> what the results page says was measured, protocol grey."""
    grey = RESULTS.read_text(encoding="utf-8").partition("## Protocol `grey`")[2].partition("## Protocol")[0]
    found = {}
    for section in grey.split("\n### ")[1:]:
        table = rows(section.partition("Measured here")[2].partition("\n\n`")[0])
        for row in table[1:]:
            found |= {(section.splitlines()[0], row[0], name): value for name, value in zip(table[0], row, strict=True)}
    return found


def test_the_results_page_has_all_four_sets(measured):
    assert {place[0] for place in measured} == set(SETS)


def test_the_table_of_the_readme_is_that_of_the_results_page(measured):
    text = README.read_text(encoding="utf-8").partition("## How good it is")[2].partition("\n## ")[0]
    header, *body = rows(text)
    assert len(body) >= 8
    for row in body:
        dataset = ""
        for column, value in zip(header[1:], row[1:], strict=True):
            dataset = next((name for name in SETS if column.startswith(name + " ")), dataset)
            place = (dataset, row[0], column.removeprefix(dataset).strip())
            assert value == measured[place], place


def test_the_card_of_the_weights_states_their_size_and_leaves_scores_to_the_results_page():
    text = CARD.read_text(encoding="utf-8")
    tensors = json.loads(_header(CARD.with_suffix(".safetensors")))
    parameters = sum(math.prod(entry["shape"]) for name, entry in tensors.items() if name != "__metadata__")
    assert f"| parameters | {parameters:,} |" in text
    assert "docs/results.md" in text
    assert not re.search(r"PSNR|SSIM|Q_MI|\d dB", text)


def _header(path: Path) -> bytes:
    """What a safetensors file says of its tensors: eight bytes of length, then JSON."""
    content = path.read_bytes()
    return content[8 : 8 + int.from_bytes(content[:8], "little")]


def test_what_was_reached_is_what_was_measured(measured):
    text = RESULTS.read_text(encoding="utf-8").partition("## What was aimed at")[2].partition("\n## ")[0]
    for dataset, metric, floor, *pairs in rows(text)[1:]:
        for method, reached, verdict in zip(("ips", "ips-hard"), pairs[::2], pairs[1::2], strict=True):
            assert reached == measured[dataset, method, metric.partition(" (")[0]], (dataset, metric)
            short = float(reached) - float(floor)
            digits = len(floor.partition(".")[2])
            assert verdict == ("reached" if short >= 0 else f"{short:.{digits}f}"), (dataset, metric)
