"""The studio as a photographer uses it: the real page in a real Chromium, on the real server."""

import itertools
import re
import shutil
import signal
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import studio_window as window
import tifffile
from playwright.sync_api import Locator, Page, Request, expect
from studio_window import (
    COUNT,
    HEIGHT,
    SECONDS,
    VIEWS,
    WIDTH,
    Process,
    Studio,
    choose_view,
    drop,
    open_job,
    pixels,
    settle,
    settle_cards,
)

browser, studio, watched = window.browser, window.studio, window.watched  # its fixtures
frames, frame_paths = window.frames, window.frame_paths


@pytest.fixture(scope="module")
def finished(studio: Studio, frame_paths: list[Path]) -> str:
    """The id of a job that was fused over the API, with all its maps."""
    identity = studio.make_job(frame_paths[:4], "finished")
    studio.fuse(identity, method="ips", align=False)
    return identity


def names(page: Page) -> list[str]:
    return page.locator(".card[data-frame] .card-name").all_inner_texts()


def expect_names(page: Page, wanted: list[str]) -> None:
    """Wait for the frames in this order.

    Two files travel at a time, so cards appear in the order in which they arrive, and are put in that of their names
    once all are there. Who takes hold of the first card before takes hold of another one, now and then.
    """
    expect(page.locator(".card[data-frame] .card-name")).to_have_text(wanted)


def card_of(page: Page, name: str) -> Locator:
    return page.locator(".card[data-frame]").filter(has_text=name)


def distance_to_line(points: list[list[float]]) -> np.ndarray:
    """Distance of every pixel's centre to a line through points, (HEIGHT, WIDTH); the first pixel covers 0 to 1."""
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH] + 0.5
    ends = list(itertools.pairwise(points)) or [(points[0], points[0])]
    nearest = np.full((HEIGHT, WIDTH), np.inf)
    for (x0, y0), (x1, y1) in ends:
        length = (x1 - x0) ** 2 + (y1 - y0) ** 2
        along = ((columns - x0) * (x1 - x0) + (rows - y0) * (y1 - y0)) / length if length else np.zeros_like(rows)
        along = np.clip(along, 0, 1)
        nearest = np.minimum(nearest, np.hypot(columns - x0 - along * (x1 - x0), rows - y0 - along * (y1 - y0)))
    return nearest


def watch_progress(page: Page) -> None:
    """From now on the page notes each step and share that it shows."""
    page.evaluate(
        """() => {
          window.seen = [];
          const note = () => {
            const step = document.querySelector("#steps .present");
            const share = document.getElementById("progress-share");
            if (step && share) window.seen.push([step.textContent, parseInt(share.textContent)]);
          };
          new MutationObserver(note).observe(document.getElementById("progress"), {childList: true, subtree: true});
        }"""
    )


def test_eight_frames_are_dropped_fused_retouched_and_saved(watched, studio, frames, frame_paths, tmp_path, brake):
    page = watched.page
    page.goto(studio.address)

    drop(page, frame_paths)
    expect(page.locator(".card[data-frame]")).to_have_count(COUNT)
    expect(page.locator("#frame-count")).to_have_text("8 frames")
    expect_names(page, [path.name for path in frame_paths])

    card = page.locator(".card")
    half = card.nth(1).bounding_box()
    card.nth(0).drag_to(card.nth(1), target_position={"x": half["width"] - 6, "y": half["height"] / 2})
    wanted = ["shot_2.tif", "shot_1.tif", *(path.name for path in frame_paths[2:])]
    expect(page.locator(".card-name").first).to_have_text(wanted[0])
    assert names(page) == wanted

    identity = page.url.rsplit("/", 1)[1]
    page.locator("#option-align").uncheck()
    watch_progress(page)
    brake.hold()
    page.locator("#start").click()
    expect(page.locator("#steps .present")).to_be_visible()
    brake.release()
    expect(page.locator("body")).not_to_have_attribute("data-phase", "running", timeout=120 * SECONDS)
    assert studio.job(identity)["error"] is None
    seen = page.evaluate("window.seen")
    shares = [share for _, share in seen]
    assert any(step.startswith("Fusing") for step, _ in seen)
    assert len(set(shares)) > 3
    assert shares == sorted(shares)
    assert studio.job(identity)["result"]["frames"] == wanted
    expect(page.locator("#canvas")).to_have_attribute("data-complete", "true")

    slide_and_zoom(page)
    paint_three_strokes_and_undo_one(page)

    untouched = tmp_path / "untouched.tif"
    with page.expect_download() as waiting:
        page.get_by_role("tab", name="Save").click()
        page.locator("#download-tiff").click()
    retouched = tifffile.imread(waiting.value.path())
    job = studio.job(identity)
    for _ in job["strokes"]:
        studio.send(f"/api/jobs/{identity}/undo")
    untouched.write_bytes(studio.get(f"/api/jobs/{identity}/download?format=tiff&bits=16"))
    assert_painted(retouched, tifffile.imread(untouched), frames[4], job)


