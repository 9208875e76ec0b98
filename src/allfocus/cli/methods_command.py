"""``allfocus methods``: what can fuse."""

import dataclasses

import click

from allfocus.cli.printing import json_option, print_entries, print_json


@click.command(short_help="List the methods of fusion.")
@json_option
def methods(as_json: bool) -> None:
    """List the methods of fusion with their papers and limits."""
    import allfocus

    found = allfocus.list_methods()
    if as_json:
        fields = [field.name for field in dataclasses.fields(found[0]) if field.name != "function"]
        print_json({"methods": [{name: getattr(method, name) for name in fields} for method in found]})
        return
    print_entries(
        {
            method.name: {
                "does": method.summary,
                "paper": method.paper,
                "limits": f"cannot run: {method.missing}" if method.missing else method.limits,
            }
            for method in found
        }
    )
