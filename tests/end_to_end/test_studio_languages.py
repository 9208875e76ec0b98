"""The studio in other languages, and the tour of the first start, in a real Chromium."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import studio_window as window
from playwright.sync_api import Page, expect

import allfocus
from allfocus.fusion.methods import METHODS

browser, studio = window.browser, window.studio
frames, frame_paths = window.frames, window.frame_paths

TEXTS = Path(allfocus.__file__).parent / "web" / "static" / "texts"
TABLES = {
    path.stem: json.loads(path.read_text(encoding="utf-8").removeprefix("export default ").removesuffix(";\n"))
    for path in TEXTS.glob("*.js")
}
GERMAN = TABLES["de"]

UNTRANSLATED = """() => {
  const strip = (text) => {
    for (let next = text.replace(/⟦[^⟦⟧]*⟧/g, ""); next !== text; next = text.replace(/⟦[^⟦⟧]*⟧/g, "")) text = next;
    return text.trim();
  };
  const isShown = (node) => (node.closest("select") ?? node).checkVisibility() && !node.closest("svg, kbd, code, pre");
  const own = (node) => [...node.childNodes].filter(({ nodeType }) => nodeType === 3).map(({ data }) => data);
  const names = ["aria-label", "aria-valuetext", "title", "placeholder", "label"];
  const told = (node) => names.map((name) => node.getAttribute(name) ?? "");
  const shown = [...document.querySelectorAll("body *")].filter(isShown);
  return shown.flatMap((node) => [...own(node), ...told(node)]).map(strip).filter((text) => /\\p{L}{2}/u.test(text));
}"""
CUT_OFF = """() => [...document.querySelectorAll("button, .button, .segments span, nav a, legend, h1, h2, label")]
  .filter((node) => node.checkVisibility() && !node.closest(".unseen, .card, .views"))
  .filter((node) => node.clientWidth > 0 && node.scrollWidth > node.clientWidth + 1)
  .filter((node) => getComputedStyle(node).display !== "inline")
  .map((node) => node.outerHTML.slice(0, 200))"""
BEYOND = """() => [...document.querySelectorAll("body *")]
  .filter((node) => node.checkVisibility() && !node.closest(".tour, .unseen, svg, .views, .stack-list"))
  .filter((node) => node.getBoundingClientRect().right > innerWidth + 1 && !node.closest("canvas, .skip"))
  .map((node) => node.outerHTML.slice(0, 200))"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def fused(studio: Any, frame_paths: list[Path]) -> str:
    """A stack with a result, its maps and a stroke."""
    identity: str = studio.make_job(frame_paths[:3], "Käfer")
    studio.fuse(identity, method="depth-map", align=False)
    source = f"frame-{studio.job(identity)['frames'][0]['id']}"
    stroke = {"source": source, "points": [[60, 60]], "radius": 20, "hardness": 0.7}
    studio.send(f"/api/jobs/{identity}/strokes", json.dumps(stroke).encode())
    return identity


@pytest.fixture
def visit(browser: Any, not_for_ever: Any) -> Iterator[Callable[..., Page]]:
    """Opens a window of somebody with a language; afterwards nothing has gone wrong in any."""
    contexts, problems = [], []

    def open_window(address: str, locale: str = "de-DE", *, is_new: bool = False, width: int = 1440, **more: Any):
        context = browser.new_context(locale=locale, viewport={"width": width, "height": 900}, **more)
        context.set_default_timeout(60 * window.SECONDS)
        contexts.append(context)
        if not is_new:
            context.add_init_script(window.BEEN_HERE)
        page: Page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(address)
        return page

    with not_for_ever(lambda: "a window in another language"):
        yield open_window
        for context in contexts:
            context.close()
    assert problems == []


@pytest.mark.parametrize(("locale", "language"), [("de-AT", "de"), ("fr-CA", "fr"), ("es-ES", "en")])
def test_the_page_speaks_the_language_of_the_browser(visit, studio, locale, language):
    page = visit(studio.address, locale)
    expect(page.locator("#welcome-title")).to_have_text(TABLES[language]["welcome.title"])
    assert page.evaluate("document.documentElement.lang") == language
    expect(page.get_by_role("link", name=TABLES[language]["page.library"], exact=True)).to_be_visible()


