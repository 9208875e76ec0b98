"""What is written reads back: every lossless format, depth and number of channels."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from allfocus.images.conversion import turn_upright
from allfocus.images.exif import add_history, block_of_tiff, mark_as_upright, parse_block, read_orientation
from allfocus.images.frame_file import list_frames
from allfocus.images.image import Image
from allfocus.images.reading import read_image
from allfocus.images.tiff_layout import EXIF_DIRECTORY
from allfocus.images.writing import to_integers, write_image

shapes = st.tuples(st.integers(1, 9), st.integers(1, 9)).flatmap(lambda size: st.sampled_from([size, (*size, 3)]))
levels = st.sampled_from([np.uint8, np.uint16]).flatmap(lambda kind: arrays.arrays(kind, shapes))


@given(levels, st.sampled_from([".png", ".tif"]))
def test_integer_levels_read_back_exactly(samples, suffix):
    with tempfile.TemporaryDirectory() as folder:
        image = read_image(write_image(samples, Path(folder) / f"a{suffix}"))
    assert image.bit_depth == samples.dtype.itemsize * 8
    np.testing.assert_array_equal(to_integers(image.pixels, image.bit_depth), samples)


@given(arrays.arrays(np.float32, shapes, elements=st.floats(0, 1, width=32)))
def test_floating_point_tiff_reads_back_exactly(pixels):
    with tempfile.TemporaryDirectory() as folder:
        image = read_image(write_image(Image(pixels, bit_depth=32), Path(folder) / "a.tif"))
    np.testing.assert_array_equal(image.pixels, pixels)


@given(arrays.arrays(np.float32, shapes, elements=st.floats(0, 1, width=32)), st.sampled_from([8, 16]))
def test_rounding_is_never_off_by_more_than_half_a_level(pixels, bit_depth):
    largest = 2**bit_depth - 1
    error = np.abs(to_integers(pixels, bit_depth).astype(np.float64) - pixels.astype(np.float64) * largest)
    assert error.max() <= 0.5 + 1e-2  # float32 holds 16-bit levels to within a hundredth of one


@given(arrays.arrays(np.float32, shapes, elements=st.floats(0, 1, width=32)), st.integers(1, 8))
def test_turning_upright_only_moves_pixels(pixels, orientation):
    turned = turn_upright(pixels, orientation)
    np.testing.assert_array_equal(np.sort(turned, axis=None), np.sort(pixels, axis=None))
    inverse = {6: 8, 8: 6}.get(orientation, orientation)
    np.testing.assert_array_equal(turn_upright(turned, inverse), pixels)


@given(st.binary(max_size=200), st.sampled_from([b"", b"II*\x00", b"MM\x00*"]))
def test_any_bytes_can_pose_as_exif_without_an_error(body, header):
    block = header + body
    assert 1 <= read_orientation(block) <= 8
    assert len(mark_as_upright(block)) == len(block)
    parse_block(block)
    block_of_tiff(block)


@given(st.binary(max_size=200), st.sampled_from([b"", b"II*\x00\x08\x00\x00\x00", b"MM\x00*\x00\x00\x00\x08"]))
def test_history_can_be_added_to_any_bytes_that_pose_as_exif(body, header):
    block = add_history(header + body, software="allfocus", history="fused", width=3, height=2)
    directory = parse_block(block)
    assert [entry[3] for entry in directory.entries if entry[0] == 0x0131] == [b"allfocus\x00"]
    history = [entry[3] for entry in directory.children[EXIF_DIRECTORY].entries if entry[0] == 0x9213]
    assert history[0].endswith(b"fused\x00")


@given(levels, st.data(), st.sampled_from([".png", ".tif"]))
def test_alpha_reads_back_exactly(samples, data, suffix):
    alpha = data.draw(arrays.arrays(samples.dtype, samples.shape[:2]))
    largest, depth = np.float32(np.iinfo(samples.dtype).max), samples.dtype.itemsize * 8
    given = Image(samples.astype(np.float32) / largest, bit_depth=depth, alpha=alpha.astype(np.float32) / largest)
    with tempfile.TemporaryDirectory() as folder:
        image = read_image(write_image(given, Path(folder) / f"a{suffix}"))
    np.testing.assert_array_equal(to_integers(image.pixels, depth), samples)
    if (alpha == largest).all():
        assert image.valid is None
    else:
        np.testing.assert_array_equal(to_integers(image.alpha, depth), alpha)
        np.testing.assert_array_equal(image.valid, alpha > largest / 2)


@given(levels, st.sampled_from([".png", ".tif", ".jpg", ".webp"]))
def test_headers_promise_what_decoding_gives(samples, suffix):
    with tempfile.TemporaryDirectory() as folder:
        path = write_image(samples, Path(folder) / f"a{suffix}")
        (frame,) = list_frames(path)
        image = read_image(path)
    assert (frame.height, frame.width, frame.is_colour) == (image.height, image.width, image.is_colour)
    assert frame.header.bit_depth == image.bit_depth
