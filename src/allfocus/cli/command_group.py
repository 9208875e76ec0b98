"""Help that shows commands by what they are for, in place of one long list."""

from collections.abc import Mapping, Sequence
from typing import Any

import click


class SectionedGroup(click.Group):
    """A group of commands whose help has a heading for each kind of them."""

    def __init__(self, *arguments: Any, sections: Mapping[str, Sequence[str]], **settings: Any) -> None:
        """A group.

        Args:
            *arguments: As click's.
            sections: Names of commands under each heading; every command stands under one.
            **settings: As click's.
        """
        super().__init__(*arguments, **settings)
        self.sections = sections

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, section by section."""
        width = max(map(len, self.commands))
        for title, names in self.sections.items():
            limit = formatter.width - 6 - width
            rows = [(name.ljust(width), self.commands[name].get_short_help_str(limit)) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)
