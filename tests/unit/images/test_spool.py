"""Frames on disk: what is stored comes back bit for bit, in windows, and nothing stays behind."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from allfocus.errors import InputError, OutputError
from allfocus.images.spool import SMALLEST_LEVEL, FrameSpool, from_levels, reduce_frame, to_levels

EVERYTHING = (slice(None), slice(None))


def random_frame(bit_depth: int, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """A frame on the levels of its bit depth; floating point may leave 0..1 and then must stay as it is."""
    generator = np.random.default_rng(seed)
    if bit_depth == 32:
        return generator.uniform(-0.2, 1.3, shape).astype(np.float32)
    most = 2**bit_depth - 1
    return generator.integers(0, most + 1, shape).astype(np.float32) / np.float32(most)


@pytest.fixture
def temporary_folder(tmp_path, monkeypatch) -> Path:
    """An empty folder in which this process keeps its temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("shape", [(30, 41, 3), (30, 41), (1, 1, 3)])
@pytest.mark.parametrize("bit_depth", [8, 16, 32])
def test_frames_come_back_bit_for_bit(bit_depth, shape):
    frames = [random_frame(bit_depth, shape, seed) for seed in range(3)]
    with FrameSpool(bit_depth=bit_depth) as spool:
        for frame in frames:
            spool.append(frame)
        assert len(spool) == 3
        for stored, frame in zip(spool, frames, strict=True):
            assert stored.shape == shape
            assert stored[EVERYTHING].dtype == np.float32
            np.testing.assert_array_equal(stored[EVERYTHING], frame)


@pytest.mark.parametrize("bit_depth", [8, 16])
def test_every_level_survives(bit_depth):
    most = 2**bit_depth - 1
    levels = (np.arange(most + 1, dtype=np.float32) / np.float32(most)).reshape(16, -1)
    with FrameSpool(bit_depth=bit_depth) as spool:
        spool.append(levels)
        np.testing.assert_array_equal(spool[0][EVERYTHING], levels)


def test_integers_are_rounded_and_kept_in_range():
    with FrameSpool(bit_depth=8) as spool:
        spool.append(np.array([[-0.5, 0.4 / 255, 0.6 / 255, 1.5]], np.float32))
        np.testing.assert_array_equal(np.rint(spool[0][EVERYTHING] * 255), [[0, 0, 1, 255]])


@given(
    bit_depth=some.sampled_from([8, 16, 32]),
    rows=some.tuples(some.integers(0, 23), some.integers(0, 23)).map(sorted),
    columns=some.tuples(some.integers(0, 31), some.integers(0, 31)).map(sorted),
    index=some.integers(0, 2),
)
def test_a_window_is_that_slice_of_the_frame(bit_depth, rows, columns, index):
    area = (slice(rows[0], rows[1] + 1), slice(columns[0], columns[1] + 1))
    frames = [random_frame(bit_depth, (24, 32, 3), seed) for seed in range(3)]
    with FrameSpool(bit_depth=bit_depth) as spool:
        for frame in frames:
            spool.append(frame)
        np.testing.assert_array_equal(spool[index][area], frames[index][area])


def test_a_window_can_be_changed_without_changing_the_frame():
    frame = random_frame(32, (8, 8))
    with FrameSpool(bit_depth=32) as spool:
        spool.append(frame)
        part = spool[0][EVERYTHING]
        part *= 0
        np.testing.assert_array_equal(spool[0][EVERYTHING], frame)


def test_what_is_measured_is_kept_beside_the_frames():
    with FrameSpool(bit_depth=8, measure=lambda frame: from_levels(frame).mean(axis=(0, 1))) as spool:
        for level in (0.2, 0.6):
            spool.append(np.full((4, 5, 3), level, np.float32))
        np.testing.assert_allclose(spool.measures, [[0.2] * 3, [0.6] * 3], atol=1e-6)


