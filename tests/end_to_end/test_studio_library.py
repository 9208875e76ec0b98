"""The studio's library in a real Chromium: trees cut into stacks, the queue, names, sizes, deletion, projects."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import studio_window as window
from playwright.sync_api import expect

browser, watched, studio = window.browser, window.watched, window.studio
frames, frame_paths = window.frames, window.frame_paths
drop, settle = window.drop, window.settle

NAMELESS = """() => [...document.querySelectorAll("button, a[href], select, input, progress")]
  .filter((node) => node.checkVisibility() && !node.closest("[aria-hidden=true]"))
  .filter((node) => !(node.getAttribute("aria-label") || node.textContent.trim() || node.title
    || [...(node.labels ?? [])].some((label) => label.textContent.trim())))
  .map((node) => node.outerHTML)"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def shoot(tmp_path: Path, frame_paths: list[Path]) -> Path:
    """A tree with two stacks, a picture by itself, and what else lies about."""
    for stack, count in (("beetle", 2), ("watch", 3), ("alone", 1)):
        (tmp_path / "shoot" / stack).mkdir(parents=True)
        for path in frame_paths[:count]:
            shutil.copy(path, tmp_path / "shoot" / stack / path.name)
    (tmp_path / "shoot" / "notes.txt").write_text("no picture")
    return tmp_path / "shoot"


def jobs(studio: Any) -> dict[str, Any]:
    return {job["name"]: job for job in json.loads(studio.get("/api/library"))["jobs"]}


def clear(studio: Any) -> None:
    """An empty library, so that tests do not see each other's stacks."""
    studio.send("/api/queue/state", b'{"paused": false}', "PUT")
    for job in jobs(studio).values():
        urllib_delete(studio, job["id"])


def urllib_delete(studio: Any, own: str) -> None:
    import urllib.request

    with urllib.request.urlopen(urllib.request.Request(f"{studio.address}/api/jobs/{own}", method="DELETE")):
        return


def row(page: Any, name: str) -> Any:
    return page.locator(".library-row").filter(has_text=name)


def test_a_preview_that_was_overtaken_is_let_go(watched, studio, shoot):
    """Its answer could come when the tree is gone, as a refusal that nobody asked for."""
    page = watched.page
    page.goto(studio.address)
    drop(page, [shoot])
    rows = page.locator(".intake-row")
    expect(rows).to_have_count(3)
    page.route("**/stacks?by=file", lambda route: None)  # the server takes its time
    page.locator("#intake-ways input:checked").focus()
    with page.expect_event("requestfailed", lambda request: request.url.endswith("by=file")):
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowRight")
    expect(rows).to_have_count(3)
    expect(page.locator(".message.error")).to_have_count(0)


def test_a_dropped_tree_is_shown_in_stacks_before_anything_starts(watched, studio, shoot):
    page = watched.page
    clear(studio)
    page.goto(studio.address)
    drop(page, [shoot])
    rows = page.locator(".intake-row")
    expect(rows).to_have_count(3)
    assert jobs(studio) == {}
    expect(rows.nth(0).locator(".bad")).to_have_text("Has one picture; a stack needs at least two.")
    expect(rows.nth(0).get_by_role("checkbox")).not_to_be_checked()
    # Cut in another way, and back: a preview costs nothing.
    page.locator("#intake-ways input:checked").focus()
    page.keyboard.press("ArrowLeft")
    expect(rows).to_have_count(6)
    expect(page.locator("#intake-ways input:checked")).to_have_value("file")
    page.keyboard.press("ArrowLeft")
    expect(rows).to_have_count(2)
    expect(page.locator("#intake-left-out summary")).to_have_text("1 picture in no stack")
    expect(page.locator("#intake-left-out li")).to_have_text("shoot/alone/shot_1.tif: stands alone")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(rows).to_have_count(3)
    expect(page.locator("#intake-left-out")).to_be_hidden()
    assert jobs(studio) == {}
    assert page.evaluate(NAMELESS) == []
    page.get_by_label("Name of stack 2").fill("Rose chafer")
    page.get_by_role("button", name="Add and fuse 2 stacks").click()
    expect(page.locator("body")).to_have_attribute("data-page", "library")
    for name in ("Rose chafer", "watch"):
        expect(row(page, name).locator("[data-about]")).to_contain_text("fused,")
    assert sorted(jobs(studio)) == ["Rose chafer", "watch"]
    expect(page.locator("#queue")).to_be_hidden()


