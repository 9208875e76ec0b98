"""Names that a shell completes, such as those of methods; they are looked up only when a shell asks."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def _complete(names: Callable[[click.Context], Iterable[str]], *, or_file: bool = False) -> Completer:
    """What completes a word to those of the names that begin so; where a file may stand too and none does, to files."""

    def complete(context: click.Context, parameter: click.Parameter, start: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        fitting = [CompletionItem(name) for name in names(context) if name.lower().startswith(start.lower())]
        return fitting or ([CompletionItem(start, type="file")] if or_file else [])

    return complete


def _methods(context: click.Context) -> Iterable[str]:
    from allfocus.fusion.methods import method_catalogue

    return [name for name, method in method_catalogue().entries.items() if not method.missing]


def _metrics(context: click.Context) -> Iterable[str]:
    from allfocus.metrics.catalogue import metric_catalogue

    return metric_catalogue().entries


def _datasets(context: click.Context) -> Iterable[str]:
    from allfocus.datasets.catalogue import dataset_catalogue

    return dataset_catalogue().entries


def _scenes(context: click.Context) -> Iterable[str]:
    from allfocus.scenes.catalogue import SCENES

    return SCENES


def _presets(context: click.Context) -> Iterable[str]:
    from allfocus.stack.kept_options import read_kept
    from allfocus.stack.presets import PRESETS
    from allfocus.web.settings import default_work_folder

    return [*PRESETS, *read_kept(default_work_folder()).presets]


def _commands(context: click.Context) -> Iterable[str]:
    group = context.find_root().command
    return group.commands if isinstance(group, click.Group) else ()


complete_method = _complete(_methods, or_file=True)
complete_metric = _complete(_metrics)
complete_dataset = _complete(_datasets)
complete_scene = _complete(_scenes)
complete_preset = _complete(_presets)
complete_command = _complete(_commands)
