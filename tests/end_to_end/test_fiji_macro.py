"""The macro for ImageJ and Fiji, run by ImageJ itself on a display that nobody sees.

Needs Java, ImageJ and Xvfb (Debian: ``apt-get install imagej xvfb xauth``); skips without.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile

import allfocus

IMAGEJ = Path("/usr/share/java/ij.jar")
MACRO = Path(__file__).resolve().parents[2] / "integrations" / "fiji" / "allfocus.ijm"
PLANES, STEP, PIXEL = 6, 1.5, 0.25
DRIVER = """
setBatchMode(true);
open("{stack}");
runMacro("{macro}", "command={command}");
getDimensions(width, height, channels, slices, frames);
getVoxelSize(across, down, step, unit);
print("fused|" + getTitle() + "|" + channels + "|" + slices + "|" + across + "|" + step + "|" + charCodeAt(unit, 0));
saveAs("Tiff", "{fused}");
selectWindow("height of in.tif");
getVoxelSize(across, down, step, unit);
print("height|" + bitDepth() + "|" + across + "|" + charCodeAt(unit, 0));
saveAs("Tiff", "{height}");
"""

pytestmark = pytest.mark.skipif(
    not IMAGEJ.exists() or not all(map(shutil.which, ("java", "xvfb-run"))),
    reason="ImageJ, Java or Xvfb is not installed",
)


def test_imagej_fuses_the_open_stack_and_shows_heights_in_its_own_unit(tmp_path):
    frames = allfocus.render_scene("slope", frames=PLANES, size=(128, 160)).frames
    planes = np.stack([[frame[..., 0], frame[..., 2]] for frame in frames])
    pixels = np.rint(planes * 65535).astype(np.uint16)
    stack = tmp_path / "in.tif"
    told = {"axes": "ZCYX", "unit": "um", "spacing": STEP}
    tifffile.imwrite(stack, pixels, imagej=True, resolution=(1 / PIXEL, 1 / PIXEL), metadata=told)
    command = tmp_path / "allfocus"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m allfocus.cli "$@"\n')
    command.chmod(0o755)
    places = {"stack": stack, "macro": MACRO, "command": command}
    results = {"fused": tmp_path / "fused.tif", "height": tmp_path / "height.tif"}
    driver = tmp_path / "driver.ijm"
    driver.write_text(DRIVER.format(**places, **results))
    words = ["xvfb-run", "-a", "java", f"-Djava.io.tmpdir={tmp_path}", "-jar", str(IMAGEJ), "-batch", str(driver)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=environment)
    micro = ord("\N{MICRO SIGN}")
    assert f"fused|fused in.tif|2|1|{PIXEL}|{STEP}|{micro}" in done.stdout, done.stdout + done.stderr
    assert f"height|32|{PIXEL}|{micro}" in done.stdout
    expected = allfocus.fuse_files(
        stack, tmp_path / "own.tif", align=False, depth_map=tmp_path / "own.png", method="ips"
    )
    assert np.array_equal(tifffile.imread(results["fused"]), tifffile.imread(tmp_path / "own.tif"))
    heights = np.rint(expected.smooth_depth * 65535) * (PLANES - 1) * STEP / 65535
    assert np.abs(tifffile.imread(results["height"]) - heights).max() < 1e-3