def slide_and_zoom(page: Page) -> None:
    choose_view(page, "slider")
    box = page.locator("#canvas").bounding_box()
    handle = page.locator("#handle")
    before = [pixels(page, 0.3, 0.4, 0.4, 0.5), pixels(page, 0.8, 0.4, 0.9, 0.5)]
    handle.hover()
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 100, steps=4)
    page.mouse.up()
    expect(handle).to_have_attribute("aria-valuenow", "20")
    settle(page)
    after = [pixels(page, 0.3, 0.4, 0.4, 0.5), pixels(page, 0.8, 0.4, 0.9, 0.5)]
    assert np.abs(after[0] - before[0]).mean() > 2, "the part that the slider left shows the same picture"
    assert np.abs(after[1] - before[1]).max() == 0, "the part on the result's side changed"

    choose_view(page, "result")
    x, y = box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.6
    page.mouse.move(x, y)
    expect(page.locator("#cursor-place")).to_have_text(re.compile(r"x \d+, y \d+"))
    settle(page)
    place = page.locator("#cursor-place").inner_text()
    for _ in range(3):
        page.mouse.wheel(0, -200)
    # A turn of the wheel arrives when the browser likes, and each makes the picture larger.
    page.wait_for_function("parseInt(document.getElementById('zoom-value').textContent) > 200")
    page.mouse.move(x + 1, y)
    page.mouse.move(x, y)
    expect(page.locator("#cursor-place")).to_have_text(place)  # the point under the cursor did not move
    page.keyboard.press("0")


def paint_three_strokes_and_undo_one(page: Page) -> None:
    canvas = page.locator("#canvas")
    page.keyboard.press("b")
    page.locator("#source").select_option(label="shot_5.tif")
    size = page.locator("#brush-size-value").inner_text()
    for _ in range(6):
        page.keyboard.press("]")
    larger = "size => parseInt(document.getElementById('brush-size-value').textContent) > size"
    page.wait_for_function(larger, arg=int(size.split()[0]))
    places = [(0.5, 0.3), (0.52, 0.5), (0.45, 0.68)]
    unpainted = without_brush(page, *places[-1])
    for number, (x, y) in enumerate(places, start=1):
        box = canvas.bounding_box()
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        before = pixels(page, x + 0.02, y - 0.01, x + 0.06, y + 0.01)
        page.mouse.down()
        page.mouse.move(box["x"] + (x + 0.08) * box["width"], box["y"] + y * box["height"], steps=6)
        settle(page)
        now = pixels(page, x + 0.02, y - 0.01, x + 0.06, y + 0.01)
        assert np.abs(now - before).max() > 0, "nothing is seen while painting"
        page.mouse.up()
        expect(canvas).to_have_attribute("data-strokes", str(number))
    expect(canvas).to_have_attribute("data-busy", "false")
    painted = without_brush(page, *places[-1])
    assert np.abs(painted - unpainted).mean() > 1, "the stroke is not seen"
    page.reload()
    expect(canvas).to_have_attribute("data-strokes", "3")
    expect(canvas).to_have_attribute("data-busy", "false")
    again = without_brush(page, *places[-1])
    assert np.abs(again - painted).max() == 0, "the page went on showing its preview, not the server's pixels"
    page.keyboard.press("Control+z")
    expect(canvas).to_have_attribute("data-strokes", "2")
    expect(page.locator("#stroke-count")).to_have_text("2 strokes in the result")
    expect(canvas).to_have_attribute("data-busy", "false")
    assert np.abs(without_brush(page, *places[-1]) - unpainted).max() == 0, "the undone stroke is still seen"


def without_brush(page: Page, x: float, y: float) -> np.ndarray:
    """What the canvas shows where a stroke begins, the brush being elsewhere."""
    page.mouse.move(5, 5)
    settle(page)
    return pixels(page, x + 0.02, y - 0.01, x + 0.06, y + 0.01)


def assert_painted(retouched: np.ndarray, untouched: np.ndarray, source: np.ndarray, job: Any) -> None:
    """Painted pixels are the source's, pixels that no stroke reached are those of the result before, bit for bit."""
    assert retouched.dtype == np.uint16
    assert retouched.shape == (HEIGHT, WIDTH, 3)
    assert len(job["strokes"]) == 2
    frame = next(frame["id"] for frame in job["frames"] if frame["name"] == "shot_5.tif")
    core, reach = np.zeros((HEIGHT, WIDTH), bool), np.zeros((HEIGHT, WIDTH), bool)
    for stroke in job["strokes"]:
        assert stroke["source"] == f"frame-{frame}"
        distance = distance_to_line(stroke["points"])
        core |= distance < stroke["radius"] * stroke["hardness"] - 1e-6
        reach |= distance <= stroke["radius"] + 1e-6
    assert core.sum() > 500
    assert (~reach).sum() > 50_000
    assert (retouched[core] == source[core]).all()
    assert (retouched[~reach] == untouched[~reach]).all()
    assert (retouched[core] != untouched[core]).any(axis=-1).mean() > 0.3, "painting changed hardly anything"


