"""The tables of the studio's texts: complete in every language, in use, and the only place where texts stand."""

import ast
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

import allfocus
from allfocus.errors import CODES
from allfocus.fusion.methods import METHODS
from allfocus.stack.option_fields import STUDIO
from allfocus.stack.options import offered
from allfocus.stack.presets import PRESETS

pytest.importorskip("fastapi", reason="the studio needs the extra: pip install 'allfocus[web]'")

from allfocus.web.answers import MEANINGS
from allfocus.web.job_records import STATES

WEB = Path(allfocus.__file__).parent / "web"
STATIC = WEB / "static"
TABLES = {
    path.stem: json.loads(path.read_text(encoding="utf-8").removeprefix("export default ").removesuffix(";\n"))
    for path in sorted((STATIC / "texts").glob("*.js"))
}
ENGLISH = TABLES["en"]
SCRIPTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(STATIC.glob("*.js"))}
PAGE = (STATIC / "index.html").read_text(encoding="utf-8")
OF_THE_SERVER = "server."
others = pytest.mark.parametrize("language", [code for code in TABLES if code != "en"])

FOR_PROGRAMS = {
    "the result has no such fault; GET /api/jobs/{job_id}/faults lists them",
    "this is no path below a folder; use plain names with / between them",
    "this folder is read where it lies; it takes no files",
    "{0}: does not lie in the folder",
    "there is no such scene; there are {0}",
    "name every frame of the job exactly once",
    "{0}: there is no such file or folder; give its whole path",
    "only programs of the user who started the studio may name files (allfocus open)",
    "there is no such report; GET /api/reports lists all",
    "there is no icon",
    "this installation has no page; use the HTTP interface, described at /docs",
    "a {0} body is no picture; send the file itself as the body",
    "the body is empty; send the file itself as the body",
    "the job has no such result of this size",
    "the result has no such layer; its layers are listed in the job",
    "the result has no such layer",
    "only layers that the brush paints from have smoothed tiles",
    "there is no such tile",
    "a stroke takes from a frame or from a result as it was fused; see the layers",
    "the result has no such stroke; its strokes are listed in the job",
}
"""Refusals that the page's own requests do not meet."""
AROUND_ANOTHER = {
    "{0} {1}",
    "the scene could not be rendered: {0}",
    "the project cannot be saved: {0}",
    "this layer cannot be made: {0}",
    "the file cannot be written: {0}",
}
"""Refusals around an error of the library, whose code tells more."""


def forms(entry: str | dict[str, str]) -> list[str]:
    return [entry] if isinstance(entry, str) else list(entry.values())


def placeholders(entry: str | dict[str, str]) -> set[str]:
    return {name for text in forms(entry) for name in re.findall(r"\{(\w+)\}", text)}


def used_keys() -> tuple[set[str], list[re.Pattern[str]]]:
    """Keys that page and scripts name, and patterns of those that are put together."""
    text = "\n".join(SCRIPTS.values())
    named = set(re.findall(r'\bphrase\("([^"]+)"', text)) | set(re.findall(r'data-phrase(?:-\w+)?="([^"]+)"', PAGE))
    named |= {f"count.{word}" for word in re.findall(r'\bplural\([^"`]*"(\w+)"\)', text)}
    made = [template for template in re.findall(r"\bphrase\(`([^`]+)`", text) if not template.startswith("count.")]
    return named, [re.compile(re.sub(r"\\\$\\\{.*?\\\}", r"[\\w-]+", re.escape(template))) for template in made]


def test_the_languages_that_can_be_chosen_are_those_with_a_table():
    offered_there = re.search(r"LANGUAGES = \{(.*?)\}", SCRIPTS["texts.js"])
    assert offered_there is not None
    assert set(re.findall(r"(\w+):", offered_there[1])) == set(TABLES) == {"en", "de", "fr"}


def test_every_key_that_the_page_uses_is_in_the_table_and_none_is_left_over():
    named, made = used_keys()
    assert named - set(ENGLISH) == set()
    assert all(any(pattern.fullmatch(key) for key in ENGLISH) for pattern in made)
    unused = {key for key in set(ENGLISH) - named if not any(pattern.fullmatch(key) for pattern in made)}
    assert unused == set()


def test_keys_that_are_put_together_have_a_text_for_each_name():
    assert {f"stacks.{state}" for state in STATES} <= set(ENGLISH)
    steps = set(re.findall(r'\["[#.][\w-]+", "(\w+)"\]', SCRIPTS["tour.js"]))
    assert len(steps) > 10
    assert {key for key in ENGLISH if re.match(r"tour\.(step|text)\.", key)} == {
        f"tour.{kind}.{step}" for kind in ("step", "text") for step in steps
    }
    units = re.search(r"UNITS = \[(.*?)\]", SCRIPTS["elements.js"])
    assert units is not None
    assert {f"units.{unit}" for unit in re.findall(r'"(\w+)"', units[1])} <= set(ENGLISH)


