"""What ImageJ itself makes of a file that we write: size, scale, channels, colours, names, pixels.

Needs Java with a compiler and ImageJ (Debian: ``apt-get install imagej default-jdk-headless``); skips without.
"""

import dataclasses
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from allfocus.images.calibrated_files import FusedPlanes, encode_imagej
from allfocus.images.dimensions import Channel, Dimensions
from allfocus.images.ome_xml import describe_result

IMAGEJ = Path("/usr/share/java/ij.jar")
PROGRAM = """
import ij.*; import ij.io.Opener; import ij.measure.Calibration;

public class Show {
    public static void main(String[] arguments) {
        ImagePlus image = new Opener().openImage(arguments[0]);
        Calibration scale = image.getCalibration();
        StringBuilder sizes = new StringBuilder();
        for (int size : image.getDimensions()) sizes.append(size).append(' ');
        System.out.println(sizes.toString().trim());
        System.out.println(scale.pixelWidth + " " + scale.pixelHeight + " " + scale.pixelDepth);
        System.out.println(scale.getUnit().codePointAt(0) + " " + scale.frameInterval);
        for (int channel = 1; channel <= image.getNChannels(); channel++) {
            int colour = image instanceof CompositeImage
                ? ((CompositeImage) image).getChannelLut(channel).getRGB(255) & 0xffffff : -1;
            int place = image.getStackIndex(channel, 1, image.getNFrames());
            System.out.println(image.getStack().getSliceLabel(place) + " " + colour + " "
                + image.getStack().getProcessor(place).get(5, 7));
        }
    }
}
"""

pytestmark = pytest.mark.skipif(
    not IMAGEJ.exists() or shutil.which("java") is None, reason="ImageJ or Java is not installed"
)


@pytest.fixture
def show(tmp_path):
    program = tmp_path / "Show.java"
    program.write_text(PROGRAM)

    def run(path):
        words = ["java", "-Djava.awt.headless=true", "-cp", str(IMAGEJ), str(program), str(path)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        if "compiler" in done.stderr:
            pytest.skip("this Java has no compiler")
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_imagej_opens_a_hyperstack_with_scale_names_and_colours(tmp_path, show):
    stack = Dimensions(
        "cells",
        (40, 50),
        "uint16",
        planes=20,
        times=3,
        channels=(Channel("DAPI", "#0000ff"), Channel("GFP", "#00ff00")),
        pixel_size=(0.25, 0.5),
        z_step=1.5,
        time_step=60.0,
    )
    pixels = np.random.default_rng(0).integers(0, 4000, (3, 2, 40, 50)).astype(np.uint16)
    held, origin = describe_result(stack, "fused by a test")
    planes = FusedPlanes((held,), lambda _, time, channel: pixels[time, channel], origin, "test")
    (tmp_path / "a.tif").write_bytes(encode_imagej(planes))
    assert show(tmp_path / "a.tif") == [
        "50 40 2 1 3",
        "0.5 0.25 1.5",
        f"{ord(chr(0xB5))} 60.0",
        f"DAPI {0x0000FF} {pixels[2, 0, 7, 5]}",
        f"GFP {0x00FF00} {pixels[2, 1, 7, 5]}",
    ]
    one = dataclasses.replace(held, times=1, channels=held.channels[:1])
    single = FusedPlanes((one,), lambda *_: pixels[0, 0], origin, "test")
    (tmp_path / "b.tif").write_bytes(encode_imagej(single))
    assert show(tmp_path / "b.tif")[:2] == ["50 40 1 1 1", "0.5 0.25 1.5"]