def test_wrong_files_are_named_with_a_cure_and_the_others_are_kept(watched, studio, frame_paths, tmp_path):
    page = watched.page
    watched.allow("415")
    watched.allow("400")
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "empty.tif").write_bytes(b"")
    (tmp_path / "torn.tif").write_bytes(frame_paths[0].read_bytes()[:3000])
    tifffile.imwrite(tmp_path / "small.tif", np.zeros((60, 90, 3), np.uint16), photometric="rgb")
    page.goto(studio.address)
    drop(page, [*frame_paths[:2], *sorted(tmp_path.iterdir())])

    failed = page.locator(".card.failed")
    expect(failed.filter(has_text="notes.txt").locator(".card-problem")).to_contain_text(
        re.compile("picture|format", re.I)
    )
    expect(failed.filter(has_text="empty.tif").locator(".card-problem")).to_contain_text("empty")
    expect(page.locator(".card.problem").filter(has_text="small.tif").locator(".card-problem")).to_contain_text("90")
    expect(page.locator(".card.problem").filter(has_text="torn.tif").locator(".card-problem")).not_to_be_empty()
    expect(page.locator(".sending")).to_have_count(0)
    expect(page.locator(".card[data-frame] .card-name").filter(has_text="shot_")).to_have_text(
        ["shot_1.tif", "shot_2.tif"]
    )

    failed.filter(has_text="notes.txt").get_by_role("button", name="Dismiss").click()
    expect(page.locator(".card").filter(has_text="notes.txt")).to_have_count(0)


@pytest.mark.parametrize("way", ["dropped", "chosen", "named"])
def test_a_folder_gives_its_frames_in_natural_order_and_nothing_else(watched, studio, frame_paths, tmp_path, way):
    page = watched.page
    folder = tmp_path / "beetle"
    folder.mkdir()
    for path, name in zip(frame_paths, ["shot_10.tif", "shot_9.tif", "shot_1.tif"], strict=False):
        shutil.copy(path, folder / name)
    (folder / "notes.txt").write_text("no picture")
    (folder / ".shot_2.tif").write_bytes(b"what a file manager left")
    page.goto(studio.address)
    if way == "dropped":
        drop(page, [folder])
    elif way == "chosen":
        page.set_input_files("#choose-folder", folder)
    else:
        page.locator("#server-path").fill(str(folder))
        page.keyboard.press("Enter")
    expect(page.locator(".card[data-frame]")).to_have_count(3)
    expect(page.locator(".sending")).to_have_count(0)
    expect(page.locator(".card-name").first).to_have_text("shot_1.tif")
    expect_names(page, ["shot_1.tif", "shot_9.tif", "shot_10.tif"])
    expect(page.locator("#stack-name")).to_have_text("beetle")


def test_everything_can_be_done_with_the_keyboard(watched, studio, frame_paths):
    page = watched.page
    # Dialogs are caught only from a moment after the first listener on, so it is there before anything is pressed.
    page.on("filechooser", lambda chooser: None)
    page.goto(studio.address)
    expect(page.locator("#version")).not_to_be_empty()
    tab_to(page, ".choices [data-choose=files]")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files(frame_paths[:4])
    expect(page.locator(".card[data-frame]")).to_have_count(4)
    expect(page.locator(".sending")).to_have_count(0)
    expect_names(page, [path.name for path in frame_paths[:4]])

    tab_to(page, ".card:nth-child(1) .card-picture")
    page.keyboard.press("Alt+ArrowRight")
    expect(page.locator(".card-name").first).to_have_text("shot_2.tif")
    expect(page.locator(".card:nth-child(2) .card-picture")).to_be_focused()
    expect(page.locator("#announcer")).to_have_text("shot_1.tif is now frame 2 of 4.")
    page.keyboard.press("x")
    expect(page.locator(".card:nth-child(2)")).to_have_class(re.compile("excluded"))
    expect(page.locator("#start")).to_have_text("Fuse 3 frames")

    tab_to(page, "#method")
    page.keyboard.type("Pyr")
    tab_to(page, "#start")
    page.keyboard.press("Enter")
    expect(page.locator("body")).to_have_attribute("data-phase", "done", timeout=120 * SECONDS)

    page.keyboard.press("c")
    expect(page.locator("#handle")).to_be_visible()
    tab_to(page, "#handle")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#handle")).to_have_attribute("aria-valuenow", "48")
    page.keyboard.press("b")
    tab_to(page, "#canvas")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#canvas")).to_have_attribute("data-strokes", "1")
    page.keyboard.press("Control+z")
    expect(page.locator("#canvas")).to_have_attribute("data-strokes", "0")
    page.keyboard.press("?")
    expect(page.locator("#shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#shortcuts")).to_be_hidden()


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until the element has the focus, and check that one can see that it has."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement?.matches(selector) ?? false", selector):
            break
    else:
        raise AssertionError(f"80 presses of Tab do not reach {selector}")
    shown = page.evaluate(
        """() => {
          const drawn = (node) => getComputedStyle(node).outlineStyle !== "none";
          return [document.activeElement, ...document.activeElement.children].some(drawn);
        }"""
    )
    assert shown, f"the focus on {selector} cannot be seen"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_windows_show_every_view_without_sideways_scrolling(watched, studio, finished, scheme):
    page = watched.page
    page.set_viewport_size({"width": 400, "height": 780})
    page.emulate_media(color_scheme=scheme)
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    page.goto(studio.address)
    expect(page.locator(".drop")).to_be_visible()
    assert page.evaluate(overflow) == 0
    canvas = open_job(page, studio, finished)
    for view in VIEWS:
        choose_view(page, view)
        assert page.evaluate(overflow) == 0, view
    choose_view(page, "result")
    box = canvas.bounding_box()
    assert box["width"] == 400
    assert box["height"] > 400
    for panel in ("Frames", "Tools", "Picture"):
        page.get_by_role("navigation", name="Panels").get_by_role("button", name=panel).click()
        assert page.evaluate(overflow) == 0, panel
    background = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(background) < 60) if scheme == "dark" else (min(background) > 200)