@others
def test_every_text_of_the_page_is_in_every_language(language):
    own = {key for key in TABLES[language] if not key.startswith(OF_THE_SERVER)}
    assert own == set(ENGLISH)


@others
def test_translations_have_the_same_forms_and_placeholders(language):
    for key, entry in ENGLISH.items():
        other = TABLES[language][key]
        assert isinstance(other, str) == isinstance(entry, str), key
        assert placeholders(other) == placeholders(entry), key
        assert all(text.strip() == text and text for text in forms(other)), key
        if isinstance(entry, dict):
            assert isinstance(other, dict)
            assert {"one", "other"} == set(entry) == set(other), key
            assert "{count}" in entry["other"], key
    for key, entry in TABLES[language].items():
        if key.startswith("server.said."):
            assert placeholders(entry) == set(re.findall(r"\{(\d)\}", key)), key


@others
def test_every_option_method_preset_and_error_of_the_server_is_translated(language):
    assert not [key for key in ENGLISH if key.startswith(OF_THE_SERVER)], "the server itself speaks English"
    wanted = {f"option.{name}.{part}" for name in offered(STUDIO) for part in ("title", "help")}
    for name, about in offered(STUDIO).items():
        wanted |= {f"option.{name}.{choice}{part}" for choice in about.choices for part in ("", ".help")}
    for method in METHODS.values():
        if method.title:  # those that most people choose; the others are known by the names of papers
            parts = ("title", "summary", "limits")
            wanted |= {f"method.{method.name}.{part}" for part in parts if getattr(method, part)}
    wanted |= {f"preset.{name}.{part}" for name in PRESETS for part in ("title", "about")}
    wanted |= {f"error.{code}" for code in CODES} | {f"status.{status}" for status in MEANINGS if 400 <= status != 416}
    wanted |= {f"legend.{end}" for end in ("near", "far", "unsure", "sure")}
    own = {key.removeprefix(OF_THE_SERVER) for key in TABLES[language] if key.startswith(OF_THE_SERVER)}
    assert {key for key in own if not key.startswith("said.")} == wanted


