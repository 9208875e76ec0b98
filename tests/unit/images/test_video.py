"""Videos of focus sweeps, made here."""

import os
import sys

import cv2
import numpy as np
import pytest

import allfocus
from allfocus.errors import InputError
from allfocus.images.frame_file import list_frames
from allfocus.images.stack_opening import open_stack
from allfocus.images.video import VideoReader, choose_frames, is_video

LOSSLESS, LOSSY = ("FFV1", "mkv"), ("mp4v", "mp4")


def film(path, frames, code="FFV1"):
    height, width = frames[0].shape[:2]
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*code), 25, (width, height))
    assert writer.isOpened()
    for frame in frames:
        writer.write(np.rint(np.clip(frame, 0, 1) * 255).astype(np.uint8)[..., ::-1])
    writer.release()
    return path


@pytest.fixture(scope="module")
def scene():
    return allfocus.render_scene("slope", frames=24, size=(192, 256))


@pytest.fixture(scope="module", params=[LOSSLESS, LOSSY, ("MJPG", "avi")], ids=lambda kind: kind[1])
def sweep(request, scene, tmp_path_factory):
    code, ending = request.param
    return film(tmp_path_factory.mktemp("video") / f"sweep.{ending}", scene.frames, code)


def test_a_sweep_is_fused_from_the_frames_that_are_needed(sweep, scene, tmp_path):
    result = allfocus.fuse_files(sweep, tmp_path / "x.png", method="laplacian-pyramid", align=False)
    assert 5 < len(result.frames) < 24
    assert result.frames[0].startswith(f"{sweep.name} frame ")
    assert f"{sweep.name}: {len(result.frames)} of 24 frames are taken, by sharpness" in result.notices

    def decibels(image):
        return -10 * np.log10(np.mean((image - scene.truth) ** 2))

    best = max(decibels(frame) for frame in scene.frames)
    assert decibels(result.image) > best + 4


def test_frames_come_in_order_and_are_those_of_the_video(scene, tmp_path):
    path = film(tmp_path / "a.mkv", scene.frames)
    reader = VideoReader(path)
    for number in (3, 4, 20, 7):
        assert np.abs(reader.read(number).pixels - scene.frames[number]).mean() < 0.01
    with pytest.raises(InputError, match="no frame 25"):
        reader.read(24)


def test_frames_blurred_by_movement_are_passed_over(scene, tmp_path):
    """Each frame twice, the second time shaken: none of those is chosen."""
    shaken = [cv2.blur(frame, (9, 3)) for frame in scene.frames]
    both = [frame for pair in zip(scene.frames, shaken, strict=True) for frame in pair]
    chosen = [header.page for header in choose_frames(film(tmp_path / "a.mkv", both))]
    assert chosen
    assert all(number % 2 == 0 for number in chosen)


def test_a_still_video_gives_two_frames(scene, tmp_path):
    assert len(choose_frames(film(tmp_path / "a.mkv", [scene.frames[0]] * 6))) == 2


def test_videos_are_known_by_their_content_and_are_no_pictures(sweep, tmp_path):
    assert is_video(sweep)
    (tmp_path / "a.png").write_bytes(sweep.read_bytes())
    assert open_stack(tmp_path / "a.png").frames[0].of_video
    with pytest.raises(InputError, match="not a picture"):
        list_frames([sweep])


@pytest.mark.parametrize("share", [0.0005, 0.02])
def test_a_damaged_video_is_an_error_of_ours(sweep, tmp_path, share, capfd):
    data = sweep.read_bytes()
    (tmp_path / "a.mp4").write_bytes(data[: max(20, int(len(data) * share))])
    with pytest.raises(InputError, match=r"a\.mp4"):
        open_stack(tmp_path / "a.mp4")
    assert "Error" not in capfd.readouterr().out


def test_frames_larger_than_the_limit_are_refused(sweep):
    with pytest.raises(InputError, match="more than the limit of 1000 pixels") as caught:
        open_stack(sweep, max_pixels=1000)
    assert caught.value.code == "too-many-pixels"


@pytest.mark.parametrize(("code", "ending"), [("MJPG", "avi"), LOSSLESS])
def test_a_video_that_is_cut_off_is_damaged(scene, tmp_path, code, ending):
    whole = film(tmp_path / f"whole.{ending}", scene.frames, code).read_bytes()
    cut = tmp_path / f"cut.{ending}"
    cut.write_bytes(whole[: len(whole) * 6 // 10])
    with pytest.raises(InputError, match=rf"cut\.{ending}: only \d+ of its 24 frames can be decoded"):
        open_stack(cut)


@pytest.mark.parametrize(("code", "ending"), [LOSSLESS, LOSSY, ("MJPG", "avi")])
def test_damage_inside_a_frame_is_told_although_the_decoder_hides_it(scene, tmp_path, code, ending):
    whole = film(tmp_path / f"whole.{ending}", scene.frames[:6], code)
    assert choose_frames(whole)
    data = bytearray(whole.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 256] = bytes(256)
    damaged = tmp_path / f"damaged.{ending}"
    damaged.write_bytes(data)
    capture = cv2.VideoCapture(str(damaged))
    assert sum(1 for _ in iter(capture.grab, False)) >= 5  # nothing else would show it
    with pytest.raises(InputError, match=r"a part of it cannot be decoded") as caught:
        open_stack(damaged)
    assert caught.value.code == "damaged-picture"


@pytest.mark.parametrize(
    "name", [b"concat:a.mp4", b"file:a.mp4", b"-a.mp4", b"%d.mp4", b"a'\" ;.mp4", b"x" * 250 + b".mp4"]
)
def test_the_name_of_a_video_is_a_name_and_never_a_protocol_or_an_option(scene, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    film(tmp_path / "a.mkv", scene.frames[:3]).rename(os.fsdecode(name))
    assert open_stack(os.fsdecode(name)).count >= 2


@pytest.mark.skipif(sys.platform != "linux", reason="names of bytes")
@pytest.mark.parametrize("name", [b"a\xff.mp4", b"folder\xff/a.mp4"])
def test_a_video_whose_name_is_no_text_is_told_and_does_not_end_the_program(scene, tmp_path, name):
    path = tmp_path / os.fsdecode(name)
    path.parent.mkdir(exist_ok=True)
    film(tmp_path / "a.mkv", scene.frames[:3]).rename(path)
    with pytest.raises(InputError, match="not UTF-8"):
        open_stack(path)


def test_frames_of_a_video_know_their_numbers(sweep):
    reader = open_stack(sweep)
    assert reader.numbers == tuple(frame.page for frame in reader.frames)
    assert reader.counted == 24
