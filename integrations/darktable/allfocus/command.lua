-- What both Lua plug-ins need to call `allfocus`: words made into a command line, names of results, and what it said.
-- Runs in Lua 5.1 (Lightroom) to 5.4 (darktable). The same file lies in both plug-ins; change both.

local command = {}

-- A word as the shell takes it, whatever is in it. Names of Windows cannot hold a quote; in a batch file % stands for
-- a variable unless it is doubled.
function command.quote(word, windows)
  if windows then
    word = word:gsub("%%", "%%%%")
    word = word:gsub("\\+$", function(ending) return ending .. ending end)
    return '"' .. word .. '"'
  end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- The command line that fuses frames into output; all it says goes into the file log.
-- options: { align = true or false, prefer = "near", "far" or nil }
function command.line(program, frames, output, log, options, windows)
  local words = { program, "fuse", "-o", output }
  if options.align == false then words[#words + 1] = "--no-align" end
  if options.prefer then
    words[#words + 1] = "--prefer"
    words[#words + 1] = options.prefer
  end
  words[#words + 1] = "--"
  for _, frame in ipairs(frames) do words[#words + 1] = frame end
  for number, word in ipairs(words) do words[number] = command.quote(word, windows) end
  return table.concat(words, " ") .. " > " .. command.quote(log, windows) .. " 2>&1"
end

local function parts(name)
  local found = {}
  for text, digits in name:lower():gmatch("(%D*)(%d*)") do
    if text ~= "" then found[#found + 1] = text end
    if digits ~= "" then found[#found + 1] = tonumber(digits) end
  end
  return found
end

-- Whether a name comes before another as people count: a9 before a10.
function command.comes_before(name, other)
  local first, second = parts(name), parts(other)
  for number = 1, math.min(#first, #second) do
    local own, others = first[number], second[number]
    if type(own) ~= type(others) then return type(own) == "number" end
    if own ~= others then return own < others end
  end
  if #first ~= #second then return #first < #second end
  return name < other
end

function command.stem(name)
  return name:match("([^/\\]+)%.[^./\\]*$") or name:match("[^/\\]+$")
end

function command.ending(name)
  return name:match("%.([^./\\]*)$") or "tif"
end

-- A name for the result that no file has: FIRST-LAST_allfocus.tif, then FIRST-LAST_allfocus_2.tif and so on.
function command.free_name(folder, first, last, ending, exists, separator)
  local base = folder .. separator .. command.stem(first) .. "-" .. command.stem(last) .. "_allfocus"
  local name, number = base .. "." .. ending, 1
  while exists(name) do
    number = number + 1
    name = base .. "_" .. number .. "." .. ending
  end
  return name
end

-- The sentence that tells what went wrong, from what the program wrote.
function command.complaint(said, program)
  local found
  for line in (said or ""):gmatch("[^\r\n]+") do
    found = line:match("^allfocus: (.+)$") or found
  end
  if found then return found end
  local last = (said or ""):match("([^\r\n]+)%s*$")
  return (last or "it said nothing") .. " (is '" .. program .. "' the place of the program allfocus?)"
end

return command
