"""Transfer curves: read from profiles and EXIF as they are, turned round without losing a level, never guessed."""

import struct

import numpy as np
import pytest
from PIL import Image as PillowImage
from PIL import ImageCms

from allfocus.images.transfer import SRGB, Curve, FormulaCurve, TableCurve, find_curve

LEVELS = (np.arange(65536) / 65535).astype(np.float32)
EXIF_DIRECTORY = 0x8769


def profile_of(tags: dict[bytes, bytes]) -> bytes:
    """An ICC profile with these tags and nothing else."""
    start = 132 + 12 * len(tags)
    table, bodies = b"", b""
    for name, body in tags.items():
        table += struct.pack(">4sII", name, start + len(bodies), len(body))
        bodies += body.ljust(-(-len(body) // 4) * 4, b"\x00")
    header = bytearray(128)
    header[36:40] = b"acsp"
    return bytes(header) + struct.pack(">I", len(tags)) + table + bodies


def colour_profile(body: bytes) -> bytes:
    return profile_of({b"rTRC": body, b"gTRC": body, b"bTRC": body})


def table(entries) -> bytes:
    levels = np.rint(np.asarray(entries) * 65535).astype(">u2")
    return b"curv\x00\x00\x00\x00" + struct.pack(">I", len(levels)) + levels.tobytes()


def exponent(value: float) -> bytes:
    return b"curv\x00\x00\x00\x00" + struct.pack(">IH", 1, round(value * 256))


def formula(kind: int, *parameters: float) -> bytes:
    fixed = [round(value * 65536) for value in parameters]
    return b"para\x00\x00\x00\x00" + struct.pack(f">HH{len(fixed)}i", kind, 0, *fixed)


SRGB_PARAMETERS = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
BODIES = {
    "linear": (b"curv\x00\x00\x00\x00" + bytes(4), lambda x: x),
    "exponent 1.8": (exponent(1.8), lambda x: x**1.80078125),
    "exponent 2.2": (exponent(563 / 256), lambda x: x ** (563 / 256)),
    "short table": (table(np.linspace(0, 1, 1024) ** 2.2), lambda x: x**2.2),
    "long table, flat near black": (table(np.linspace(0, 1, 4096) ** 2.4), lambda x: x**2.4),
    "formula 0": (formula(0, 2.2), lambda x: x ** (round(2.2 * 65536) / 65536)),
    "formula 1": (formula(1, 2.0, 1.05, -0.05), lambda x: np.maximum(1.05 * x - 0.05, 0) ** 2),
    "formula 2": (formula(2, 2.0, 0.9, 0.1, -0.01), lambda x: (0.9 * x + 0.1) ** 2 - 0.01),
    "formula 3": (formula(3, *SRGB_PARAMETERS), lambda x: SRGB.to_linear(x)),
    "formula 4": (formula(4, *SRGB_PARAMETERS, 0.0, 0.0), lambda x: SRGB.to_linear(x)),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_profile_gives_the_curve_it_describes(name):
    body, expected = BODIES[name]
    curve = find_curve(colour_profile(body), None)
    light = curve.to_linear(LEVELS)
    assert light.dtype == np.float32
    # A table is made a little steeper where it is flat: that moves it by less than 1 in 100 of full light.
    np.testing.assert_allclose(light, expected(LEVELS.astype(np.float64)), atol=0.01 if "table" in name else 1e-3)


@pytest.mark.parametrize("name", BODIES)
def test_every_level_of_16_bits_survives_the_way_to_light_and_back(name):
    curve = find_curve(colour_profile(BODIES[name][0]), None)
    again = curve.from_linear(curve.to_linear(LEVELS))
    assert np.abs(np.rint(again * 65535) - np.arange(65536)).max() == 0


@pytest.mark.parametrize("name", BODIES)
def test_a_sum_of_shares_of_one_light_is_that_light(name):
    """What blending equal frames does: bit for bit, whatever the shares."""
    curve = find_curve(colour_profile(BODIES[name][0]), None)
    light = curve.to_linear(LEVELS)
    shares = np.random.default_rng(1).dirichlet(np.ones(5), len(LEVELS)).astype(np.float32)
    mixed = sum(share * light for share in shares.T)
    assert np.abs(np.rint(curve.from_linear(mixed) * 65535) - np.arange(65536)).max() == 0


def test_the_profile_that_programs_attach_for_srgb_is_srgb():
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    curve = find_curve(profile, None)
    np.testing.assert_allclose(curve.to_linear(LEVELS), SRGB.to_linear(LEVELS), atol=1e-4)
    # IEC 61966-2-1: half of the light is stored as 188 of 255.
    assert round(float(curve.from_linear(np.float32([0.5]))[0]) * 255) == 188
    assert not curve.is_linear


def test_each_channel_has_its_own_curve_if_the_profile_says_so():
    bodies = {b"rTRC": exponent(1.0), b"gTRC": exponent(2.0), b"bTRC": exponent(3.0)}
    curve = find_curve(profile_of(bodies), None)
    picture = np.full((2, 3, 3), 0.5, np.float32)
    np.testing.assert_allclose(curve.to_linear(picture)[1, 2], [0.5, 0.25, 0.125], atol=1e-6)
    np.testing.assert_allclose(curve.to_linear(picture[0]), curve.to_linear(picture)[0])
    np.testing.assert_allclose(curve.from_linear(curve.to_linear(picture)), picture, atol=1e-6)


def test_grey_takes_the_curve_for_grey_and_no_other():
    grey, colour = profile_of({b"kTRC": exponent(2.0)}), colour_profile(exponent(2.0))
    assert find_curve(grey, None, channels=1).to_linear(np.float32([[0.5]]))[0, 0] == pytest.approx(0.25)
    assert find_curve(grey, None, channels=3) is None
    assert find_curve(colour, None, channels=1) is None


def test_a_linear_profile_is_known_to_be_linear():
    assert find_curve(colour_profile(BODIES["linear"][0]), None).is_linear
    assert find_curve(colour_profile(exponent(1.0)), None).is_linear


def exif_saying(colour_space: int | None) -> bytes:
    block = PillowImage.Exif()
    block[0x010F] = "A maker of cameras"
    if colour_space is not None:
        block.get_ifd(EXIF_DIRECTORY)[0xA001] = colour_space
    return block.tobytes()[6:]


def test_exif_that_says_srgb_counts_and_anything_else_does_not():
    assert find_curve(None, exif_saying(1)) == Curve((SRGB,))
    for other in (exif_saying(65535), exif_saying(None), None, b"", b"Exif?", exif_saying(1)[:20]):
        assert find_curve(None, other) is None


def test_a_profile_that_says_nothing_is_not_overruled_by_exif():
    assert find_curve(profile_of({b"A2B0": bytes(40)}), exif_saying(1)) is None


@pytest.mark.parametrize(
    "profile",
    [
        b"",
        b"no profile at all",
        bytes(200),
        colour_profile(exponent(2.2))[:100],
        colour_profile(exponent(2.2))[:-8],
        colour_profile(b"curv\x00\x00\x00\x00" + struct.pack(">I", 2**31)),
        colour_profile(exponent(0)),
        colour_profile(table([1.0, 0.5, 0.0])),
        colour_profile(table([0.0, 0.0, 0.0])),
        colour_profile(formula(9, 2.2)),
        colour_profile(formula(3, 2.2, 1.0)),
        colour_profile(formula(0, -1.0)),
        colour_profile(formula(1, 2.0, 0.0, 0.0)),
        colour_profile(b"mft2" + bytes(40)),
        profile_of({b"rTRC": exponent(2.2)}),
    ],
    ids=range(15),
)
def test_a_damaged_or_senseless_profile_tells_nothing(profile):
    assert find_curve(profile, None) is None


def test_any_cut_through_a_profile_is_a_curve_or_nothing():
    whole = colour_profile(table(np.linspace(0, 1, 64) ** 2.2))
    for length in range(0, len(whole), 7):
        found = find_curve(whole[:length], None)
        assert found is None or isinstance(found.channels[0], FormulaCurve | TableCurve)