def test_text_is_readable_in_both_schemes_and_the_switch_is_kept(watched, studio):
    page = watched.page
    page.emulate_media(color_scheme="light")
    page.goto(studio.address)
    assert lowest_contrast(page) >= 4.5
    page.locator("#theme").click()
    assert lowest_contrast(page) >= 4.5
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def lowest_contrast(page: Page) -> float:
    """The lowest contrast of our text colours on our surfaces, by the definition of WCAG."""
    ratio: float = page.evaluate(
        """() => {
          const probe = document.body.appendChild(document.createElement("i"));
          const brightness = (name) => {
            probe.style.color = `var(--${name})`;
            const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
            const linear = (part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
            const [red, green, blue] = parts.map(linear);
            return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
          };
          const pairs = [["accent-text", "accent"], ["warn", "warn-soft"]];
          for (const text of ["text", "quiet", "accent"])
            for (const surface of ["page", "panel", "raised"]) pairs.push([text, surface]);
          pairs.push(["text", "well"], ["quiet", "well"]);
          const contrast = ([first, second]) => {
            const [dark, light] = [brightness(first), brightness(second)].sort((one, two) => one - two);
            return (light + 0.05) / (dark + 0.05);
          };
          const lowest = Math.min(...pairs.map(contrast));
          probe.remove();
          return lowest;
        }"""
    )
    return ratio


