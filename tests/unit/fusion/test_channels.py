"""Several channels, one decision: every channel comes from the plane that all were decided by."""

from contextlib import ExitStack

import cv2
import numpy as np
import pytest

from allfocus.errors import InputError
from allfocus.fusion.channels import Composite, fuse_channels, measure_composite
from allfocus.fusion.frame_source import open_spool
from allfocus.fusion.method_choice import find_method
from allfocus.fusion.stack_fusion import fuse

SIZE, PLANES = (96, 128), 4
GAINS = (0.6, 0.04, 0.2, 0.1)
"""How bright each channel is: the second is fifteen times darker than the first."""


def texture(seed, cover):
    """Detail in some places of a channel, nothing in the others."""
    rng = np.random.default_rng(seed)
    detail = cv2.GaussianBlur(rng.random(SIZE).astype(np.float32), (0, 0), 1.0)
    detail = (detail - detail.min()) / np.ptp(detail)
    mask = cv2.GaussianBlur(rng.random(SIZE).astype(np.float32), (0, 0), 12)
    return detail * (mask > np.quantile(mask, 1 - cover))


@pytest.fixture(scope="module")
def scene():
    """The plane in which each pixel is in focus, and the planes of each channel."""
    columns = np.arange(SIZE[1]) * PLANES // SIZE[1]
    depth = np.broadcast_to(columns, SIZE)
    rng = np.random.default_rng(0)
    channels = []
    for number, gain in enumerate(GAINS):
        sharp = texture(number + 1, 0.6)
        blurred = cv2.GaussianBlur(sharp, (0, 0), 3)
        frames = [np.where(depth == plane, sharp, blurred) for plane in range(PLANES)]
        noise = [rng.normal(0, 0.0005, SIZE) for _ in frames]
        channels.append(
            [
                np.clip(frame * gain + 0.01 + own, 0, 1).astype(np.float32)
                for frame, own in zip(frames, noise, strict=True)
            ]
        )
    return depth, channels


@pytest.fixture
def spools(scene):
    with ExitStack() as opened:
        made = []
        for frames in scene[1]:
            spool = opened.enter_context(open_spool(16))
            for frame in frames:
                spool.append(frame)
            made.append(spool)
        yield made


def right(decision, depth):
    """Share of the pixels, away from where planes meet, that come from the plane in focus."""
    inner = np.ones(SIZE, bool)
    for place in range(1, PLANES):
        middle = place * SIZE[1] // PLANES
        inner[:, middle - 6 : middle + 6] = False
    return float((decision == depth)[inner].mean())


def test_one_decision_from_all_channels_is_better_than_from_any_of_them(scene, spools):
    depth, _ = scene
    method = find_method("ips")
    together = right(fuse_channels(spools, decide_by=range(4), method=method).decision, depth)
    alone = [right(fuse_channels(spools, decide_by=[number], method=method).decision, depth) for number in range(4)]
    assert together > max(alone)
    assert together > 0.97


def test_every_channel_is_mixed_from_the_planes_that_were_decided(scene, spools):
    """With copies only, each channel of a pixel is that of the one plane that the decision names."""
    _, channels = scene
    result = fuse_channels(spools, decide_by=[0, 2], method=find_method("ips-hard"))
    assert result.image.shape == (*SIZE, 4)
    stored = np.rint(np.asarray(channels) * 65535) / 65535
    for number in range(4):
        expected = np.take_along_axis(stored[number], result.decision[None].astype(int), axis=0)[0]
        same = np.abs(result.image[..., number] - expected) < 1e-6
        # Where two planes are exactly as likely they are mixed.
        assert same.mean() > 0.999


def test_deciding_by_one_channel_gives_that_channel_as_if_it_were_alone(spools):
    method = find_method("ips")
    alone = fuse(spools[1], method=method, unveil=False, check=False)
    chosen = fuse_channels(spools, decide_by=[1], method=method, check=False)
    assert np.array_equal(chosen.image[..., 1], alone.image)
    assert np.array_equal(chosen.decision, alone.decision)


def test_each_channel_by_itself_is_what_fusing_it_alone_gives(spools):
    method = find_method("ips")
    result = fuse_channels(spools, decide_by=None, method=method)
    assert result.decision is None
    for number, spool in enumerate(spools):
        assert np.array_equal(result.image[..., number], fuse(spool, method=method).image)


def test_an_empty_channel_of_pure_noise_does_not_spoil_the_decision(scene, spools):
    depth, _ = scene
    method = find_method("ips")
    without = right(fuse_channels(spools[:2], decide_by=[0, 1], method=method).decision, depth)
    rng = np.random.default_rng(7)
    with open_spool(16) as empty:
        for _ in range(PLANES):
            empty.append(np.clip(rng.normal(0.01, 0.002, SIZE), 0, 1).astype(np.float32))
        found = fuse_channels([*spools[:2], empty], decide_by=range(3), method=method)
    assert right(found.decision, depth) > without - 0.01


def test_noise_counts_nothing_and_detail_counts_in_full():
    rng = np.random.default_rng(0)
    noise = [rng.normal(0.1, 0.01, SIZE).astype(np.float32) for _ in range(4)]
    detail = [texture(1, 0.5) + frame for frame in noise]
    found = measure_composite([0, 1], lambda channel: (noise, detail)[channel])
    assert found.weights == (0.0, 1.0)
    flat = measure_composite([0], lambda channel: [np.full(SIZE, 0.3, np.float32)])
    assert flat.weights == (1.0,)  # of one channel there is no other to be decided by


def test_a_channel_counts_the_same_however_dark_it_is_stored():
    values = [texture(1, 0.5), texture(2, 0.5)]
    pairs = []
    for gain in (1.0, 0.01):
        frames = [[values[0]], [values[1] * np.float32(gain)]]
        seen = measure_composite([0, 1], lambda channel, frames=frames: frames[channel])
        pairs.append(seen.compose(lambda channel, frames=frames: frames[channel][0]))
    assert np.allclose(pairs[0], pairs[1], atol=1e-4)


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_every_chosen_channel_is_seen(count):
    """A change in any channel changes what is decided on."""
    rng = np.random.default_rng(0)
    base = [rng.random((8, 8), np.float32) for _ in range(count)]
    seen = Composite(tuple(range(count)), (0.0,) * count, (1.0,) * count, (1.0,) * count)
    before = seen.compose(lambda channel: base[channel])
    assert before.shape == (8, 8, 3)
    for changed in range(count):
        after = seen.compose(lambda channel, changed=changed: base[channel] + np.float32(channel == changed))
        assert float(np.abs(after - before).max()) > 0.1


def test_methods_that_decide_share_it_and_those_that_blend_are_refused(scene, spools):
    depth, channels = scene
    result = fuse_channels(spools, decide_by=range(4), method=find_method("depth-map"))
    stored = np.rint(np.asarray(channels) * 65535) / 65535
    expected = np.take_along_axis(stored[3], result.decision[None].astype(int), axis=0)[0]
    assert np.allclose(result.image[..., 3], expected, atol=1.6e-5)  # a step of 16 bits
    assert right(result.decision, depth) > 0.9
    with pytest.raises(InputError, match="no decision that channels could share") as caught:
        fuse_channels(spools, decide_by=range(4), method=find_method("average"))
    assert caught.value.code == "method-cannot"
    each = fuse_channels(spools, decide_by=None, method=find_method("average"))
    assert np.allclose(each.image[..., 0], stored[0].mean(axis=0), atol=1e-5)
