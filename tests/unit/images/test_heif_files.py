"""HEIF in and out."""

import sys

import numpy as np
import pytest

import allfocus
from allfocus.errors import MissingDependencyError, OutputError
from allfocus.images.colour_profile import adobe_profile
from allfocus.images.exif import SOFTWARE, build_block, parse_block
from allfocus.images.image import Image
from allfocus.images.reading import read_image
from allfocus.images.tiff_directories import Directory
from allfocus.images.writing import write_image

EXIF = build_block(Directory([(SOFTWARE, 2, 5, b"mine\x00")]))


@pytest.fixture
def ramp():
    pytest.importorskip("pillow_heif", reason="pillow-heif is not installed (pip install 'allfocus[heif]')")
    rows, columns = np.indices((64, 96), np.float32)
    return np.stack([rows / 63, columns / 95, (rows + columns) / 158], axis=2).astype(np.float32)


@pytest.mark.parametrize(("bit_depth", "step"), [(8, 1 / 255), (16, 1 / 1023)])
def test_what_is_written_is_read_again_with_its_profile_and_exif(tmp_path, ramp, bit_depth, step):
    picture = Image(ramp, bit_depth=bit_depth, icc_profile=adobe_profile(), exif=EXIF)
    image = read_image(write_image(picture, tmp_path / "a.heic", quality=100))
    assert image.bit_depth == bit_depth
    assert np.abs(image.pixels - ramp).max() <= step
    assert image.icc_profile == adobe_profile()
    assert parse_block(image.exif).entries[0][3] == b"mine\x00"


def test_quality_trades_size_for_fidelity(tmp_path, ramp):
    noisy = np.clip(ramp + np.random.default_rng(0).normal(0, 0.05, ramp.shape), 0, 1).astype(np.float32)
    sizes, errors = [], []
    for quality in (30, 95):
        path = write_image(noisy, tmp_path / f"{quality}.heic", quality=quality)
        sizes.append(path.stat().st_size)
        errors.append(np.abs(read_image(path).pixels - noisy).mean())
    assert sizes[0] < sizes[1]
    assert errors[0] > errors[1]


@pytest.mark.parametrize("shape", [(64, 96), (63, 95)])
def test_grey_and_transparent_pictures_keep_their_size_and_kind(tmp_path, ramp, shape):
    grey = ramp[: shape[0], : shape[1], 0].copy()
    image = read_image(write_image(Image(grey), tmp_path / "grey.heic"))
    assert image.pixels.shape[:2] == shape
    assert np.abs(np.atleast_3d(image.pixels)[..., 0] - grey).mean() < 0.02
    alpha = (grey > 0.5).astype(np.float32)
    colour = ramp[: shape[0], : shape[1]].copy()
    image = read_image(write_image(Image(colour, alpha=alpha), tmp_path / "alpha.heic", quality=100))
    assert (image.valid == (alpha > 0)).all()


def test_a_stack_of_heif_fuses_to_heif_with_a_notice_about_its_bits(tmp_path, ramp):
    for name in "ab":
        write_image(Image(ramp, bit_depth=16), tmp_path / f"{name}.heic", quality=100)
    result = allfocus.fuse_files(
        [tmp_path / "a.heic", tmp_path / "b.heic"], tmp_path / "x.heic", method="average", align=False
    )
    assert any("HEIF has 10" in sentence for sentence in result.notices)
    assert np.abs(read_image(tmp_path / "x.heic").pixels - ramp).mean() < 0.01


def test_more_than_10_bits_are_refused_not_cut(tmp_path, ramp):
    with pytest.raises(OutputError, match="HEIF has 8 or 10 bits per channel, not 16"):
        write_image(ramp, tmp_path / "a.heic", bit_depth=16)


def test_without_its_package_writing_stops_before_the_work(tmp_path, monkeypatch, stack_folder):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'allfocus\[heif\]'"):
        allfocus.fuse_files(stack_folder, tmp_path / "a.heic")