def test_a_language_that_was_chosen_is_remembered_until_the_browser_is_followed_again(visit, studio):
    page = visit(studio.address, "en-US")
    page.keyboard.press("?")
    page.get_by_label("Language").select_option(label="Français")
    expect(page.locator("#welcome-title")).to_have_text(TABLES["fr"]["welcome.title"])
    page.reload()
    expect(page.locator("html")).to_have_attribute("lang", "fr")
    page.locator("#help").click()
    page.get_by_label("Langue").select_option(value="")
    expect(page.locator("#welcome-title")).to_have_text(TABLES["en"]["welcome.title"])


def test_numbers_dates_sizes_and_plurals_are_those_of_the_language(visit, studio, fused):
    page = visit(f"{studio.address}/#/library")
    row = page.locator(".library-row").filter(has_text="Käfer").first
    expect(row.locator("[data-about]")).to_have_text(re.compile(r"^3 Aufnahmen, fusioniert, \d+(,\d)? MB$"))
    expect(row.locator(".library-time")).to_have_text(re.compile(r"\d\d\.\d\d\.\d{4}, \d\d:\d\d"))
    page.goto("about:blank")
    page.goto(f"{studio.address}/#/stack/{fused}")
    expect(page.locator("#stroke-count")).to_have_text("1 Pinselstrich im Ergebnis")


def test_what_the_server_offers_is_translated_by_its_name(visit, studio, frame_paths):
    identity = studio.make_job(frame_paths[:2], "Optionen")
    page = visit(f"{studio.address}/#/stack/{identity}")
    expect(page.locator(".switch strong").first).to_have_text(GERMAN["server.option.align.title"])
    expect(page.locator("#prefer legend")).to_have_text(GERMAN["server.option.prefer.title"])
    page.get_by_label("Nah", exact=True).check(force=True)
    expect(page.locator("#prefer-hint")).to_have_text("Nah: die ersten Aufnahmen: ganze Haare und Fühler.")
    page.locator("#preset").select_option("macro")
    expect(page.locator("#preset option:checked")).to_have_text("Makro")
    expect(page.locator("#method option:checked")).to_have_text("Gelernter Fokus (empfohlen) · ips")


def test_errors_come_in_the_language_of_the_page_or_else_in_english(visit, studio, tmp_path, frame_paths):
    page = visit(studio.address)
    (tmp_path / "notes.tif").write_text("no picture at all")
    page.set_input_files("#choose-files", [frame_paths[0], tmp_path / "notes.tif"])
    problem = page.locator(".card.failed .card-problem")
    expect(problem).to_have_text(re.compile(rf"^{re.escape(GERMAN['server.error.not-a-picture'])} \(notes\.tif: "))
    page.goto(f"{studio.address}/#/stack/0123")
    said = GERMAN["server.said.there is no such job; it may have been deleted (GET /api/jobs lists all)"]
    expect(page.locator(".message.error p")).to_have_text(said)
    # By words with values in them, by code, by status, and not at all.
    told = """async (calls) => {
      const { told } = await import("/static/texts.js");
      return calls.map((call) => told(...call));
    }"""
    calls = [
        ["3 stacks wait already; try again later"],
        ["a.tif: is odd", {"code": "damaged-picture", "status": 415}],
        ["this is new", {"status": 409}],
        ["nobody knows this"],
        ["b: 2.tif: palette expanded to RGB"],
        ["left out c.tif: is blank: there is nothing in it to align"],
        ["detail lost in 0.5 % of the picture, most at 12, 30: frame 4 shows more there"],
    ]
    assert page.evaluate(told, calls) == [
        "Es warten schon 3 Stapel; versuchen Sie es später.",
        "Eine Datei ist abgeschnitten oder beschädigt (a.tif: is odd)",
        "Das geht gerade nicht (this is new)",
        "nobody knows this",
        "b: 2.tif: Farbpalette in RGB umgerechnet",
        "c.tif ausgelassen: ist leer: Es gibt nichts, woran man ausrichten könnte",
        "In 0.5 % des Bildes ging Detail verloren, am meisten bei 12, 30: Aufnahme 4 zeigt dort mehr.",
    ]


def marked(entry: Any) -> Any:
    return {form: marked(text) for form, text in entry.items()} if isinstance(entry, dict) else f"⟦{entry}⟧"


