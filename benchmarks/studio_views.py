"""Every view of the studio in both themes at three widths: pictures to look at, and what a program can find wrong.

Run: python benchmarks/studio_views.py OUT [--width 390 --width 1440 --width 2560] [--view NAME]
OUT takes the pictures, one sheet of all views for each theme and width, and the frames and jobs (about 150 MB), which
the next run uses again. Printed are, for each view: rules of accessibility that axe-core finds broken, controls that
are cut off at a side, and whether the page is wider than its window. Ends with 1 where there is any.
"""

import argparse
import importlib.util
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import tifffile
from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Page, expect
from studio_browser import call, chromium, fuse, fuse_again, running_studio
from studio_pictures import FRAMES, render, settle, shot

WIDTHS = {390: 844, 1440: 900, 2560: 1440}
"""Pixels across, and down."""
NARROW = 900
THUMBNAIL = 480

CUT_OFF = """() => {
  const kinds = ["auto", "scroll"];
  const scrolls = (box) => kinds.includes(getComputedStyle(box).overflowX) && box.scrollWidth > box.clientWidth;
  const isInside = (node) => {
    for (let box = node.parentElement; box; box = box.parentElement) if (scrolls(box)) return true;
    return false;
  };
  const found = [];
  for (const node of document.querySelectorAll("button, a, input, select, h1, h2, p, label, output")) {
    const box = node.getBoundingClientRect();
    const isSeen = node.checkVisibility({ visibilityProperty: true }) && box.width >= 3;
    if (!isSeen || node.closest(".unseen, .skip, svg")) continue;
    const isCut = box.left < -1 || box.right > innerWidth + 1;
    if (isCut && !isInside(node)) found.push((node.id || node.className || node.textContent).slice(0, 40));
  }
  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) found.push(`the page is ${width} wide`);
  return found;
}"""

PAUSE = """(paused) => fetch("/api/queue/state", {
  method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ paused }),
})"""
QUEUED = ("Moss", "Fern")
"""Stacks that wait in the queue; the first has so many frames that it can be looked at while it is fused."""
SHOOT = {"beetle": 4, "moth": 3, "test shot": 1}
"""Folders of a dropped tree, and the pictures in each."""

Step = Callable[[Page], None]


def panel(page: Page, name: str) -> None:
    """Where the window shows one panel at a time, show this one."""
    button = page.locator(f'[data-panel-button="{name}"]')
    if button.is_visible():
        button.click()


def tab(name: str) -> Step:
    def show(page: Page) -> None:
        panel(page, "tools")
        page.locator(f"#tab-{name}").click()

    return show


def key(letter: str) -> Step:
    def press(page: Page) -> None:
        panel(page, "picture")
        page.keyboard.press(letter)
        settle(page)

    return press


def checked(page: Page) -> None:
    key("n")(page)
    expect(page.locator("#fault-bar")).to_be_visible()


def finish(page: Page) -> None:
    tab("finish")(page)
    page.evaluate("for (const part of document.querySelectorAll('.finish-part')) part.open = true")
    page.locator("#curve-board").scroll_into_view_if_needed()


def export(page: Page) -> None:
    tab("finish")(page)
    page.locator("#finish-export").click()
    expect(page.locator("#export")).to_be_visible()


def shortcuts(page: Page) -> None:
    page.locator("#help").click()
    expect(page.locator("#shortcuts")).to_be_visible()


def tour(page: Page) -> None:
    shortcuts(page)
    page.locator("#tour-start").click()
    expect(page.locator("#tour")).to_be_visible()


def relief(page: Page) -> None:
    panel(page, "picture")
    page.keyboard.press("3")
    expect(page.locator("#relief-canvas")).to_have_attribute("data-drawn", "true")


def brush(page: Page) -> None:
    tab("retouch")(page)
    page.locator("#brush").click()


def nothing(page: Page) -> None:
    panel(page, "picture")
    settle(page)


def flicker(page: Page) -> None:
    """Two results in turn."""
    key("f")(page)
    expect(page.locator('#against-select optgroup[label="Results"] option')).to_have_count(1)
    page.locator("#against-select").select_option(label="guided-filter")
    settle(page)