def test_every_control_has_a_name_for_screen_readers(watched, studio, finished):
    page = watched.page
    open_job(page, studio, finished)
    for tool in ("Retouch", "Save", "Settings"):
        page.get_by_role("tab", name=tool).click()
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("button, a[href], select, input, canvas, [role=slider], iframe")]
              .filter((node) => node.checkVisibility())
              .filter((node) => !(node.getAttribute("aria-label") || node.textContent.trim() || node.title
                || [...(node.labels ?? [])].some((label) => label.textContent.trim())))
              .map((node) => node.outerHTML)"""
        )
        assert nameless == []
    twice = page.evaluate(
        "() => { const ids = [...document.querySelectorAll('[id]')].map((node) => node.id);"
        " return ids.filter((id, place) => ids.indexOf(id) !== place); }"
    )
    assert twice == []


def test_maps_relief_and_benchmarks_are_shown(watched, studio, finished):
    page = watched.page
    open_job(page, studio, finished)
    shown = {}
    for view in ("result", "difference", "depth", "decision", "confidence"):
        choose_view(page, view)
        shown[view] = pixels(page, 0.4, 0.5, 0.6, 0.8).mean(axis=(0, 1))
    for first in shown:
        for second in shown:
            assert first == second or np.abs(shown[first] - shown[second]).max() > 1, (first, second)
    choose_view(page, "relief")
    expect(page.locator("#relief-canvas")).to_have_attribute("data-drawn", "true")
    page.locator("#relief-canvas").focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_role("link", name="Benchmarks").click()
    expect(page.frame_locator("#report-frame iframe").locator("h1")).to_have_text("Two methods on one set")


def test_without_webgl_the_relief_says_so(watched, studio, finished):
    page = watched.page
    page.add_init_script(
        """const plain = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
          return kind === "webgl" ? null : plain.call(this, kind, ...rest);
        };"""
    )
    open_job(page, studio, finished)
    choose_view(page, "relief")
    expect(page.locator("#relief-note")).to_contain_text("WebGL")


def test_another_methods_result_can_be_painted_from(watched, studio, finished):
    page = watched.page
    canvas = open_job(page, studio, finished)
    page.locator("#alternative").select_option(value="average")
    page.locator("#add-alternative").click()
    expect(page.locator('#source option[value="method-average"]')).to_have_count(1, timeout=60 * SECONDS)
    page.locator("#source").select_option(value="method-average")
    page.locator("#brush").click()
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(canvas).to_have_attribute("data-strokes", "1")
    assert studio.job(finished)["strokes"][0]["source"] == "method-average"
    page.locator("#undo").click()
    expect(canvas).to_have_attribute("data-strokes", "0")


def test_another_method_can_be_cancelled_and_the_result_stays(watched, studio, finished, brake):
    page = watched.page
    open_job(page, studio, finished)
    brake.hold()
    page.locator("#alternative").select_option(value="wavelet")
    page.locator("#add-alternative").click()
    expect(page.locator("#alternative-hint")).to_contain_text("at work… ")
    page.locator("#cancel-alternative").click()
    expect(page.locator("#add-alternative")).to_be_enabled()
    expect(page.locator("#alternative-hint")).to_be_empty()
    job = studio.job(finished)
    assert job["state"] == "done"
    assert "method-wavelet" not in job["result"]["layers"]


def test_the_sharpest_frame_under_the_cursor_is_found(watched, studio, finished, frames):
    page = watched.page
    canvas = open_job(page, studio, finished)
    page.keyboard.press("b")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#cursor-place")).to_have_text(re.compile(r"x \d+, y \d+"))
    settle(page)
    column, row = (int(part) for part in re.findall(r"\d+", page.locator("#cursor-place").inner_text()))
    patches = [frame[row - 22 : row + 22, column - 22 : column + 22, 1].astype(float) for frame in frames[:4]]
    detail = [
        np.abs(np.diff(patch, n=2, axis=0)).mean() + np.abs(np.diff(patch, n=2, axis=1)).mean() for patch in patches
    ]
    page.keyboard.press("s")
    expect(page.locator(".message")).to_contain_text("is sharpest here")
    chosen = page.locator("#source option:checked").inner_text()
    assert chosen == f"shot_{int(np.argmax(detail)) + 1}.tif"


@pytest.mark.parametrize("status", [409, 429, 507])
def test_a_refusal_of_the_server_is_shown_in_its_own_words(watched, studio, finished, status):
    page = watched.page
    watched.allow(str(status))
    open_job(page, studio, finished)
    page.get_by_role("tab", name="Settings").click()
    answer = {"error": f"The reason of {status} and its cure."}
    page.route("**/start", lambda route: route.fulfill(status=status, json=answer))
    page.locator("#start").click()
    expect(page.get_by_role("alert").filter(has_text=f"The reason of {status} and its cure.")).to_be_visible()


def test_a_server_that_is_gone_and_a_stack_that_is_gone_are_said_plainly(watched, studio, finished):
    page = watched.page
    watched.allow("404")
    watched.allow("ERR_")
    page.goto(f"{studio.address}/#/stack/{'0' * 24}")
    expect(page.locator(".message.error")).to_be_visible()
    expect(page.locator(".drop")).to_be_visible()
    open_job(page, studio, finished)
    page.get_by_role("tab", name="Settings").click()
    for address in ("**/start", "**/api/health"):
        page.route(address, lambda route: route.abort())
    page.locator("#start").click()
    expect(page.locator(".message.error").last).to_contain_text("allfocus serve")
    page.unroute("**/api/health")
    expect(page.locator(".message.good")).to_contain_text("The server is back.")
    expect(page.locator(".message.error").filter(has_text="allfocus serve")).to_have_count(0)


def test_news_of_the_stack_at_hand_does_not_keep_the_page_from_leaving_it(watched, studio, finished, frame_paths):
    page = watched.page
    page.goto(f"{studio.address}/#/stack/{studio.make_job(frame_paths[:1], 'left behind')}")
    expect(page.locator("#stack-name")).to_have_text("left behind")
    # Between the new address and the browser's word of it, a frame that was on its way has arrived.
    page.evaluate(
        """async (address) => {
          const { setJob, state } = await import("/static/state.js");
          location.hash = address;
          setJob({ ...state.job });
        }""",
        f"#/stack/{finished}",
    )
    expect(page.locator("#stack-name")).to_have_text("finished")
    assert page.url.endswith(f"#/stack/{finished}")


def test_a_missing_token_is_asked_for(watched, studio):
    page = watched.page
    watched.allow("401")
    page.route(
        "**/api/limits",
        lambda route: route.fulfill(status=401, content_type="application/json", body='{"error": "token"}'),
    )
    page.goto(studio.address)
    expect(page.locator("#token-value")).to_be_visible()


def test_a_run_can_be_cancelled_and_started_again(watched, studio, frame_paths, brake):
    page = watched.page
    page.goto(studio.address)
    drop(page, frame_paths)
    expect(page.locator(".card[data-frame]")).to_have_count(COUNT)
    expect(page.locator("#start")).to_be_enabled()
    brake.hold()
    page.locator("#start").click()
    page.locator("#cancel").click()
    expect(page.locator("#trouble")).to_contain_text("Cancelled")
    expect(page.locator("#start")).to_be_enabled()
    identity = page.url.rsplit("/", 1)[1]
    assert studio.job(identity)["state"] == "cancelled"
    brake.release()
    page.locator("#start").click()
    expect(page.locator("body")).to_have_attribute("data-phase", "done", timeout=120 * SECONDS)
    assert studio.job(identity)["state"] == "done"


def test_a_page_that_is_loaded_again_takes_up_the_job_and_the_strokes(watched, studio, frame_paths, brake):
    page = watched.page
    identity = studio.make_job(frame_paths[:3], "loaded again")
    page.goto(f"{studio.address}/#/stack/{identity}")
    expect(page.locator("#start")).to_be_enabled()
    brake.hold()
    page.locator("#start").click()
    expect(page.locator("#steps .present")).to_be_visible()
    page.reload()
    expect(page.locator("#steps .present")).to_be_visible()
    brake.release()
    expect(page.locator("body")).to_have_attribute("data-phase", "done", timeout=120 * SECONDS)

    paint(page, 0.3)
    paint(page, 0.6)
    page.keyboard.press("Control+z")
    expect(page.locator("#canvas")).to_have_attribute("data-strokes", "1")
    expect(page.locator("#canvas")).to_have_attribute("data-busy", "false")
    page.reload()
    expect(page.locator("#canvas")).to_have_attribute("data-strokes", "1")
    page.locator("#redo").click()
    expect(page.locator("#canvas")).to_have_attribute("data-strokes", "2")


def paint(page: Page, share: float) -> None:
    """One dab at a place given as a share of the canvas' width and height."""
    canvas = page.locator("#canvas")
    before = int(canvas.get_attribute("data-strokes") or 0)
    if page.locator("#brush").get_attribute("aria-pressed") != "true":
        page.locator("#brush").click()
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + box["width"] * share, box["y"] + box["height"] * share)
    expect(canvas).to_have_attribute("data-strokes", str(before + 1))
    expect(canvas).to_have_attribute("data-busy", "false")


