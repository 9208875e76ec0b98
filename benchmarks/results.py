"""The paper's tables, measured here: runs the benchmark and writes the generated part of docs/results.md.

All of it: python benchmarks/results.py
A trial:   python benchmarks/results.py --limit 2 --output reports/trial --page reports/trial.md
Networks of the literature, into docs/rivals.md: python benchmarks/results.py --rivals; see benchmarks/rival_tables.py

The tables stand between two marker comments; the rest of the page is left as it is. An interrupted run goes on where it
stopped. The exit code is 1 if a cell failed; the page is not touched then.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

from method_names import check_method

import allfocus
from allfocus.cli.printing import progress_bar
from allfocus.errors import AllfocusError
from allfocus.evaluation.benchmark import EvaluationResult
from allfocus.evaluation.tables import markdown_tables
from allfocus.images.writing import replace_file
from allfocus.metrics.scoring import Protocol

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"

SIX = ("Q_MI", "Q_SF", "Q_S", "Q_CB", "Q_AB/F", "Q_NCIE")
TABLES = {"lytro": SIX, "mffw": SIX, "real-mff": ("PSNR", "SSIM"), "mfi-whu": ("PSNR", "SSIM")}
"""Data set -> the metrics that the paper prints for it: Tables 1, 2, and 3."""

METHODS = (
    "ips",
    "ips-hard",
    "dsift",
    "dct-corr",
    "laplacian-pyramid",
    "laplacian-pyramid-energy",
    "guided-filter",
    "wavelet",
    "depth-map",
    "average",
)


def measure(arguments: argparse.Namespace, protocol: Protocol, pictures: Path | None) -> EvaluationResult:
    """The result under one protocol; fused pictures of an earlier run are shared, only the scoring is new."""
    output = arguments.output / protocol
    if pictures is not None and not output.exists():
        shutil.copytree(pictures, output / "fused", copy_function=os.link)
    with progress_bar() as update:
        return allfocus.evaluate(
            {name: arguments.data / name for name in TABLES},
            [*METHODS, *arguments.method],
            output=output,
            metrics=TABLES,
            protocol=protocol,
            limit=arguments.limit,
            workers=arguments.workers,
            device="cpu",  # the same figures on every machine
            progress=lambda step, done, count: update(f"{protocol} {step}", done, count),
        )


def generated_part(results: list[EvaluationResult]) -> str:
    """The Markdown between the markers."""
    document = results[0].document
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    parts = [
        BEGIN,
        "",
        "<!-- Made by benchmarks/results.py; what is written here by hand is lost. -->",
        "",
        f"Measured on {document['created'][:10]} with {versions}; bootstrap seed {document['settings']['seed']}.",
        "",
    ]
    for result in results:
        parts += [f"## Protocol `{result.protocol}`", ""]
        # The printed tables are the same under every protocol: once is enough.
        first = result is results[0]
        parts.append(markdown_tables(result.summaries, protocol=result.protocol, heading="###", printed=first))
    return "\n".join([*parts, END])


def replace_part(page: Path, part: str) -> None:
    """Put the generated part, from marker to marker, into a page; a page without markers gets it at its end."""
    text = page.read_text(encoding="utf-8") if page.exists() else "# Results\n\n"
    lines = part.splitlines()
    before, begin, rest = text.partition(lines[0])
    after = rest.partition(lines[-1])[2] if begin else ""
    page.parent.mkdir(parents=True, exist_ok=True)
    replace_file(page, (before + part + (after or "\n")).encode(), overwrite=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("ALLFOCUS_DATA") or ROOT.parent / "shared" / "data") / "eval"
    parser.add_argument("--data", type=Path, default=default, help="the folder that holds the four sets")
    parser.add_argument("--output", type=Path, help="for pictures and reports; default: reports/results, or /rivals")
    parser.add_argument("--page", type=Path, help="the page to write into; default: docs/results.md, or rivals.md")
    parser.add_argument("--protocol", action="append", choices=["grey", "rgb-mean"], help="default: both")
    parser.add_argument(
        "--method", action="append", type=check_method, default=[], help="one more method, such as ips-paper"
    )
    parser.add_argument("--rivals", action="store_true", help="the networks of the literature, and their page")
    parser.add_argument("--ours", type=Path, help="of --rivals: the folder with weights that were trained here")
    parser.add_argument("--device", default="cpu", help="of --rivals: cpu, cuda or auto, for the networks")
    parser.add_argument("--seconds", type=float, help="of --rivals: begin nothing after so long")
    parser.add_argument("--limit", type=int, help="only the first so many pictures of each set")
    parser.add_argument("--workers", type=int, help="processes at a time; default: one for each processor")
    arguments = parser.parse_args()
    name = "rivals" if arguments.rivals else "results"
    arguments.output = arguments.output or ROOT / "reports" / name
    arguments.page = arguments.page or ROOT / "docs" / f"{name}.md"
    results: list[EvaluationResult] = []
    try:
        if arguments.rivals:
            from rival_tables import make_page

            replace_part(arguments.page, make_page(arguments, TABLES))
            print(f"wrote {arguments.page}; pictures and scores are in {arguments.output}")
            return 0
        for protocol in arguments.protocol or ["grey", "rgb-mean"]:
            results.append(measure(arguments, protocol, results[0].output / "fused" if results else None))
    except AllfocusError as error:
        sys.exit(f"results: {error}")
    failed = [cell for result in results for cell in result.errors]
    for cell in failed:
        print(f"{cell.dataset} {cell.sample} {cell.method}: {cell.error}", file=sys.stderr)
    if failed:
        print(f"{len(failed)} cells failed; {arguments.page} was not touched", file=sys.stderr)
        return 1
    replace_part(arguments.page, generated_part(results))
    print(f"wrote {arguments.page}; reports are in {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
