"""The report of a stack in a real browser: fits every window, follows the theme, enlarges pictures, asks no network."""

import os
import shutil
from pathlib import Path

import pytest

from allfocus.images.writing import write_image
from allfocus.scenes.rendering import render_scene
from allfocus.stack.pipeline import fuse_files

playwright_api = pytest.importorskip("playwright.sync_api", reason="the browser is driven by the package playwright")

SWITCHES = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    scene = render_scene("desk", frames=3, size=(240, 320), breathing=0.01, shake=3)
    names = [f"a rather long name of a frame, number {number}.png" for number in range(3)]
    paths = [write_image(frame, folder / name) for name, frame in zip(names, scene.frames, strict=True)]
    fuse_files(paths, folder / "sharp.png", report=folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        if os.environ.get("ALLFOCUS_REQUIRE_BROWSER") == "1":
            pytest.fail("no Chromium found and ALLFOCUS_REQUIRE_BROWSER=1; install the package chromium")
        pytest.skip("no Chromium found; install the package chromium")
    with playwright_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=list(SWITCHES))
        yield started
        started.close()


def open_page(browser, path: Path, *, width: int, scheme: str = "light"):
    """The page, and what it asked from elsewhere or complained about."""
    page = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme).new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: None if request.url[:5] in ("file:", "data:") else problems.append(request.url))
    page.goto(path.as_uri())
    return page, problems


@pytest.mark.parametrize("width", [320, 400, 900, 1600])
def test_the_page_fits_the_window_without_scrolling_sideways(browser, report, width):
    page, problems = open_page(browser, report, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("[...document.images].filter(i => i.src && !i.naturalWidth).length") == 0
    assert problems == []


def test_the_page_follows_the_theme_of_the_system_and_the_button(browser, report):
    shades = {}
    for scheme in ("light", "dark"):
        page, _ = open_page(browser, report, width=900, scheme=scheme)
        shades[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert shades["light"] != shades["dark"]
    page.click("#theme")  # auto -> light
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == shades["light"]


def test_a_click_enlarges_a_frame_and_keys_go_on_in_one_place(browser, report):
    page, problems = open_page(browser, report, width=900)
    page.click(".frames .frame >> nth=0")
    boxes = []
    for number in (1, 2, 3):
        assert page.inner_text("#viewer span").startswith(f"{number}: a rather long name")
        boxes.append(page.eval_on_selector("#viewer img", "e => [e.offsetWidth, e.offsetHeight]"))
        page.keyboard.press("ArrowRight")
    assert boxes[0] == boxes[1] == boxes[2]
    assert boxes[0][0] > 600
    page.keyboard.press("Escape")
    assert not page.is_visible("#viewer")
    assert problems == []
