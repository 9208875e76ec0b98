"""The brush of the studio in a real Chromium: its mask is the server's, and what is chosen arrives in the stroke."""

import base64
import io
import json
from typing import Any

import cv2
import numpy as np
import pytest
import studio_window as window
import tifffile
from PIL import Image
from playwright.sync_api import Page, expect

from allfocus.web.dabs import DabMask
from allfocus.web.stroke import Stroke

studio, browser, watched = window.studio, window.browser, window.watched  # its fixtures

WIDTH, HEIGHT = 600, 400
EDGE = 300
WARM = np.array([1.06, 1.0, 0.92])

MASK = """async (stroke) => {
  const { maskOf } = await import("/static/stroke_masks.js");
  for (;;) {
    const { level, tiles, isComplete } = maskOf(stroke);
    const bytes = (values) => [...new Uint8Array(values.buffer)];
    const text = (values) => btoa(bytes(values).map((byte) => String.fromCharCode(byte)).join(""));
    const plain = tiles.map(({ column, row, width, height, values }) =>
      ({ column, row, width, height, values: text(values.slice(0, width * height)) }));
    if (isComplete) return { level, tiles: plain };
    await new Promise((done) => requestAnimationFrame(done));
  }
}"""


SHOWS = """([x, y, wanted]) => {
  const canvas = document.getElementById("canvas");
  const box = canvas.getBoundingClientRect();
  const copy = new OffscreenCanvas(8, 8).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 4 - (x - box.left), 4 - (y - box.top));
  const { data } = copy.getImageData(0, 0, 8, 8);
  return wanted.every((value, channel) => {
    const mean = data.filter((_, place) => place % 4 === channel).reduce((sum, own) => sum + own, 0) / 64;
    return Math.abs(mean - value) < 2.5;
  });
}"""


DRAG_OF = """([kind, start, end]) => {
  const canvas = document.getElementById("canvas");
  canvas.setPointerCapture = () => {};
  const send = (name, share) => canvas.dispatchEvent(new PointerEvent(name, {
    pointerId: 7, pointerType: kind, button: 0, buttons: 1, bubbles: true, pressure: 0.25 + 0.5 * share,
    clientX: start[0] + share * (end[0] - start[0]), clientY: start[1] + share * (end[1] - start[1]) }));
  send("pointerdown", 0);
  send("pointermove", 0.5);
  send("pointermove", 1);
  send("pointerup", 1);
}"""


