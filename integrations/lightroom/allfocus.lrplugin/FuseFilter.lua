-- The post-process action of the export dialog: all photos of an export are one stack. The exported frames stay; the
-- fused picture is written beside them and added to the catalogue.

local LrPathUtils = import "LrPathUtils"
local Fusing = require "Fusing"

local function postProcessRenderedPhotos(_, context)
  local frames = {}
  for rendered, wanted in context:renditions { plugin = _PLUGIN, renditionsToSatisfy = context.renditionsToSatisfy } do
    local success, path = rendered:waitForRender()
    if success then
      frames[#frames + 1] = { photo = rendered.photo, path = path }
    else
      wanted:renditionIsDone(false, path)
    end
  end
  Fusing.in_order(frames)
  local folder = frames[1] and LrPathUtils.parent(frames[1].path)
  local output, complaint = Fusing.fuse(frames, folder, context.propertyTable)
  if not output then return Fusing.complain(complaint) end
  Fusing.import(output, frames[1].photo)
end

return {
  exportPresetFields = Fusing.fields,
  sectionForFilterInDialog = function(view, settings)
    return { title = "Fuse with allfocus", unpack(Fusing.rows(view, settings)) }
  end,
  postProcessRenderedPhotos = postProcessRenderedPhotos,
}
