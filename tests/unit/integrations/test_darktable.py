"""The storage for darktable, in the Lua of darktable with a stand-in for its interface; the program is the real one."""

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tifffile

lua54 = pytest.importorskip("lupa.lua54", reason="needs the extra dev")

PLUG_IN = Path(__file__).resolve().parents[3] / "integrations" / "darktable"
STAND_IN = """
local told = ...
local function picture(path, filename)
  local new = { path = path, filename = filename, duplicate_index = 0, tags = {} }
  new.group_leader = new
  function new.group_with(self, other) self.group_leader = other end
  return new
end
local dt = { preferences = {}, control = {}, gui = {}, tags = {} }
dt.configuration = { running_os = told.system, tmp_dir = told.temporary }
dt.database = {}
function dt.preferences.register() end
function dt.preferences.read() return told.program end
function dt.new_widget(kind)
  return function(given)
    given.selected = given.value
    if kind == "combobox" then given.value = given[given.selected] end
    told.widgets[#told.widgets + 1] = given
    return given
  end
end
function dt.control.execute(line) return told.execute(line) end
function dt.gui.create_job(text) told.job = { text = text, valid = true } return told.job end
function dt.database.import(path)
  told.imported = picture(path:match("^(.*)/[^/]*$"), path:match("[^/]*$"))
  return told.imported
end
function dt.tags.get_tags(of) return of.tags end
function dt.tags.create(name) return { name = name } end
function dt.tags.attach(tag, to) to.tags[#to.tags + 1] = tag end
function dt.print(text) told.printed[#told.printed + 1] = text end
function dt.print_error(text) told.errors[#told.errors + 1] = text end
function dt.register_storage(name, title, store, finalize, supported, initialize, widget)
  told.storage = { store = store, finalize = finalize, supported = supported }
end
package.preload.darktable = function() return dt end
return picture
"""


def start(**given):
    """Starts darktable with the plug-in; returns its Lua, what is told to and by it, and what makes pictures."""
    lua = lua54.LuaRuntime(unpack_returned_tuples=True)
    told = lua.table(widgets=lua.table(), printed=lua.table(), errors=lua.table(), **given)
    picture = lua.execute(STAND_IN, told)
    lua.globals().package.path = f"{PLUG_IN}/?.lua"
    lua.execute('require "allfocus/allfocus"')
    return lua, told, picture


@pytest.fixture
def darktable(program, tmp_path):
    """darktable with the plug-in loaded: `export` does what its button does with exported files."""
    lua, told, picture = start(
        program=str(program),
        system="linux",
        temporary=str(tmp_path / "temp"),
        execute=lambda line: subprocess.run(["sh", "-c", line], check=False).returncode,
    )

    def export(files, originals):
        """Exports pictures, in an order of its own; originals are their paths in the collection."""
        exported, pictures = lua.table(), []
        for number in (1, 2, 0) if len(files) == 3 else range(len(files)):
            original = Path(originals[number])
            new = picture(str(original.parent), original.name)
            new.tags = lua.table_from([{"name": "beetle"}, {"name": "darktable|exported"}], recursive=True)
            pictures.append(new)
            told.storage.store(None, new, None, str(files[number]), number + 1, len(files), None, None)
            exported[new] = str(files[number])
        told.storage.finalize(None, exported, None)
        return sorted(pictures, key=lambda one: originals.index(str(Path(one.path) / one.filename)))

    return SimpleNamespace(told=told, export=export, lua=lua)


@pytest.fixture
def exported(frames, tmp_path):
    """What darktable has written into its temporary folder."""
    folder = tmp_path / "temp"
    folder.mkdir()
    return [Path(shutil.copy(frame, folder / f"{number}'s export.tif")) for number, frame in enumerate(frames)]


@pytest.fixture
def originals(tmp_path):
    folder = tmp_path / "Fotos von Jörg's"
    folder.mkdir()
    return [str(folder / f'DSC {number} "ä".NEF') for number in (9, 10, 11)]


