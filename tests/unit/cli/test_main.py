"""The one place where errors become exit codes."""

import click
import pytest

from allfocus.cli import main
from allfocus.errors import AllfocusError, InputError, MissingDependencyError, OutputError, TrainingError


@pytest.fixture
def raising(monkeypatch):
    """Makes ``allfocus broken`` raise what it is given."""

    def install(error: BaseException) -> None:
        @click.command("broken")
        def broken() -> None:
            raise error

        monkeypatch.setitem(main.allfocus.commands, "broken", broken)

    return install


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (InputError("a.png: no such file"), 2),
        (OutputError("out: read-only"), 2),
        (MissingDependencyError("pip install 'allfocus[train]'"), 2),
        (TrainingError("the loss is nan"), 1),
        (AllfocusError("anything"), 1),
        (ZeroDivisionError("division by zero"), 1),
        (RuntimeError(), 1),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
    ],
)
def test_each_error_has_its_exit_code_and_one_line_on_stderr(raising, capsys, error, exit_code):
    raising(error)
    assert main.run(["broken"]) == exit_code
    printed = capsys.readouterr()
    assert printed.out == ""
    line = printed.err.removeprefix("\n")  # click ends the line on which the terminal shows ^C
    assert line.startswith("allfocus: ")
    assert str(error) in line
    assert line.count("\n") == 1


def test_a_message_of_several_lines_becomes_one(raising, capsys):
    raising(InputError("first\nsecond"))
    main.run(["broken"])
    assert capsys.readouterr().err == "allfocus: first second\n"


def test_a_traceback_is_shown_when_asked_for(raising, capsys, monkeypatch):
    raising(ZeroDivisionError("division by zero"))
    monkeypatch.setenv("ALLFOCUS_TRACEBACK", "1")
    assert main.run(["broken"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fuze"], "fuze"),
        (["fuse"], "FRAMES"),
        (["fuse", "a.png", "--methd", "ips"], "--methd"),
        (["fuse", "a.png", "--device", "tpu"], "tpu"),
        (["scene", "desk", "-o", "x", "--size", "wide"], "640x480"),
        (["export", "run"], "--output"),
    ],
)
def test_wrong_usage_is_two_and_one_line_that_names_it(capsys, arguments, words):
    assert main.run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert "--help" in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("command", [[], *([name] for name in main.allfocus.commands)])
def test_every_command_has_help(capsys, command):
    assert main.run([*command, "--help"]) == 0
    assert "Usage: allfocus" in capsys.readouterr().out


def test_every_option_of_every_command_is_explained():
    for name, command in main.allfocus.commands.items():
        assert command.help, name
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{name} {parameter.opts}"


def test_the_version_is_printed(capsys):
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("allfocus, version ")
