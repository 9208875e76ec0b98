"""The plug-in for GIMP 3, called by GIMP itself without a window.

Needs GIMP 3 with its Python (Debian 13: ``apt-get install gimp gir1.2-gimp-3.0 python3-gi``); skips without.
"""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tifffile
from scripts import write_program

import allfocus

ROOT = Path(__file__).resolve().parents[2]
GIMP = shutil.which("gimp-console-3.0") or shutil.which("gimp-console-3")
BATCH = """
from gi.repository import Gimp, Gio
files = {files!r}
quiet = Gimp.RunMode.NONINTERACTIVE
image = Gimp.file_load(quiet, Gio.File.new_for_path(files[0]))
for file in files[1:]:
    image.insert_layer(Gimp.file_load_layer(quiet, image, Gio.File.new_for_path(file)), None, 0)
procedure = Gimp.get_pdb().lookup_procedure("plug-in-allfocus-fuse")
config = procedure.create_config()
config.set_property("run-mode", quiet)
config.set_property("image", image)
config.set_core_object_array("drawables", [])
said = []
for program in ({program!r}, "/nowhere/allfocus"):
    config.set_property("program", program)
    procedure.run(config)
    said.append(str(Gimp.get_pdb().get_last_error()))
said += [layer.get_name() for layer in image.get_layers()]
size = image.get_width(), image.get_height()
alone = Gimp.Image.new_with_precision(*size, image.get_base_type(), image.get_precision())
alone.insert_layer(Gimp.Layer.new_from_drawable(image.get_layers()[0], alone), None, 0)
Gimp.file_save(quiet, alone, Gio.File.new_for_path({fused!r}), None)
open({told!r}, "w").write("\\n".join(said))
"""

pytestmark = pytest.mark.skipif(GIMP is None, reason="GIMP 3 is not installed")


def test_gimp_fuses_the_layers_of_a_picture(tmp_path, small_stack):
    files = [
        str(allfocus.write_image(np.rint(frame * 65535).astype(np.uint16), tmp_path / f"Käfer's {number}.tif"))
        for number, frame in enumerate(small_stack)
    ]
    program = write_program(tmp_path / "all focus")
    settings = tmp_path / "settings"
    shutil.copytree(ROOT / "integrations" / "gimp" / "allfocus", settings / "plug-ins" / "allfocus")
    told, fused, batch = tmp_path / "told.txt", tmp_path / "fused.tif", tmp_path / "batch.py"
    places = {"files": files, "program": str(program), "told": str(told), "fused": str(fused)}
    batch.write_text(BATCH.format(**places), encoding="utf-8")
    # The Python of the system, which knows GIMP, comes before ours.
    environment = {**os.environ, "PATH": f"/usr/bin:{os.environ['PATH']}", "GIMP3_DIRECTORY": str(settings)}
    line = [GIMP, "--new-instance", "--batch-interpreter=python-fu-eval", "-b", f"exec(open({str(batch)!r}).read())"]
    done = subprocess.run([*line, "--quit"], capture_output=True, text=True, check=False, env=environment)
    assert told.exists(), done.stdout + done.stderr
    first, second, *layers = told.read_text(encoding="utf-8").splitlines()
    assert first == "success"
    assert "/nowhere/allfocus" in second
    assert layers[0] == "allfocus"
    assert len(layers) == 4
    expected = allfocus.fuse_files(files, tmp_path / "expected.tif", crop=False)
    assert expected.image.shape == small_stack[0].shape
    seen = tifffile.imread(fused)
    assert seen.dtype == np.uint16
    assert np.abs(seen.astype(int) - tifffile.imread(tmp_path / "expected.tif")).max() <= 4