def test_the_stack_is_fused_beside_the_first_frame_and_imported_with_its_tags(darktable, exported, originals, expected):
    pictures = darktable.export(exported, originals)
    imported = darktable.told.imported
    assert imported.filename == 'DSC 9 "ä"-DSC 11 "ä"_allfocus.tif', list(darktable.told.errors.values())
    fused = tifffile.imread(Path(imported.path) / imported.filename)
    assert np.array_equal(fused, np.rint(expected * 255).astype(np.uint8))
    assert [tag.name for tag in imported.tags.values()] == ["beetle", "allfocus|fused"]
    assert imported.group_leader.filename == pictures[0].filename
    assert not darktable.told.job.valid
    assert not list(exported[0].parent.iterdir())
    assert imported.filename in list(darktable.told.printed.values())[-1]


def test_a_second_run_gets_a_name_of_its_own(darktable, exported, originals):
    kept = Path(originals[0]).with_name('DSC 9 "ä"-DSC 11 "ä"_allfocus.tif')
    kept.write_text("mine")
    darktable.export(exported, originals)
    assert darktable.told.imported.filename == 'DSC 9 "ä"-DSC 11 "ä"_allfocus_2.tif'
    assert kept.read_text() == "mine"


def test_the_complaint_of_the_program_is_shown_and_nothing_is_imported(darktable, exported, originals):
    exported[1].write_bytes(exported[1].read_bytes()[:200])
    darktable.export(exported, originals)
    assert darktable.told.imported is None
    shown = list(darktable.told.printed.values())[-1]
    assert "1's export.tif" in shown
    assert [shown] == list(darktable.told.errors.values())
    assert list(Path(originals[0]).parent.iterdir()) == []
    assert not darktable.told.job.valid


def test_a_program_that_is_not_there_is_named(darktable, exported, originals):
    darktable.told.program = "/nowhere/all focus"
    darktable.export(exported, originals)
    assert "'/nowhere/all focus'" in list(darktable.told.printed.values())[-1]


def test_one_picture_is_no_stack(darktable, exported, originals):
    darktable.export(exported[:1], originals[:1])
    assert "two pictures or more" in list(darktable.told.printed.values())[-1]


def test_the_switches_reach_the_program(darktable, exported, originals):
    lines = []
    darktable.told.execute = lambda line: lines.append(line) or 1
    align, prefer, _ = darktable.told.widgets.values()
    align.value, prefer.selected, prefer.value = False, 3, "far"
    darktable.export(exported, originals)
    assert " '--no-align' '--prefer' 'far' '--' " in lines[0]


def test_windows_gets_a_batch_file_in_utf_8_that_is_gone_afterwards(exported):
    scripts = []

    def execute(line):
        path = Path(line.strip('"'))
        scripts.append(path.read_text(encoding="utf-8"))
        return 3

    folder = str(exported[0].parent)
    lua, told, picture = start(
        program="C:\\all focus\\allfocus.exe", system="windows", temporary=folder, execute=execute
    )
    frames = lua.table()
    for number, name in enumerate(("Käfer 1.NEF", "100 % Käfer.NEF")):
        frames[picture("C:\\Fotos", name)] = str(exported[number])
    told.storage.finalize(None, frames, None)
    (script,) = scripts
    first, second, line, *_ = script.splitlines()
    assert (first, second) == ("@echo off", "chcp 65001 > nul")
    assert line.startswith(
        '"C:\\all focus\\allfocus.exe" "fuse" "-o" "C:\\Fotos\\100 %% Käfer-Käfer 1_allfocus.tif" "--"'
    )
    assert "'C:\\all focus\\allfocus.exe'" in next(iter(told.printed.values()))
    assert [path.name for path in exported[0].parent.iterdir()] == ["2's export.tif"]


def test_formats_that_can_be_read_are_offered_and_others_not(darktable):
    supported = darktable.told.storage.supported
    assert [supported(None, darktable.lua.table(plugin_name=name)) for name in ("tiff", "png", "pdf")] == [
        True,
        True,
        False,
    ]
