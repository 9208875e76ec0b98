"""``allfocus completion``: what makes a shell complete our commands, options and files."""

import click

SHELLS = ("bash", "zsh", "fish")
WHERE = """
\b
    bash  allfocus completion bash > ~/.local/share/bash-completion/completions/allfocus
    zsh   allfocus completion zsh > "${fpath[1]}/_allfocus"
    fish  allfocus completion fish > ~/.config/fish/completions/allfocus.fish
"""


@click.command(short_help="Print what makes a shell complete our commands.", epilog=WHERE)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that lets SHELL complete commands, options, their values and files.

    Put it where the shell looks, and open a new shell. It asks allfocus itself, so it stays true after an update.
    """
    from click.shell_completion import get_completion_class

    group = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click has no completion for {shell}")
    click.echo(kind(group, {}, "allfocus", "_ALLFOCUS_COMPLETE").source())