def test_every_text_on_every_view_comes_from_the_table(visit, studio, fused, frame_paths, tmp_path):
    """Each text of the tables is put between brackets; what stands outside of any did not come from them."""
    texts = {**GERMAN, **TABLES["en"]}
    methods = json.loads(studio.get("/api/methods"))
    plain = [m for m in methods if not m["title"] or not m["available"]]
    known = {"allfocus", "allfocus studio", "Deutsch", "English", "Français", "/photos/beetle", "Käfer", "Trial"}
    known |= {f"shot_{number}.tif" for number in range(1, 13)} | set(METHODS) | {"TIFF", "PNG", "JPEG", "WebP", "HEIF"}
    known |= {job["name"] for job in json.loads(studio.get("/api/library"))["jobs"]}
    known |= {f"{start}{m['missing']}" for m in plain for start in ("", f"{m['name']}: ", f"· {m['name']}: ")}

    def look(where: str) -> None:
        rest = []
        for text in page.evaluate(UNTRANSLATED):
            words = re.split(r"[\n:,]+|^· | · |^\d+  ", text)
            rest += [text] * (text not in known and not {word.strip() for word in words} - {""} <= known)
        assert [t for t in rest if not re.fullmatch(r"· [\w-]+|allfocus \d[\w.+-]*|x \d+, y \d+", t)] == [], where

    page = visit("about:blank")
    table = f"export default {json.dumps({key: marked(text) for key, text in texts.items()})};"
    page.context.route("**/static/texts/*.js", lambda route: route.fulfill(body=table, content_type="text/javascript"))
    page.goto(studio.address)
    expect(page.locator("#version")).not_to_be_empty()
    look("welcome")
    page.keyboard.press("?")
    look("help")
    page.locator("#tour-start").click()
    while page.locator("#tour").is_visible():
        look("tour")
        page.keyboard.press("ArrowRight")
    page.set_input_files("#choose-folder", folder_of_stacks(tmp_path, frame_paths))
    expect(page.locator(".intake-row")).to_have_count(2)
    look("intake")
    page.locator("#intake [data-close]").first.click()
    page.goto(f"{studio.address}/#/library")
    expect(page.locator(".library-row").first).to_be_visible()
    look("library")
    page.goto(f"{studio.address}/#/benchmarks")
    expect(page.locator(".report").first).to_be_visible()
    look("benchmarks")
    page.goto("about:blank")
    window.open_job(page, studio, fused)
    page.evaluate("for (const node of document.querySelectorAll('details')) node.open = true")
    for tab in page.locator("#tool-tabs [role=tab]").all():
        tab.click()
        look(f"tab {tab.get_attribute('data-tool')}")
    for name in window.VIEWS[:-1]:
        page.locator(f'#views input[value="{name}"]').check(force=True)
        look(name)
    page.keyboard.press("Control+s")
    expect(page.locator("#export-go")).to_be_visible()
    look("export")
    page.keyboard.press("Escape")
    identity = studio.make_job(frame_paths[:2], "Käfer")
    page.goto(f"{studio.address}/#/stack/{identity}")
    expect(page.locator("#start")).to_be_enabled()
    page.evaluate("for (const node of document.querySelectorAll('details')) node.open = true")
    look("prepare")


def folder_of_stacks(folder: Path, paths: list[Path]) -> Path:
    """Two stacks in one folder, told apart by their numbers."""
    (folder / "card").mkdir()
    for number in (1, 2, 11, 12):
        (folder / "card" / f"shot_{number}.tif").write_bytes(paths[number % 3].read_bytes())
    return folder / "card"