@pytest.fixture(scope="module")
def job(studio: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Frames that are dark on the left and bright on the right, with noise; the second darker and warmer."""
    random = np.random.default_rng(4)
    folder, paths = tmp_path_factory.mktemp("halves"), []
    for number, light in enumerate((1.0, 2 / 3 * WARM, 1.0, 1.0)):
        frame = np.where(np.arange(WIDTH) < EDGE, 0.3, 0.7)[None, :, None] * np.ones((HEIGHT, 1, 3))
        frame = light * frame + 0.01 * random.standard_normal(frame.shape)
        paths.append(folder / f"half_{number}.tif")
        tifffile.imwrite(paths[-1], np.rint(65535 * frame.clip(0, 1)).astype(np.uint16), photometric="rgb")
    identity: str = studio.make_job(paths, "halves")
    studio.fuse(identity, method="average", align=False)
    return identity


@pytest.fixture
def page(watched: Any, studio: Any, job: str) -> Page:
    """The result at one pixel on one pixel, without strokes, painted from the darker frame."""
    while studio.job(job)["strokes"]:
        studio.send(f"/api/jobs/{job}/undo")
    opened: Page = watched.page
    window.open_job(opened, studio, job)
    opened.keyboard.press("1")
    opened.locator("#source").select_option(label="half_1.tif")
    opened.keyboard.press("b")
    window.settle(opened)
    return opened


def set_range(page: Page, name: str, value: int) -> None:
    page.locator(f"#brush-{name}").evaluate(
        "(field, value) => { field.value = value; field.dispatchEvent(new Event('input')); }", value
    )


def drag(page: Page, points: list[tuple[float, float]]) -> None:
    """Draw a line with the brush and wait until the server has painted it."""
    count = page.locator("#canvas").get_attribute("data-strokes")
    page.mouse.move(*window.place_on_screen(page, *points[0]))
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*window.place_on_screen(page, *point), steps=8)
    page.mouse.up()
    expect(page.locator("#canvas")).to_have_attribute("data-strokes", str(int(count or 0) + 1))
    expect(page.locator("#canvas")).to_have_attribute("data-busy", "false")


def result_of(studio: Any, job: str) -> np.ndarray:
    return np.asarray(tifffile.imread(io.BytesIO(studio.get(f"/api/jobs/{job}/download?format=tiff"))), np.float64)


STROKES = {
    "flow": {"flow": 0.13},
    "pen": {"pen": "both", "pressures": [0.1, 1.0, 0.4]},
    "tolerance": {"tolerance": 0.2},
    "all": {"flow": 0.3, "tolerance": 0.1, "pen": "both", "pressures": [0.3, 0.7, 1.0], "hardness": 1.0},
    "a large brush": {"tolerance": 0.2, "flow": 0.5, "radius": 150.0},
    "beyond the edge": {"tolerance": 0.2, "points": [[-20.0, -9.5], [620.5, 410.0]]},
}


def test_the_mask_of_the_page_is_that_of_the_server_bit_for_bit(page: Page, studio: Any, job: str) -> None:
    source = f"frame-{studio.job(job)['frames'][1]['id']}"
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    def read(level: int, column: int, row: int) -> np.ndarray:
        content = studio.get(f"/api/jobs/{job}/tiles/{source}/{level}/{column}/{row}?smoothed=true")
        return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))

    for name, change in STROKES.items():
        values: dict[str, Any] = {"points": [[280.5, 200.0], [250.1, 333.3], [301.0, 120.7]], "radius": 47.0}
        values |= {"hardness": 0.4, **change}
        drawn = page.evaluate(MASK, {"source": source, **values})
        assert drawn["level"] == (2 if name == "a large brush" else 0), name
        assert drawn["tiles"], name
        mask, whole = DabMask(Stroke("s", source, **values), WIDTH, HEIGHT, read), 0.0
        assert drawn["level"] == mask.level
        for tile in drawn["tiles"]:
            left, top = 256 * tile["column"], 256 * tile["row"]
            region = (left, top, left + tile["width"], top + tile["height"])
            wanted = mask.on_level(region)
            assert np.array_equal(np.frombuffer(base64.b64decode(tile["values"])).reshape(wanted.shape), wanted), name
            whole = max(whole, float(wanted.max()))
        assert whole > 0.1, name
    assert any("smoothed=true" in url for url in asked)


def test_a_brush_that_stays_inside_paints_one_thing_and_shows_before_what_it_will_do(
    page: Page, studio: Any, job: str
) -> None:
    before = result_of(studio, job)
    page.keyboard.press("a")
    expect(page.locator("#brush-stays")).to_be_checked()
    set_range(page, "tolerance", 20)
    set_range(page, "size", 60)
    drag(page, [(EDGE - 12, 150), (EDGE - 12, 250)])
    stroke = studio.job(job)["strokes"][-1]
    assert stroke["tolerance"] == 0.2
    after = result_of(studio, job)
    changed = np.abs(after - before).max(axis=2) > 2000
    assert changed[160:240, EDGE - 25 : EDGE - 2].all()
    assert not changed[:, EDGE + 2 :].any()
    expect(page.locator("#stroke-list")).to_contain_text("half_1.tif, inside")
    page.keyboard.press("a")
    drag(page, [(EDGE - 12, 150), (EDGE - 12, 250)])
    assert studio.job(job)["strokes"][-1]["tolerance"] is None
    assert np.abs(result_of(studio, job) - before)[200, EDGE + 8].max() > 2000


def test_the_preview_of_a_brush_that_stays_inside_is_what_the_server_paints(page: Page, studio: Any, job: str) -> None:
    page.keyboard.press("a")
    set_range(page, "flow", 40)
    set_range(page, "size", 60)
    window.settle(page)
    page.route("**/strokes", lambda route: None)  # so that all that is seen is the page's own
    page.mouse.move(*window.place_on_screen(page, EDGE - 12, 150))
    page.mouse.down()
    page.mouse.move(*window.place_on_screen(page, EDGE - 12, 250), steps=8)
    # Put into the picture by the page alone: seen as soon as the colours of the source are here.
    x, y = window.place_on_screen(page, EDGE - 12, 180)
    box = page.locator("#canvas").bounding_box()
    assert box is not None

    def shown() -> np.ndarray:
        left, top = (x - box["x"] - 40) / box["width"], (y - box["y"] - 10) / box["height"]
        return window.pixels(page, left, top, left + 80 / box["width"], top + 20 / box["height"])

    page.wait_for_function(
        """async ([x, y]) => {
          const canvas = document.getElementById("canvas");
          const box = canvas.getBoundingClientRect();
          const [red] = canvas.getContext("2d").getImageData(x - box.left, y - box.top, 1, 1).data;
          return red < 65;
        }""",
        arg=[x, y],
    )
    seen = shown()
    page.mouse.up()
    page.unroute("**/strokes")
    stroke = page.evaluate("""async () => (await import("/static/strokes.js")).notInTiles(0)[0]""")
    body = {name: stroke[name] for name in ("source", "points", "radius", "hardness", "flow", "tolerance")}
    studio.send(f"/api/jobs/{job}/strokes", json.dumps(body).encode())
    painted = result_of(studio, job)[170:190, EDGE - 52 : EDGE + 28] / 257
    assert np.abs(cv2.blur(seen, (3, 3)) - cv2.blur(painted, (3, 3)))[2:-2, 2:-2].max() < 12
    assert np.abs(seen - painted).mean() < 3


def test_the_brightness_of_the_source_is_matched_to_what_is_around(page: Page, studio: Any, job: str) -> None:
    before = result_of(studio, job)
    page.get_by_text("More of the brush").click()
    page.locator("#brush-matches").check(force=True)
    set_range(page, "size", 60)
    window.settle(page)
    x, y = window.place_on_screen(page, 150, 200)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 10, y, steps=4)
    # The preview is what will be painted: as the result is around it, and neither dark nor warm.
    page.wait_for_function(SHOWS, arg=[x, y, (before[190:210, 140:160].mean(axis=(0, 1)) / 257).tolist()])
    page.mouse.up()
    expect(page.locator("#canvas")).to_have_attribute("data-strokes", "1")
    stroke = studio.job(job)["strokes"][-1]
    assert stroke["gain"] == pytest.approx(before[:, :EDGE].mean() / (65535 * 0.3 * 2 / 3), rel=0.03)
    light = before[:, :EDGE].mean(axis=(0, 1)) / (65535 * 0.3 * 2 / 3 * WARM)
    assert stroke["gain"] * np.array(stroke["tint"]) == pytest.approx(light, rel=0.03)
    after = result_of(studio, job)
    assert np.abs(after - before)[195:205, 145:165].mean(axis=(0, 1)).max() < 1500
    assert np.abs((after - before)[195:205, 145:165].mean(axis=(0, 1))).max() < 600
    page.locator("#brush-matches").uncheck(force=True)
    drag(page, [(150, 200), (160, 200)])
    assert studio.job(job)["strokes"][-1]["gain"] == 1
    assert (before - result_of(studio, job))[195:205, 145:165].mean() > 2500


def test_the_pressure_of_a_pen_goes_into_the_stroke_as_it_is_chosen(page: Page, studio: Any, job: str) -> None:
    page.get_by_text("More of the brush").click()
    start, end = window.place_on_screen(page, 150, 100), window.place_on_screen(page, 250, 100)
    for number, (use, kind) in enumerate((("size", "pen"), ("both", "pen"), ("none", "pen"), ("size", "mouse"))):
        page.locator("#brush-pen").select_option(use)
        page.evaluate(DRAG_OF, [kind, start, end])
        expect(page.locator("#canvas")).to_have_attribute("data-strokes", str(number + 1))
        stroke = studio.job(job)["strokes"][-1]
        is_used = use != "none" and kind == "pen"
        assert (stroke["pen"], stroke["pressures"]) == ((use, [0.25, 0.5, 0.75]) if is_used else ("none", []))


def test_thumbnails_leave_the_connections_to_the_result_until_it_is_there(watched: Any, studio: Any, job: str) -> None:
    page, asked, held, is_held = watched.page, [], [], True
    page.on("request", lambda request: asked.append(request.url))
    page.route("**/tiles/result/**", lambda route: held.append(route) if is_held else route.continue_())
    page.goto(f"{studio.address}/#/stack/{job}")
    expect(page.locator(".card[data-frame] img")).to_have_count(4)
    expect(page.locator("#canvas")).to_have_attribute("data-complete", "false")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert held
    assert not [url for url in asked if url.endswith("/thumbnail")]
    is_held = False
    for route in held:
        route.continue_()
    expect(page.locator("#canvas")).to_have_attribute("data-complete", "true")
    page.wait_for_function("() => [...document.querySelectorAll('.card img')].every((img) => img.naturalWidth > 0)")
