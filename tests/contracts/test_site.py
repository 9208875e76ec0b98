"""The site of the documentation is whole: built without a warning, every link and anchor leads somewhere."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from scripts import load_script

import allfocus
from allfocus.cli.main import allfocus as command

pytest.importorskip("sphinx", reason="needs the extra docs")

ROOT = Path(__file__).resolve().parents[2]


class Page(HTMLParser):
    """The anchors of a page, where it leads, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in ("img", "script", "iframe", "video", "source") and given.get("src"):
            self.loads.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon"):
            self.loads.append(given["href"])


@pytest.fixture(scope="module")
def tool():
    return load_script("tools/docs_site.py")


@pytest.fixture(scope="module")
def site(tool, tmp_path_factory):
    """The site as `make docs` builds it, in a folder that holds another version and something else."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("0.0.9", "0.0.10", "notes"):
        (folder / name).mkdir()
        (folder / name / "index.html").write_text("old")
    tool.build_version(folder, allfocus.__version__)
    tool.list_versions(folder, "/allfocus/")
    return folder


@pytest.fixture(scope="module")
def pages(site):
    folder = site / allfocus.__version__
    found = [path for path in folder.rglob("*.html") if "_static" not in path.parts]  # there the theme keeps templates
    return {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in found}


def test_every_link_and_anchor_leads_somewhere(pages):
    assert len(pages) > 30
    for path, page in pages.items():
        for link in {*page.links, *page.loads}:
            if re.match(r"[a-z]+:", link):
                continue
            place, anchor = urldefrag(link)
            target = (path.parent / unquote(place.partition("?")[0])).resolve() if place else path
            assert target.exists(), f"{path.name} leads to {link}"
            if anchor and target in pages:
                assert unquote(anchor) in pages[target].anchors, f"{path.name} leads to {link}"


def test_nothing_is_loaded_from_another_host(site, pages):
    loads = [load for page in pages.values() for load in page.loads]
    assert len(loads) > 100
    assert not [load for load in loads if re.match(r"(https?:)?//", load)]
    styles = [path.read_text(encoding="utf-8") for path in (site / allfocus.__version__).rglob("*.css")]
    assert not [style for style in styles if re.search(r"url\(['\"]?(https?:)?//|@import ['\"]http", style)]


def test_the_reference_has_every_public_name_and_every_command(site):
    folder = site / allfocus.__version__ / "reference"
    python = Page((folder / "python.html").read_text(encoding="utf-8")).anchors
    names = set(allfocus.__all__) - {"__version__"}
    assert not {name for name in names if f"allfocus.{name}" not in python}
    commands = Page((folder / "commands.html").read_text(encoding="utf-8")).anchors
    assert not {name for name in command.commands if f"allfocus-{name}" not in commands}


def test_formulas_are_drawn_by_the_browser_itself(site):
    text = (site / allfocus.__version__ / "how-it-works" / "mathematics.html").read_text(encoding="utf-8")
    assert text.count("<math ") > 60
    seen = re.sub(r"<(script|style|math|code)\b.*?</\1>|<[^>]+>", "", text, flags=re.DOTALL)
    assert not re.findall(r"\$|\\[a-z]{3,}", seen)


def test_no_page_shows_markup_instead_of_what_it_means(pages):
    for path in pages:
        seen = re.sub(
            r"<(script|style|pre|code)\b.*?</\1>|<[^>]+>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL
        )
        assert not re.findall(r"\.\. \w+::|```|:\w+:`|\{toctree\}", seen), path.name


def test_the_search_finds_words_of_pages_and_names(site):
    index = (site / allfocus.__version__ / "searchindex.js").read_text(encoding="utf-8")
    terms = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))
    assert {"halo", "darktabl", "veil"} <= terms["terms"].keys()
    assert "fuse_files" in json.dumps(terms["objects"])


def test_versions_that_were_there_are_kept_and_listed_the_newest_first(site):
    listed = json.loads((site / "versions.json").read_text(encoding="utf-8"))
    assert [entry["version"] for entry in listed] == [allfocus.__version__, "0.0.10", "0.0.9"]
    assert listed[1]["url"] == "/allfocus/0.0.10/"
    assert (site / "0.0.9" / "index.html").read_text() == "old"
    assert f"url={allfocus.__version__}/" in (site / "index.html").read_text(encoding="utf-8")
    assert not list(site.glob(".*"))


def test_a_page_with_a_broken_link_is_not_built_and_what_was_there_stays(tool, tmp_path, capfd):
    source, target = tmp_path / "docs", tmp_path / "site"
    shutil.copytree(ROOT / "docs" / "_static", source / "_static")
    shutil.copy(ROOT / "docs" / "conf.py", source)
    (source / "index.md").write_text("# A page\n\n[there](nowhere.md)\n")
    (target / "1.0").mkdir(parents=True)
    (target / "1.0" / "index.html").write_text("old")
    with pytest.raises(subprocess.CalledProcessError):
        tool.build_version(target, "1.0", pages=source)
    assert "nowhere.md" in capfd.readouterr().err
    assert [path.name for path in target.iterdir()] == ["1.0"]
    assert (target / "1.0" / "index.html").read_text() == "old"
