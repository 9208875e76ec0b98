"""Writes docs/errors.md: every code of an error, what it means, and how each front end answers.

python tools/error_table.py
"""

from pathlib import Path

from allfocus.errors import CODES, KINDS, AllfocusError
from allfocus.web.wording import status_of

TARGET = Path(__file__).resolve().parents[1] / "docs" / "errors.md"

HEAD = """# Errors

Every error that allfocus raises on purpose is an `allfocus.AllfocusError` with

- `message`: what was wrong; `where`: the file or frame at fault; `hints`: what would work;
- `code`: one of the table below, for programs; `parameters`: the values in question.

`str(error)` is the whole sentence in the words of Python (`pass skip_bad=True`). The command line says the same with
its switches (`add --skip-bad`) on one line of stderr and leaves with the exit code. A batch writes sentence and code
into the row of the stack. The studio names the switches of its page, answers with the HTTP status, and sends
`{"error": "the sentence", "code": "the code"}`.

| code | meaning | exit code | HTTP status |
|---|---|---|---|
"""


def page() -> str:
    """The page as text."""
    by_code = {kind.code: kind for kind in KINDS.values()}
    rows = []
    for code, meaning in CODES.items():
        kind: type[AllfocusError] = by_code.get(code, KINDS[KIND_OF.get(code, "InputError")])
        rows.append(f"| `{code}` | {meaning} | {kind.exit_code} | {status_of(kind(code=code))} |")
    return HEAD + "\n".join(rows) + "\n"


KIND_OF = {"output-exists": "OutputError", "unwritable-format": "OutputError", "in-use": "OutputError"}
"""The class of errors with codes that are no class's own; InputError for all others."""


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