def pattern_of(node: ast.AST) -> str | None:
    """A text of the source with its values counted: ``f"{a} of {b}"`` is ``{0} of {1}``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    parts, count = "", 0
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts += str(part.value)
        else:
            parts, count = f"{parts}{{{count}}}", count + 1
    return parts


def texts_of_the_server() -> tuple[set[str], set[str]]:
    """All texts of the studio's modules, and those of refusals."""
    every, refused = set(), set()
    for path in sorted(WEB.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            every.add(pattern_of(node))
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Refusal":
                told = node.args[1]
                ways = (told.body, told.orelse) if isinstance(told, ast.IfExp) else (told,)
                refused |= {pattern_of(way) for way in ways}
    return {text for text in every if text}, {text for text in refused if text}


def notices_of_the_library() -> set[str]:
    """What a run may tell: every sentence that is made a ``Notice``, and those about accelerators."""
    found = set()
    for path in WEB.parent.rglob("*.py"):
        makers = {"Notice", "_tell"} if path.name == "inference.py" else {"Notice"}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in makers:
                found.add(pattern_of(node.args[0]))
    return {text for text in found if text}


def test_whatever_a_run_says_is_a_notice():
    for path in (WEB.parent / "stack").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("say", "leave_out"):
                words = [re.sub(r"\{\d\}", "", pattern_of(told) or "") for told in node.args]
                assert not any(re.search(r"[a-z]", text) for text in words), f"{path.name}: {node.lineno}"


@others
def test_every_notice_of_a_run_is_translated(language):
    notices = notices_of_the_library()
    assert len(notices) > 30
    assert notices - {key.removeprefix("server.said.") for key in TABLES[language]} == set()


@others
def test_every_refusal_that_a_person_can_meet_is_translated(language):
    every, refused = texts_of_the_server()
    said = {key.removeprefix("server.said.") for key in TABLES[language] if key.startswith("server.said.")}
    assert len(refused) > 50
    assert refused - said == FOR_PROGRAMS | AROUND_ANOTHER
    assert said - every - notices_of_the_library() == set(), "the server does not say this any more"


class _Texts(HTMLParser):
    """What a page says without its tables."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "input", "br"):
            self._inside.append(tag)
        self.found += [
            value or ""
            for name, value in attributes
            if name in ("aria-label", "aria-description", "title", "placeholder", "alt", "aria-valuetext")
        ]

    def handle_endtag(self, tag: str) -> None:
        self._inside.pop()

    def handle_data(self, data: str) -> None:
        if "noscript" not in self._inside:
            self.found.append(data.strip())


def test_the_page_itself_says_nothing_but_its_name():
    texts = _Texts()
    texts.feed(PAGE)
    said = {text for text in texts.found if re.search(r"[^\W\d_]", text)}
    assert said == {"allfocus", "allfocus studio", "/photos/beetle"}
    noscript = PAGE[PAGE.index("<noscript>") : PAGE.index("</noscript>")]
    assert {"en", *re.findall(r'lang="(\w+)"', noscript)} == set(TABLES), "without scripts there is no table"


def literals(script: str) -> Iterator[tuple[str, str]]:
    """Every text of a script with the code before it; of templates what stands between their values."""
    place, start = 0, 0
    while place < len(script):
        here = script[place]
        if script.startswith("//", place):
            place = script.index("\n", place)
        elif script.startswith("/*", place):
            place = script.index("*/", place) + 2
        elif here == "/" and re.search(r"[(,=:\[!&|?{};]\s*$", script[max(0, place - 20) : place]):
            while script[place := place + 1] != "/" or script[place - 1] == "\\":
                if script[place] == "[":
                    while script[place := place + 1] != "]" or script[place - 1] == "\\":
                        pass
            place += 1
        elif here in "\"'":
            start = place
            while script[place := place + 1] != here or script[place - 1] == "\\":
                pass
            place += 1
            yield script[max(0, start - 80) : start], script[start + 1 : place - 1]
        elif here == "`":
            start, parts = place, ""
            place += 1
            while script[place] != "`":
                if script.startswith("${", place):
                    end = end_of_value(script, place + 2)
                    yield from literals(script[place + 2 : end])
                    parts, place = f"{parts}{{}}", end + 1
                else:
                    parts, place = parts + script[place], place + 1
            place += 1
            yield script[max(0, start - 80) : start], parts
        else:
            place += 1


def end_of_value(script: str, place: int) -> int:
    """Where the value of a template ends that begins at a place."""
    depth = 1
    while depth:
        if script[place] == "`":
            place += 1
            while script[place] != "`":
                place = end_of_value(script, place + 2) + 1 if script.startswith("${", place) else place + 1
        depth += {"{": 1, "}": -1}.get(script[place], 0)
        place += 1
    return place - 1


SHOWN_THERE = re.compile(
    r"""(?:["']aria-(?:label|valuetext|description)["']|\b(?:title|placeholder|alt|label))\s*:\s*$"""  # attributes
    r"|\b(?:textContent|title|innerText)\s*=\s*$|\b(?:say|announce|confirm|prompt|alert|refuse)\(\s*$"
    r'|\belement\("[^"]*", \{[^{}]*\}, (?:[^()]*, )?$'  # a child of an element
)
NOT_SHOWN_THERE = re.compile(
    r"\b(?:phrase|serverPhrase|plural|on|emit|querySelector(?:All)?|closest|matches|matchMedia|element|icon|Collator)"
    r"(?:\?\.)?\(\s*$"
    r"|\b(?:import|from)\s*$|new Error\($|\b(?:VERTEX|FRAGMENT) = $"
)
CODE = re.compile(
    r"ApiError|AbortError|Content-Type|Home|End|Delete|Backspace|Enter|Escape|Files|Arrow\w+|Page(?:Up|Down)"
    r"|English|Deutsch|Français|TIFF|PNG|JPEG|linear-gradient\(to right, .*|(?:\{\} % · )?allfocus studio"
    r"|allfocus evaluate .*|allfocus \{\}|/photos/beetle|server\.said\."
)
WORDS = re.compile(r"[a-zà-ÿ]{2,}[,;:]? [a-zà-ÿ]{2,}|^[A-ZÀ-Ý][a-zà-ÿ]+|[a-z]…")


def hard_coded(script: str) -> list[str]:
    found = []
    for before, text in literals(script):
        plain = text.replace("{}", "")
        if NOT_SHOWN_THERE.search(before) or CODE.fullmatch(text) or not re.search(r"[^\W\d_]{2}", plain):
            continue
        if SHOWN_THERE.search(before) or WORDS.search(plain) or re.search(r"[a-z][.!?]$", text):
            found.append(text)
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_says_anything_that_is_not_in_the_table(name):
    assert hard_coded(SCRIPTS[name]) == []


@pytest.mark.parametrize(
    "line",
    [
        'say("gone", "error");',
        'const NAMES = ["one", "Two"];',
        'note.textContent = "wait";',
        'element("span", {}, "fused")',
        'element("a", { href: "/", title: "more" })',
        "announce(`${count} frames left`);",
        'element("b", {}, `${ok ? `${phrase("a.b")} and more` : ""}`)',
        'const REST = "Nothing is deleted unless you do it.";',
    ],
)
def test_the_sweep_sees_a_text_that_somebody_left_in_a_script(line):
    assert hard_coded(f'import {{ say }} from "./messages.js";\n{line}\n') != []
