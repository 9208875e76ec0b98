"""The plug-in for Lightroom Classic, in Lua 5.1 with a stand-in for its interface; the program is the real one."""

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tifffile

lua51 = pytest.importorskip("lupa.lua51", reason="needs the extra dev")

PLUG_IN = Path(__file__).resolve().parents[3] / "integrations" / "lightroom" / "allfocus.lrplugin"
STAND_IN = """
local world = ...
local modules = {}
function import(name) return (assert(modules[name], name .. " is not part of the stand-in")) end
_PLUGIN, WIN_ENV = {}, world.windows
modules.LrFileUtils = {
  exists = world.exists, readFile = world.read, delete = world.delete, createAllDirectories = world.make_folder,
  chooseUniqueFileName = world.free_name,
}
modules.LrPathUtils = {
  getStandardFilePath = function() return world.temporary end, parent = world.parent,
  child = function(folder, name) return folder .. "/" .. name end,
}
modules.LrTasks = { execute = function(line) return world.execute(line) end }
modules.LrDialogs = {
  message = function(title, text, kind) world.messages[#world.messages + 1] = kind .. ": " .. text end,
  presentModalDialog = function(given) world.dialog = given return world.answer end,
  attachErrorDialogToFunctionContext = function() end,
}
local catalog = {}
function catalog.getTargetPhotos() return world.photos end
function catalog.withWriteAccessDo(_, _, act) world.writing = true act() world.writing = false end
function catalog.createKeyword(_, name) assert(world.writing) return name end
function catalog.addPhoto(_, path, photo, place)
  assert(world.writing)
  world.added = { path = path, photo = photo, place = place, addKeyword = function(self, word) self.keyword = word end }
  return world.added
end
modules.LrApplication = { activeCatalog = function() return catalog end }
local function renditions()
  local number = 0
  return function()
    number = number + 1
    local photo = world.photos[number]
    if photo == nil then return end
    local rendered = { photo = photo, waitForRender = function() return world.render(photo) end }
    return number, rendered
  end
end
modules.LrExportSession = function(given)
  world.session = given.exportSettings
  return { renditions = renditions }
end
modules.LrFunctionContext = { postAsyncTaskWithContext = function(_, act) act({}) end }
modules.LrPrefs = { prefsForPlugin = function() return world.settings end }
modules.LrProgressScope = function()
  return { isCanceled = function() return world.cancelled end, done = function() world.done = true end }
end
local function widget(_, given) return given end
local view = { row = widget, column = widget, static_text = widget, edit_field = widget, checkbox = widget,
  popup_menu = widget, control_spacing = function() return 4 end }
modules.LrView = { osFactory = function() return view end, bind = function(given) return given end }
world.view = view
function world.export()
  local context = { propertyTable = world.settings }
  function context.renditions()
    local each = renditions()
    return function()
      local number, rendered = each()
      if number == nil then return end
      return rendered, { renditionIsDone = function(_, done, why) world.failed = why end }
    end
  end
  require("FuseFilter").postProcessRenderedPhotos({}, context)
end
"""


@pytest.fixture
def lightroom(program, frames, tmp_path):
    """Lightroom with the plug-in, three photos selected; `render` gives each photo's file, or what is wrong with it."""
    lua = lua51.LuaRuntime(unpack_returned_tuples=True)
    temporary = tmp_path / "temp folder"
    temporary.mkdir()
    settings = lua.table(allfocus_program=str(program), allfocus_align=True, allfocus_prefer="neither")
    world = lua.table(windows=False, temporary=str(temporary), answer="ok", messages=lua.table(), settings=settings)

    def free_name(wanted):
        return wanted if not Path(wanted).exists() else f"{wanted}-2"

    def delete(name):
        path = Path(name)
        path.rmdir() if path.is_dir() else path.unlink()

    world["exists"] = lambda name: Path(name).exists()
    world["read"] = lambda name: Path(name).read_text(encoding="utf-8")
    world["delete"] = delete
    world["make_folder"] = lambda name: Path(name).mkdir(parents=True)
    world["parent"] = lambda name: str(Path(name).parent)
    world["free_name"] = free_name
    world["execute"] = lambda line: subprocess.run(["sh", "-c", line], check=False).returncode
    world["render"] = lambda photo: (True, photo.file)
    make = lua.eval("function(file) return { file = file, getRawMetadata = function() return file end } end")
    world["photos"] = lua.table(*(make(str(frames[number])) for number in (1, 2, 0)))
    lua.execute(STAND_IN, world)
    lua.globals().package.path = f"{PLUG_IN}/?.lua"
    return SimpleNamespace(world=world, lua=lua, frames=frames, temporary=temporary)