@pytest.mark.parametrize("shape", [(31, 41, 3), (30, 41)])
@pytest.mark.parametrize("bit_depth", [8, 16, 32])
def test_reduced_frames_are_kept_beside_the_frames_and_measured(bit_depth, shape):
    frames = [random_frame(bit_depth, shape, seed) for seed in range(3)]
    with FrameSpool(bit_depth=bit_depth, measure=from_levels, scale=lambda height, width: 2) as spool:
        for frame in frames:
            spool.append(frame)
        assert spool.reduction == 2
        for index, frame in enumerate(frames):
            expected = reduce_frame(frame, 2)
            found = spool.reduced[index][EVERYTHING]
            assert found.shape == expected.shape == (-(-shape[0] // 2), 21, *shape[2:])
            rounding = 0 if bit_depth == 32 else 0.5 / (2**bit_depth - 1)
            np.testing.assert_allclose(found, expected, atol=rounding + 1e-6)
            np.testing.assert_array_equal(spool.measures[index], found)
            np.testing.assert_array_equal(spool[index][EVERYTHING], frame)


@pytest.mark.parametrize("shape", [(131, 241, 3), (100, 33), (20, 30, 3)])
@pytest.mark.parametrize("bit_depth", [8, 16, 32])
@pytest.mark.parametrize("reduction", [1, 2])
def test_levels_are_kept_down_to_the_smallest(bit_depth, shape, reduction):
    frames = [random_frame(bit_depth, shape, seed) for seed in range(2)]
    with FrameSpool(bit_depth=bit_depth, scale=lambda height, width: reduction) as spool:
        for frame in frames:
            spool.append(frame)
        for index, frame in enumerate(frames):
            expected, level = reduce_frame(frame, reduction), 0
            while True:
                found = spool.level(index, level)[EVERYTHING]
                assert found.shape == expected.shape
                rounding = 0 if bit_depth == 32 else 0.5 * (level + reduction - 1) / (2**bit_depth - 1)
                # Integers end at 0 and 1; floating point does not.
                np.testing.assert_allclose(found, expected, atol=rounding + 1e-6)
                if max(expected.shape[:2]) <= SMALLEST_LEVEL:
                    break
                expected, level = reduce_frame(expected, 2), level + 1
            with pytest.raises(IndexError):
                spool.level(index, level + 1)
        # Levels do not shift the frames that come after them.
        np.testing.assert_array_equal(spool[1][EVERYTHING], frames[1])


def test_a_spool_that_is_not_asked_for_a_scale_keeps_no_levels():
    with FrameSpool(bit_depth=8) as spool:
        spool.append(random_frame(8, (130, 240)))
        assert spool.level(0, 0) is spool[0]
        with pytest.raises(IndexError):
            spool.level(0, 1)
        assert os.fstat(spool._file.fileno()).st_size == 130 * 240


def test_the_scale_is_asked_once_with_the_size_of_the_first_frame():
    asked = []

    def scale(*size):
        asked.append(size)
        return 1

    with FrameSpool(bit_depth=8, scale=scale) as spool:
        for seed in range(3):
            spool.append(random_frame(8, (30, 31, 3), seed))
        assert asked == [(30, 31)]
        assert spool.reduction == 1
        # At scale 1 there is no second copy; the frames are too small for coarser levels.
        assert spool.reduced == list(spool)
        assert os.fstat(spool._file.fileno()).st_size <= 3 * 4096


def test_masks_come_back_in_parts():
    masks = [np.random.default_rng(seed).random((30, 41)) > 0.5 for seed in range(2)]
    area = (slice(3, 20), slice(7, 40))
    with FrameSpool(bit_depth=8) as spool:
        for index, mask in enumerate(masks):
            spool.append(random_frame(8, (30, 41, 3), index), valid=mask)
        spool.append(random_frame(8, (30, 41, 3), 9))
        assert spool.valid is not None
        assert len(spool.valid) == 3
        for found, mask in zip(spool.valid, [*masks, np.ones((30, 41), bool)], strict=True):
            assert found[area].dtype == bool
            np.testing.assert_array_equal(found[area], mask[area])
            np.testing.assert_array_equal(found[EVERYTHING], mask)
        # A mask does not shift the frames that come after it.
        np.testing.assert_array_equal(spool[2][EVERYTHING], random_frame(8, (30, 41, 3), 9))


def test_masks_that_hide_nothing_are_none():
    with FrameSpool(bit_depth=8) as spool:
        assert spool.valid is None
        spool.append(random_frame(8, (30, 41, 3)), valid=np.ones((30, 41), bool))
        spool.append(random_frame(8, (30, 41, 3)))
        assert spool.valid is None


@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("size", [(8, 12), (7, 12), (8, 11), (7, 11), (1, 1), (1, 6)])
@pytest.mark.parametrize("scale", [1, 2, 4])
def test_a_reduced_pixel_is_the_mean_of_its_square_and_odd_sides_repeat_their_last(size, channels, scale):
    frame = np.random.default_rng(0).random((*size, *channels), dtype=np.float32)
    padded = [np.minimum(np.arange(-(-length // scale) * scale), length - 1) for length in size]
    spread = frame[np.ix_(*padded)].astype(np.float64)
    shape = (len(padded[0]) // scale, scale, len(padded[1]) // scale, scale, *channels)
    np.testing.assert_allclose(reduce_frame(frame, scale), spread.reshape(shape).mean(axis=(1, 3)), atol=1e-6)


def test_reducing_keeps_the_type_and_rounds():
    levels = np.array([[0, 1, 255], [1, 1, 254]], np.uint8)
    reduced = reduce_frame(levels, 2)
    assert reduced.dtype == np.uint8
    assert reduced.tolist() in ([[1, 254]], [[1, 255]])
    assert reduce_frame(levels, 1) is levels


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_levels_and_values_are_each_others_inverse(kind):
    levels = np.arange(np.iinfo(kind).max + 1).astype(kind).reshape(16, -1)
    values = from_levels(levels)
    assert values.dtype == np.float32
    assert (values.min(), values.max()) == (0, 1)
    np.testing.assert_array_equal(to_levels(values, np.dtype(kind)), levels)


def test_floating_point_is_kept_as_it_is():
    frame = random_frame(32, (4, 5))
    assert to_levels(frame, np.dtype(np.float32)) is frame
    assert from_levels(frame) is frame


@pytest.mark.parametrize("shape", [(30, 42, 3), (42, 30, 3), (30, 41), (30, 41, 1)])
def test_another_shape_is_refused_with_both_shapes_and_the_spool_stays_usable(shape):
    with FrameSpool(bit_depth=8) as spool:
        spool.append(random_frame(8, (30, 41, 3)))
        with pytest.raises(InputError, match="frame 2") as caught:
            spool.append(np.zeros(shape, np.float32))
        assert str(shape) in str(caught.value)
        assert "(30, 41, 3)" in str(caught.value)
        spool.append(random_frame(8, (30, 41, 3), 1))
        assert len(spool) == 2
        np.testing.assert_array_equal(spool[1][EVERYTHING], random_frame(8, (30, 41, 3), 1))


def test_nothing_is_left_after_close(temporary_folder):
    with FrameSpool(bit_depth=16) as spool:
        spool.append(random_frame(16, (50, 60, 3)))
        # The frame is on the disk of this folder, or the test would prove nothing.
        assert os.fstat(spool._file.fileno()).st_size == 50 * 60 * 3 * 2
        assert os.fstat(spool._file.fileno()).st_dev == temporary_folder.stat().st_dev
    assert list(temporary_folder.iterdir()) == []
    assert spool._file.closed


def test_nothing_is_left_after_an_error(temporary_folder):
    spool = FrameSpool(bit_depth=16)

    def fail_while_open() -> None:
        with spool:
            spool.append(random_frame(16, (50, 60, 3)))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_while_open()
    assert list(temporary_folder.iterdir()) == []
    assert spool._file.closed


SPOOL_AND_WAIT = """
import time
import numpy as np
from allfocus.images.spool import FrameSpool, from_levels, reduce_frame, to_levels
spool = FrameSpool(bit_depth=16)
spool.append(np.full((200, 200, 3), 0.5, np.float32))
print(spool[0][0:1, 0:1].shape, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a signal of POSIX systems")
def test_nothing_is_left_when_the_program_is_killed(tmp_path):
    source = Path(__file__).resolve().parents[3] / "src"
    search = os.pathsep.join(filter(None, (str(source), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": search}
    with subprocess.Popen(
        [sys.executable, "-c", SPOOL_AND_WAIT], env=environment, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "(1, 1, 3)\n"
        program.send_signal(signal.SIGKILL)
        assert program.wait() == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


class FullDisk:
    """A temporary file on a disk that takes one frame of 300 bytes."""

    def __init__(self) -> None:
        self.position = 0

    def seek(self, position: int) -> None:
        self.position = position

    def write(self, data: memoryview) -> None:
        if self.position + data.nbytes > 300:
            raise OSError(errno.ENOSPC, "No space left on device")

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_full_disk_names_the_folder_the_frame_and_the_cure(temporary_folder, monkeypatch):
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: FullDisk())
    with FrameSpool(bit_depth=8) as spool:
        spool.append(random_frame(8, (10, 10, 3)))
        with pytest.raises(OutputError, match="cannot hold frame 2") as caught:
            spool.append(random_frame(8, (10, 10, 3)))
        assert len(spool) == 1
    for word in (str(temporary_folder), "No space left", "TMPDIR"):
        assert word in str(caught.value)