def test_two_stacks_in_one_folder_are_not_interleaved(watched, studio, frame_paths, tmp_path):
    page = watched.page
    clear(studio)
    folder = tmp_path / "card"
    folder.mkdir()
    for number in (1, 2, 3, 11, 12):
        shutil.copy(frame_paths[number % 3], folder / f"DSC_{number:04}.tif")
    page.goto(studio.address)
    page.set_input_files("#choose-folder", folder)
    expect(page.locator(".intake-row")).to_have_count(2)
    expect(page.locator("#intake-ways input:checked")).to_have_value("number")
    expect(page.locator(".intake-row small").nth(1)).to_contain_text("DSC_0011.tif to DSC_0012.tif")
    page.keyboard.press("Escape")
    expect(page.locator("#intake")).to_be_hidden()
    assert jobs(studio) == {}


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    """An OME-Zarr of two times, two channels and three planes; in the second time the channels are even."""
    zarr = pytest.importorskip("zarr", reason="needs the extra batch")
    stripes = np.where(np.arange(96) // 2 % 2, 40_000, 10_000)
    planes = np.full((2, 2, 3, 72, 96), 10_000, np.uint16)
    for plane in range(3):
        planes[0, :, plane, 24 * plane : 24 * plane + 24] = stripes
    planes[0, 1] //= 10
    group = zarr.open_group(str(tmp_path / "cells.ome.zarr"), mode="w", zarr_format=2)
    array = group.create_array("0", shape=planes.shape, chunks=(1, 1, 1, 36, 48), dtype=planes.dtype)
    array[:] = planes
    axes = [{"name": name, "type": {"t": "time", "c": "channel"}.get(name, "space")} for name in "tczyx"]
    scale = [{"type": "scale", "scale": [1.0] * 5}]
    datasets = [{"path": "0", "coordinateTransformations": scale}]
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": datasets}]
    colours = [("DAPI", "0000FF"), ("GFP", "00FF00")]
    group.attrs["omero"] = {"channels": [{"label": label, "color": colour} for label, colour in colours]}
    return tmp_path / "cells.ome.zarr"


def test_a_dropped_ome_zarr_is_one_stack_whose_channels_are_fused_coloured_and_hidden(watched, studio, cells):
    page = watched.page
    clear(studio)
    page.goto(studio.address)
    drop(page, [cells])
    page.locator("#choose-time").select_option("1")
    page.locator("#choose-stack-go").click()
    expect(page.locator("#stack-name")).to_have_text("cells")
    expect(page.locator("#frame-list > li")).to_have_count(3)
    expect(page.locator("#intake")).to_be_hidden()
    page.locator("#start").click()
    expect(page.locator("body")).to_have_attribute("data-phase", "done")
    settle(page)
    shown = page.locator("#channels .channel strong")
    assert shown.all_text_contents() == ["DAPI", "GFP"]
    assert page.evaluate(NAMELESS) == []

    def mean() -> Any:
        settle(page)
        return window.pixels(page, 0.45, 0.45, 0.55, 0.55).mean(axis=(0, 1))

    red, green, blue = mean()
    assert red < 5
    assert min(green, blue) > 60
    with page.expect_response("**/channels"):
        page.get_by_role("switch", name="DAPI").uncheck()
    expect(page.locator("#channel-0-fields")).to_be_hidden()
    with page.expect_response("**/channels"):
        page.get_by_label("Colour of GFP").fill("#ff0000")
    (own,) = jobs(studio).values()
    channels = studio.job(own["id"])["result"]["channels"]
    assert [(channel["shown"], channel["colour"]) for channel in channels] == [(False, "#0000ff"), (True, "#ff0000")]
    red, green, blue = mean()
    assert red > 60
    assert max(green, blue) < 5


def test_stacks_are_searched_renamed_sorted_and_deleted_by_keyboard(watched, studio, frame_paths):
    page = watched.page
    clear(studio)
    for count, name in ((1, "Beetle 10"), (3, "beetle 9"), (2, "watch")):
        studio.make_job(frame_paths[:count], name)
    page.goto(f"{studio.address}/#/library")
    names = page.locator(".library-name")
    expect(names).to_have_text(["watch", "beetle 9", "Beetle 10"])
    expect(row(page, "watch").locator("[data-about]")).to_have_text("2 frames, not fused yet, 1.8 MB")
    page.get_by_label("In which order").select_option("name")
    expect(names).to_have_text(["beetle 9", "Beetle 10", "watch"])
    page.get_by_label("Search by name").fill("BEETLE 1")
    expect(names).to_have_text(["Beetle 10"])
    page.get_by_role("button", name="Rename Beetle 10").focus()
    page.keyboard.press("Enter")
    page.keyboard.type("Goliath")
    page.keyboard.press("Escape")
    expect(names).to_have_text(["Beetle 10"])
    page.keyboard.press("Enter")  # the button has the focus again
    page.keyboard.type("Goliath beetle 1")
    page.keyboard.press("Enter")
    expect(names).to_have_text(["Goliath beetle 1"])
    assert "Goliath beetle 1" in jobs(studio)
    page.get_by_label("Search by name").fill("beetle")
    expect(names).to_have_count(2)
    page.get_by_label("Select all that are shown").check()
    expect(page.locator("#library-picked")).to_have_text("2 selected, 3.5 MB")
    asked: list[str] = []
    page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    page.get_by_role("button", name="Delete…", exact=True).click()
    assert "2 stacks (3.5 MB)" in asked[0]
    assert len(jobs(studio)) == 3
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete…", exact=True).click()
    expect(page.locator("#library-none")).to_have_text("No stack fits.")
    assert list(jobs(studio)) == ["watch"]


def test_the_queue_is_paused_ordered_and_left(watched, studio, frame_paths, brake):
    page = watched.page
    clear(studio)
    made = {name: studio.make_job(frame_paths[:2], name) for name in ("one", "two", "three", "four")}
    brake.hold()
    page.goto(f"{studio.address}/#/library")
    page.get_by_label("In which order").select_option("name")
    page.get_by_label("Select all that are shown").check()
    page.get_by_role("button", name="Fuse", exact=True).click()
    works = page.locator("#queue-list .work a")
    expect(works).to_have_text(["four", "one", "three", "two"])
    expect(page.locator("#queue-sentence")).to_contain_text("1 at work, 3 wait")
    page.get_by_role("button", name="Earlier: two").focus()
    page.keyboard.press("Enter")
    expect(works).to_have_text(["four", "one", "two", "three"])
    page.get_by_role("button", name="Cancel: three").click()
    expect(works).to_have_text(["four", "one", "two"])
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Go on")).to_have_attribute("aria-pressed", "true")
    brake.release()
    expect(works).to_have_text(["one", "two"])
    expect(page.locator("#queue-sentence")).to_have_text("2 wait, paused")
    assert page.evaluate(NAMELESS) == []
    page.goto(f"{studio.address}/#/stack/{made['two']}")
    expect(page.locator("#progress-left")).to_have_text("the queue is paused; go on in the library")
    page.get_by_role("link", name="Library", exact=True).click()
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#queue")).to_be_hidden()
    expect(row(page, "two").locator("[data-about]")).to_contain_text("fused")
    assert jobs(studio)["three"]["state"] == "cancelled"


def test_a_project_is_saved_opened_and_asks_where_its_frames_are(watched, studio, frame_paths, tmp_path):
    page = watched.page
    clear(studio)
    own = studio.make_job(frame_paths[:3], "beetle")
    studio.fuse(own, method="average", align=False)
    page.goto(f"{studio.address}/#/stack/{own}")
    page.get_by_role("tab", name="Save").click()
    saved = {}
    for kind in ("embedded", "linked"):
        with page.expect_download() as download:
            page.locator(f"#project-{kind}").click()
        assert download.value.suggested_filename == "beetle.allfocus"
        saved[kind] = tmp_path / f"{kind}.allfocus"
        download.value.save_as(saved[kind])
    picture = studio.get(f"/api/jobs/{own}/download")
    page.goto("about:blank")  # which asks for no tile of a stack that is gone
    urllib_delete(studio, own)
    page.goto(f"{studio.address}/#/library")
    expect(page.get_by_text("No stacks yet")).to_be_visible()
    drop(page, [saved["embedded"]])
    expect(page.locator(".message.good")).to_have_text("beetle is open.")
    settle(page)
    assert studio.get(f"/api/jobs/{jobs(studio)['beetle']['id']}/download") == picture
    expect(page.locator("#absent")).to_be_hidden()

    page.goto("about:blank")
    clear(studio)
    page.goto(f"{studio.address}/#/")
    page.set_input_files("#choose-project", saved["linked"])
    expect(page.locator("#absent")).to_contain_text("3 frames of this project are not on this machine")
    settle(page)  # the result is there all the same
    renamed = tmp_path / "renamed.tif"
    shutil.copy(frame_paths[1], renamed)
    watched.allow("400 (Bad Request)")  # the console's word for the one that is none of them
    page.set_input_files("#choose-absent", [renamed, frame_paths[5]])
    expect(page.locator("#absent")).to_contain_text("2 frames of this project")
    page.get_by_label("Folder of the frames").fill(str(frame_paths[0].parent))
    page.get_by_role("button", name="Look there").click()
    expect(page.locator("#absent")).to_be_hidden()
    assert jobs(studio)["beetle"]["missing"] == 0


def test_the_name_at_the_top_can_be_edited(watched, studio, frame_paths):
    page = watched.page
    own = studio.make_job(frame_paths[:1], "shot_1")
    page.goto(f"{studio.address}/#/stack/{own}")
    page.get_by_role("button", name="Rename this stack").click()
    page.keyboard.type("Moss")
    page.keyboard.press("Enter")
    expect(page.locator("#stack-name")).to_have_text("Moss")
    assert studio.job(own)["name"] == "Moss"


def test_presets_are_applied_and_the_last_options_remembered(watched, studio, frame_paths):
    page = watched.page
    own = studio.make_job(frame_paths[:2], "presets")
    page.goto(f"{studio.address}/#/stack/{own}")
    page.get_by_label("Preset", exact=True).select_option("macro")
    expect(page.locator("#preset-hint")).to_contain_text("Insects and flowers")
    expect(page.locator('#prefer input[value="near"]')).to_be_checked()
    expect(page.get_by_label("Preset", exact=True)).to_be_focused()
    page.get_by_label("Method").select_option("average")
    page.once("dialog", lambda dialog: dialog.accept("Quick look"))
    page.get_by_role("button", name="Save as preset…").click()
    expect(page.get_by_label("Preset", exact=True)).to_have_value("Quick look")
    page.locator("#start").click()
    expect(page.locator("body")).to_have_attribute("data-phase", "done")
    page.goto("about:blank")
    page.goto(f"{studio.address}/#/stack/{studio.make_job(frame_paths[:2], 'next')}")
    expect(page.get_by_label("Method")).to_have_value("average")
    page.get_by_label("Preset", exact=True).select_option("Quick look")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_label("Preset", exact=True).locator("option")).to_have_count(4)


