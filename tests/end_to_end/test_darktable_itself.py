"""The storage for darktable, used by darktable itself on a display that nobody sees: its export button is pressed.

Needs darktable and Xvfb (Debian: ``apt-get install darktable xvfb xauth``); skips without.
"""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tifffile
from scripts import write_program

import allfocus

ROOT = Path(__file__).resolve().parents[2]
DRIVER = """
local dt = require "darktable"
local file = assert(io.open([[{told}]], "w"))
local pictures = {{}}
for _, name in ipairs {{ {names} }} do pictures[#pictures + 1] = dt.database.import([[{folder}/]] .. name) end
for _, picture in ipairs(pictures) do dt.tags.attach(dt.tags.create("beetle"), picture) end
dt.gui.selection(pictures)
dt.gui.action("lib/export/export", 0, "", "", 1.0)
local function fused()
  for _, picture in ipairs(dt.database) do
    for _, tag in ipairs(dt.tags.get_tags(picture)) do
      if tag.name == "allfocus|fused" then return picture end
    end
  end
end
local tries = 0
while not fused() and tries < 1000 do
  dt.control.sleep(50)
  tries = tries + 1
end
dt.control.sleep(50)
local result = fused()
if result then
  file:write(result.path, "/", result.filename, "\\n", result.group_leader.filename, "\\n")
  for _, tag in ipairs(dt.tags.get_tags(result)) do file:write(tag.name, "\\n") end
end
file:close()
os.exit(0)
"""

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("darktable", "xvfb-run"))), reason="darktable or Xvfb is not installed"
)


def test_darktable_exports_fuses_and_imports_a_stack(tmp_path, small_stack):
    folder = tmp_path / "Käfer's stack"
    folder.mkdir()
    names = ["DSC 9.png", "DSC 10's.png", 'DSC 11 "ä".png']
    for name, frame in zip(names, small_stack, strict=True):
        allfocus.write_image(frame, folder / name)
    program = write_program(tmp_path / "allfocus")
    config = tmp_path / "config"
    shutil.copytree(ROOT / "integrations" / "darktable" / "allfocus", config / "lua" / "allfocus")
    preference = f'require("darktable").preferences.write("allfocus", "program", "string", [[{program}]])'
    (config / "luarc").write_text(f'require "allfocus/allfocus"\n{preference}\n')
    told, driver = tmp_path / "told.txt", tmp_path / "driver.lua"
    listed = ", ".join(f"[[{name}]]" for name in (names[1], names[2], names[0]))
    driver.write_text(DRIVER.format(told=told, names=listed, folder=folder), encoding="utf-8")
    chosen = ["--conf", "plugins/lighttable/export/storage_name=allfocus"]
    chosen += ["--conf", "plugins/lighttable/export/format_name=tiff"]
    places = ["--configdir", str(config), "--cachedir", str(tmp_path / "cache"), "--library", ":memory:"]
    line = ["xvfb-run", "-a", "darktable", *places, *chosen, "--luacmd", f"dofile([[{driver}]])"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    lines = told.read_text(encoding="utf-8").splitlines()
    assert lines, done.stdout + done.stderr
    result, leader, *tags = lines
    assert Path(result) == folder / 'DSC 9-DSC 11 "ä"_allfocus.tif'
    assert leader == "DSC 9.png"
    assert {"beetle", "allfocus|fused"} <= set(tags)
    fused = tifffile.imread(result) / np.float32(255)
    expected = allfocus.fuse_files([folder / name for name in names], tmp_path / "expected.png").image
    assert fused.shape == expected.shape
    # darktable develops what it exports, which moves values by a few levels.
    assert np.abs(fused - expected).mean() < 0.02
