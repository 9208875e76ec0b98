"""Frames that are decoded ahead are those that would have been decoded when they are read."""

import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from allfocus.errors import InputError
from allfocus.images import reading, stack_reader
from allfocus.images.stack_opening import open_stack
from allfocus.images.writing import write_image
from allfocus.machine import limited_cores

COUNT = 6


@pytest.fixture
def frames(tmp_path):
    generator = np.random.default_rng(0)
    pictures = [generator.random((20, 30, 3), dtype=np.float32) for _ in range(COUNT)]
    return [write_image(picture, tmp_path / f"{number}.png") for number, picture in enumerate(pictures)]


@pytest.fixture
def decoded(monkeypatch):
    """Which file was decoded, and whether in another thread."""
    seen = []

    def read_image(path, **more):
        seen.append((Path(path).name, threading.current_thread() is not threading.main_thread()))
        return reading.read_image(path, **more)

    monkeypatch.setattr(stack_reader, "read_image", read_image)
    monkeypatch.setattr(stack_reader, "processor_count", lambda: 4)
    return seen


def test_frames_are_the_same_and_decoded_once_in_other_threads(frames, decoded):
    plain = [image.pixels for image in open_stack(frames)]
    decoded.clear()
    reader = open_stack(frames)
    with reader.ahead(range(COUNT)):
        found = [reader.read(index).pixels for index in range(COUNT)]
    assert all(np.array_equal(one, other) for one, other in zip(found, plain, strict=True))
    assert sorted(decoded) == [(path.name, True) for path in frames]


def test_a_damaged_frame_is_an_error_when_it_is_read(frames, decoded):
    reader = open_stack(frames)
    content = frames[2].read_bytes()
    frames[2].write_bytes(content[: len(content) // 2])
    with reader.ahead(range(COUNT)):
        reader.read(0)
        reader.read(1)
        with pytest.raises(InputError, match="damaged"):
            reader.read(2)
        assert reader.read(3).pixels.shape == (20, 30, 3)


def test_frames_that_are_kept_are_not_decoded_again(frames, decoded):
    reader = open_stack(frames, keep_bytes=10**6)
    for _ in range(2):
        with reader.ahead(range(COUNT)):
            for index in range(COUNT):
                reader.read(index)
    assert len(decoded) == COUNT


def test_with_one_core_or_little_memory_nothing_is_decoded_ahead(frames, decoded, monkeypatch):
    reader = open_stack(frames)
    monkeypatch.setattr(stack_reader, "available_memory", lambda: 20 * 30 * 3 * stack_reader.SHARE_AHEAD)
    with reader.ahead(range(COUNT)):
        assert decoded == []
    monkeypatch.undo()
    with limited_cores(1), reader.ahead(range(COUNT)):
        pass
    assert decoded == []


def test_what_does_not_exist_is_not_decoded_ahead(frames, decoded):
    reader = open_stack(frames)
    with reader.ahead([-3, 99, 0, 1]):
        reader.read(0)
        reader.read(1)
    assert sorted(name for name, _ in decoded) == [path.name for path in frames[:2]]


def test_warnings_come_back_when_the_last_thread_has_decoded():
    inside, leave = threading.Barrier(2), threading.Event()
    before = list(warnings.filters)

    def first():
        inside.wait()

    def stay():
        inside.wait()
        leave.wait()

    threads = [threading.Thread(target=reading.guarded, args=(Path("a"), action)) for action in (first, stay)]
    for thread in threads:
        thread.start()
    threads[0].join()
    assert list(warnings.filters) != before
    leave.set()
    threads[1].join()
    assert list(warnings.filters) == before