def test_the_page_draws_a_field_of_every_kind_that_the_description_has(watched, studio, frame_paths):
    """No option of today is a number; one that becomes part of the description must need no code of the page."""
    page = watched.page
    own = studio.make_job(frame_paths[:2], "numbers")

    def with_a_number(route):
        description = route.fetch().json()
        properties = description["components"]["schemas"]["StartOptions"]["properties"]
        properties["strength"] = {"type": "integer", "default": 0, "title": "Strength", "description": "Any number."}
        route.fulfill(json=description)

    page.route("**/openapi.json", with_a_number)
    page.route("**/start", lambda route: route.fulfill(status=409, json={"error": "Not now."}))
    watched.allow("409")
    page.goto(f"{studio.address}/#/stack/{own}")
    page.get_by_text("More options").click()
    field = page.get_by_label("Strength")
    field.fill("1.5")
    field.blur()
    expect(field).to_have_value("0")
    field.fill("-7")
    field.blur()
    with page.expect_request("**/start") as asked:
        page.locator("#start").click()
    assert asked.value.post_data_json["strength"] == -7
    expect(page.locator("#pairs").get_by_text("Neither")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_library_fits_every_window(watched, studio, shoot, scheme):
    page = watched.page
    page.emulate_media(color_scheme=scheme)
    studio.make_job([], "a name that is so long that it does not fit into a narrow window, whatever one does " * 2)
    page.goto(f"{studio.address}/#/library")
    expect(page.locator(".library-row").first).to_be_visible()
    for width in (390, 1440, 2560):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(OVERFLOW) == 0
        assert page.evaluate(NAMELESS) == []
    drop(page, [shoot])
    expect(page.locator(".intake-row")).to_have_count(3)
    for width in (390, 1440, 2560):
        page.set_viewport_size({"width": width, "height": 800})
        box = page.locator("#intake").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert page.locator("#intake").evaluate("node => node.scrollWidth - node.clientWidth") == 0
    page.keyboard.press("Escape")
