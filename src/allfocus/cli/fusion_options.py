"""The options of a fusion on the command line, made from ``FuseOptions`` and ``FuseOutputs``."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from allfocus.cli.known_names import complete_method, complete_preset
from allfocus.stack.command_words import option_flags
from allfocus.stack.option_fields import About
from allfocus.stack.options import FuseOptions, describe_options, offered
from allfocus.stack.outputs import KINDS, describe_outputs

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULTS = {own.name: own.default for own in fields(FuseOptions)}


def fusion_options(front_end: str) -> Callable[[Function], Function]:
    """Adds every option of ``FuseOptions`` that a front end offers to a command."""

    def add(command: Function) -> Function:
        for name, about in reversed(offered(front_end).items()):
            command = _option(name, about, DEFAULTS[name])(command)
        return command

    return add


def preset_option(command: Function) -> Function:
    """Adds ``--preset`` to a command: its options become what those of ``fusion_options`` are by default."""
    return click.option(
        "--preset",
        metavar="NAME",
        expose_value=False,
        is_eager=True,  # before the options whose defaults it sets
        callback=_take_preset,
        shell_complete=complete_preset,
        help="Options that fit a kind of picture, or your own of the studio: a name that `allfocus presets` lists; "
        "other options given here come on top.",
    )(command)


def _take_preset(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
    if name is None or context.resilient_parsing:
        return
    from allfocus.stack.kept_options import options_to_plain, read_kept
    from allfocus.stack.presets import PRESETS, find_preset
    from allfocus.web.settings import default_work_folder

    own = {} if name.lower() in PRESETS else read_kept(default_work_folder()).presets
    values = options_to_plain(find_preset(name, own))
    about = describe_options()
    texts = {key: str(value) if about[key].choices else value for key, value in values.items() if value is not None}
    context.default_map = {**(context.default_map or {}), **texts}


def output_options(command: Function) -> Function:
    """Adds an option for every output of ``FuseOutputs`` to a command."""
    for name, about in reversed(describe_outputs().items()):
        kind: Any = {"is_flag": True} if name == "overwrite" else {"type": click.Path(path_type=Path)}
        command = click.option(option_flags(name)[0], name, help=f"{about.help}.", **kind)(command)
    return command


def map_options(command: Function) -> Function:
    """Adds a switch for every map that each stack of many can have, such as ``--depth-maps``, to a command."""
    for kind, name in reversed(KINDS.items()):
        words = describe_outputs()[name].help
        ending = "html" if kind == "report" else "png"
        help_text = f"{words} (NAME_{kind}.{ending} of each stack)."
        command = click.option(map_flag(kind), f"{kind}_maps", is_flag=True, help=help_text)(command)
    return command


def map_flag(kind: str) -> str:
    """The switch for maps of a kind.

    Example:
        >>> map_flag("depth"), map_flag("report")
        ('--depth-maps', '--reports')
    """
    return "--reports" if kind == "report" else f"--{kind}-maps"


def take_kinds(values: dict[str, Any]) -> tuple[str, ...]:
    """The kinds of maps that were asked for, taken out of the values of a command."""
    return tuple(kind for kind in KINDS if values.pop(f"{kind}_maps"))


def _option(name: str, about: About, default: Any) -> Callable[[Function], Function]:
    on, off = option_flags(name)
    settings: dict[str, Any] = {"help": f"{about.help}.", "default": default}
    if off:
        settings["show_default"] = default is not None
        return click.option(f"{on}/{off}", name, **settings)
    if isinstance(default, bool):
        return click.option(on, name, is_flag=True, **settings)
    settings["show_default"] = default is not None
    if about.choices:
        settings |= {"type": click.Choice([str(choice) for choice in about.choices]), "callback": _choose(about)}
        settings["default"] = None if default is None else str(default)
    elif about.limits != (None, None):
        settings |= {"type": click.IntRange(*about.limits), "metavar": about.metavar}
    else:
        settings |= {"callback": PARSERS.get(name), "metavar": about.metavar}
        settings["shell_complete"] = complete_method if name == "method" else None
    return click.option(on, name, **settings)


def _choose(about: About) -> Callable[[click.Context, click.Parameter, str | None], object]:
    """Turns the text of a choice into its value."""
    by_text = {str(choice): choice for choice in about.choices}
    return lambda context, parameter, value: None if value is None else by_text[value]


def _read_slabs(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Two numbers from ``SIZE,OVERLAP``; what they may be depends on the stack and is checked with it."""
    if value is None:
        return None
    size, _, overlap = value.partition(",")
    if not (size.strip().isdecimal() and overlap.strip().isdecimal()):
        raise click.BadParameter(f"{value!r} is not SIZE,OVERLAP, for example 10,3")
    return int(size), int(overlap)


def _read_compression(context: click.Context, parameter: click.Parameter, value: str | None) -> str | int | None:
    """A level as a number; which names and levels there are depends on the format and is checked with it."""
    return int(value) if value is not None and value.isdecimal() else value


PARSERS: Mapping[str, Callable[[click.Context, click.Parameter, str | None], object]] = {
    "slabs": _read_slabs,
    "compression": _read_compression,
}
"""How texts become values that are neither texts nor numbers."""