def test_the_page_outlives_a_server_that_is_killed_and_started_again(watched, frame_paths, tmp_path, brake):
    page = watched.page
    watched.allow("ERR_")  # the browser itself notes each request without an answer
    watched.allow("another host")  # than that of the other tests
    server = Process(tmp_path, [], brake.folder)
    studio = server.start()
    port = int(studio.address.rpartition(":")[2])
    finished, running = (studio.make_job(frame_paths[:2], name) for name in ("finished", "running"))
    studio.fuse(finished, method="average", align=False)
    gone = page.locator(".message").filter(has_text="does not answer")
    try:
        page.goto(f"{studio.address}/#/stack/{running}")
        expect(page.locator("#start")).to_be_enabled()
        brake.hold()
        page.locator("#start").click()
        expect(page.locator("#steps .present")).to_be_visible()
        server.stop(signal.SIGKILL)
        expect(gone).to_be_visible()
        expect(page.locator("#progress-left")).to_have_text("the server does not answer")
        brake.release()
        server.start(port)
        expect(page.locator("#trouble")).to_contain_text("The server stopped while it ran")
        expect(gone).to_have_count(0)

        open_job(page, studio, finished)
        server.stop(signal.SIGKILL)
        page.keyboard.press("c")  # a frame that was not looked at before
        expect(gone).to_be_visible()
        expect(page.locator("#canvas")).to_have_attribute("data-complete", "false")
        server.start(port)
        settle(page)
        expect(gone).to_have_count(0)
        page.goto("about:blank")  # a server that stops answers 500 to what is under way, such as small pictures
    finally:
        server.stop()


def test_a_second_window_shows_what_was_painted_in_the_first(watched, studio, frame_paths):
    page = watched.page
    identity = studio.make_job(frame_paths[::7], "two windows")
    studio.fuse(identity, method="average", align=False)
    open_job(page, studio, identity)
    second = page.context.new_page()
    open_job(second, studio, identity)
    before = pixels(second, 0.4, 0.4, 0.6, 0.6)
    paint(page, 0.5)
    second.evaluate("dispatchEvent(new Event('focus'))")  # a hidden browser has no windows to go to and fro
    expect(second.locator("#canvas")).to_have_attribute("data-strokes", "1")
    settle(second)
    assert np.abs(pixels(second, 0.4, 0.4, 0.6, 0.6) - before).max() > 5
    second.locator("#undo").click()
    expect(second.locator("#canvas")).to_have_attribute("data-strokes", "0")
    paint_and_expect(page, 0.7, strokes=1)  # this window still thought that there was one


def paint_and_expect(page: Page, share: float, *, strokes: int) -> None:
    box = page.locator("#canvas").bounding_box()
    with page.expect_response("**/strokes"):
        page.mouse.click(box["x"] + box["width"] * share, box["y"] + box["height"] * share)
    expect(page.locator("#canvas")).to_have_attribute("data-strokes", str(strokes))


def test_files_dropped_while_the_stack_is_fused_do_not_replace_the_page(watched, studio, frame_paths, brake):
    page = watched.page
    identity = studio.make_job(frame_paths[:2], "busy")
    page.goto(f"{studio.address}/#/stack/{identity}")
    expect(page.locator("#start")).to_be_enabled()
    brake.hold()
    page.locator("#start").click()
    expect(page.locator("#cancel")).to_be_visible()
    drop(page, frame_paths[2:3])
    expect(page.get_by_role("alert").filter(has_text="cannot change while they are being fused")).to_be_visible()
    page.locator("#cancel").click()
    expect(page.locator("#trouble")).to_contain_text("Cancelled")
    assert len(studio.job(identity)["frames"]) == 2


