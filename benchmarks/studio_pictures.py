"""The pictures of docs/how-to/studio-tour.md, taken from the running studio with scenes that are rendered here.

Run: python benchmarks/studio_pictures.py [FOLDER]
Writes docs/images/studio_*.webp. FOLDER holds the frames and the server's jobs (about 300 MB); else a temporary one.
"""

import argparse
import io
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np
import tifffile
from PIL import Image
from playwright.sync_api import Browser, Page, expect
from studio_browser import chromium, fuse, running_studio

from allfocus.scenes.rendering import render_scene

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
FRAMES, SIZE = 8, (1000, 1500)
WIDE, NARROW = (1360, 850), (400, 780)


def render(folder: Path, scene: str) -> list[Path]:
    """The frames of a scene as 16-bit TIFF, named as a camera would."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{scene.upper()[:3]}_{number:04d}.tif" for number in range(101, 101 + FRAMES)]
    if not all(path.exists() for path in paths):
        rendered = render_scene(scene, frames=FRAMES, size=SIZE, bit_depth=16, noise=0.002)
        for path, frame in zip(paths, rendered.frames, strict=True):
            tifffile.imwrite(path, np.rint(frame * 65535).astype(np.uint16), photometric="rgb")
    return paths


def open_page(browser: Browser, size: tuple[int, int], scheme: Literal["light", "dark"]) -> Page:
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    context.set_default_timeout(120_000)
    return context.new_page()


def shot(page: Page) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def save(name: str, *pictures: Image.Image) -> None:
    """One picture, or several side by side, as WebP."""
    gap = 24
    width = sum(picture.width for picture in pictures) + gap * (len(pictures) - 1)
    whole = Image.new("RGB", (width, max(picture.height for picture in pictures)), "white")
    left = 0
    for picture in pictures:
        whole.paste(picture, (left, 0))
        left += picture.width + gap
    target = IMAGES / f"studio_{name}.webp"
    whole.save(target, quality=82, method=6)
    print(f"{target.name} {whole.width} x {whole.height}, {target.stat().st_size // 1024} KB")


def settle(page: Page) -> None:
    page.wait_for_timeout(400)
    expect(page.locator("#canvas")).to_have_attribute("data-complete", "true")
    page.wait_for_timeout(200)


def open_result(page: Page, address: str, identity: str, key: str) -> None:
    """The result in the view of a key, against the sixth frame, which is sharp far away."""
    page.goto(f"{address}/#/stack/{identity}")
    expect(page.locator("body")).to_have_attribute("data-phase", "done")
    for press in [*".....", key]:
        page.keyboard.press(press)
    if key != "3":
        settle(page)


def frames_and_progress(browser: Browser, address: str, paths: list[Path]) -> None:
    page = open_page(browser, WIDE, "light")
    page.goto(address)
    page.set_input_files("#choose-files", paths)
    expect(page.locator(".card[data-frame]")).to_have_count(FRAMES)
    expect(page.locator("#start")).to_be_enabled()
    page.locator(".card input[type=checkbox]").last.uncheck()
    expect(page.locator("#start")).to_have_text(f"Fuse {FRAMES - 1} frames")
    page.wait_for_timeout(800)
    save("frames", shot(page))
    page.locator("#start").click()
    expect(page.locator("#steps .present")).to_contain_text("Fusing")
    save("progress", shot(page))
    page.locator("#cancel").click()
    expect(page.locator("#trouble")).to_be_visible()


def retouching(page: Page, address: str, identity: str) -> None:
    """A stroke that is being painted, with the source beside the result."""
    open_result(page, address, identity, "x")
    page.locator("#source").select_option(index=2)
    page.locator("#brush").click()
    page.keyboard.press("1")
    for _ in range(5):
        page.keyboard.press("]")
    settle(page)
    box = page.locator("#canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + 0.69 * box["width"], box["y"] + 0.3 * box["height"]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 110, y + 60, steps=12)
    settle(page)
    save("retouch", shot(page))
    page.mouse.up()
    expect(page.locator("#canvas")).to_have_attribute("data-busy", "false")
    page.locator("#undo").click()
    expect(page.locator("#canvas")).to_have_attribute("data-strokes", "0")
    page.locator("#brush").click()


def checking(page: Page, address: str, identity: str) -> None:
    """A place that lost detail, beside the frame that has it."""
    page.goto(f"{address}/#/stack/{identity}")
    expect(page.locator("#tab-check .badge")).to_be_visible()
    page.keyboard.press("n")
    settle(page)
    save("check", shot(page))


def finishing(page: Page, address: str, identity: str) -> None:
    """The frame of a crop over a picture with tones, and the finished picture with its scale bar."""
    page.goto(f"{address}/#/stack/{identity}")
    expect(page.locator("body")).to_have_attribute("data-phase", "done")
    page.locator("#tab-finish").click()
    for name, value in (("exposure", 0.4), ("contrast", 30), ("temperature", -15)):
        page.locator(f"#finish-{name}").fill(str(value))
    page.evaluate("for (const part of document.querySelectorAll('.finish-part')) part.open = true")
    page.locator("#finish-angle").fill("4")
    page.locator("#crop").click()
    page.locator(".tools").evaluate("panel => panel.scrollTo(0, 0)")
    settle(page)
    first = shot(page)
    page.locator("#bar-pixel").fill("2.4")
    page.locator("#bar-on").click()
    page.locator("#finish-look").click()
    expect(page.locator("#finish-state")).to_contain_text("kept")
    settle(page)
    save("finish", first.resize((816, 510)), shot(page).resize((816, 510)))
    page.locator("#finish-reset").click()
    expect(page.locator("#finish-state")).to_contain_text("kept")


def animation(page: Page, address: str, identity: str) -> None:
    """The slider moving over the picture and back."""
    page.set_viewport_size({"width": 1180, "height": 740})
    open_result(page, address, identity, "c")
    page.locator("#handle").focus()
    page.keyboard.press("Home")
    for _ in range(4):
        page.keyboard.press("PageUp")
    pictures = []
    for key in ["ArrowRight"] * 18 + ["ArrowLeft"] * 18:
        page.keyboard.press(key)
        page.wait_for_timeout(60)
        pictures.append(shot(page).resize((885, 555), Image.Resampling.LANCZOS))
    target = IMAGES / "studio_tour.webp"
    pictures[0].save(target, save_all=True, append_images=pictures[1:], duration=90, loop=0, quality=60, method=6)
    print(f"studio_tour.webp, {target.stat().st_size // 1024} KB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    folder = parser.parse_args().folder or Path(tempfile.mkdtemp(prefix="allfocus-studio-"))
    desk, insect = render(folder / "desk", "desk"), render(folder / "insect", "insect")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with running_studio(folder) as address, chromium() as browser:
        frames_and_progress(browser, address, desk)
        first = fuse(address, "Desk", desk, method="ips", align=True)
        second = fuse(address, "Insect", insect, method="ips", align=True)
        light, dark, phone = (
            open_page(browser, WIDE, "light"),
            open_page(browser, WIDE, "dark"),
            open_page(browser, NARROW, "dark"),
        )
        open_result(light, address, first, "c")
        save("slider", shot(light))
        retouching(light, address, second)
        legs = render(folder / "legs", "legs")
        checking(light, address, fuse(address, "Legs", legs, method="dct-corr", align=False))
        finishing(light, address, second)
        open_result(dark, address, first, "m")
        depth = shot(dark)
        dark.keyboard.press("3")
        expect(dark.locator("#relief-canvas")).to_have_attribute("data-drawn", "true")
        dark.wait_for_timeout(500)
        save("depth", depth.resize((816, 510)), shot(dark).resize((816, 510)))
        open_result(dark, address, second, "c")
        save("dark", shot(dark))
        open_result(phone, address, second, "c")
        picture = shot(phone)
        phone.get_by_role("navigation", name="Panels").get_by_role("button", name="Tools").click()
        tools = shot(phone)
        phone.get_by_role("navigation", name="Panels").get_by_role("button", name="Frames").click()
        phone.wait_for_timeout(500)
        save("narrow", shot(phone), picture, tools)
        animation(light, address, first)


if __name__ == "__main__":
    main()
