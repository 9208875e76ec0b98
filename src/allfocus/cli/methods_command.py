"""``allfocus methods``: what can fuse."""

import dataclasses

import click

from allfocus.cli.printing import echo, json_option, print_entries, print_json, print_passed_over


@click.command(short_help="List the methods of fusion.")
@json_option
def methods(as_json: bool) -> None:
    """List the methods of fusion with their papers, limits and costs, and what those need that cannot run here."""
    from allfocus.fusion.methods import method_catalogue

    catalogue = method_catalogue()
    found = list(catalogue.entries.values())
    if as_json:
        shown = ("name", "title", "summary", "paper", "licence", "limits", "cost", "extra", "needs", "missing")
        print_json(
            {
                "methods": [
                    {**{name: getattr(method, name) for name in shown}, **dataclasses.asdict(method.abilities)}
                    for method in found
                ],
                "passed_over": [error.to_plain() for error in catalogue.passed_over],
            }
        )
        return
    entries = {
        method.name: {
            "does": method.summary,
            "paper": method.paper,
            "licence": method.licence and f"{method.licence} (of the original)",
            "limits": method.limits,
            "cost": method.cost,
            "missing": method.missing,
        }
        for method in found
    }
    print_entries({name: facts for name, facts in entries.items() if not facts["missing"]})
    waiting = {name: facts for name, facts in entries.items() if facts["missing"]}
    if waiting:
        echo("")
        echo("These cannot run here:")
        print_entries(waiting)
    print_passed_over(catalogue.passed_over)
