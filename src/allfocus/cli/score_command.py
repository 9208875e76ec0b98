"""``allfocus score``: every metric of one fused picture."""

from pathlib import Path
from typing import Literal

import click

from allfocus.cli.examples import examples
from allfocus.cli.known_names import complete_metric
from allfocus.cli.paths import PATH
from allfocus.cli.printing import json_option, print_json, print_passed_over, print_table, protocol_option


@click.command(
    short_help="Score one fused picture.",
    epilog=examples(
        "allfocus score fused.png --source a.png --source b.png --reference truth.png",
    ),
)
@click.argument("fused", type=PATH)
@click.option(
    "--source",
    "sources",
    multiple=True,
    required=True,
    type=PATH,
    help="A frame it was made of; give the option once for each.",
)
@click.option("--reference", type=PATH, help="The truth, for PSNR and SSIM.")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    shell_complete=complete_metric,
    help="Only this metric (see: allfocus metrics); once for each.",
)
@protocol_option
@json_option
def score(
    fused: Path,
    sources: tuple[Path, ...],
    reference: Path | None,
    metrics: tuple[str, ...],
    protocol: Literal["grey", "rgb-mean"],
    as_json: bool,
) -> None:
    """Score the picture FUSED with every metric that its sources and reference allow."""
    import allfocus
    from allfocus.evaluation.cells import read_levels
    from allfocus.metrics.catalogue import all_metrics, metric_catalogue

    values = allfocus.score(
        read_levels(fused),
        [read_levels(source) for source in sources],
        reference=None if reference is None else read_levels(reference),
        protocol=protocol,
        metrics=metrics or None,
    )
    print_passed_over(metric_catalogue().passed_over)
    if as_json:
        print_json({"fused": fused, "sources": sources, "reference": reference, "protocol": protocol, "scores": values})
    else:
        rows = [[name, f"{value:.6f}", all_metrics()[name].direction] for name, value in values.items()]
        print_table(["metric", protocol, "better"], rows, numbers=True)
