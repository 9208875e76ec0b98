"""Profiles made of what files say in other words: right by another program's reading, and carried to the result."""

import io
import struct

import numpy as np
import pytest
from PIL import Image as PillowImage
from PIL import ImageCms

from allfocus.images.colour_profile import ADOBE_PRIMARIES, SRGB_PRIMARIES, colour_matrix, make_profile, profile_of_exif
from allfocus.images.encoders import encode_png, png_chunk
from allfocus.images.image import Image
from allfocus.images.reading import read_image
from allfocus.images.transfer import SRGB, Curve, FormulaCurve, find_curve
from allfocus.images.writing import write_image
from allfocus.stack.pipeline import fuse_files

WIDE = struct.pack(">8I", 31270, 32900, 70800, 29200, 17000, 79700, 13100, 4600)
"""The cHRM chunk of Rec. 2020."""


def png_with(chunks: dict[bytes, bytes], *, grey: bool = False, bits: int = 8) -> bytes:
    samples = np.random.default_rng(3).integers(0, 2**bits, (80, 90) if grey else (80, 90, 3))
    kind = np.uint8 if bits == 8 else np.uint16
    data = encode_png(samples.astype(kind), Image(np.zeros((1, 1), np.float32)))
    return data[:33] + b"".join(png_chunk(name, body) for name, body in chunks.items()) + data[33:]


def gamma(value: float) -> bytes:
    return struct.pack(">I", round(value * 1e5))


def to_srgb(profile: bytes, colour: tuple[int, int, int]) -> tuple[int, ...]:
    """An 8-bit colour in sRGB, by Little CMS."""
    picture = PillowImage.new("RGB", (1, 1), colour)
    source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    turned = ImageCms.profileToProfile(picture, source, ImageCms.createProfile("sRGB"), renderingIntent=1)
    return turned.getpixel((0, 0))


def test_the_matrix_of_adobe_rgb_is_that_of_its_own_profile():
    """The colorants of the file AdobeRGB1998.icc, as its specification prints them (version 2005-05, 4.3.5.2)."""
    expected = [[0.60974, 0.20528, 0.14919], [0.31111, 0.62567, 0.06322], [0.01947, 0.06087, 0.74457]]
    np.testing.assert_allclose(colour_matrix(ADOBE_PRIMARIES), expected, atol=2e-4)


ADOBE_TO_XYZ = [[0.57667, 0.18556, 0.18823], [0.29734, 0.62736, 0.07529], [0.02703, 0.07069, 0.99134]]
"""Linear Adobe RGB to XYZ of D65: Adobe RGB (1998) Color Image Encoding, 4.3.5.3."""
XYZ_TO_SRGB = [[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]]
"""IEC 61966-2-1, which has four digits."""


@pytest.mark.parametrize("colour", [(255, 255, 255), (128, 128, 128), (200, 60, 40), (150, 180, 120), (60, 90, 200)])
def test_another_program_reads_the_profiles_as_they_are_meant(colour):
    light = (np.array(colour) / 255) ** (563 / 256)
    expected = SRGB.from_linear(light.astype(np.float32)) * 255
    np.testing.assert_allclose(to_srgb(make_profile("sRGB", 2.2, SRGB_PRIMARIES), colour), expected, atol=1.5)
    turned = np.clip(np.array(XYZ_TO_SRGB) @ np.array(ADOBE_TO_XYZ) @ light, 0, 1)
    expected = SRGB.from_linear(turned.astype(np.float32)) * 255
    np.testing.assert_allclose(to_srgb(make_profile("Adobe", 563 / 256, ADOBE_PRIMARIES), colour), expected, atol=1.5)


def test_another_program_reads_the_profile_of_grey():
    profile = ImageCms.ImageCmsProfile(io.BytesIO(make_profile("grey", 1.8, None)))
    assert (profile.profile.xcolor_space.strip(), profile.profile.profile_description) == ("GRAY", "grey")