def test_a_file_that_could_not_be_sent_is_sent_again_into_its_place(watched, studio, frame_paths):
    page = watched.page
    watched.allow("429")
    busy = {"error": "the server is busy with other pictures; try again soon"}
    page.route("**/frames?name=shot_2.tif", lambda route: route.fulfill(status=429, json=busy), times=1)
    page.goto(studio.address)
    drop(page, frame_paths[:3])
    expect(page.locator(".card.failed")).to_contain_text("The server is busy with other pictures")
    expect(page.locator(".sending")).to_have_count(0)
    page.get_by_role("button", name="Send shot_2.tif again").click()
    expect(page.locator(".card[data-frame]")).to_have_count(3)
    expect(page.locator(".card-name").nth(1)).to_have_text("shot_2.tif")
    expect(page.locator("#start")).to_be_enabled()


def test_the_order_of_the_user_outlasts_that_of_the_uploads(watched, studio, frame_paths):
    page = watched.page
    held: list[Any] = []
    answered: list[Request] = []

    def hold_first_order(route: Any) -> None:
        if route.request.method == "PUT" and not held:
            held.append(route)
        else:
            route.continue_()

    page.route("**/frames", hold_first_order)
    page.on("requestfinished", lambda request: answered.append(request) if request.method == "PUT" else None)
    page.goto(f"{studio.address}/#/stack/{studio.make_job(frame_paths[:2], 'both orders')}")
    expect(page.locator(".card[data-frame]")).to_have_count(2)
    with page.expect_request(lambda request: request.method == "PUT"):  # in the order of their names
        drop(page, frame_paths[2:3])
    card = page.locator(".card[data-frame]")
    expect(card).to_have_count(3)
    card.nth(0).locator(".card-picture").focus()
    page.keyboard.press("Alt+ArrowRight")
    wanted = ["shot_2.tif", "shot_1.tif", "shot_3.tif"]
    expect(page.locator(".card-name").first).to_have_text(wanted[0])
    both_are_there = lambda request: request.method == "PUT" and len(answered) == 2  # noqa: E731
    with page.expect_event("requestfinished", both_are_there):
        held[0].continue_()
    identity = page.url.rsplit("/", 1)[1]
    assert [frame["name"] for frame in studio.job(identity)["frames"]] == wanted
    expect(page.locator(".card-name").first).to_have_text(wanted[0])
    assert names(page) == wanted


@pytest.mark.parametrize("late", ["shot_1.tif", "shot_2.tif"])
def test_a_card_that_is_dragged_while_a_file_arrives_lands_where_it_is_dropped(watched, studio, frame_paths, late):
    page = watched.page
    held: dict[str, Any] = {}
    for name in (late, "shot_3.tif"):
        page.route(f"**/frames?name={name}", lambda route: held.update({route.request.url.rpartition("=")[2]: route}))
    page.goto(studio.address)
    with page.expect_request("**/frames?name=shot_3.tif"), page.expect_request(f"**/frames?name={late}"):
        drop(page, frame_paths[:3])
    card = page.locator(".card[data-frame]")
    expect(card).to_have_count(1)  # what arrives first comes first, until all are there
    held[late].continue_()
    expect(card).to_have_count(2)
    settle_cards(page)
    first, second = (card_of(page, name).bounding_box() for name in ("shot_1.tif", "shot_2.tif"))
    page.mouse.move(first["x"] + first["width"] / 2, first["y"] + first["height"] / 3)
    page.mouse.down()
    page.mouse.move(second["x"] + second["width"] - 6, second["y"] + second["height"] / 3, steps=5)
    expect(page.locator(".card.dragged")).to_have_count(1)
    with page.expect_response(lambda answer: answer.request.method == "PUT"):  # the last file came, and all in order
        held["shot_3.tif"].continue_()
    settle_cards(page)
    expect(page.locator(".card.dragged")).to_have_count(1)
    page.mouse.move(second["x"] + second["width"] - 8, second["y"] + second["height"] / 3)
    expect(page.locator(".card.drop-after")).to_have_count(1)
    page.mouse.up()
    expect_names(page, ["shot_2.tif", "shot_1.tif", "shot_3.tif"])


def test_a_fusion_waits_until_the_frames_are_in_their_order(watched, studio, frame_paths):
    page = watched.page
    held: dict[str, Any] = {}
    page.route("**/frames?name=shot_1.tif", lambda route: held.update({"upload": route}))
    page.route("**/frames", lambda route: held.update({"order": route}))
    page.goto(studio.address)
    with page.expect_request("**/frames?name=shot_1.tif"):
        drop(page, frame_paths[:2])
    expect_names(page, ["shot_2.tif"])
    with page.expect_request(lambda request: request.method == "PUT"):
        held["upload"].continue_()
    expect_names(page, ["shot_2.tif", "shot_1.tif"])
    page.locator("#option-align").uncheck()
    page.locator("#method").select_option("average")
    page.locator("#start").click()
    settle_cards(page)
    held["order"].continue_()
    expect(page.locator("body")).to_have_attribute("data-phase", "done", timeout=120 * SECONDS)
    identity = page.url.rsplit("/", 1)[1]
    assert studio.job(identity)["result"]["frames"] == ["shot_1.tif", "shot_2.tif"]


