"""The ``allfocus`` command: the group of commands, and the one place where errors become exit codes.

Exit codes: 0 done; 2 wrong usage or bad input; 1 anything else; 130 interrupted. Errors are one line on stderr.
"""

import logging
import os
import traceback
from collections.abc import Sequence

import click

from allfocus import __version__
from allfocus.cli.align_command import align
from allfocus.cli.batch_command import batch
from allfocus.cli.benchmark_command import benchmark
from allfocus.cli.command_group import SectionedGroup
from allfocus.cli.completion_command import completion
from allfocus.cli.datasets_command import datasets
from allfocus.cli.demo_command import demo
from allfocus.cli.desktop_entry_command import desktop_entry
from allfocus.cli.doctor_command import doctor
from allfocus.cli.evaluate_command import evaluate
from allfocus.cli.export_command import export
from allfocus.cli.export_project_command import export_project
from allfocus.cli.fuse_command import fuse
from allfocus.cli.info_command import info
from allfocus.cli.interruption import INTERRUPTED
from allfocus.cli.man_command import man
from allfocus.cli.methods_command import methods
from allfocus.cli.metrics_command import metrics
from allfocus.cli.open_command import open_command
from allfocus.cli.presets_command import presets
from allfocus.cli.printing import echo
from allfocus.cli.relief_command import relief
from allfocus.cli.scene_command import scene
from allfocus.cli.score_command import score
from allfocus.cli.serve_command import serve
from allfocus.cli.train_command import train
from allfocus.errors import AllfocusError
from allfocus.stack.command_words import command_words

SECTIONS = {
    "Fuse": (fuse, batch, align),
    "Studio": (serve, open_command, export_project, desktop_entry),
    "Look": (info, relief, demo, scene),
    "Measure": (score, evaluate, benchmark),
    "Train": (train, export),
    "What there is": (methods, presets, metrics, datasets, doctor, completion, man),
}
"""The commands in the order in which help shows them."""

ASKING = {"help_option_names": ["-h", "--help"]}
"""For each command too: click remembers how help is asked for from the first time that a command is looked at."""


@click.group(
    cls=SectionedGroup,
    sections={title: [command.name or "" for command in commands] for title, commands in SECTIONS.items()},
    context_settings={**ASKING, "max_content_width": 120},
)
@click.version_option(__version__, prog_name="allfocus")
def allfocus() -> None:
    """Turn a stack of partly focused pictures into one that is sharp everywhere."""


for commands in SECTIONS.values():
    for command in commands:
        command.context_settings.update(ASKING)
        allfocus.add_command(command)


def run(arguments: Sequence[str]) -> int:
    """The exit code of ``allfocus`` with these arguments; what it has to say goes to stdout and stderr."""
    # Without a handler, Python would print what libraries log about odd files between our own lines.
    # What our own parts log is told as a notice too.
    for name in ("tifffile", "allfocus"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    try:
        result = allfocus.main(args=list(arguments) or ["--help"], prog_name="allfocus", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "allfocus"
        return _fail(f"{error.format_message()} (see {where} --help)", 2)
    except click.ClickException as error:
        return _fail(error.format_message(), 2)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", INTERRUPTED)
    except AllfocusError as error:
        return _fail(error.told(command_words), error.exit_code)
    except MemoryError:
        return _fail("there is not enough memory; close other programs, or use fewer or smaller frames", 1)
    except Exception as error:
        if _came_from_interrupt(error):
            return _fail("interrupted", INTERRUPTED)
        if os.environ.get("ALLFOCUS_TRACEBACK"):
            traceback.print_exc()
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return _fail(f"unexpected {text} (set ALLFOCUS_TRACEBACK=1 to see where, and please report it)", 1)


def _fail(message: str, exit_code: int) -> int:
    echo("allfocus: " + " ".join(message.split()), err=True)
    return exit_code


def _came_from_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C was behind an error: libraries that are loaded late may turn it into an ImportError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
