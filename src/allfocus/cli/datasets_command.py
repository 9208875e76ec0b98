"""``allfocus datasets``: the benchmark sets."""

import click

from allfocus.cli.printing import json_option, print_json, print_table


@click.command(short_help="List the benchmark sets.")
@json_option
def datasets(as_json: bool) -> None:
    """List the benchmark sets with what is in them, whom to cite, the licence, and where to get them."""
    from allfocus.datasets.catalogue import DATASETS

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
        print_json({"datasets": [{name: getattr(dataset, name) for name in names} for dataset in DATASETS.values()]})
        return
    print_table(
        ["data set", "what is in it", "cite", "licence", "where to get it"],
        [
            [dataset.name, f"{dataset.title}: {dataset.summary}", dataset.citation, dataset.licence, dataset.where]
            for dataset in DATASETS.values()
        ],
    )