def test_an_error_goes_when_the_next_try_begins(watched, studio, frame_paths):
    page = watched.page
    watched.allow("507")
    identity = studio.make_job(frame_paths[:2], "second try")
    page.goto(f"{studio.address}/#/stack/{identity}")
    page.route("**/start", lambda route: route.fulfill(status=507, json={"error": "the work folder is full"}), times=1)
    page.locator("#start").click()
    expect(page.locator(".message.error")).to_have_text("The work folder is full.")
    page.locator("#start").click()
    expect(page.locator("body")).to_have_attribute("data-phase", "done", timeout=120 * SECONDS)
    expect(page.locator(".message.error")).to_have_count(0)


def test_8_bit_frames_too_are_saved_with_16_bits_and_their_command_is_copied(watched, studio, frames, tmp_path):
    page = watched.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    paths = [tmp_path / f"small {number}.tif" for number in range(2)]
    for path, frame in zip(paths, frames, strict=False):
        tifffile.imwrite(path, (frame >> 8).astype(np.uint8), photometric="rgb")
    page.goto(studio.address)
    drop(page, paths)
    expect(page.locator("#start")).to_have_text("Fuse 2 frames")
    page.locator("#method").select_option("average")
    page.locator("#option-align").uncheck()
    page.locator("#start").click()
    expect(page.locator("body")).to_have_attribute("data-phase", "done", timeout=120 * SECONDS)
    page.get_by_role("tab", name="Save").click()
    with page.expect_download() as waiting:
        page.locator("#download-tiff").click()
    assert waiting.value.suggested_filename == "small 0 to small 1-fused.tif"
    assert tifffile.imread(waiting.value.path()).dtype == np.uint16
    page.locator("#copy-command").click()
    expect(page.locator(".message.good")).to_have_text("The command is copied.")
    command = "allfocus fuse 'small 0.tif' 'small 1.tif' -o fused.tif --method average --no-align --bit-depth 16"
    assert page.evaluate("navigator.clipboard.readText()") == command


def test_frames_that_use_little_of_their_range_can_be_seen(watched, studio, frames, tmp_path):
    paths = [tmp_path / f"camera_{number}.tif" for number in range(2)]
    for path, frame in zip(paths, frames, strict=False):
        tifffile.imwrite(path, frame >> 6, photometric="rgb")  # 10 bits in 16
    identity = studio.make_job(paths, "microscope")
    studio.fuse(identity, method="average", align=False)
    page = watched.page
    open_job(page, studio, identity)
    assert pixels(page, 0.3, 0.3, 0.7, 0.7).mean() > 50
    expect(page.locator("#picture-size")).to_contain_text(re.compile("shown [67][0-9] times brighter"))
    page.keyboard.press("1")
    settle(page)
    assert pixels(page, 0.3, 0.3, 0.7, 0.7).mean() > 50
    saved = tifffile.imread(BytesIO(studio.get(f"/api/jobs/{identity}/download?format=tiff")))
    assert saved.max() < 1024


@pytest.mark.parametrize("width", [1280, 1024, 360])
def test_every_view_can_be_chosen_in_every_width(watched, studio, finished, width):
    page = watched.page
    page.set_viewport_size({"width": width, "height": 800})
    open_job(page, studio, finished)
    choose_view(page, "slider")
    bar = page.locator(".stage-bar").bounding_box()
    for view in VIEWS:
        box = page.locator(f'#views label:has(input[value="{view}"])').bounding_box()
        assert box["x"] >= bar["x"], view
        assert box["x"] + box["width"] <= bar["x"] + bar["width"] + 0.5, view


def test_keys_of_the_brush_work_while_a_list_has_the_focus(watched, studio, finished):
    page = watched.page
    open_job(page, studio, finished)
    page.locator("#source").focus()
    before = page.locator("#brush-size-value").inner_text()
    page.keyboard.press("]")
    expect(page.locator("#brush-size-value")).not_to_have_text(before)
    page.locator(".card-picture").first.focus()
    page.keyboard.press("Delete")  # hidden beside a result, where a frame cannot be taken back
    page.keyboard.press("Alt+ArrowDown")
    page.wait_for_function("document.activeElement.matches('.card-picture')")
    assert names(page) == ["shot_1.tif", "shot_2.tif", "shot_3.tif", "shot_4.tif"]


def test_the_legend_of_many_frames_leaves_the_picture_to_be_seen(watched, studio, frame_paths, tmp_path):
    page = watched.page
    paths = [shutil.copy(frame_paths[number % COUNT], tmp_path / f"shot_{number:02d}.tif") for number in range(30)]
    identity = studio.make_job([Path(path) for path in paths], "many")
    studio.fuse(identity, method="depth-map", align=False)
    open_job(page, studio, identity)
    choose_view(page, "decision")
    expect(page.locator("#legend")).to_contain_text("shot_00.tif")
    expect(page.locator("#legend")).to_contain_text("shot_29.tif")
    assert page.locator("#legend").bounding_box()["height"] < 40
    choose_view(page, "result")
    expect(page.locator("#legend")).to_be_hidden()
