"""``allfocus datasets``: the benchmark sets."""

import click

from allfocus.cli.printing import json_option, print_entries, print_json, print_passed_over


@click.command(short_help="List the benchmark sets.")
@json_option
def datasets(as_json: bool) -> None:
    """List the benchmark sets with what is in them, whom to cite, the licence, and where to get them."""
    from allfocus.datasets.catalogue import dataset_catalogue

    catalogue = dataset_catalogue()
    found = catalogue.entries.values()

    if as_json:
        names = (
            "name",
            "title",
            "summary",
            "counts",
            "sources_each",
            "has_reference",
            "layout",
            "citation",
            "licence",
            "where",
        )
        shown = [{name: getattr(dataset, name) for name in names} for dataset in found]
        print_json({"datasets": shown, "passed_over": [error.to_plain() for error in catalogue.passed_over]})
        return
    print_entries(
        {
            dataset.name: {
                "holds": f"{dataset.title}: {dataset.summary}",
                "cite": dataset.citation,
                "licence": dataset.licence,
                "from": dataset.where,
            }
            for dataset in found
        }
    )
    print_passed_over(catalogue.passed_over)
