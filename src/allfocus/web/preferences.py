"""What a studio remembers for its user: the options of the last fusion, and presets of the user's own."""

import json
import logging
import threading
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from allfocus.errors import InputError
from allfocus.files.opening import open_plain, parse_json
from allfocus.images.writing import replace_file
from allfocus.stack.options import STUDIO, FuseOptions, offered
from allfocus.stack.presets import PRESETS
from allfocus.web.bodies import StartOptions
from allfocus.web.job_records import clean_name
from allfocus.web.refusals import Refusal

FILE = "preferences.json"
MOST_PRESETS = 100

_log = logging.getLogger("allfocus.web")


class Preferences:
    """Kept in ``preferences.json`` of the work folder; a file that cannot be read is passed over."""

    def __init__(self, work: Path) -> None:
        self._path = work / FILE
        self._lock = threading.Lock()
        self._options: dict[str, Any] | None = None
        self._presets: dict[str, dict[str, Any]] = {}
        self._load()

    def show(self) -> dict[str, Any]:
        """As clients see it: the options of the last time, and all presets, those that come with allfocus first."""
        given = [
            {
                "name": name,
                "title": each.title,
                "about": f"{each.about}.",
                "own": False,
                "options": _shown(each.options),
            }
            for name, each in PRESETS.items()
        ]
        own = [
            {"name": name, "title": name, "about": "", "own": True, "options": values}
            for name, values in sorted(self._presets.items())
        ]
        return {"options": self._options, "presets": given + own}

    def remember(self, options: FuseOptions) -> dict[str, Any]:
        """Keep options for the next stack."""
        with self._lock:
            self._save(_shown(options), self._presets)
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
            presets = {**self._presets, called: _shown(options)}
            if len(presets) > MOST_PRESETS:
                raise Refusal(413, f"{MOST_PRESETS} presets are kept already; delete one first")
            self._save(self._options, presets)
        return self.show()

    def delete_preset(self, name: str) -> dict[str, Any]:
        """Forget a preset of the user's own.

        Raises:
            Refusal: there is none of that name.
        """
        with self._lock:
            if name not in self._presets:
                raise Refusal(404, "there is no preset of your own of this name")
            self._save(self._options, {key: value for key, value in self._presets.items() if key != name})
        return self.show()

    def _save(self, options: dict[str, Any] | None, presets: dict[str, dict[str, Any]]) -> None:
        content = json.dumps({"options": options, "presets": presets}, allow_nan=False).encode()
        replace_file(self._path, content, overwrite=True)
        self._options, self._presets = options, presets

    def _load(self) -> None:
        try:
            with open_plain(self._path) as file:
                content = parse_json(file.read(2**20))
            self._options = _checked(content["options"]) if content["options"] is not None else None
            self._presets = {str(name): _checked(values) for name, values in content["presets"].items()}
        except InputError as error:
            if error.code != "no-such-file":
                _log.warning("%s: the remembered options cannot be used (%s)", self._path, error)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning("%s: the remembered options cannot be used (%s)", self._path, error)


def _shown(options: FuseOptions) -> dict[str, Any]:
    return {name: getattr(options, name) for name in offered(STUDIO)}


def _checked(values: Any) -> dict[str, Any]:
    """Options as this version knows them; those of another version are left out.

    Raises:
        ValueError: one has a value that it cannot have.
    """
    known = {name: value for name, value in dict(values).items() if name in offered(STUDIO)}
    body = TypeAdapter(StartOptions).validate_python(known)
    return _shown(FuseOptions(**body.model_dump()))
