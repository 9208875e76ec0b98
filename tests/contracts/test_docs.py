"""The documentation holds: links lead somewhere, commands are understood, Python compiles, pictures are ours."""

import importlib.util
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from allfocus.cli.main import allfocus

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 1_750_000
"""Of all pictures that docs/make_pictures.py makes: whoever clones the project loads them all."""

FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)(?:\s+\"[^\"]*\")?\)|(?:src|href)=\"([^\"]+)\"")
SPAN = re.compile(r"`(allfocus [^`]+)`")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def links(page: Path) -> list[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return [first or second for first, second in LINK.findall(re.sub(r"`[^`]*`", "", text))]


def anchors(page: Path) -> set[str]:
    """Names of the headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+\s+(.*?)\s*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def blocks(page: Path, *kinds: str) -> list[str]:
    return [body for kind, body in FENCE.findall(page.read_text(encoding="utf-8")) if kind in kinds]


def commands_in_blocks(page: Path) -> Iterator[list[str]]:
    """The command lines of ``allfocus``, as the words that a shell makes of them."""
    for block in blocks(page, "", "sh", "bash", "console", "shell", "text"):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|;", re.sub(r"^\s*\$\s+", "", line)):
                if re.match(r"\s*(\S*/)?allfocus\s", part):
                    yield shlex.split(part, comments=True)[1:]


def commands_in_text(page: Path) -> list[list[str]]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return [shlex.split(" ".join(span.split()))[1:] for span in SPAN.findall(text)]


def understand(words: list[str]) -> None:
    """Raises what click raises when it cannot make sense of the words; runs nothing."""
    if words[0].startswith("-"):
        allfocus.make_context("allfocus", [*words, "methods"], resilient_parsing=True)
        known = {option for parameter in allfocus.params for option in parameter.opts} | {"-h", "--help"}
        assert words[0] in known, f"allfocus has no option {words[0]}"
        return
    with click.Context(allfocus, info_name="allfocus") as parent:
        command = allfocus.get_command(parent, words[0])
        if command is None:
            raise click.UsageError(f"there is no command {words[0]!r}")
        arguments = [word for word in words[1:] if word not in ("-h", "--help")]
        if len(arguments) == len(words) - 1:
            command.make_context(words[0], arguments, parent=parent)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page):
    for link in links(page):
        if re.match(r"https?://|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)} links to {link}, which is not there"
        assert target.is_relative_to(ROOT), f"{name_of(page)} links to {link}, outside the project"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{name_of(page)} links to {link}, but there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_in_a_block_is_understood(page):
    for words in commands_in_blocks(page):
        try:
            understand(words)
        except click.ClickException as error:
            pytest.fail(f"{name_of(page)}: allfocus {shlex.join(words)}: {error.format_message()}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_in_the_text_is_understood(page):
    for words in commands_in_text(page):
        try:
            understand(words)
        except click.MissingParameter:
            continue  # a mention, such as `allfocus fuse`, need not be complete
        except click.ClickException as error:
            pytest.fail(f"{name_of(page)}: allfocus {shlex.join(words)}: {error.format_message()}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_python_compiles(page):
    for number, block in enumerate(blocks(page, "python"), start=1):
        compile(textwrap.dedent(block), f"{name_of(page)}, block {number}", "exec")


def test_there_is_something_to_check():
    assert sum(len(list(commands_in_blocks(page))) for page in PAGES) > 20
    assert sum(len(links(page)) for page in PAGES) > 20


@pytest.mark.parametrize(
    "words", ["fuse a.png -o b.png --no-such-option", "no-such-command", "fuse a.png --quality 101", "fuse"]
)
def test_a_wrong_command_would_be_noticed(words):
    with pytest.raises(click.ClickException):
        understand(shlex.split(words))


def test_a_wrong_link_would_be_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A heading, here\n![x](missing.png) [y](#a-heading-here)\n```\n[z](no.md)\n```\n")
    assert links(page) == ["missing.png", "#a-heading-here"]
    assert anchors(page) == {"a-heading-here"}


def test_the_pictures_are_those_the_script_makes_and_are_shown():
    description = importlib.util.spec_from_file_location("make_pictures", ROOT / "docs" / "make_pictures.py")
    module = importlib.util.module_from_spec(description)
    description.loader.exec_module(module)
    made = [IMAGES / name for name in module.PICTURES]
    shown = {(page.parent / link).resolve() for page in PAGES for link in links(page) if "images/" in link}
    for picture in made:
        assert picture.exists(), f"run python docs/make_pictures.py {picture.name}"
        assert picture.resolve() in shown, f"{picture.name} is shown on no page"
    assert sum(picture.stat().st_size for picture in made) < MOST_BYTES
