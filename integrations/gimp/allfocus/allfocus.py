#!/usr/bin/env python3
"""Fuses the layers of a picture in GIMP 3: Filters > Combine > Fuse focus stack (allfocus).

Each layer is a frame, the lowest first; of several selected layers only these, otherwise all that are visible. The
result is a new layer on top; nothing else is changed, and one undo takes it back. Needs the command `allfocus`.

Put the folder `allfocus` with this file into the folder for plug-ins of GIMP (Edit > Preferences > Folders > Plug-ins);
on Linux and macOS the file must be executable.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import gi

gi.require_version("Gimp", "3.0")
gi.require_version("GimpUi", "3.0")
from gi.repository import Gimp, GimpUi, Gio, GLib, GObject  # noqa: E402 (their versions are chosen first)

PROCEDURE = "plug-in-allfocus-fuse"
PULSE = 0.2
"""Seconds between two signs of life."""


class FusionError(Exception):
    """What the user is told."""


def frames_of(image: Gimp.Image, selected: list[Gimp.Drawable]) -> list[Gimp.Layer]:
    """Returns the layers to fuse, the lowest first."""
    layers = [layer for layer in reversed(image.get_layers()) if not layer.is_group()]
    chosen = [layer for layer in layers if layer in selected]
    if len(chosen) < 2:
        chosen = [layer for layer in layers if layer.get_visible()]
    if len(chosen) < 2:
        raise FusionError("A stack needs two layers or more: File > Open as Layers... opens all its pictures in one.")
    return chosen


def save_layer(image: Gimp.Image, layer: Gimp.Layer, path: Path) -> None:
    """Writes one layer as a picture of the size, depth and colour profile of the whole."""
    size = image.get_width(), image.get_height()
    alone = Gimp.Image.new_with_precision(*size, image.get_base_type(), image.get_precision())
    try:
        profile = image.get_color_profile()
        if profile is not None:
            alone.set_color_profile(profile)
        copy = Gimp.Layer.new_from_drawable(layer, alone)
        alone.insert_layer(copy, None, 0)
        copy.set_visible(True)
        copy.resize_to_image_size()
        if not Gimp.file_save(Gimp.RunMode.NONINTERACTIVE, alone, Gio.File.new_for_path(str(path)), None):
            raise FusionError(f"GIMP could not write the layer {layer.get_name()} as a file.")
    finally:
        alone.delete()


def run_program(program: str, words: list[str]) -> None:
    """Runs `allfocus` with these words, without what GIMP tells its own Python; raises what it complained about."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONIOENCODING"] = "utf-8"
    try:
        running = subprocess.Popen(
            [program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=environment,
        )
    except OSError as error:
        raise FusionError(f"{program}: {error.strerror}. Is allfocus installed? Give its whole path here.") from error
    while True:
        try:
            said = running.communicate(timeout=PULSE)[1]
            break
        except subprocess.TimeoutExpired:
            Gimp.progress_pulse()
    if running.returncode:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        own = [line.removeprefix("allfocus: ") for line in lines if line.startswith("allfocus: ")]
        raise FusionError((own or lines or [f"allfocus ended with {running.returncode}"])[-1])


def fuse_layers(image: Gimp.Image, selected: list[Gimp.Drawable], *, program: str, align: bool, prefer: str) -> None:
    """Adds the fused picture as a layer."""
    layers = frames_of(image, selected)
    with tempfile.TemporaryDirectory(prefix="allfocus-") as folder:
        Gimp.progress_init(f"allfocus: saving {len(layers)} layers")
        frames = [Path(folder) / f"layer_{number:04}.tif" for number in range(1, len(layers) + 1)]
        for number, (layer, path) in enumerate(zip(layers, frames, strict=True), start=1):
            save_layer(image, layer, path)
            Gimp.progress_update(number / len(layers))
        fused = Path(folder) / "fused.tif"
        words = ["fuse", "-o", str(fused), "--keep-size", "--align" if align else "--no-align"]
        words += ["--prefer", prefer] if prefer != "neither" else []
        Gimp.progress_init(f"allfocus: fusing {len(layers)} layers")
        run_program(program, [*words, "--", *map(str, frames)])
        image.undo_group_start()
        try:
            result = Gimp.file_load_layer(Gimp.RunMode.NONINTERACTIVE, image, Gio.File.new_for_path(str(fused)))
            result.set_name("allfocus")
            image.insert_layer(result, None, 0)
        finally:
            image.undo_group_end()
    Gimp.displays_flush()


class Allfocus(Gimp.PlugIn):
    """The plug-in as GIMP sees it."""

    def do_set_i18n(self, name: str) -> bool:
        """There are no translations."""
        return False

    def do_query_procedures(self) -> list[str]:
        """What the plug-in can do."""
        return [PROCEDURE]

    def do_create_procedure(self, name: str) -> Gimp.Procedure:
        """The entry in the menu, and what it asks for."""
        procedure = Gimp.ImageProcedure.new(self, name, Gimp.PDBProcType.PLUGIN, self.run, None)
        procedure.set_image_types("*")
        mask = Gimp.ProcedureSensitivityMask
        procedure.set_sensitivity_mask(mask.DRAWABLE | mask.DRAWABLES | mask.NO_DRAWABLES)
        procedure.set_menu_label("Fuse focus stack (allfocus)...")
        procedure.add_menu_path("<Image>/Filters/Combine")
        procedure.set_documentation("Fuses layers that are focused at different distances", __doc__, name)
        procedure.set_attribution("The allfocus authors", "Apache-2.0", "2026")
        flags = GObject.ParamFlags.READWRITE
        procedure.add_string_argument("program", "_Program", "The command allfocus, or its path", "allfocus", flags)
        procedure.add_boolean_argument("align", "_Align", "Correct shift, rotation and focus breathing", True, flags)
        choice = Gimp.Choice.new()
        for number, value in enumerate(("neither", "near", "far")):
            choice.add(value, number, value, "")
        procedure.add_choice_argument(
            "prefer", "In dou_bt, prefer", "Which end of the stack wins", choice, "neither", flags
        )
        return procedure

    def run(self, procedure, run_mode, image, drawables, config, data):  # type: ignore[no-untyped-def]  # GIMP calls it
        """Asks, fuses, and tells GIMP how it went."""
        if run_mode == Gimp.RunMode.INTERACTIVE:
            GimpUi.init("allfocus")
            dialog = GimpUi.ProcedureDialog.new(procedure, config, "Fuse focus stack")
            dialog.fill(None)
            agreed = dialog.run()
            dialog.destroy()
            if not agreed:
                return procedure.new_return_values(Gimp.PDBStatusType.CANCEL, None)
        asked = {name: config.get_property(name) for name in ("program", "align", "prefer")}
        try:
            fuse_layers(image, list(drawables), **asked)
        except FusionError as error:
            return procedure.new_return_values(Gimp.PDBStatusType.EXECUTION_ERROR, GLib.Error(str(error)))
        return procedure.new_return_values(Gimp.PDBStatusType.SUCCESS, None)


Gimp.main(Allfocus.__gtype__, sys.argv)
