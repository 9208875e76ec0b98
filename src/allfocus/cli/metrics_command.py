"""``allfocus metrics``: what can be measured."""

import click

from allfocus.cli.printing import json_option, print_entries, print_json, print_passed_over


@click.command(short_help="List the metrics.")
@json_option
def metrics(as_json: bool) -> None:
    """List the metrics with direction, range, paper and known pathologies."""
    from allfocus.metrics.catalogue import metric_catalogue

    catalogue = metric_catalogue()
    found = catalogue.entries.values()

    if as_json:
        names = ("name", "full_name", "direction", "lowest", "highest", "needs_reference", "paper", "pathologies")
        shown = [{name: getattr(metric, name) for name in names} for metric in found]
        print_json({"metrics": shown, "passed_over": [error.to_plain() for error in catalogue.passed_over]})
        return
    print_entries(
        {
            metric.name: {
                "is": metric.full_name + (" (needs the truth)" if metric.needs_reference else ""),
                "range": f"{metric.lowest:g} to {metric.highest:g}, {metric.direction} is better",
                "paper": metric.paper,
                "beware": metric.pathologies,
            }
            for metric in found
        }
    )
    print_passed_over(catalogue.passed_over)