@pytest.mark.parametrize(("language", "width"), [("de", 390), ("de", 1440), ("fr", 1440)])
def test_long_words_break_no_view(visit, studio, fused, frame_paths, language, width):
    page = visit(studio.address, language, width=width)

    def check(where: str) -> None:
        assert (page.evaluate(OVERFLOW), page.evaluate(CUT_OFF), page.evaluate(BEYOND)) == (0, [], []), where

    expect(page.locator("#recent-list .stack").first).to_be_visible()
    check("welcome")
    page.keyboard.press("?")
    check("help")
    page.keyboard.press("Escape")
    page.goto(f"{studio.address}/#/library")
    expect(page.locator(".library-row").first).to_be_visible()
    check("library")
    page.goto("about:blank")
    page.goto(f"{studio.address}/#/stack/{studio.make_job(frame_paths[:2], 'Optionen')}")
    expect(page.locator("#start")).to_be_enabled()
    page.locator("details.more summary").click()
    check("prepare")
    page.goto("about:blank")
    window.open_job(page, studio, fused)
    for panel in ("picture", "frames", "tools") if width < 900 else ("",):
        if panel:
            page.locator(f'[data-panel-button="{panel}"]').click()
        check(panel or "result")
    for tab in page.locator("#tool-tabs [role=tab]").all():
        tab.click()
        check(f"tab {tab.get_attribute('data-tool')}")
    page.keyboard.press("Control+s")
    expect(page.locator("#export-go")).to_be_visible()
    check("export")


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_no_view_in_german_breaks_a_rule_of_accessibility(visit, studio, fused, width, theme):
    script = window.axe_script()
    page = visit(studio.address, is_new=True, width=width, color_scheme=theme, reduced_motion="reduce")

    def check(where: str) -> None:
        assert window.violations(page, script) == [], where

    expect(page.locator("#tour")).to_be_visible()
    check("tour")
    page.keyboard.press("Escape")
    check("welcome")
    page.keyboard.press("?")
    check("help")
    page.keyboard.press("Escape")
    window.open_job(page, studio, fused)
    check("result")
    page.goto(f"{studio.address}/#/library")
    expect(page.locator(".library-row").first).to_be_visible()
    check("library")


# The tour ---------------------------------------------------------------------------------------------------------

AROUND = """([selector]) => {
  const [ring, target] = [".tour-ring", selector].map((one) => document.querySelector(one).getBoundingClientRect());
  const card = document.querySelector(".tour-card").getBoundingClientRect();
  return [ring.left <= target.left && ring.top <= target.top && ring.right >= Math.min(innerWidth, target.right) - 1,
    card.left >= 0 && card.top >= 0 && card.right <= innerWidth && card.bottom <= innerHeight];
}"""


@pytest.mark.parametrize("width", [390, 1440])
def test_the_first_start_shows_a_tour_of_the_real_controls_by_keyboard_and_never_again(visit, studio, width):
    page = visit(studio.address, "en-US", is_new=True, width=width, reduced_motion="reduce")
    tour = page.get_by_role("dialog", name="Begin with a stack")
    expect(tour).to_be_visible()
    expect(tour).to_have_accessible_description(TABLES["en"]["tour.text.drop"])
    steps = [(".drop", "drop"), ("#sample", "sample"), ("#library-link", "library"), ("#help", "help")]
    for place, (selector, name) in enumerate(steps):
        expect(page.locator("#tour-title")).to_have_text(TABLES["en"][f"tour.step.{name}"])
        expect(page.locator(".tour-card small")).to_have_text(f"{place + 1} of 4")
        expect(page.locator("#tour-next")).to_be_focused()
        assert page.evaluate(AROUND, [selector]) == [True, True]
        page.keyboard.press("Enter" if place % 2 else "ArrowRight")
    expect(page.locator("#tour")).to_be_hidden()
    page.reload()
    expect(page.locator("#version")).not_to_be_empty()
    expect(page.locator("#tour")).to_be_hidden()
    page.keyboard.press("?")
    page.get_by_role("button", name="Show the tour").press("Enter")
    expect(page.locator("#tour-title")).to_have_text("Begin with a stack")
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Back").click()
    expect(page.locator("#tour-title")).to_have_text("Begin with a stack")
    page.get_by_role("button", name="Skip the tour").click()
    expect(page.locator("#tour")).to_be_hidden()
    assert page.locator(".tour-ring").evaluate("(ring) => getComputedStyle(ring).transitionDuration") == "0s"


def test_a_tour_that_is_skipped_by_key_lets_the_page_be_used_and_a_result_has_one_of_its_own(visit, studio, fused):
    page = visit(studio.address, is_new=True)
    expect(page.locator("#tour")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#tour")).to_be_hidden()
    page.get_by_role("link", name="Bibliothek", exact=True).click()
    expect(page.locator("body")).to_have_attribute("data-page", "library")
    window.open_job(page, studio, fused)
    expect(page.locator("#tour")).to_be_hidden()
    page.keyboard.press("?")
    page.locator("#tour-start").click()
    for name in ("results", "views", "check", "retouch", "save", "help"):
        expect(page.locator("#tour-title")).to_have_text(GERMAN[f"tour.step.{name}"])
        page.keyboard.press("Enter")
    expect(page.locator("#tour")).to_be_hidden()
