"""``allfocus man``: the manual pages."""

import click

from allfocus.cli.known_names import complete_command
from allfocus.cli.man_pages import man_page


@click.command(short_help="Print a manual page.")
@click.argument("command", required=False, shell_complete=complete_command)
def man(command: str | None) -> None:
    """Print the manual page of allfocus, or of one COMMAND, for `man -l -` or a package.

    Where allfocus was installed by pip, the pages lie in share/man of its environment.
    """
    group = click.get_current_context().find_root().command
    assert isinstance(group, click.Group)
    if command is not None and command not in group.commands:
        raise click.UsageError(f"there is no command {command!r}")
    click.echo(man_page(group, command), nl=False)
