"""``allfocus methods``: what can fuse."""

import dataclasses

import click

from allfocus.cli.printing import json_option, print_json, print_table


@click.command(short_help="List the methods of fusion.")
@json_option
def methods(as_json: bool) -> None:
    """List the methods of fusion with their papers and limits."""
    import allfocus

    found = allfocus.list_methods()
    if as_json:
        fields = [field.name for field in dataclasses.fields(found[0]) if field.name != "run"]
        print_json({"methods": [{name: getattr(method, name) for name in fields} for method in found]})
        return
    print_table(
        ["method", "what it does", "paper", "limits"],
        [[method.name, method.summary, method.paper or "", method.limits or ""] for method in found],
    )