def progress(page: Page) -> None:
    """A stack that is being fused; it is large enough to be looked at meanwhile."""
    panel(page, "tools")
    page.locator("#start").click()
    expect(page.locator("#steps .present")).to_contain_text("2 of")


def cancel(page: Page) -> None:
    page.locator("#cancel").click()
    expect(page.locator("#progress")).to_be_hidden()


def queue(page: Page) -> None:
    """Two stacks that wait for their turn."""
    page.evaluate(PAUSE, True)
    for name in QUEUED:
        page.locator(".library-row").filter(has_text=name).get_by_role("checkbox").check()
    page.locator("#library-fuse").click()
    expect(page.locator("#queue-list li")).to_have_count(2)


def leave_queue(page: Page) -> None:
    for name in QUEUED:
        page.get_by_role("button", name=f"Cancel: {name}").click()
        expect(page.locator("#queue-list li").filter(has_text=name)).to_have_count(0)
    page.evaluate(PAUSE, False)


def intake(shoot: Path) -> Step:
    """A tree of folders as the stacks that it holds, before anything starts."""

    def show(page: Page) -> None:
        page.set_input_files("#choose-tree", shoot)
        expect(page.locator(".intake-row")).to_have_count(len(SHOOT))

    return show


def close_intake(page: Page) -> None:
    page.locator("#intake footer [data-close]").click()
    expect(page.locator("#intake")).to_be_hidden()


class View(NamedTuple):
    """One view of the studio."""

    place: str
    """Its address, with the names of stacks in braces."""
    show: Step
    leave: Step = lambda page: None
    """What puts everything back."""


VIEWS: dict[str, View] = {
    "welcome": View("#/", lambda page: expect(page.locator("#welcome-title")).to_be_visible()),
    "tour": View("#/", tour),
    "help": View("#/", shortcuts),
    "library": View("#/library", lambda page: expect(page.locator("#library-list li").first).to_be_visible()),
    "queue": View("#/library", queue, leave_queue),
    "benchmarks": View("#/benchmarks", lambda page: expect(page.locator("#benchmarks-title")).to_be_visible()),
    "stack": View("#/stack/{waiting}", lambda page: expect(page.locator(".card[data-frame]")).to_have_count(FRAMES)),
    "options": View("#/stack/{waiting}", lambda page: panel(page, "tools")),
    "progress": View("#/stack/{slow}", progress, cancel),
    "result": View("#/stack/{done}", nothing),
    "results": View("#/stack/{done}", lambda page: panel(page, "frames")),
    "compare": View("#/stack/{done}", key("c")),
    "side": View("#/stack/{done}", key("x")),
    "flicker": View("#/stack/{done}", flicker),
    "difference": View("#/stack/{done}", key("d")),
    "depth": View("#/stack/{done}", key("m")),
    "3d": View("#/stack/{done}", relief),
    "finished": View("#/stack/{done}", key("w")),
    "faults": View("#/stack/{done}", tab("check")),
    "checking": View("#/stack/{done}", checked),
    "brush": View("#/stack/{done}", brush),
    "finish": View("#/stack/{done}", finish),
    "export": View("#/stack/{done}", export),
    "save": View("#/stack/{done}", tab("save")),
    "settings": View("#/stack/{done}", tab("settings")),
}


def broken_rules(page: Page) -> list[str]:
    """What axe-core finds, a line for each node."""
    found_at = importlib.util.find_spec("axe_playwright_python")
    if found_at is None or found_at.origin is None:
        raise SystemExit("no axe-core found: pip install axe-playwright-python")
    page.evaluate(Path(found_at.origin).with_name("axe.min.js").read_text(encoding="utf-8"))
    found = json.loads(page.evaluate("async () => JSON.stringify((await axe.run(document)).violations)"))
    return [f"{rule['id']}: {node['html'][:80]}" for rule in found for node in rule["nodes"]]


