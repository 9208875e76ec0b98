"""Methods, metrics and data sets that come from other packages, as entry points of their installation.

A package offers one with a line in its ``pyproject.toml``::

    [project.entry-points."allfocus.methods"]
    my-method = "my_package.fusion:MY_METHOD"

The value is a ``Method``, ``Metric`` or ``Dataset``; a method may also be a plain function. A name means one thing:
what carries one of ours, or that of another package, is passed over and told.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, Protocol, TypeVar

from allfocus.errors import AllfocusError, InputError, MissingDependencyError

METHODS_GROUP, METRICS_GROUP, DATASETS_GROUP = "allfocus.methods", "allfocus.metrics", "allfocus.datasets"
LONGEST_NAME = 100


class Named(Protocol):
    """What a table holds."""

    @property
    def name(self) -> str:
        """Under which it is asked for."""
        ...


Thing = TypeVar("Thing", bound=Named)


@dataclass(frozen=True)
class Catalogue(Generic[Thing]):
    """A table of ours together with what installed packages add to it."""

    entries: dict[str, Thing]
    """By their names: ours, then those of packages by the order of their entries."""
    packages: dict[str, str]
    """Name -> the package that it comes from, for those that are not ours."""
    passed_over: tuple[InputError, ...]
    """Why each plug-in that is not in the table is not; none of them was raised."""

    def passed_over_for(self, name: str) -> list[InputError]:
        """Those of :attr:`passed_over` that somebody who asks for this name may have meant."""
        return [error for error in self.passed_over if error.parameters["name"] == name]


def add_plugins(
    own: Mapping[str, Thing],
    group: str,
    accept: Callable[[str, object], Thing | None],
    *,
    words: Callable[[Thing], Iterable[str]] = lambda thing: (thing.name,),
) -> Catalogue[Thing]:
    """The table of what is ours with what installed packages offer in a group.

    Args:
        own: Ours by their names; none of them is ever replaced.
        group: One of the groups above.
        accept: Makes the thing of an entry's name and value; None when the value is no such thing.
        words: Every word under which a thing is found.

    Raises:
        MissingDependencyError: an entry cannot be loaded, or is of the wrong kind; the message names its package.

    Example:
        >>> add_plugins({}, "allfocus.nothing", lambda name, value: None).entries
        {}
    """
    entries, packages, passed_over = dict(own), dict[str, str](), list[InputError]()
    taken = {word: "allfocus" for thing in own.values() for word in words(thing)}
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        package = entry.dist.name if entry.dist else "an unknown package"
        thing = _load(entry, group, package, accept)
        owner = next((taken[word] for word in words(thing) if word in taken), None)
        if owner is not None:
            passed_over.append(_name_taken(thing.name, group, package, owner))
            continue
        taken |= dict.fromkeys(words(thing), package)
        entries[thing.name], packages[thing.name] = thing, package
    return Catalogue(entries, packages, tuple(passed_over))


@contextmanager
def telling_of_plugins(name: str, packages: Mapping[str, str]) -> Iterator[None]:
    """Make an error of ours, which names the package, of whatever something of an installed package ends with.

    Args:
        name: What is at work within.
        packages: Of its catalogue; what is not in there is ours or the caller's, and raises what it raises.

    Raises:
        InputError: it failed.
    """
    try:
        yield
    except (AllfocusError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if name not in packages:
            raise
        why = " ".join(str(error).split())[:200]
        raise InputError(
            f"{name} of the package {packages[name]} failed ({type(error).__name__}: {why})",
            hint=["repair that package", "take another one"],
            code="method-cannot",
        ) from error


def _load(entry: EntryPoint, group: str, package: str, accept: Callable[[str, object], Thing | None]) -> Thing:
    try:
        value = entry.load()
        thing = accept(entry.name, value)
        name = None if thing is None else thing.name
    except (Exception, SystemExit) as error:  # somebody else's code may raise anything at all, or end the program
        why = " ".join(str(error).split())[:200]
        raise MissingDependencyError(
            f"{entry.name} of the package {package} cannot be loaded ({type(error).__name__}: {why})",
            hint="repair or uninstall that package",
        ) from error
    if thing is None or not _is_word(name):
        raise MissingDependencyError(
            f"{entry.name} of the package {package} is a {type(value).__name__}, which {group} does not take",
            hint="repair or uninstall that package",
        )
    return thing


def _is_word(name: object) -> bool:
    """Whether something can be asked for by a name: one short line that a terminal shows as it is."""
    return isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable() and name == name.strip()


def _name_taken(name: str, group: str, package: str, owner: str) -> InputError:
    return InputError(
        f"{name} of the package {package} is passed over: {owner} has something of that name in {group}",
        hint="rename it in that package, or uninstall it",
        code="name-taken",
        name=name,
        package=package,
        group=group,
        owner=owner,
    )
