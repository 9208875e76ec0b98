"""A browser that hangs is ended, so that its test fails where it hung."""

import shutil

import pytest

playwright_api = pytest.importorskip("playwright.sync_api", reason="no browser driver: pip install playwright")


@pytest.fixture
def page():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium found; install the package chromium")
    with playwright_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=180_000)
        yield browser.new_page()
        browser.close()


@pytest.mark.parametrize(
    "hang",
    [
        lambda page: page.evaluate("() => new Promise(() => {})"),
        lambda page: page.evaluate("() => { for (;;); }"),
    ],
    ids=["a page that never answers", "a page that is busy for ever"],
)
def test_a_page_that_hangs_is_an_error(page, not_for_ever, capfd, hang):
    with pytest.raises(playwright_api.Error), not_for_ever(lambda: "the story of the page", seconds=0.5):
        hang(page)
    assert "the story of the page" in capfd.readouterr().err


def test_a_page_that_answers_in_time_is_left_alone(page, not_for_ever, capfd):
    with not_for_ever(lambda: "", seconds=600):
        assert page.evaluate("1 + 1") == 2
    assert page.evaluate("2 + 2") == 4
    assert capfd.readouterr().err == ""