def make_sheet(pictures: dict[str, Image.Image]) -> Image.Image:
    """All pictures beside each other, smaller, with their names."""
    across = max(1, round(math.sqrt(len(pictures))) + 1)
    first = next(iter(pictures.values()))
    width = min(THUMBNAIL, first.width)
    height = round(first.height * width / first.width)
    rows = -(-len(pictures) // across)
    sheet = Image.new("RGB", (across * (width + 8), rows * (height + 24)), "#777777")
    for place, (name, picture) in enumerate(pictures.items()):
        x, y = place % across * (width + 8), place // across * (height + 24)
        sheet.paste(picture.resize((width, height), Image.Resampling.LANCZOS), (x, y + 16))
        ImageDraw.Draw(sheet).text((x + 2, y + 1), name, fill="white")
    return sheet


def look(
    browser: Browser,
    address: str,
    names: dict[str, str],
    width: int,
    theme: Literal["light", "dark"],
    views: dict[str, View],
) -> tuple[dict[str, Image.Image], int]:
    """The picture of each view, and how many faults were found and printed."""
    context = browser.new_context(
        viewport={"width": width, "height": WIDTHS.get(width, 900)}, color_scheme=theme, reduced_motion="reduce"
    )
    context.add_init_script("localStorage.setItem('allfocus-tour', 'seen')")
    pictures, faults = {}, 0
    for name, (place, show, leave) in views.items():
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto(f"{address}/{place.format(**names)}")
        page.wait_for_function("document.body.dataset.phase !== undefined && document.fonts.status === 'loaded'")
        if "{done}" in place:
            expect(page.locator("body")).to_have_attribute("data-phase", "done")
        if "{waiting}" in place:
            expect(page.locator("body")).to_have_attribute("data-phase", "prepare")
        show(page)
        page.wait_for_timeout(300)
        pictures[name] = shot(page)
        problems = [*broken_rules(page), *(f"cut off: {what}" for what in page.evaluate(CUT_OFF))]
        faults += len(problems)
        print(f"| {width} | {theme} | {name} | {'; '.join(problems) or 'nothing'} |", flush=True)
        leave(page)
        page.close()
    context.close()
    return pictures, faults


def fused_twice(address: str, paths: list[Path]) -> str:
    """The id of a stack with two results, of which the one that lost detail is open."""
    identity = fuse(address, "Legs on a leaf", paths, method="guided-filter", align=False)
    if len(call(address, f"/api/jobs/{identity}")["results"]) < 2:
        fuse_again(address, identity, method="dct-corr", align=False)
    return identity


def waiting_stack(address: str, name: str, paths: list[Path]) -> str:
    """The id of a stack that is not fused: one of an earlier run, else a new one."""
    for job in call(address, "/api/jobs"):
        if job["name"] == name:
            return str(job["id"])
    identity = str(call(address, "/api/jobs", {"name": name})["id"])
    for path in paths:
        call(address, f"/api/jobs/{identity}/frames?name={path.name}", path)
    return identity


def make_shoot(folder: Path, paths: list[Path]) -> Path:
    """A tree of folders with small pictures."""
    for name, count in SHOOT.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for path in paths[:count]:
            pixels = (tifffile.imread(path)[::4, ::4] >> 8).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / path.with_suffix(".jpg").name)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--width", type=int, action="append")
    parser.add_argument("--view", action="append")
    arguments = parser.parse_args()
    out: Path = arguments.out
    legs = render(out / "legs", "legs")
    views = {**VIEWS, "intake": View("#/library", intake(make_shoot(out / "shoot", legs)), close_intake)}
    views = {name: view for name, view in views.items() if name in (arguments.view or views)}
    faults = 0
    with running_studio(out) as address, chromium() as browser:
        names = {
            "done": fused_twice(address, legs),
            "waiting": waiting_stack(address, "Beetle, second try", legs),
            "slow": waiting_stack(address, QUEUED[0], 4 * legs),
            "next": waiting_stack(address, QUEUED[1], legs[:3]),
        }
        print("| width | theme | view | found |\n|---|---|---|---|")
        for width in arguments.width or WIDTHS:
            for theme in ("light", "dark"):
                pictures, found = look(browser, address, names, width, theme, views)
                faults += found
                for name, picture in pictures.items():
                    picture.save(out / f"{width}-{theme}-{name}.png")
                make_sheet(pictures).save(out / f"sheet-{width}-{theme}.png")
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
