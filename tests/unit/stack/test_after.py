"""A command after a stack: which words it gets, that no shell reads them, and what is told when it fails."""

import sys
from pathlib import Path

import pytest

from allfocus.errors import AllfocusError, InputError
from allfocus.stack.after import fill_command, run_after, split_command

SHOW = f'"{sys.executable}" -c "import sys; print(sys.argv[1:])"'


def test_a_name_cannot_become_a_second_word_or_a_command(tmp_path):
    picture = tmp_path / "a b; touch hacked $(touch hacked) `touch hacked` && {name} -rf.tif"
    said = run_after(f"{SHOW} {{output}} x{{name}}x", picture)
    assert said == str([str(picture), f"x{picture.stem}x"])
    assert not list(tmp_path.iterdir())


def test_without_a_place_the_picture_is_the_last_word(tmp_path):
    assert run_after(SHOW, tmp_path / "a.tif") == str([str(tmp_path / "a.tif")])


def test_all_places_are_filled(tmp_path):
    frames = [tmp_path / "1.png", tmp_path / "2.png"]
    said = run_after(
        f"{SHOW} {{folder}} {{name}} {{report}} {{first}} {{count}}",
        tmp_path / "a.ome.tif",
        report=tmp_path / "r.html",
        frames=frames,
    )
    assert said == str([str(tmp_path), "a", str(tmp_path / "r.html"), str(frames[0]), "2"])


@pytest.mark.parametrize("text", ["", "  ", "echo 'open", "echo {nothing}", "echo {}"])
def test_a_command_that_cannot_be_meant_is_refused(text):
    with pytest.raises(InputError) as caught:
        split_command(text)
    assert caught.value.code == "bad-option"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f'"{sys.executable}" -c "import sys; print(\'why\'); sys.exit(3)"', "exit code 3: why"),
        ("no-such-program-at-all", "could not be started"),
    ],
)
def test_a_failure_is_an_error_that_says_the_picture_is_there(command, words):
    with pytest.raises(AllfocusError, match=words) as caught:
        run_after(command, Path("a.tif"))
    assert "the picture is written" in str(caught.value)
    assert caught.value.code == "after-failed"
    assert caught.value.exit_code == 1


def test_a_backslash_is_a_letter_on_windows_only():
    assert split_command(r"C:\x\y.exe {output}", windows=True)[0] == r"C:\x\y.exe"
    assert split_command(r"a\ b {output}", windows=False)[0] == "a b"


def test_a_value_with_braces_is_not_filled_again():
    assert fill_command(["{output}"], {"output": "{name}", "name": "x"}) == ["{name}"]
