-- The menu item File > Plug-in Extras: the selected photos are rendered as 16-bit TIFF into a temporary folder and fused
-- into one beside the first of them.

local LrApplication = import "LrApplication"
local LrDialogs = import "LrDialogs"
local LrExportSession = import "LrExportSession"
local LrFileUtils = import "LrFileUtils"
local LrFunctionContext = import "LrFunctionContext"
local LrPathUtils = import "LrPathUtils"
local LrPrefs = import "LrPrefs"
local LrProgressScope = import "LrProgressScope"
local LrView = import "LrView"
local Fusing = require "Fusing"

local function settings_of_user()
  local settings = LrPrefs.prefsForPlugin()
  for _, field in ipairs(Fusing.fields) do
    if settings[field.key] == nil then settings[field.key] = field.default end
  end
  return settings
end

local function asked(settings)
  local view = LrView.osFactory()
  local contents = view:column { spacing = view:control_spacing(), unpack(Fusing.rows(view, settings)) }
  return LrDialogs.presentModalDialog { title = "allfocus", contents = contents, actionVerb = "Fuse" } == "ok"
end

-- Renders the photos into a folder; returns the frames as far as it came, and what went wrong, if anything.
local function render(photos, folder, progress)
  local session = LrExportSession {
    photosToExport = photos,
    exportSettings = {
      LR_format = "TIFF",
      LR_export_bitDepth = 16,
      LR_export_colorSpace = "ProPhotoRGB",
      LR_tiff_compressionMethod = "compressionMethod_None",
      LR_minimizeEmbeddedMetadata = false,
      LR_size_doConstrain = false,
      LR_export_destinationType = "specificFolder",
      LR_export_destinationPathPrefix = folder,
      LR_export_useSubfolder = false,
      LR_collisionHandling = "rename",
      LR_reimportExportedPhoto = false,
    },
  }
  local frames = {}
  for number, rendered in session:renditions { progressScope = progress, stopIfCanceled = true } do
    local success, path = rendered:waitForRender()
    if not success then return frames, path end
    frames[number] = { photo = rendered.photo, path = path }
  end
  return frames
end

local function fuse_selected()
  local photos = LrApplication.activeCatalog():getTargetPhotos()
  local settings = settings_of_user()
  if not asked(settings) then return end
  local progress = LrProgressScope { title = "allfocus: fusing " .. #photos .. " frames" }
  local temporary = LrPathUtils.child(LrPathUtils.getStandardFilePath("temp"), "allfocus-frames")
  local folder = LrFileUtils.chooseUniqueFileName(temporary)
  LrFileUtils.createAllDirectories(folder)
  local frames, complaint = render(photos, folder, progress)
  local cancelled = progress:isCanceled()
  local output, first
  if complaint == nil and not cancelled then
    first = Fusing.in_order(frames)[1]
    local beside = LrPathUtils.parent(first.photo:getRawMetadata("path"))
    output, complaint = Fusing.fuse(frames, beside, settings)
  end
  for _, frame in ipairs(frames) do LrFileUtils.delete(frame.path) end
  LrFileUtils.delete(folder)
  progress:done()
  if output then return Fusing.import(output, first.photo) end
  if not cancelled then Fusing.complain(complaint) end
end

LrFunctionContext.postAsyncTaskWithContext("allfocus", function(context)
  LrDialogs.attachErrorDialogToFunctionContext(context)
  fuse_selected()
end)
