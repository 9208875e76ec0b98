-- From rendered files to a photo in the catalogue: what the menu item and the post-process action share.

local LrApplication = import "LrApplication"
local LrDialogs = import "LrDialogs"
local LrFileUtils = import "LrFileUtils"
local LrPathUtils = import "LrPathUtils"
local LrTasks = import "LrTasks"
local command = require "command"

local KEYWORD = "allfocus"
local separator = WIN_ENV and "\\" or "/"

local Fusing = {}

-- The settings that are kept with the export, and what they are at first.
Fusing.fields = {
  { key = "allfocus_program", default = "allfocus" },
  { key = "allfocus_align", default = true },
  { key = "allfocus_prefer", default = "neither" },
}

-- The rows of a dialog in which the settings are made.
function Fusing.rows(view, settings)
  local bind = import("LrView").bind
  return {
    view:row {
      view:static_text { title = "Program:" },
      view:edit_field { value = bind { key = "allfocus_program", object = settings }, width_in_chars = 40 },
    },
    view:checkbox { title = "Align the frames", value = bind { key = "allfocus_align", object = settings } },
    view:row {
      view:static_text { title = "In doubt, prefer:" },
      view:popup_menu {
        value = bind { key = "allfocus_prefer", object = settings },
        items = {
          { title = "neither", value = "neither" }, { title = "near", value = "near" }, { title = "far", value = "far" },
        },
      },
    },
  }
end

-- Frames in the order of their names; each is { photo = ..., path = ... }.
function Fusing.in_order(frames)
  table.sort(frames, function(one, other) return command.comes_before(one.path, other.path) end)
  return frames
end

-- Fuses the files into one in a folder; returns its path, or nil and what went wrong. Overwrites nothing.
function Fusing.fuse(frames, folder, settings)
  if #frames < 2 then return nil, "A stack needs two photos or more: select them all." end
  local first, last = frames[1].path, frames[#frames].path
  local output = command.free_name(folder, first, last, command.ending(first), LrFileUtils.exists, separator)
  local temporary = LrPathUtils.getStandardFilePath("temp")
  local log = LrFileUtils.chooseUniqueFileName(LrPathUtils.child(temporary, "allfocus.txt"))
  local files = {}
  for number, frame in ipairs(frames) do files[number] = frame.path end
  local prefer = settings.allfocus_prefer
  local options = { align = settings.allfocus_align, prefer = prefer ~= "neither" and prefer or nil }
  local line = command.line(settings.allfocus_program, files, output, log, options, WIN_ENV)
  if WIN_ENV then line = '"' .. line .. '"' end -- cmd.exe takes the outermost quotes off
  local code = LrTasks.execute(line)
  local said = ""
  if LrFileUtils.exists(log) then
    said = LrFileUtils.readFile(log)
    LrFileUtils.delete(log)
  end
  if code ~= 0 or not LrFileUtils.exists(output) then
    return nil, command.complaint(said, settings.allfocus_program)
  end
  return output
end

-- Adds the picture to the catalogue, stacked with the first frame, with a keyword.
function Fusing.import(path, photo)
  local catalog = LrApplication.activeCatalog()
  catalog:withWriteAccessDo("Import the fused picture", function()
    local keyword = catalog:createKeyword(KEYWORD, {}, true, nil, true)
    catalog:addPhoto(path, photo, "above"):addKeyword(keyword)
  end)
end

function Fusing.complain(what)
  LrDialogs.message("allfocus could not fuse the stack", what, "critical")
end

return Fusing
