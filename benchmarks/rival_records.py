"""Measures some methods again beside the networks of the literature, whose scores are taken from their records.

Run: python benchmarks/rival_records.py [--again ips ...] [--data EVAL]
Fusing all sets with all networks takes hours and a GPU (`results.py --rivals`); their score of every picture is in
`benchmarks/records`. This fuses and scores the methods of --again (`ips` and `ips-hard` without it) anew, puts them
into the records, and makes the tables of docs/rivals.md of all of it.
"""

import argparse
import csv
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from results import ROOT, TABLES, replace_part
from rival_tables import BEGIN, END, tables_part

import allfocus
from allfocus.cli.printing import progress_bar
from allfocus.evaluation.cells import Cell
from allfocus.evaluation.summary import DatasetSummary, summarise
from allfocus.evaluation.tables import csv_table
from allfocus.images.writing import replace_file
from allfocus.metrics.scoring import PROTOCOLS, Protocol

RECORDS = ROOT / "benchmarks" / "records"
PAGE = ROOT / "docs" / "rivals.md"


def main() -> None:
    """Renews the records and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("ALLFOCUS_DATA") or ROOT.parent / "shared" / "data") / "eval"
    parser.add_argument("--data", type=Path, default=default, help="the folder that holds the four sets")
    parser.add_argument("--again", action="append", help="a method to measure; ips and ips-hard without it")
    arguments = parser.parse_args()
    again = arguments.again or ["ips", "ips-hard"]
    summaries: dict[Protocol, list[Mapping[str, DatasetSummary]]] = {}
    created, versions = "", ""
    with tempfile.TemporaryDirectory() as folder, progress_bar() as update:
        for protocol in PROTOCOLS:
            for dataset, metrics in TABLES.items():
                record = RECORDS / f"rivals-{protocol}-{dataset}.csv"
                if not record.exists():
                    continue
                result = allfocus.evaluate(
                    {dataset: arguments.data / dataset},
                    again,
                    output=Path(folder) / f"{protocol}-{dataset}",
                    metrics={dataset: metrics},
                    protocol=protocol,
                    device="cpu",
                    report=False,
                    progress=update,
                )
                if result.errors:
                    raise SystemExit(f"{dataset}: {result.errors[0].error}")
                created, versions = result.document["created"][:10], result.document["versions"]["allfocus"]
                cells = renewed(read_cells(record, metrics), result.cells)
                text = csv_table(cells, metrics={dataset: metrics}, protocol=protocol)
                replace_file(record, text.encode(), overwrite=True)
                summaries.setdefault(protocol, []).append(summarise(cells, metrics={dataset: metrics}))
    names = ", ".join(f"`{name}`" for name in again)
    how = f"with allfocus {versions}, on a processor; the others are as recorded."
    said = f"Rows of {names} measured again on {created} {how}"
    replace_part(PAGE, "\n".join([BEGIN, "", header(said), "", tables_part(summaries), END]))
    print(f"wrote {PAGE} and {RECORDS}")


def read_cells(record: Path, metrics: tuple[str, ...]) -> list[Cell]:
    """What a record holds."""

    def number(text: str) -> float | None:
        return float(text) if text else None

    with record.open(encoding="utf-8", newline="") as table:
        return [
            Cell(
                row["dataset"],
                row["picture"],
                row["method"],
                {metric: float(row[metric]) for metric in metrics if row[metric]},
                number(row["seconds"]),
                row["error"],
                number(row["lost_detail"]),
                row["sha256"],
            )
            for row in csv.DictReader(table)
        ]


def renewed(before: list[Cell], now: tuple[Cell, ...]) -> list[Cell]:
    """The cells with those that were measured now in the place of the old ones."""
    found = {(cell.sample, cell.method): cell for cell in now}
    if missing := found.keys() - {(cell.sample, cell.method) for cell in before}:
        raise SystemExit(f"not in the record: {sorted(missing)[0]}")
    return [replace(found.get((cell.sample, cell.method), cell), dataset=cell.dataset) for cell in before]


def header(said: str) -> str:
    """What the page says above its tables of how all was measured, with what was measured again."""
    text = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition("### Which rows")[0].strip()
    text = re.sub(r"Rows of .* measured again on .*\n*", "", text)
    before, mark, after = text.partition("### Not run")
    return f"{before.strip()}\n\n{said}\n\n{mark}{after}".strip()


if __name__ == "__main__":
    main()
