"""The plug-in for GIMP 3, with a stand-in for GIMP that holds pixels and writes files; the program is the real one."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import tifffile
from scripts import load_script

import allfocus

SCRIPT = Path(__file__).resolve().parents[3] / "integrations" / "gimp" / "allfocus" / "allfocus.py"


class Layer:
    def __init__(self, name, pixels, offset=(0, 0), visible=True):
        self.name, self.pixels, self.offset, self.visible, self.image = name, pixels, offset, visible, None

    @staticmethod
    def new_from_drawable(layer, image):
        return Layer(layer.name, layer.pixels, layer.offset, visible=layer.visible)

    def resize_to_image_size(self):
        height, width, channels = self.pixels.shape
        whole = np.zeros((*self.image.size, 4), np.uint16)
        left, top = self.offset
        whole[top : top + height, left : left + width, :channels] = self.pixels
        if channels == 3:
            whole[top : top + height, left : left + width, 3] = 65535
        covered = (height, width) == self.image.size
        self.pixels, self.offset = (whole[..., :3] if covered else whole), (0, 0)

    def is_group(self):
        return False

    def get_visible(self):
        return self.visible

    def set_visible(self, visible):
        self.visible = visible

    def get_name(self):
        return self.name

    def set_name(self, name):
        self.name = name


class Image:
    open_images = 0

    def __init__(self, width, height, base=0, precision=0):
        self.size, self.layers, self.undo = (height, width), [], []
        type(self).open_images += 1

    new_with_precision = classmethod(lambda cls, *given: cls(*given))

    def get_layers(self):
        return list(self.layers)

    def insert_layer(self, layer, parent, place):
        layer.image = self
        self.layers.insert(place, layer)

    def get_width(self):
        return self.size[1]

    def get_height(self):
        return self.size[0]

    def get_base_type(self):
        return 0

    def get_precision(self):
        return 250

    def get_color_profile(self):
        return None

    def undo_group_start(self):
        self.undo.append("start")

    def undo_group_end(self):
        self.undo.append("end")

    def delete(self):
        type(self).open_images -= 1


def save(mode, image, path, options):
    (layer,) = image.layers
    extra = ["unassalpha"] if layer.pixels.shape[2] == 4 else None
    tifffile.imwrite(path, layer.pixels, photometric="rgb", extrasamples=extra)
    return True


class Procedure:
    def __init__(self):
        self.said = {}

    @classmethod
    def new(cls, plug_in, name, kind, run, data):
        return cls()

    def __getattr__(self, name):
        return lambda *given: self.said.setdefault(name, []).append(given)

    def new_return_values(self, status, error):
        return status, error


@pytest.fixture
def gimp(monkeypatch):
    """The plug-in, loaded as GIMP loads it."""
    choice = SimpleNamespace(add=lambda *given: None)
    mask = SimpleNamespace(DRAWABLE=1, DRAWABLES=2, NO_DRAWABLES=4)
    started = []
    fake = SimpleNamespace(
        PlugIn=type("PlugIn", (), {"__gtype__": "type"}),
        main=lambda kind, words: started.append(kind),
        Image=Image,
        Layer=Layer,
        Drawable=Layer,
        Procedure=Procedure,
        ImageProcedure=Procedure,
        ProcedureSensitivityMask=mask,
        PDBProcType=SimpleNamespace(PLUGIN=1),
        PDBStatusType=SimpleNamespace(SUCCESS="success", CANCEL="cancel", EXECUTION_ERROR="error"),
        RunMode=SimpleNamespace(INTERACTIVE=0, NONINTERACTIVE=1),
        Choice=SimpleNamespace(new=lambda: choice),
        file_save=save,
        file_load_layer=lambda mode, image, path: Layer("from file", tifffile.imread(path)),
        progress_init=lambda text: None,
        progress_update=lambda share: None,
        progress_pulse=lambda: None,
        displays_flush=lambda: None,
    )
    dialog = SimpleNamespace(answer=True, fill=lambda names: None, destroy=lambda: None)
    dialog.run = lambda: dialog.answer
    repository = ModuleType("gi.repository")
    repository.Gimp = fake
    repository.GimpUi = SimpleNamespace(
        init=lambda name: None, ProcedureDialog=SimpleNamespace(new=lambda *given: dialog)
    )
    repository.Gio = SimpleNamespace(File=SimpleNamespace(new_for_path=lambda path: path))
    repository.GLib = SimpleNamespace(Error=RuntimeError)
    repository.GObject = SimpleNamespace(ParamFlags=SimpleNamespace(READWRITE=3))
    package = ModuleType("gi")
    package.require_version = lambda name, version: None
    package.repository = repository
    monkeypatch.setitem(sys.modules, "gi", package)
    monkeypatch.setitem(sys.modules, "gi.repository", repository)
    module = load_script(SCRIPT, name="gimp_plug_in")
    assert started == ["type"]
    Image.open_images = 0
    return SimpleNamespace(module=module, dialog=dialog, plug_in=module.Allfocus())


@pytest.fixture
def picture(small_stack):
    """A picture of 16 bits whose layers are the frames, the first at the bottom."""
    image = Image(128, 96)
    for number, frame in enumerate(small_stack):
        image.insert_layer(Layer(f"frame {number}", np.rint(frame * 65535).astype(np.uint16)), None, 0)
    return image


def call(gimp, image, program, selected=(), mode=1, **asked):
    asked = {"program": str(program), "align": True, "prefer": "neither", **asked}
    config = SimpleNamespace(get_property=asked.__getitem__)
    procedure = gimp.plug_in.do_create_procedure(gimp.module.PROCEDURE)
    return gimp.plug_in.run(procedure, mode, image, selected, config, None)


def is_fused_from(frames, layer):
    """Whether a layer is what fusing gives, but for rounding on the way through files."""
    assert layer.pixels.dtype == np.uint16
    return np.abs(layer.pixels.astype(int) - allfocus.fuse(frames).image).max() <= 4


def test_the_layers_become_one_on_top_with_all_their_bits(gimp, picture, small_stack, program, monkeypatch):
    monkeypatch.setenv("PYTHONHOME", "/of/gimp")  # as the Python of GIMP has it; ours would not start
    before = [layer.pixels.copy() for layer in picture.layers]
    assert call(gimp, picture, program) == ("success", None)
    assert [layer.name for layer in picture.layers] == ["allfocus", "frame 2", "frame 1", "frame 0"]
    frames = [np.rint(frame * 65535).astype(np.uint16) for frame in small_stack]
    assert is_fused_from(frames, picture.layers[0])
    assert all(np.array_equal(now.pixels, was) for now, was in zip(picture.layers[1:], before, strict=True))
    assert picture.undo == ["start", "end"]
    assert Image.open_images == 1


def test_of_several_selected_layers_only_these_are_fused(gimp, picture, small_stack, program):
    chosen = [picture.layers[0], picture.layers[2]]
    assert call(gimp, picture, program, selected=chosen, align=False)[0] == "success"
    frames = [np.rint(small_stack[number] * 65535).astype(np.uint16) for number in (0, 2)]
    assert is_fused_from(frames, picture.layers[0])


def test_hidden_layers_are_left_out_and_small_ones_lie_where_they_are(gimp, picture, program):
    picture.layers[1].visible = False
    small = picture.layers[0]
    small.pixels, small.offset = small.pixels[10:60, 20:100], (20, 10)
    assert call(gimp, picture, program, align=False)[0] == "success"
    assert picture.layers[0].pixels.shape[:2] == (96, 128)
    outside = picture.layers[0].pixels[:5, :, :3]
    assert np.array_equal(outside, picture.layers[3].pixels[:5])


def test_the_complaint_of_the_program_reaches_gimp_and_no_layer_is_added(gimp, picture, tmp_path):
    failing = tmp_path / "allfocus"
    failing.write_text("#!/bin/sh\necho 'a notice' >&2\necho 'allfocus: frames differ: Käfer' >&2\nexit 2\n")
    failing.chmod(0o755)
    status, error = call(gimp, picture, failing)
    assert (status, str(error)) == ("error", "frames differ: Käfer")
    assert len(picture.layers) == 3
    assert Image.open_images == 1


def test_what_cannot_work_is_told(gimp, picture):
    status, error = call(gimp, picture, "/nowhere/allfocus")
    assert status == "error"
    assert "whole path" in str(error)
    del picture.layers[1:]
    status, error = call(gimp, picture, "allfocus")
    assert status == "error"
    assert "Open as Layers" in str(error)


def test_who_cancels_the_dialog_gets_nothing(gimp, picture):
    gimp.dialog.answer = False
    assert call(gimp, picture, "/nowhere/allfocus", mode=0) == ("cancel", None)
