"""Puts into the wheel what lies elsewhere: the recipes, and manual pages made from the commands as they are."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Additions(BuildHookInterface[Any]):
    """Adds ``allfocus/recipes`` and ``share/man/man1`` to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the pages, and name all of it to the builder; an editable installation has the source itself."""
        if version == "editable":
            return
        build_data["force_include"][str(Path(self.root, "recipes"))] = "allfocus/recipes"
        sys.path.insert(0, str(Path(self.root, "src")))
        from allfocus.cli.main import allfocus
        from allfocus.cli.man_pages import man_page, page_names

        self._folder = tempfile.TemporaryDirectory()
        for name, command in page_names(allfocus).items():
            page = Path(self._folder.name, name)
            page.write_text(man_page(allfocus, command), encoding="utf-8", newline="\n")
            build_data["shared_data"][str(page)] = f"share/man/man1/{name}"
