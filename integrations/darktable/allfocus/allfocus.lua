-- Fuses the selected pictures in darktable: a target storage of the export module.
--
-- The pictures are exported with their edits, fused by the command `allfocus`, and the result is imported beside the
-- first of them, in its group, with its tags and the tag `allfocus|fused`. Nothing is overwritten.
--
-- Put the folder `allfocus` into ~/.config/darktable/lua (Windows: %LOCALAPPDATA%\darktable\lua) and add this line to
-- the file luarc beside it:   require "allfocus/allfocus"

local dt = require "darktable"
local command = require "allfocus/command"

local NAME = "allfocus"
local TAG = "allfocus|fused"
local READABLE = { tiff = true, png = true, jpeg = true, webp = true }
local windows = dt.configuration.running_os == "windows"
local separator = windows and "\\" or "/"

dt.preferences.register(NAME, "program", "string", "allfocus: program",
  "where the program is, if darktable does not find it: the whole path", "allfocus")

local align = dt.new_widget("check_button") {
  label = "align the frames", value = true, tooltip = "correct shift, rotation and focus breathing"
}
local prefer = dt.new_widget("combobox") {
  label = "in doubt, prefer", tooltip = "which end of the stack wins where frames conflict", value = 1,
  "neither", "near", "far"
}
local widget = dt.new_widget("box") { orientation = "vertical", align, prefer }

local function exists(name)
  local file = io.open(name, "rb")
  if file then file:close() end
  return file ~= nil
end

local function read(name)
  local file = io.open(name, "rb")
  if not file then return "" end
  local text = file:read("*a")
  file:close()
  return text
end

-- The name of a file for a moment; what os.tmpname gives on Windows lies where nobody may write.
local function temporary(ending)
  local unique = string.format("allfocus-%d-%06d%s", os.time(), math.random(0, 999999), ending)
  return dt.configuration.tmp_dir .. separator .. unique
end

-- Runs a command line while darktable stays usable; returns its exit code. Windows takes UTF-8 from a batch file.
local function execute(line)
  if not windows then return dt.control.execute(line) end
  local script = temporary(".bat")
  local file = assert(io.open(script, "w"))
  file:write("@echo off\r\nchcp 65001 > nul\r\n", line, "\r\n")
  file:close()
  local code = dt.control.execute(command.quote(script, true))
  os.remove(script)
  return code
end

-- The frames in the order of their names: pictures (the photos of darktable) and files (what was exported of them).
local function in_order(exported)
  local frames = {}
  for picture, file in pairs(exported) do frames[#frames + 1] = { picture = picture, file = file } end
  table.sort(frames, function(one, other)
    local first, second = one.picture, other.picture
    if first.filename ~= second.filename then return command.comes_before(first.filename, second.filename) end
    return first.duplicate_index < second.duplicate_index
  end)
  return frames
end

local function import(output, first)
  local fused = dt.database.import(output)
  if not fused then return end
  for _, tag in ipairs(dt.tags.get_tags(first)) do
    if not tag.name:match("^darktable|") then dt.tags.attach(tag, fused) end
  end
  dt.tags.attach(dt.tags.create(TAG), fused)
  fused:group_with(first.group_leader or first)
  return fused
end

local function fuse(frames)
  if #frames < 2 then return nil, "a stack needs two pictures or more: select them all, then export" end
  local first, last = frames[1].picture, frames[#frames].picture
  local program = dt.preferences.read(NAME, "program", "string")
  local ending = command.ending(frames[1].file)
  local output = command.free_name(first.path, first.filename, last.filename, ending, exists, separator)
  local files = {}
  for number, frame in ipairs(frames) do files[number] = frame.file end
  local log = temporary(".txt")
  local options = { align = align.value, prefer = prefer.selected > 1 and prefer.value or nil }
  local code = execute(command.line(program, files, output, log, options, windows))
  local said = read(log)
  os.remove(log)
  if code ~= 0 then return nil, command.complaint(said, program) end
  if not import(output, first) then return nil, output .. " was fused, but darktable could not import it" end
  return output
end

local function finalize(_, exported)
  local frames = in_order(exported)
  local job = dt.gui.create_job("allfocus: fusing " .. #frames .. " frames")
  local worked, output, complaint = pcall(fuse, frames)
  job.valid = false
  for _, frame in ipairs(frames) do os.remove(frame.file) end -- what darktable exported for this storage alone
  if not worked then output, complaint = nil, tostring(output) end
  if output then
    dt.print("allfocus: " .. output:match("[^/\\]+$") .. " lies beside the frames")
  else
    dt.print("allfocus: " .. complaint)
    dt.print_error("allfocus: " .. complaint)
  end
end

local function store(_, _, _, _, number, total)
  dt.print("allfocus: frame " .. number .. " of " .. total)
end

local function supported(_, format)
  return READABLE[format.plugin_name] == true
end

dt.register_storage(NAME, "fuse with allfocus", store, finalize, supported, nil, widget)
