"""How the command line says options: its switches, the words that give a value, and the command that does the same."""

import os
import shlex

from allfocus.stack.options import FuseOptions, describe_options
from allfocus.stack.outputs import FuseOutputs, Paths, describe_outputs


def option_flags(name: str) -> tuple[str, str]:
    """How the command line switches an option on and off; off is empty where it cannot be.

    Example:
        >>> option_flags("crop"), option_flags("depth_map")
        (('--crop', '--keep-size'), ('--depth-map', ''))
    """
    about = {**describe_options(), **describe_outputs()}.get(name)
    flags = (about.flags if about else "") or "--" + name.replace("_", "-")
    on, _, off = flags.partition("/")
    return on, off


def option_words(name: str, value: object) -> list[str]:
    """The words that give an option this value on the command line.

    Example:
        >>> option_words("slabs", (8, 2)), option_words("crop", False)
        (['--slab', '8,2'], ['--keep-size'])
    """
    on, off = option_flags(name)
    if isinstance(value, bool):
        return [on if value else off]
    return [on, ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]


def command_line(paths: Paths, outputs: FuseOutputs, options: FuseOptions) -> str:
    """The command line that does the same; options at their defaults are not said.

    Example:
        >>> command_line("shots", FuseOutputs("a b.tif"), FuseOptions(method="dsift", align=False, slabs=(8, 2)))
        "allfocus fuse shots -o 'a b.tif' --method dsift --no-align --slab 8,2"
    """
    given = [os.fspath(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    # A name that begins with a dash would pass for an option.
    frames = [os.path.join(".", path) if path.startswith("-") else path for path in given]
    words = ["allfocus", "fuse", *frames, "-o", os.fspath(outputs.picture)]
    standard = {**FuseOptions().settings(), **FuseOutputs("").settings()}
    for name, value in {**options.settings(), **outputs.settings()}.items():
        if value != standard[name]:
            words += option_words(name, value)
    return shlex.join(words)


def command_words(name: str, state: str) -> str:
    """How the command line says that an option is set; for the hints of errors.

    Example:
        >>> command_words("align", "off"), command_words("linear_light", "default"), command_words("overwrite", "on")
        ('add --no-align', 'leave out --linear-light', 'add --overwrite')
    """
    on, off = option_flags(name)
    return {"on": f"add {on}", "off": f"add {off or on}", "default": f"leave out {on}"}.get(state, f"set {on}")
