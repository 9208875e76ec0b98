"""Frames that stay on disk while a method looks at one of them at a time."""

import tracemalloc

import numpy as np
import pytest

from allfocus.errors import InputError, MemoryShortageError
from allfocus.fusion import frames_on_disk
from allfocus.fusion.frame_source import open_spool
from allfocus.fusion.methods import METHODS
from allfocus.fusion.stack_fusion import fuse
from allfocus.images.writing import write_image
from allfocus.stack.pipeline import fuse_files

IN_TURN = [name for name, method in METHODS.items() if method.abilities.one_at_a_time]


def lacking_rows(count, size):
    masks = [np.ones(size, bool) for _ in range(count)]
    for index, mask in enumerate(masks):
        mask[: 3 * index + 1] = False
    return masks


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("method", IN_TURN)
def test_what_is_fused_from_disk_is_what_is_fused_in_memory(method, masked, triple):
    masks = lacking_rows(3, triple.frames[0].shape[:2]) if masked else None
    with open_spool(32) as spool:
        for index, frame in enumerate(triple.frames):
            spool.append(frame, None if masks is None else masks[index])
        found = fuse(spool, method=method)
    wanted = fuse(triple.frames, method=method, valid=masks)
    for name in ("image", "decision", "depth", "confidence"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def test_the_depth_map_of_a_longer_stack_takes_no_more_memory(triple):
    peaks = []
    for repeated in (1, 5):
        with open_spool(16) as spool:
            for frame in triple.frames * repeated:
                spool.append(frame)
            tracemalloc.start()
            fuse(spool, method="depth-map", check=False)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < peaks[0] + triple.frames[0].nbytes


def test_a_method_that_holds_all_frames_says_before_it_starts_that_they_do_not_fit(tmp_path, pair, monkeypatch):
    paths = [write_image(frame, tmp_path / f"{index}.png") for index, frame in enumerate(pair.frames)]
    monkeypatch.setattr(frames_on_disk, "available_memory", lambda: sum(frame.nbytes for frame in pair.frames) - 1)
    steps = []
    with pytest.raises(MemoryShortageError, match=r"wavelet holds all 2 frames .* GB are free") as caught:
        fuse_files(paths, tmp_path / "out.png", method="wavelet", progress=lambda *step: steps.append(step))
    assert not steps
    assert "use the method ips" in str(caught.value)
    fuse_files(paths, tmp_path / "out.png", method="average", align=False)


def test_values_that_are_not_finite_are_refused_from_disk_too():
    with open_spool(32) as spool:
        for value in (0.5, np.nan):
            spool.append(np.full((16, 16), value, np.float32))
        with pytest.raises(InputError, match="frame 2 holds values that are not finite"):
            fuse(spool, method="average")
