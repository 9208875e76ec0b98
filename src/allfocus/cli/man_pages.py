"""Manual pages, made from the commands: the same words as ``--help``, for ``man``.

Imports click alone, because the wheel's build calls it (``hatch_build.py``).
"""

import re
from collections.abc import Iterator

import click

from allfocus.cli.examples import HEADING
from allfocus.version import __version__

EXIT_CODES = {"0": "done", "2": "wrong usage or bad input", "130": "interrupted", "1": "anything else went wrong"}


def page_names(group: click.Group) -> dict[str, str | None]:
    """The file name of every page, with the command that it is about; None for the program itself.

    Example:
        >>> from allfocus.cli.main import allfocus
        >>> page_names(allfocus)["allfocus-fuse.1"]
        'fuse'
    """
    return {"allfocus.1": None, **{f"allfocus-{name}.1": name for name in sorted(group.commands)}}


def man_page(group: click.Group, name: str | None = None) -> str:
    """The manual page of a command, or of the program.

    Args:
        group: The program.
        name: A command; None for the program itself.
    """
    command = group if name is None else group.commands[name]
    title = "allfocus" if name is None else f"allfocus-{name}"
    with click.Context(group, info_name="allfocus", **group.context_settings) as parent:
        context = parent if name is None else click.Context(command, info_name=name, parent=parent)
        lines = [
            f'.TH "{_plain(title.upper())}" 1 "" "allfocus {__version__}" "allfocus"',
            ".SH NAME",
            f"{_plain(title)} \\- {_plain(_summary(command))}",
            ".SH SYNOPSIS",
            f".B {_plain(context.command_path)}",
            _plain(" ".join(command.collect_usage_pieces(context))),
            ".SH DESCRIPTION",
            *_paragraphs(command.help or ""),
            *_commands(group if name is None else None),
            *_options(command, context),
            *_end(command.epilog or ""),
            ".SH EXIT STATUS",
            *(line for code, meaning in EXIT_CODES.items() for line in (".TP", f".B {code}", meaning)),
            ".SH SEE ALSO",
            ".BR allfocus (1)" if name else ", ".join(f"\\fBallfocus\\-{_plain(own)}\\fR(1)" for own in group.commands),
        ]
    return "\n".join(lines) + "\n"


def _summary(command: click.Command) -> str:
    text = command.short_help or (command.help or "").partition(".")[0]
    return text.rstrip(".")


def _end(epilog: str) -> Iterator[str]:
    """What follows the options: examples under a heading of their own."""
    heading, _, rest = epilog.partition(f"{HEADING}\n")
    if not rest:
        yield from _paragraphs(epilog)
        return
    yield ".SH EXAMPLES"
    yield from _paragraphs(heading + rest)


def _paragraphs(text: str) -> Iterator[str]:
    r"""Text with empty lines between paragraphs; one that begins with ``\b`` keeps its lines, as in click."""
    if not text.strip():
        return
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        lines = part.strip("\n").splitlines()
        kept = bool(lines) and lines[0].strip() == "\b"
        yield ".PP"
        if kept:
            yield from (".nf", *(_plain(line) for line in lines[1:]), ".fi")
        else:
            yield _plain(" ".join(part.split()))


def _commands(group: click.Group | None) -> Iterator[str]:
    if group is None:
        return
    yield ".SH COMMANDS"
    for name, command in group.commands.items():
        yield from (".TP", f"\\fBallfocus\\-{_plain(name)}\\fR(1)", _plain(_summary(command)))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = [
        record
        for one in command.get_params(context)
        if isinstance(one, click.Option) and (record := one.get_help_record(context))
    ]
    if records:
        yield ".SH OPTIONS"
    for names, text in records:
        yield from (".TP", f"\\fB{_plain(names)}\\fR", _plain(" ".join(text.split())))


def _plain(text: str) -> str:
    r"""Text in which troff sees nothing to obey.

    Example:
        >>> _plain("--no-align"), _plain(".TH")
        ('\\-\\-no\\-align', '\\&.TH')
    """
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
