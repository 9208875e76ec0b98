"""Errors: every code is known and used, every front end has its own words, and none names another's switches."""

import ast
import re
from pathlib import Path

import pytest
from scripts import load_script

import allfocus
from allfocus.errors import CODES, KINDS, AllfocusError, InputError, error_from_plain, python_words
from allfocus.stack.command_words import command_words

SOURCE = Path(allfocus.__file__).parent
ROOT = SOURCE.parents[1]


def calls_of_errors():
    """Each place in the library that makes one of our errors."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS:
                yield path, node


def test_every_code_is_in_the_table_and_every_one_of_the_table_is_used():
    used = {kind.code for kind in KINDS.values()}
    for path, call in calls_of_errors():
        for keyword in call.keywords:
            if keyword.arg == "code" and isinstance(keyword.value, ast.Constant):
                assert keyword.value.value in CODES, f"{path.name}: {keyword.value.value}"
                used.add(keyword.value.value)
    assert used == set(CODES)


def test_no_message_of_the_library_names_a_switch_of_the_command_line():
    """Hints name options; each front end says how they are set. The command line itself may."""
    for path, call in calls_of_errors():
        if "cli" in path.parts:
            continue
        texts = [
            node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        assert not [text for text in texts if re.search(r"(^|[ (])--[a-z]", text)], f"{path.name}:{call.lineno}"


ERROR = InputError(
    "does not belong",
    where="a.png",
    hint=["take it out", "{skip_bad=on} to leave it out", "{align=off}", "{max_pixels} higher", "{prefer=default}"],
    code="stranger-frame",
    frame=3,
)


def test_each_front_end_says_it_in_its_own_words():
    pytest.importorskip("fastapi")
    from allfocus.web.wording import studio_words

    assert (
        str(ERROR)
        == ERROR.told(python_words)
        == (
            "a.png: does not belong; take it out, pass skip_bad=True to leave it out, pass align=False, set max_pixels "
            "higher, or leave out prefer"
        )
    )
    assert ERROR.told(command_words) == (
        "a.png: does not belong; take it out, add --skip-bad to leave it out, add --no-align, set --max-pixels "
        "higher, or leave out --prefer"
    )
    assert ERROR.told(studio_words) == (
        "a.png: does not belong; take it out, switch on “Leave out bad frames” to leave it out, "
        "switch off “Align the frames”, or reset “In doubt, prefer”"
    ), "what the studio does not offer is left out"


def test_an_error_passes_to_another_process_whole():
    again = error_from_plain(ERROR.to_plain())
    assert type(again) is InputError
    assert (str(again), again.code, again.where, again.parameters) == (str(ERROR), ERROR.code, "a.png", {"frame": 3})


def test_an_error_without_a_hint_or_place_is_its_message():
    assert str(AllfocusError("it failed")) == "it failed"
    assert str(InputError("is empty", where="a.png", hint="{work}")) == "a.png: is empty; set work"


def test_the_table_of_the_docs_is_the_one_of_the_code():
    pytest.importorskip("fastapi")
    page = load_script("tools/error_table.py").page()
    assert (ROOT / "docs" / "errors.md").read_text() == page, "run python tools/error_table.py"
