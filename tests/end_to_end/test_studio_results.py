"""Faults that come to the user, and several results of one stack: in a real Chromium, by keyboard and mouse."""

import io
import json
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import studio_window as window
import tifffile
from playwright.sync_api import Page, expect

from allfocus.fusion.detail_meter import measure_lost_detail

studio, browser, watched = window.studio, window.browser, window.watched  # its fixtures

BRIGHTER = 1.12
LEGS = (((60, 60), (170, 120)), ((220, 250), (330, 190)), ((380, 50), (430, 170)))


@pytest.fixture(scope="module")
def leg_frames() -> list[np.ndarray]:
    """Even ground, and three legs that one frame each shows; the average of all loses them. One frame is brighter."""
    random = np.random.default_rng(3)
    ground = 0.6 + 0.04 * cv2.GaussianBlur(random.standard_normal((320, 480)).astype(np.float32), (0, 0), 1.2)
    frames = []
    for number in range(6):
        frame = ground.copy()
        for place, (start, end) in enumerate(LEGS):
            leg = np.zeros_like(ground)
            cv2.line(leg, start, end, 1.0, 4, cv2.LINE_AA)
            frame *= 1 - 0.9 * (leg if number == 2 * place else cv2.GaussianBlur(leg, (0, 0), 25))
        frame *= BRIGHTER if number == 4 else 1
        frames.append(np.rint(np.repeat(frame[..., None], 3, axis=2) * 65535).astype(np.uint16))
    return frames


