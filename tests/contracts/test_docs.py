"""The pages hold: links lead somewhere, commands are understood and run, Python compiles, pictures are ours."""

import ast
import importlib
import re
import shlex
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest
import tifffile
from scripts import load_script

import allfocus as allfocus_package
from allfocus.cli.main import allfocus, run
from allfocus.cli.man_pages import man_page
from allfocus.images.writing import write_image
from allfocus.scenes.catalogue import SCENES
from allfocus.scenes.rendering import render_scene

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 1_750_000
"""Of all pictures that docs/make_pictures.py makes: whoever clones the project loads them all."""

FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)(?:\s+\"[^\"]*\")?\)|(?:src|href)=\"([^\"]+)\"")
SPAN = re.compile(r"`(allfocus [^`]+)`")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def links(page: Path) -> list[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return [first or second for first, second in LINK.findall(FORMULA.sub("", re.sub(r"`[^`]*`", "", text)))]


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
    with click.Context(allfocus, info_name="allfocus", **allfocus.context_settings) as parent:
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


def test_every_example_in_help_is_understood_and_its_command_has_some():
    for name in ("fuse", "batch", "align", "serve", "open", "info", "relief", "scene"):
        lines = (allfocus.commands[name].epilog or "").splitlines()[2:]
        assert lines, f"allfocus {name} --help has no example"
    for name, command in allfocus.commands.items():
        lines = [line for line in (command.epilog or "").splitlines() if line.startswith("  allfocus ")]
        for line in lines:
            assert line.split()[1] == name
            understand(shlex.split(line)[1:])
        assert all(f"{line.strip()}\n".replace("-", "\\-") in man_page(allfocus, name) for line in lines)
    assert all(name in (allfocus.commands["scene"].help or "") for name in SCENES)


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


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_name_of_ours_in_a_block_of_python_exists(page):
    for block in blocks(page, "python"):
        tree = ast.parse(textwrap.dedent(block))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("allfocus"):
                module = importlib.import_module(node.module)
                assert [each.name for each in node.names if not hasattr(module, each.name)] == []
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "allfocus":
                assert hasattr(allfocus_package, node.attr), f"there is no allfocus.{node.attr}"


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
    made = [IMAGES / name for name in load_script("docs/make_pictures.py").PICTURES]
    shown = {(page.parent / link).resolve() for page in PAGES for link in links(page) if "images/" in link}
    for picture in made:
        assert picture.exists(), f"run python docs/make_pictures.py {picture.name}"
        assert picture.resolve() in shown, f"{picture.name} is shown on no page"
    assert sum(picture.stat().st_size for picture in made) < MOST_BYTES


# --- the commands are run ---------------------------------------------------------------------------------------------

NOT_RUN = {
    r"^demo$": "tests/end_to_end/test_demo_command.py runs it",
    r"^serve\b": "it runs until it is stopped; the studio's own tests do that",
    r"^(open|export-project|desktop-entry)\b": "they need a studio or a desktop; tests/end_to_end/test_open_command.py",
    r" --watch\b": "it waits for a camera; tests/end_to_end/test_batch.py does",
    r" --scheduler ": "it needs a cluster",
    r"^batch \S+ -o \S+\.ome\.(zarr|tif)$": "planes larger than the memory: tests/unit/batch/test_planes.py",
    r"^train\b": "hours; tests/end_to_end/test_training.py trains, exports and fuses",
    r"^export\b": "it needs a run of train",
    r"^benchmark\b(?!.*--flops)": "it measures for minutes: tests/end_to_end/test_benchmark_command.py",
    r" --method (ifcnn|\S+@)": "it needs weights that are not ours to hand on",
    r"\.(NEF|HEIC|dng|mp4)\b": "files of cameras need extras; tests/unit/images make their own",
    r"\bbrightest\b": "tests/end_to_end/test_extending.py runs that page as it stands",
}
"""Commands of which only the words are checked, and why."""
SMALL = {"--size": lambda _: "160x120", "--frames": lambda count: str(min(int(count), 5))}
"""Options that say how much is rendered, with what is put in their place."""


def reason_not_to_run(words: list[str]) -> str | None:
    line = " ".join(words)
    return next((reason for pattern, reason in NOT_RUN.items() if re.search(pattern, line)), None)


def made_small(words: list[str]) -> list[str]:
    """The same command for a small stack; of a batch only the stacks are looked for, because it starts processes."""
    result = [
        SMALL[before](word) if before in SMALL else word for before, word in zip(["", *words[:-1]], words, strict=True)
    ]
    if words[0] == "scene" and "--size" not in words:
        result += ["--size", "160x120"]
    return [*result, "--dry-run"] if words[0] == "batch" else result


@pytest.fixture(scope="module")
def user_files(tmp_path_factory):
    """A folder with what a reader of the pages is taken to have: frames, a shoot, a file of a microscope, test sets."""
    folder = tmp_path_factory.mktemp("reader")
    scene = render_scene("desk", frames=3, size=(96, 128))
    pixels = [np.rint(frame * 255).astype(np.uint8) for frame in scene.frames]
    places = [f"{name}/{number}.png" for name in ("shots", "SHOOT/one", "shoot/two") for number in range(3)]
    places += [f"DSC{number}.tif" for number in range(3)] + ["a.png", "b.png", "truth.png"]
    for number, place in enumerate(places):
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        write_image(pixels[number % 3], path)
    shutil.copy(folder / "truth.png", folder / "fused.png")
    shutil.copy(folder / "truth.png", folder / "sharp.png")
    for place in ("lytro", "data/lytro", "data/mffw", "DIR"):
        for half, frame in zip("AB", (scene.frames[0], scene.frames[-1]), strict=True):
            name = f"mffw-01-{half}.png" if "mffw" in place else f"lytro-01-{half}.png"
            (folder / place).mkdir(parents=True, exist_ok=True)
            write_image(frame, folder / place / name)
    for place in ("authors/dsift", "authors/cnn"):
        (folder / place).mkdir(parents=True)
        write_image(scene.truth, folder / place / "lytro-01.png")
    grey = np.stack([frame[:48, :64, 0] for frame in pixels]).astype(np.uint16)
    with tifffile.TiffWriter(folder / "cells.ome.tif", ome=True) as writer:
        for position in (1, 2):
            channels = {"Channel": {"Name": ["DAPI", "GFP"]}, "Name": f"field {position}", "axes": "TCZYX"}
            writer.write(np.broadcast_to(grey, (3, 2, *grey.shape)), metadata=channels)
    shutil.copy(Path(allfocus_package.__file__).parent / "weights" / "ips.onnx", folder / "first.onnx")
    return folder


@pytest.mark.parametrize("page", [page for page in PAGES if list(commands_in_blocks(page))], ids=name_of)
def test_every_command_on_a_page_runs_in_its_order(page, user_files, tmp_path, monkeypatch, capfd):
    shutil.copytree(user_files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for words in commands_in_blocks(page):
        if reason_not_to_run(words):
            continue
        output = tmp_path / words[words.index("-o") + 1] if "-o" in words else None
        if output and output.is_file():
            output.unlink()  # pages name the same result twice, and nothing is replaced unasked
        small = made_small(words)
        assert run(small) == 0, f"{name_of(page)}: allfocus {shlex.join(words)}: {capfd.readouterr().err}"
        assert output is None or output.exists() or "--dry-run" in small, f"{shlex.join(words)} wrote no {output}"


def test_every_reason_not_to_run_a_command_is_needed():
    lines = [" ".join(words) for page in PAGES for words in commands_in_blocks(page)]
    for pattern, reason in NOT_RUN.items():
        assert any(re.search(pattern, line) for line in lines), f"no page has a command of which {reason}"
    assert sum(reason_not_to_run(line.split()) is None for line in lines) > 30
