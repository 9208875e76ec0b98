"""Finishing in a real Chromium: tones, crop, healing, grey, scale bar, and the file that comes out."""

import io
import json
from typing import Any

import cv2
import numpy as np
import pytest
import studio_window as window
import tifffile
from PIL import Image as PillowImage
from playwright.sync_api import Page, expect

from allfocus.finishing.finish import finish_from_json
from allfocus.finishing.rendering import OutputSize, finish_image
from allfocus.images.conversion import to_integers
from allfocus.images.image import Image

studio, browser, watched = window.studio, window.browser, window.watched  # its fixtures

SIZE = (300, 420)
DUST = (120, 90)


@pytest.fixture(scope="module")
def dusty(studio: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job of two frames in soft colours, with dust on both at the same place."""
    random = np.random.default_rng(11)
    ground = cv2.GaussianBlur(random.random((*SIZE, 3)).astype(np.float32), (0, 0), 25)
    ground = 0.25 + 0.5 * (ground - ground.min()) / np.ptp(ground)
    cv2.circle(ground, DUST, 5, (0.05, 0.05, 0.05), -1, cv2.LINE_AA)
    folder = tmp_path_factory.mktemp("dust")
    paths = [folder / f"dust_{number}.tif" for number in (1, 2)]
    for path in paths:
        tifffile.imwrite(path, np.rint(ground * 65535).astype(np.uint16), photometric="rgb")
    identity: str = studio.make_job(paths, "dust")
    studio.fuse(identity, method="average", align=False)
    return identity


@pytest.fixture
def plain(studio: Any, dusty: str) -> str:
    """The same without a finish."""
    studio.send(f"/api/jobs/{dusty}/finish", b"{}", method="PUT")
    return dusty


def fused(studio: Any, identity: str) -> np.ndarray:
    """The result before its finish, 0..1."""
    held = studio.job(identity)["result"]["finish"]
    studio.send(f"/api/jobs/{identity}/finish", b"{}", method="PUT")
    found = tifffile.imread(io.BytesIO(studio.get(f"/api/jobs/{identity}/download?format=tiff")))
    studio.send(f"/api/jobs/{identity}/finish", json.dumps(held).encode(), method="PUT")
    return np.asarray(found / np.float32(65535), np.float32)


def open_finish(page: Page, studio: Any, identity: str) -> None:
    window.open_job(page, studio, identity)
    page.locator("#tab-finish").click()
    expect(page.locator("#histogram")).to_have_attribute("aria-label", "Histogram: 0.0 % black, 0.0 % white")


def kept(page: Page) -> None:
    """Wait until the server has what the panel shows."""
    expect(page.locator("#finish-state")).to_contain_text("kept with the result")


def slide(page: Page, name: str, value: float) -> None:
    page.locator(f"#finish-{name}").fill(str(value))
    page.locator(f"#finish-{name}").dispatch_event("change")
    kept(page)


def open_all(page: Page) -> None:
    page.evaluate("for (const part of document.querySelectorAll('.finish-part')) part.open = true")


def test_a_picture_is_toned_cropped_healed_and_exported_as_the_arithmetic_says(
    watched, studio, plain, tmp_path
) -> None:
    page = watched.page
    open_finish(page, studio, plain)
    slide(page, "exposure", 0.5)
    slide(page, "contrast", 20)
    open_all(page)
    page.locator("#curve-add").click()
    page.keyboard.press("Shift+ArrowUp")
    page.locator("#heal").click()
    page.locator("#spot-size").fill("10")
    page.mouse.click(*window.place_on_screen(page, *DUST))
    expect(page.locator("#spot-list li")).to_have_count(1)
    kept(page)
    page.locator("#crop").click()
    for name, value in (("width", 300), ("height", 200), ("left", 40), ("top", 30)):
        page.locator(f"#crop-{name}").fill(str(value))
        page.locator(f"#crop-{name}").press("Enter")
    kept(page)
    page.locator("#turn-right").click()
    expect(page.locator("#finish-state")).to_have_text("200 × 300, kept with the result")
    page.locator("body").press("Control+s")
    expect(page.locator("#export")).to_be_visible()
    page.locator("#export-size").select_option("percent")
    page.locator("#export-amount").fill("50")
    page.locator("#export-name").fill("{stack} {width}x{height}")
    expect(page.locator("#export-about")).to_have_text("100 × 150 pixels, .tif")
    with page.expect_download() as coming:
        page.locator("#export-go").click()
    assert coming.value.suggested_filename == "dust 100x150.tif"
    coming.value.save_as(tmp_path / "a.tif")
    expect(page.locator("#export")).to_be_hidden()
    held = studio.job(plain)["result"]["finish"]
    assert (held["exposure"], held["contrast"], held["turns"]) == (0.5, 20, 1)
    assert held["curves"]["all"] == [[0, 0], [0.5, 0.6], [1, 1]]
    assert held["crop"] == {"left": 40, "top": 30, "width": 300, "height": 200}
    assert abs(held["spots"][0]["x"] - DUST[0]) < 1.5
    expected = finish_image(Image(fused(studio, plain)), finish_from_json(held), size=OutputSize(percent=50)).pixels
    assert np.array_equal(tifffile.imread(tmp_path / "a.tif"), to_integers(expected, 16))
    dark = expected.min(axis=2)[45:60, 20:40]
    assert dark.min() > 0.3, "the dust is gone"


def shown(page: Page) -> np.ndarray:
    """The middle of the picture as the browser draws it, filters included."""
    box = page.locator("#canvas").bounding_box()
    assert box is not None
    clip = {"x": box["x"] + box["width"] / 2 - 60, "y": box["y"] + box["height"] / 2 - 40, "width": 120, "height": 80}
    return np.asarray(PillowImage.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB")).astype(float)


def test_the_viewer_shows_the_tones_while_a_slider_moves(watched, studio, plain) -> None:
    page = watched.page
    open_finish(page, studio, plain)
    page.keyboard.press("1")
    window.settle(page)
    before = shown(page)
    page.locator("#finish-exposure").fill("0.7")  # moved, and not let go
    page.locator("#finish-temperature").fill("40")
    expect(page.locator("#canvas")).to_have_attribute("style", 'filter: url("#finish-tones");')
    page.locator("#finish-curves summary").click()
    page.locator("#curve-colour").select_option("green")
    page.locator("#curve-add").click()
    expect(page.locator(".curve-point")).to_have_count(3)
    expect(page.locator(".curve-point").nth(1)).to_be_focused()
    for key in ("Shift+ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator(".curve-point").nth(1)).to_have_attribute("aria-label", "Point 2: 0.51 becomes 0.40")
    page.locator("#curve-colour").select_option("all")
    box = page.locator("#curve-board").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 0.75 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 0.6 * box["height"], steps=3)
    page.mouse.up()
    kept(page)
    window.settle(page)
    curves = studio.job(plain)["result"]["finish"]["curves"]
    assert curves["green"] == [[0, 0], [0.51, 0.4], [1, 1]]
    assert np.array(curves["all"]) == pytest.approx(np.array([[0, 0], [0.25, 0.4], [1, 1]]), abs=0.01)
    page.mouse.dblclick(box["x"] + 0.25 * box["width"], box["y"] + 0.6 * box["height"])
    expect(page.locator(".curve-point")).to_have_count(2)
    page.locator("body").press("Control+z")
    expect(page.locator(".curve-point")).to_have_count(3)
    kept(page)
    body = {"exposure": 0.7, "temperature": 40, "curves": curves}
    tables = studio.send(f"/api/jobs/{plain}/finish/preview", json.dumps(body).encode())["tables"]
    expected = np.stack([np.array(tables[k])[before[..., k].astype(int)] * 255 for k in range(3)], axis=-1)
    page.wait_for_function("document.querySelector('#finish-tones feFuncB').getAttribute('tableValues').length > 100")
    after = shown(page)
    assert np.abs(after - expected).max() <= 2
    assert np.abs(after - before).mean() > 20
    page.locator("#finish-shown").uncheck()
    window.settle(page)
    assert np.abs(shown(page) - before).max() <= 2


def test_the_finished_view_is_the_finished_picture_and_undo_goes_back(watched, studio, plain) -> None:
    page = watched.page
    open_finish(page, studio, plain)
    open_all(page)
    page.locator("#finish-angle").fill("5")
    page.locator("#finish-angle").dispatch_event("change")
    kept(page)
    expect(page.locator("#crop-frame")).to_be_visible()
    slide(page, "gamma", 0.2)
    page.locator("body").press("w")
    expect(page.locator("#name-left")).to_have_text("Finished")
    page.keyboard.press("1")
    window.settle(page)
    finish = studio.job(plain)["result"]["finish"]
    assert finish["gamma"] == pytest.approx(10**0.2, abs=0.001)
    made = finish_image(Image(fused(studio, plain)), finish_from_json(finish)).pixels
    page.reload()
    window.settle(page)
    window.choose_view(page, "finished")
    page.keyboard.press("1")
    window.settle(page)
    height, width = made.shape[:2]
    middle = made[height // 2 - 40 : height // 2 + 40, width // 2 - 60 : width // 2 + 60] * 255
    assert np.abs(shown(page) - middle).mean() < 4
    page.locator("#tab-finish").click()
    slide(page, "exposure", 1)
    page.locator("#finish-undo").click()
    expect(page.locator("#finish-exposure-value")).to_have_text("0.00 EV")
    kept(page)
    assert studio.job(plain)["result"]["finish"] == finish
    page.locator("#finish-redo").click()
    expect(page.locator("#finish-exposure-value")).to_have_text("+1.00 EV")
    expect(page.locator("#finish-redo")).to_be_disabled()
    kept(page)
    assert studio.job(plain)["result"]["finish"] == {**finish, "exposure": 1}
    page.locator("body").press("Control+z")
    kept(page)
    page.locator("body").press("Control+Shift+z")
    expect(page.locator("#finish-exposure-value")).to_have_text("+1.00 EV")
    page.locator("body").press("Control+z")
    expect(page.locator("#finish-redo")).to_be_enabled()
    slide(page, "contrast", 10)
    expect(page.locator("#finish-redo")).to_be_disabled()
    page.locator("#finish-reset").click()
    kept(page)
    assert studio.job(plain)["result"]["finish"]["angle"] == 0


def test_the_crop_follows_the_pointer(watched, studio, plain) -> None:
    page = watched.page
    open_finish(page, studio, plain)
    open_all(page)
    page.locator("#crop").click()
    expect(page.locator(".crop-handle").first).to_be_visible()
    start, end = window.place_on_screen(page, 420, 300), window.place_on_screen(page, 320, 240)
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=4)
    page.mouse.up()
    kept(page)
    crop = studio.job(plain)["result"]["finish"]["crop"]
    assert (crop["left"], crop["top"]) == (0, 0)
    assert abs(crop["width"] - 320) <= 2
    assert abs(crop["height"] - 240) <= 2
    page.locator("#crop-shape").select_option("1")
    kept(page)
    crop = studio.job(plain)["result"]["finish"]["crop"]
    assert crop["width"] == crop["height"]
    page.locator("body").press("Control+z")
    expect(page.locator("#crop-width")).to_have_value("320")


def test_a_picked_grey_and_a_scale_bar(watched, studio, plain) -> None:
    page = watched.page
    open_finish(page, studio, plain)
    page.locator("#finish-grey").click()
    page.mouse.click(*window.place_on_screen(page, 250, 150))
    expect(page.locator("#finish-grey")).to_have_attribute("aria-pressed", "false")
    kept(page)
    held = studio.job(plain)["result"]["finish"]
    made = finish_image(Image(fused(studio, plain)), finish_from_json(held)).pixels[148:153, 248:253]
    assert np.ptp(made.mean(axis=(0, 1))) < 0.02
    open_all(page)
    page.locator("#bar-on").click()
    expect(page.locator("#messages")).to_contain_text("how large a pixel is")
    page.locator("#bar-pixel").fill("0,5")
    page.locator("#bar-on").click()
    expect(page.locator("#bar-name")).to_have_text("20 µm")
    kept(page)
    assert studio.job(plain)["result"]["finish"]["scale_bar"]["pixel_size"] == 0.5


def test_a_name_with_an_unknown_field_is_refused_in_the_dialog(watched, studio, plain) -> None:
    page = watched.page
    watched.allow("400")
    open_finish(page, studio, plain)
    page.locator("#finish-export").click()
    page.locator("#export-format").select_option("jpeg")
    expect(page.locator("#export-quality")).to_be_visible()
    page.locator("#export-name").fill("{home}")
    page.locator("#export-go").click()
    expect(page.locator("#export-trouble")).to_contain_text("{stack}")
    page.locator("#export-name").fill("{result}")
    with page.expect_download() as coming:
        page.locator("#export-go").click()
    assert coming.value.suggested_filename == "average.jpg"


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (390, "dark")])
def test_no_view_of_finishing_breaks_a_rule_of_accessibility(studio, browser, plain, width, theme) -> None:
    script = window.axe_script()
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme, reduced_motion="reduce")
    finish = {"exposure": 0.5, "angle": 4, "spots": [{"x": 50, "y": 50, "radius": 5}], "scale_bar": {"pixel_size": 1}}
    studio.send(f"/api/jobs/{plain}/finish", json.dumps(finish).encode(), method="PUT")
    try:
        page = context.new_page()
        window.open_job(page, studio, plain)
        if width < 900:
            page.locator('[data-panel-button="tools"]').click()
        page.locator("#tab-finish").click()
        expect(page.locator("#spot-list li")).to_have_count(1)
        open_all(page)
        for step in ("panel", "dialog"):
            if step == "dialog":
                page.locator("#finish-export").click()
                expect(page.locator("#export")).to_be_visible()
            assert window.violations(page, script) == []
    finally:
        context.close()
