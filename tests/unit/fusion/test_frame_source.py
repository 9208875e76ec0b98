"""Where fusion takes pixels from: memory and disk give the same, in parts, at every level."""

import numpy as np
import pytest

from allfocus.errors import InputError
from allfocus.fusion.frame_source import (
    MemorySource,
    SpoolSource,
    enlarge,
    open_spool,
)
from allfocus.fusion.settings import AS_CHOSEN, DecisionSettings
from allfocus.fusion.windows import block_sharpness, coarsest_level, level_size
from allfocus.images.spool import FrameSpool, reduce_frame

AREA = (slice(5, 23), slice(8, 31))
EVERYTHING = (slice(None), slice(None))


def random_frames(count, shape, bits=8):
    """Frames on the levels of their bit depth."""
    generator = np.random.default_rng(bits)
    most = 2**bits - 1
    return [generator.integers(0, most + 1, shape).astype(np.float32) / np.float32(most) for _ in range(count)]


@pytest.fixture(params=[1, 2])
def scale(request):
    """Frames are decided at full scale, or at half."""
    return request.param


@pytest.fixture
def settings(scale):
    """By which frames of any size are decided at that scale."""
    return AS_CHOSEN if scale == 1 else DecisionSettings(largest_full_scale=0)


def fill(spool, frames, masks=None):
    for frame, mask in zip(frames, masks or [None] * len(frames), strict=True):
        spool.append(frame, valid=mask)
    return spool


def test_pictures_are_decided_at_half_scale_beyond_the_largest():
    largest = AS_CHOSEN.largest_full_scale
    assert AS_CHOSEN.scale(1, largest) == 1
    assert AS_CHOSEN.scale(1, largest + 1) == 2


@pytest.mark.parametrize("shape", [(45, 63, 3), (45, 63)])
def test_both_sources_know_their_frames(settings, shape):
    frames = random_frames(3, shape)
    with fill(open_spool(8, settings=settings), frames) as spool:
        for source in (MemorySource(frames, settings=settings), SpoolSource(spool)):
            assert len(source) == 3
            assert source.shape == shape
            for index, frame in enumerate(frames):
                np.testing.assert_array_equal(source.read(index, AREA), frame[AREA])
                assert source.read_valid(index, AREA) is None


