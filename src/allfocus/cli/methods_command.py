"""``allfocus methods``: what can fuse."""

import dataclasses

import click

from allfocus.cli.printing import echo, json_option, print_entries, print_json


@click.command(short_help="List the methods of fusion.")
@json_option
def methods(as_json: bool) -> None:
    """List the methods of fusion that can run here, with their papers and limits, and what the others need."""
    import allfocus

    found = allfocus.list_methods()
    if as_json:
        shown = ("name", "title", "summary", "paper", "limits", "extra", "missing")
        print_json(
            {
                "methods": [
                    {**{name: getattr(method, name) for name in shown}, **dataclasses.asdict(method.abilities)}
                    for method in found
                ]
            }
        )
        return
    print_entries(
        {
            method.name: {"does": method.summary, "paper": method.paper, "limits": method.limits}
            for method in found
            if not method.missing
        }
    )
    for method in found:
        if method.missing:
            echo(f"{method.name} cannot run here: {method.missing}")