def render_into_the_folder(lightroom):
    def render(photo):
        path = Path(lightroom.world.session.LR_export_destinationPathPrefix) / Path(photo.file).name
        shutil.copy(photo.file, path)
        return True, str(path)

    lightroom.world["render"] = render


def test_the_post_process_action_fuses_an_export_and_adds_the_result(lightroom, expected):
    lightroom.world.export()
    added = lightroom.world.added
    assert added is not None, list(lightroom.world.messages.values())
    first, last = lightroom.frames[0], lightroom.frames[-1]
    assert Path(added.path) == first.with_name(f"{first.stem}-{last.stem}_allfocus.tif")
    assert np.array_equal(tifffile.imread(added.path), np.rint(expected * 255).astype(np.uint8))
    assert (added.keyword, added.place, added.photo.file) == ("allfocus", "above", str(first))
    assert all(frame.exists() for frame in lightroom.frames)
    assert not list(lightroom.temporary.iterdir())


def test_the_menu_item_renders_16_bits_and_leaves_only_the_result_behind(lightroom, expected):
    render_into_the_folder(lightroom)
    lightroom.lua.execute('require "FuseSelected"')
    assert lightroom.world.session.LR_export_bitDepth == 16
    assert np.array_equal(tifffile.imread(lightroom.world.added.path), np.rint(expected * 255).astype(np.uint8))
    assert Path(lightroom.world.added.path).parent == lightroom.frames[0].parent
    assert lightroom.world.done
    assert not list(lightroom.temporary.iterdir())


@pytest.mark.parametrize("how", ["export", "menu"])
def test_the_complaint_of_the_program_is_shown_and_nothing_is_added(lightroom, how):
    lightroom.frames[1].write_bytes(lightroom.frames[1].read_bytes()[:200])
    before = sorted(lightroom.frames[0].parent.iterdir())
    if how == "menu":
        render_into_the_folder(lightroom)
        lightroom.lua.execute('require "FuseSelected"')
    else:
        lightroom.world.export()
    shown = list(lightroom.world.messages.values())
    assert len(shown) == 1
    assert shown[0].startswith("critical: ")
    assert lightroom.frames[1].name in shown[0]
    assert lightroom.world.added is None
    assert sorted(lightroom.frames[0].parent.iterdir()) == before
    assert not list(lightroom.temporary.iterdir())


def test_a_file_that_has_the_name_of_the_result_is_kept(lightroom):
    first, last = lightroom.frames[0], lightroom.frames[-1]
    kept = first.with_name(f"{first.stem}-{last.stem}_allfocus.tif")
    kept.write_text("mine")
    lightroom.world.export()
    assert lightroom.world.added.path.endswith("_allfocus_2.tif")
    assert kept.read_text() == "mine"


def test_a_photo_that_cannot_be_rendered_is_told(lightroom):
    lightroom.world["render"] = lambda photo: (False, "the disk is full")
    lightroom.world.export()
    assert lightroom.world.failed == "the disk is full"
    assert "two photos or more" in next(iter(lightroom.world.messages.values()))
    lightroom.lua.execute('require "FuseSelected"')
    assert list(lightroom.world.messages.values())[-1] == "critical: the disk is full"


def test_cancelling_leaves_nothing_and_complains_about_nothing(lightroom):
    render_into_the_folder(lightroom)
    lightroom.world.cancelled = True
    lightroom.lua.execute('require "FuseSelected"')
    assert lightroom.world.added is None
    assert not list(lightroom.world.messages.values())
    assert not list(lightroom.temporary.iterdir())


def test_windows_gets_a_line_with_quotes_around_it(lightroom):
    lines = []
    lightroom.lua.globals().WIN_ENV = True
    lightroom.world.execute = lambda line: lines.append(line) or 1
    lightroom.world.export()
    assert lines[0].startswith('""')
    assert lines[0].endswith('2>&1"')


def test_the_description_names_files_that_are_there(lightroom):
    info = lightroom.lua.execute((PLUG_IN / "Info.lua").read_text(encoding="utf-8"))
    assert (PLUG_IN / info.LrExportFilterProvider.file).is_file()
    assert all((PLUG_IN / item.file).is_file() for item in info.LrExportMenuItems.values())


def test_the_dialog_offers_the_three_settings(lightroom):
    section = lightroom.lua.eval('require("FuseFilter").sectionForFilterInDialog')
    found = section(lightroom.world.view, lightroom.world.settings)
    keys = [found[1][2].value.key, found[2].value.key, found[3][2].value.key]
    fields = lightroom.lua.eval('require("FuseFilter").exportPresetFields')
    assert keys == [field.key for field in fields.values()]