@pytest.mark.parametrize(
    ("chunks", "curve"),
    [
        ({b"sRGB": b"\x00"}, Curve((SRGB,))),
        ({b"sRGB": b"\x00", b"gAMA": gamma(1.0)}, Curve((SRGB,))),
        ({b"gAMA": gamma(1.0)}, Curve((FormulaCurve(1.0),))),
        ({b"gAMA": gamma(0.45455)}, Curve((FormulaCurve(563 / 256),))),
        ({b"gAMA": gamma(0.5), b"cHRM": WIDE}, Curve((FormulaCurve(2.0),))),
        ({b"gAMA": gamma(0.5), b"cHRM": bytes(32)}, Curve((FormulaCurve(2.0),))),
        ({b"gAMA": gamma(0.5), b"cHRM": struct.pack(">8I", *[30000] * 8)}, Curve((FormulaCurve(2.0),))),
        ({b"gAMA": gamma(0.5), b"cHRM": b"short"}, Curve((FormulaCurve(2.0),))),
        ({b"gAMA": gamma(0)}, None),
        ({b"gAMA": b"\xff" * 4}, None),
        ({b"gAMA": b"\x00"}, None),
        ({b"cHRM": WIDE}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("grey", [False, True])
def test_the_chunks_of_png_tell_the_curve(tmp_path, chunks, curve, grey):
    path = tmp_path / "a.png"
    path.write_bytes(png_with(chunks, grey=grey))
    image = read_image(path)
    found = find_curve(image.icc_profile, image.exif, channels=1 if grey else 3)
    if grey and b"sRGB" in chunks:
        curve = Curve((FormulaCurve(563 / 256),))
    if curve != Curve((SRGB,)):
        assert found == curve
        return
    levels = np.linspace(0, 1, 300, dtype=np.float32)[:, None].repeat(3, 1)
    np.testing.assert_allclose(found.to_linear(levels), curve.to_linear(levels), atol=1e-4)


def test_a_profile_in_the_file_is_kept_whatever_the_other_chunks_say(tmp_path):
    profile = make_profile("mine", 1.8, SRGB_PRIMARIES)
    path = write_image(Image(np.zeros((8, 8, 3), np.float32), icc_profile=profile), tmp_path / "a.png")
    data = path.read_bytes()
    path.write_bytes(data[:33] + png_chunk(b"gAMA", gamma(1.0)) + data[33:])
    assert read_image(path).icc_profile == profile


def adobe_exif(index: str | None = "R03", space: int = 65535) -> bytes:
    block = PillowImage.Exif()
    block[0x010F] = "A maker of cameras"
    block.get_ifd(0x8769)[0xA001] = space
    if index is not None:
        block.get_ifd(0x8769)[0xA005] = {1: index}
    return block.tobytes()[6:]


@pytest.mark.parametrize(
    ("exif", "known"),
    [
        (adobe_exif(), True),
        (adobe_exif(None, 2), True),
        (adobe_exif("R98"), False),
        (adobe_exif(None), False),
        (adobe_exif("R03", 1), False),
        (None, False),
        (b"", False),
        (adobe_exif()[:30], False),
    ],
)
def test_exif_that_says_adobe_rgb_becomes_a_profile(exif, known):
    assert (profile_of_exif(exif) is not None) == known


def test_a_camera_file_in_adobe_rgb_is_mixed_in_its_light_and_stays_adobe_rgb_in_any_format(tmp_path, small_stack):
    paths = []
    for number, frame in enumerate(small_stack):
        paths.append(tmp_path / f"{number}.jpg")
        picture = PillowImage.fromarray(np.rint(frame * 255).astype(np.uint8))
        picture.save(paths[-1], exif=b"Exif\x00\x00" + adobe_exif(), quality=95)
    assert read_image(paths[0]).icc_profile == profile_of_exif(adobe_exif())
    for ending in ("tif", "jpg", "png", "webp"):
        result = fuse_files(paths, tmp_path / f"fused.{ending}", align=False)
        assert result.settings["linear_light"] is True
        assert read_image(tmp_path / f"fused.{ending}").icc_profile == profile_of_exif(adobe_exif())


def test_equal_frames_with_an_exponent_come_back_bit_for_bit(tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(png_with({b"gAMA": gamma(0.45455), b"cHRM": WIDE}, bits=16))
    first = read_image(tmp_path / "0.png")
    fuse_files([tmp_path / f"{number}.png" for number in range(3)], tmp_path / "fused.png")
    fused = read_image(tmp_path / "fused.png")
    np.testing.assert_array_equal(fused.pixels, first.pixels)
    assert (fused.bit_depth, fused.icc_profile) == (16, first.icc_profile)
