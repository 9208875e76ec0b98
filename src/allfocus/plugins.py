"""Methods, metrics and data sets that come from other packages, as entry points of their installation.

A package offers one with a line in its ``pyproject.toml``::

    [project.entry-points."allfocus.methods"]
    my-method = "my_package.fusion:MY_METHOD"

The value is a ``Method``, ``Metric`` or ``Dataset``; a method may also be a plain function.
"""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import TypeVar

from allfocus.errors import MissingDependencyError

METHODS_GROUP, METRICS_GROUP, DATASETS_GROUP = "allfocus.methods", "allfocus.metrics", "allfocus.datasets"

Thing = TypeVar("Thing")


def load_plugins(group: str, accept: Callable[[str, object], Thing | None]) -> list[Thing]:
    """What installed packages offer in a group, by the order of their names.

    Args:
        group: One of the groups above.
        accept: Makes the thing of an entry's name and value; None when the value is no such thing.

    Raises:
        MissingDependencyError: an entry cannot be loaded, or is of the wrong kind; the message names its package.

    Example:
        >>> load_plugins("allfocus.nothing", lambda name, value: value)
        []
    """
    found = []
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        package = entry.dist.name if entry.dist else "an unknown package"
        try:
            value = entry.load()
        except Exception as error:  # somebody else's code may raise anything at all
            raise MissingDependencyError(
                f"{entry.name} of the package {package} cannot be loaded ({type(error).__name__}: {error})",
                hint="repair or uninstall that package",
            ) from error
        thing = accept(entry.name, value)
        if thing is None:
            raise MissingDependencyError(
                f"{entry.name} of the package {package} is a {type(value).__name__}, which {group} does not take",
                hint="repair or uninstall that package",
            )
        found.append(thing)
    return found
