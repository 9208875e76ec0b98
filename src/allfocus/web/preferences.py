"""What a studio remembers for its user: the options of the last fusion, and presets of the user's own."""

import logging
import threading
from pathlib import Path
from typing import Any

from allfocus.errors import InputError
from allfocus.stack.kept_options import KeptOptions, options_to_plain, read_kept, write_kept
from allfocus.stack.options import FuseOptions
from allfocus.stack.presets import PRESETS
from allfocus.web.job_records import clean_name
from allfocus.web.refusals import Refusal

MOST_PRESETS = 100

_log = logging.getLogger("allfocus.web")


class Preferences:
    """Kept in a file of the work folder (``stack.kept_options``); one that cannot be read is passed over."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._kept = KeptOptions()
        try:
            self._kept = read_kept(work)
        except InputError as error:
            _log.warning("the remembered options cannot be used: %s", error)

    def show(self) -> dict[str, Any]:
        """As clients see it: the options of the last time, and all presets, those that come with allfocus first."""
        given = [
            {
                "name": name,
                "title": each.title,
                "about": f"{each.about}.",
                "own": False,
                "options": options_to_plain(each.options),
            }
            for name, each in PRESETS.items()
        ]
        own = [
            {"name": name, "title": name, "about": "", "own": True, "options": options_to_plain(options)}
            for name, options in sorted(self._kept.presets.items())
        ]
        last = self._kept.last
        return {"options": None if last is None else options_to_plain(last), "presets": given + own}

    def remember(self, options: FuseOptions) -> dict[str, Any]:
        """Keep options for the next stack."""
        with self._lock:
            self._save(KeptOptions(options, self._kept.presets))
        return self.show()

    def keep_preset(self, name: str, options: FuseOptions) -> dict[str, Any]:
        """Keep options under a name, in place of those that it had.

        Raises:
            Refusal: the name is that of a preset that comes with allfocus, or there are too many.
        """
        called = clean_name(name, "")
        if not called or called.lower() in PRESETS:
            raise Refusal(409, "a preset that comes with allfocus has this name; choose another")
        with self._lock:
            presets = {**self._kept.presets, called: options}
            if len(presets) > MOST_PRESETS:
                raise Refusal(413, f"{MOST_PRESETS} presets are kept already; delete one first")
            self._save(KeptOptions(self._kept.last, presets))
        return self.show()

    def delete_preset(self, name: str) -> dict[str, Any]:
        """Forget a preset of the user's own.

        Raises:
            Refusal: there is none of that name.
        """
        with self._lock:
            if name not in self._kept.presets:
                raise Refusal(404, "there is no preset of your own of this name")
            rest = {key: value for key, value in self._kept.presets.items() if key != name}
            self._save(KeptOptions(self._kept.last, rest))
        return self.show()

    def _save(self, kept: KeptOptions) -> None:
        write_kept(self._work, kept)
        self._kept = kept