@pytest.fixture(scope="module")
def leg_paths(leg_frames: list[np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("legs")
    paths = [folder / f"leg_{number}.tif" for number in range(1, 7)]
    for path, frame in zip(paths, leg_frames, strict=True):
        tifffile.imwrite(path, frame, photometric="rgb")
    return paths


@pytest.fixture(scope="module")
def stack(studio: Any, leg_paths: list[Path]) -> str:
    """A job with three results: a good one, a deleted one, and the open one, which has lost the legs."""
    identity: str = studio.make_job(leg_paths, "legs")
    for method in ("laplacian-pyramid", "average", "average"):
        studio.fuse(identity, method=method, align=False)
    path = f"/api/jobs/{identity}/results/{named(studio, identity)['average']}"
    studio.send(path, json.dumps({"deleted": True, "name": "gone"}).encode(), method="PUT")
    path = f"/api/jobs/{identity}/results/{named(studio, identity)['average 2']}"
    studio.send(path, json.dumps({"name": "average"}).encode(), method="PUT")
    return identity


@pytest.fixture
def legs(studio: Any, stack: str) -> str:
    """The same, as it was at first: the result that has lost the legs is open, and nothing was done to it."""
    for name in ("laplacian-pyramid", "average"):
        path = f"/api/jobs/{stack}"
        studio.send(f"{path}/results/{named(studio, stack)[name]}/open")
        for _ in studio.job(stack)["strokes"]:
            studio.send(f"{path}/undo")
        for fault in studio.job(stack)["result"]["dismissed"]:
            studio.send(f"{path}/faults/{fault}", b'{"dismissed": false}', method="PUT")
    return stack


@pytest.fixture
def several(studio: Any, legs: str) -> str:
    """The same with the good result open."""
    studio.send(f"/api/jobs/{legs}/results/{named(studio, legs)['laplacian-pyramid']}/open")
    return legs


def named(studio: Any, identity: str) -> dict[str, str]:
    """The ids of the results of a job by their names."""
    return {result["name"]: result["id"] for result in studio.job(identity)["results"]}


def lost_share(studio: Any, identity: str, frames: list[np.ndarray]) -> float:
    result = tifffile.imread(io.BytesIO(studio.get(f"/api/jobs/{identity}/download?format=tiff")))
    return measure_lost_detail(result / np.float32(65535), [frame / np.float32(65535) for frame in frames]).share


def test_three_keys_repair_the_three_lost_legs(studio, watched, legs, leg_frames) -> None:
    page = watched.page
    before = lost_share(studio, legs, leg_frames)
    canvas = window.open_job(page, studio, legs)
    expect(page.locator("#tab-check .badge")).to_have_text("3")
    page.keyboard.press("n")
    expect(page.locator("#fault-bar")).to_be_visible()
    expect(page.locator(".fault-place")).to_have_text("1 / 3")
    expect(page.locator('#views input[value="side"]')).to_be_checked()
    expect(page.locator("#name-left")).to_have_text("leg_5.tif")  # the leg with most of it missing
    window.settle(page)
    left, right = (window.pixels(page, at - 0.08, 0.4, at + 0.08, 0.6) for at in (0.25, 0.75))
    assert left.min() < 60 < right.min(), "the frame shows a dark leg in the middle, and the result does not"
    for number in (1, 2, 3):
        page.keyboard.press("r")
        expect(canvas).to_have_attribute("data-strokes", str(number))
        expect(page.locator(".fault.painted")).to_have_count(number)
        if number < 3:
            expect(page.locator(".fault-place")).to_have_text(f"{number + 1} / 3")
    expect(page.locator("#fault-summary")).to_have_text("0 of 3 places to look at, 3 painted.")
    expect(page.locator(".fault-about")).to_contain_text("All places are looked at.")
    gains = [stroke["gain"] for stroke in studio.job(legs)["strokes"]]
    expected = np.array([(1 + (BRIGHTER - 1) / 6) / BRIGHTER, *[1 + (BRIGHTER - 1) / 6] * 2])
    assert gains == pytest.approx(expected, abs=0.03), "each as bright as its surroundings"
    after = lost_share(studio, legs, leg_frames)
    assert before > 2
    assert after < 0.02 * before, (before, after)
    window.settle(page)
    left, right = (window.pixels(page, at - 0.08, 0.4, at + 0.08, 0.6) for at in (0.25, 0.75))
    assert np.abs(left - right).mean() < 8, "the result shows what the frame shows"


def test_what_was_painted_and_dismissed_is_known_after_a_reload_and_undo_opens_a_place_again(
    studio, watched, legs
) -> None:
    page = watched.page
    canvas = window.open_job(page, studio, legs)
    page.keyboard.press("r")  # nothing is painted that was not looked at
    expect(page.locator(".fault-place")).to_have_text("1 / 3")
    expect(canvas).to_have_attribute("data-strokes", "0")
    page.keyboard.press("i")
    expect(page.locator(".fault.dismissed")).to_have_count(1)
    expect(page.locator(".fault-place")).to_have_text("2 / 3")
    page.keyboard.press("r")
    expect(page.locator(".fault-place")).to_have_text("3 / 3")
    page.keyboard.press("p")
    expect(page.locator(".fault-place")).to_have_text("2 / 3")
    expect(page.locator("#bar-mend")).to_be_disabled()
    page.reload()
    expect(page.locator(".fault.painted")).to_have_count(1)
    expect(page.locator(".fault.dismissed")).to_have_count(1)
    expect(page.locator("#fault-bar")).to_be_hidden()
    page.keyboard.press("n")
    expect(page.locator(".fault-place")).to_have_text("3 / 3")  # the only one that is open
    page.keyboard.press("Control+z")
    expect(page.locator(".fault.painted")).to_have_count(0)
    page.locator("#fault-list button").first.click()
    page.keyboard.press("i")
    expect(page.locator(".fault.dismissed")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#fault-bar")).to_be_hidden()


def test_another_frame_can_be_chosen_for_a_place_and_nothing_goes_on_by_itself_if_so_wished(
    studio, watched, legs
) -> None:
    page = watched.page
    window.open_job(page, studio, legs)
    page.keyboard.press("n")
    page.locator("#fault-go-on").uncheck(force=True)
    page.keyboard.press(".")
    expect(page.locator("#bar-mend")).to_contain_text("leg_6.tif")
    page.locator("#bar-mend").click()
    expect(page.locator(".fault.painted")).to_have_count(1)
    expect(page.locator(".fault-place")).to_have_text("1 / 3")
    frames = {frame["name"]: frame["id"] for frame in studio.job(legs)["frames"]}
    assert studio.job(legs)["strokes"][0]["source"] == f"frame-{frames['leg_6.tif']}"


def test_a_good_result_says_that_nothing_was_found(studio, watched, several) -> None:
    page = watched.page
    window.open_job(page, studio, several)
    page.locator("#tab-check").click()
    expect(page.locator("#fault-summary")).to_contain_text("No place found")
    expect(page.locator("#fault-next")).to_be_disabled()
    page.keyboard.press("n")
    expect(page.locator("#fault-bar")).to_be_hidden()


def row(page: Page, name: str) -> Any:
    return page.locator("#results li").filter(has_text=name)


def test_results_are_compared_opened_named_deleted_and_restored(studio, watched, several) -> None:
    page = watched.page
    window.open_job(page, studio, several)
    expect(page.locator("#results .result:not(.deleted)")).to_have_count(2)
    expect(row(page, "laplacian-pyramid").locator("[aria-current]")).to_be_visible()
    row(page, "average").get_by_label("Compare with this").click()
    expect(page.locator('#views input[value="slider"]')).to_be_checked()
    expect(page.locator("#name-left")).to_have_text("average")
    expect(page.locator("#name-right")).to_have_text("laplacian-pyramid")
    for view in ("side", "flicker", "difference"):
        window.choose_view(page, view)
    expect(page.locator("#name-left")).to_have_text("Difference from average")
    assert window.pixels(page, 0.1, 0.1, 0.9, 0.9).max() > 100, "the legs differ"
    page.keyboard.press("v")
    page.keyboard.press("2")
    zoom = page.locator("#zoom-value").inner_text()
    opener = row(page, "average").locator(".result-open")
    opener.focus()
    page.keyboard.press("Enter")
    expect(row(page, "average").locator("[aria-current]")).to_be_visible()
    expect(page.locator("#zoom-value")).to_have_text(zoom)  # the view stays, so that the eye can compare
    expect(page.locator("#tab-check .badge")).to_have_text("3")

    row(page, "average").get_by_label("Rename").click()
    page.keyboard.type("soft one")
    page.keyboard.press("Enter")
    expect(row(page, "soft one")).to_be_visible()
    row(page, "soft one").get_by_label("Delete").click()
    expect(page.locator("#results .result:not(.deleted)")).to_have_count(1)
    expect(row(page, "laplacian-pyramid").locator("[aria-current]")).to_be_visible()
    page.reload()
    page.locator(".deleted-results summary").click()
    page.get_by_label("Restore: soft one").click()
    expect(page.locator("#results .result:not(.deleted)")).to_have_count(2)
    row(page, "soft one").get_by_label("Rename").click()
    page.keyboard.type("average")
    page.keyboard.press("Enter")
    expect(row(page, "average")).to_be_visible()


def test_the_brush_paints_from_another_result_and_strokes_stay_with_theirs(studio, watched, several) -> None:
    page = watched.page
    canvas = window.open_job(page, studio, several)
    page.keyboard.press("b")
    page.locator("#source").select_option(label="average")
    canvas.focus()
    page.keyboard.press("Enter")
    expect(canvas).to_have_attribute("data-strokes", "1")
    expect(canvas).to_have_attribute("data-busy", "false")
    assert studio.job(several)["strokes"][0]["source"] == named(studio, several)["average"]
    row(page, "average").locator(".result-open").click()
    expect(canvas).to_have_attribute("data-strokes", "0")
    options = page.locator("#against-select option")
    expect(options.filter(has_text="laplacian-pyramid, retouched")).to_have_count(1)
    row(page, "laplacian-pyramid").locator(".result-open").click()
    expect(canvas).to_have_attribute("data-strokes", "1")
    page.keyboard.press("Control+z")
    expect(canvas).to_have_attribute("data-strokes", "0")


def test_the_brush_has_opacity_modes_an_eraser_and_a_list_of_its_strokes(studio, watched, legs) -> None:
    page = watched.page
    canvas = window.open_job(page, studio, legs)
    page.keyboard.press("b")
    page.locator("#source").select_option(label="leg_1.tif")
    page.locator("#brush-opacity").fill("40")
    page.locator("#brush-mode").select_option("darken")
    canvas.focus()
    page.keyboard.press("Enter")
    expect(canvas).to_have_attribute("data-strokes", "1")
    page.keyboard.press("e")
    expect(page.locator("#eraser")).to_have_attribute("aria-pressed", "true")
    page.locator("#brush-opacity").fill("100")
    canvas.focus()
    page.keyboard.press("Enter")
    expect(canvas).to_have_attribute("data-strokes", "2")
    expect(canvas).to_have_attribute("data-busy", "false")
    job = studio.job(legs)
    told = [(stroke["mode"], stroke["opacity"], stroke["source"]) for stroke in job["strokes"]]
    frames = {frame["name"]: frame["id"] for frame in job["frames"]}
    assert told == [("darken", 0.4, f"frame-{frames['leg_1.tif']}"), ("replace", 1.0, job["result"]["id"])]
    page.locator("#stroke-details summary").click()
    expect(page.locator("#stroke-list .stroke-name")).to_have_text(
        [re.compile("2 +Taken off"), re.compile(r"1 +leg_1.tif, darker, 40 %")]
    )
    page.get_by_label(re.compile("Stroke 1.*visible")).click()
    expect(page.get_by_label(re.compile("Stroke 1.*visible"))).to_have_attribute("aria-pressed", "false")
    page.reload()
    page.locator("#stroke-details summary").click()
    expect(page.get_by_label(re.compile("Stroke 1.*visible"))).to_have_attribute("aria-pressed", "false")
    assert studio.job(legs)["strokes"][0]["hidden"] is True


def test_slabs_become_results_to_paint_from(studio, watched, leg_paths) -> None:
    page = watched.page
    identity = studio.make_job(leg_paths[:4], "slabs")
    studio.fuse(identity, method="average", align=False)
    window.open_job(page, studio, identity)
    page.locator(".slabs summary").click()
    page.locator("#slab-size").fill("2")
    page.locator("#slab-overlap").fill("0")
    page.locator("#slab-overlap").press("Enter")
    expect(page.locator("#results .result strong")).to_have_text(["average 3–4", "average 1–2", "average"])
    row(page, "average 1–2").get_by_label("Compare with this").click()
    expect(page.locator("#name-left")).to_have_text("average 1–2")
    expect(page.locator("#source option").filter(has_text="average 3–4")).to_have_count(1)


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_no_view_of_places_and_results_breaks_a_rule_of_accessibility(studio, browser, legs, width, theme) -> None:
    script = window.axe_script()
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme, reduced_motion="reduce")
    try:
        page = context.new_page()
        window.open_job(page, studio, legs)
        page.keyboard.press("n")
        expect(page.locator("#fault-bar")).to_be_visible()
        window.settle(page)
        panels = ("picture", "frames", "tools") if width < 900 else ("",)
        for panel in panels:
            if panel:
                page.locator(f'[data-panel-button="{panel}"]').click()
            assert window.violations(page, script) == []
    finally:
        context.close()
