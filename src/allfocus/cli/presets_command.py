"""``allfocus presets``: options under a name."""

import shlex
from pathlib import Path

import click

from allfocus.cli.printing import json_option, print_entries, print_json
from allfocus.cli.serve_command import work_option
from allfocus.errors import InputError
from allfocus.stack.command_words import option_words
from allfocus.stack.options import FuseOptions


@click.command(short_help="List the presets: options under a name.")
@work_option
@json_option
def presets(as_json: bool, work: Path | None) -> None:
    """List the presets for `allfocus fuse --preset NAME`: those that come with allfocus, and your own of the studio.

    Those of a studio with a folder of its own (serve --work FOLDER) are found by all commands where ALLFOCUS_WORK names
    that folder.
    """
    from allfocus.stack.kept_options import options_to_plain, read_kept
    from allfocus.stack.presets import PRESETS
    from allfocus.web.settings import default_work_folder

    if work is not None and not work.is_dir():
        raise InputError("there is no such folder", where=work, hint="name that of serve --work", code="no-such-file")
    own = read_kept(work or default_work_folder()).presets
    found: dict[str, tuple[str, FuseOptions]] = {name: (each.about, each.options) for name, each in PRESETS.items()}
    found |= {name: ("your own", options) for name, options in own.items()}
    if as_json:
        shown = [
            {"name": name, "about": about, "own": name in own, "options": options_to_plain(options)}
            for name, (about, options) in found.items()
        ]
        print_json({"presets": shown})
        return
    print_entries(
        {name: {"for": about, "options": _say(options) or "as by default"} for name, (about, options) in found.items()}
    )


def _say(options: FuseOptions) -> str:
    """Options as the command line says them; those at their defaults are not said."""
    standard = FuseOptions().settings()
    changed = {name: value for name, value in options.settings().items() if value != standard[name]}
    return shlex.join(word for name, value in changed.items() for word in option_words(name, value))
