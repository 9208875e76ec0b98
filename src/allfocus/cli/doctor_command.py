"""``allfocus doctor``: what is there, what is used, and why."""

from typing import Any

import click

from allfocus.cli.interruption import ending_at_once
from allfocus.cli.printing import echo, json_option, print_entries, print_json


@click.command(short_help="Show what this machine offers, and what is used.")
@click.option("--fresh", is_flag=True, help="Compare accelerators with the processor again.")
@json_option
def doctor(fresh: bool, as_json: bool) -> None:
    """Show what is installed, where networks run and why, which extras are missing, and where things are kept.

    An accelerator is used by itself only if it gives the results of the processor and is no slower; that is tried once,
    and remembered. Paste the output into a report of a problem.
    """
    with ending_at_once():
        from allfocus.diagnosis import diagnose

    found = diagnose(fresh=fresh)
    if as_json:
        print_json(found)
        return
    own, python, processor = found["allfocus"], found["python"], found["processor"]
    memory = processor["free_memory"]
    print_entries(
        {
            f"allfocus {own['version']}": {
                "in": own["place"],
                "python": f"{python['version']}, {python['program']}",
                "system": python["system"],
                "cores": f"{processor['usable']} of {processor['cores']}, {processor['threads']} used by networks",
                "memory": "not known" if memory is None else f"{memory / 1e9:.1f} GB free",
                "packages": _list(found["packages"]),
                "cache": found["places"]["cache"],
            }
        }
    )
    echo("")
    echo("Where networks run")
    for name, state in found["devices"].items():
        mark = "used" if state["used"] else "works" if state["works"] else "no"
        echo(f"  {name:<10} {mark:<6} {state['why']}")
    echo(f"  onnxruntime has {', '.join(found['providers'])}")
    echo("")
    echo("Extras")
    for name, state in found["extras"].items():
        missing = [package for package, version in state["packages"].items() if version is None]
        told = _list(state["packages"]) if state["present"] else f"{', '.join(missing)} missing: {state['install']}"
        echo(f"  {name:<10} {told}")
    if found["plugins"]:
        echo("")
        echo("Plug-ins")
    for plugin in found["plugins"]:
        if plugin["used"]:
            echo(f"  {plugin['name']:<10} of the package {plugin['package']}, in {plugin['group']}")
        else:
            echo(f"  {plugin['why']} ({plugin['code']})")


def _list(packages: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version or 'missing'}" for name, version in packages.items())
