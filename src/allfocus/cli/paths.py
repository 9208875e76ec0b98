"""Files and folders that a user names on the command line."""

import os
from pathlib import Path

import click


class NamedPath(click.Path):
    """A path; an empty name is refused, which Python would take for the current folder."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        """A type for arguments and options, whose values are of pathlib's ``Path``; the rest as click's."""
        super().__init__(file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """The path that a text names."""
        if not os.fspath(value):
            self.fail("the name is empty; give a file or folder, or . for the current folder", param, ctx)
        return super().convert(value, param, ctx)


PATH = NamedPath()
