-- What Lightroom Classic reads first: the name of the plug-in, and what it adds to menus and to the export dialog.
return {
  LrSdkVersion = 6.0,
  LrSdkMinimumVersion = 4.0,
  LrToolkitIdentifier = "org.allfocus.lightroom",
  LrPluginName = "allfocus",
  LrExportMenuItems = {
    { title = "Fuse the selected stack with allfocus", file = "FuseSelected.lua", enabledWhen = "photosSelected" },
  },
  LrExportFilterProvider = { title = "Fuse with allfocus", file = "FuseFilter.lua", id = "fuse" },
  VERSION = { major = 0, minor = 2, revision = 0 },
}