@pytest.mark.parametrize("shape", [(45, 63, 3), (46, 62)])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_a_reduced_area_is_that_part_of_the_reduced_frame(scale, settings, shape, bits):
    frames = random_frames(2, shape, min(bits, 16))
    with fill(open_spool(bits, settings=settings), frames) as spool:
        for source in (MemorySource(frames, settings=settings), SpoolSource(spool)):
            reduced = source.read_reduced(1, EVERYTHING)
            assert reduced.dtype == np.float32
            assert reduced.shape[:2] == (-(-shape[0] // scale), -(-shape[1] // scale))
            np.testing.assert_array_equal(source.read_reduced(1, AREA), reduced[AREA])
            # On disk the mean is rounded to the levels of the frames.
            rounding = 0 if bits == 32 or scale == 1 else 0.5 / (2**bits - 1)
            np.testing.assert_allclose(reduced, reduce_frame(frames[1], scale), atol=rounding + 1e-7)


def test_memory_and_disk_are_equally_sharp(scale, settings):
    frames = random_frames(3, (70, 100, 3))
    with fill(open_spool(32, settings=settings), frames) as spool:
        on_disk = SpoolSource(spool).sharpness()
    in_memory = MemorySource(frames, settings=settings).sharpness()
    np.testing.assert_array_equal(on_disk, in_memory)
    np.testing.assert_array_equal(in_memory[2], block_sharpness(reduce_frame(frames[2], scale)))


def test_both_sources_know_where_their_frames_have_pixels(settings):
    frames = random_frames(3, (45, 63))
    masks = [np.random.default_rng(seed).random((45, 63)) > 0.5 for seed in range(3)]
    masks[1][:] = True
    with fill(open_spool(8, settings=settings), frames, masks) as spool:
        for source in (MemorySource(frames, masks, settings=settings), SpoolSource(spool)):
            for index, mask in enumerate(masks):
                found = source.read_valid(index, AREA)
                assert found.dtype == bool
                np.testing.assert_array_equal(found, mask[AREA])


def test_masks_that_hide_nothing_are_none_on_disk():
    whole = np.ones((45, 63), bool)
    with fill(open_spool(8), random_frames(2, (45, 63)), [whole, whole]) as spool:
        assert SpoolSource(spool).read_valid(0, AREA) is None


def test_a_spool_that_lacks_reduced_frames_is_refused():
    with (
        fill(FrameSpool(bit_depth=8), random_frames(2, (8, 8))) as spool,
        pytest.raises(ValueError, match="open_spool"),
    ):
        SpoolSource(spool)


@pytest.mark.parametrize("shape", [(145, 163, 3), (146, 162)])
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_level_is_half_of_the_one_before_on_disk_as_in_memory(scale, settings, shape, bits, level):
    frames = random_frames(2, shape, min(bits, 16))
    expected = reduce_frame(frames[1], scale)
    for _ in range(level):
        expected = reduce_frame(expected, 2)
    decided = -(-shape[0] // scale), -(-shape[1] // scale)
    assert expected.shape[:2] == level_size(decided, level)
    area = (slice(3, 15), slice(6, 19))
    with fill(open_spool(bits, settings=settings), frames) as spool:
        for source in (MemorySource(frames, settings=settings), SpoolSource(spool)):
            found = source.read_reduced(1, EVERYTHING, level)
            assert found.dtype == np.float32
            # On disk every halving rounds to the levels of the frames.
            rounding = 0 if bits == 32 else 0.5 * (level + scale - 1) / (2**bits - 1)
            np.testing.assert_allclose(found, expected, atol=rounding + 1e-6)
            np.testing.assert_array_equal(source.read_reduced(1, area, level), found[area])


@pytest.mark.parametrize("size", [(33, 1), (1, 1), (500, 90), (31, 1300)])
@pytest.mark.parametrize("frames", [2, 4000])
def test_the_coarsest_level_that_a_plan_can_ask_for_is_there(scale, settings, size, frames):
    pictures = random_frames(2, size)
    decided = -(-size[0] // scale), -(-size[1] // scale)
    level = coarsest_level(decided, frames, most=20_000, longest=AS_CHOSEN.largest_whole_side)
    with fill(open_spool(8, settings=settings), pictures) as spool:
        for source in (MemorySource(pictures, settings=settings), SpoolSource(spool)):
            assert source.read_reduced(0, EVERYTHING, level).shape == level_size(decided, level)


def test_levels_in_memory_are_made_once_and_only_when_asked_for():
    source = MemorySource(random_frames(2, (64, 64)))
    assert len(source._levels) == 1
    first = source.read_reduced(0, EVERYTHING, 2)
    assert len(source._levels) == 3
    assert np.shares_memory(source.read_reduced(0, EVERYTHING, 2), first)


def test_one_frame_on_disk_is_no_stack():
    with fill(open_spool(8), random_frames(1, (8, 8))) as spool, pytest.raises(InputError, match="at least 2 frames"):
        SpoolSource(spool)


def test_enlarging_keeps_the_place_of_things():
    part = np.random.default_rng(0).random((7, 9), dtype=np.float32)
    assert enlarge(part, 1) is part
    large = enlarge(part, 2)
    assert large.shape == (14, 18)
    assert large.dtype == np.float32
    # What is reduced again is where it was: a linear slope even to the bit.
    slope = np.broadcast_to(np.arange(9, dtype=np.float32), (7, 9)).copy()
    np.testing.assert_allclose(reduce_frame(enlarge(slope, 2), 2)[:, 1:-1], slope[:, 1:-1], atol=1e-6)
    assert part.min() <= large.min() <= large.max() <= part.max()
