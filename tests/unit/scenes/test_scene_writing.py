import json

import cv2
import numpy as np
import pytest

from allfocus.errors import OutputError
from allfocus.scenes.rendering import render_scene
from allfocus.scenes.writing import write_scene


@pytest.fixture(scope="module")
def scene():
    return render_scene("desk", frames=3, size=(48, 64), shake=0.5)


def read(path):
    return cv2.imread(str(path), cv2.IMREAD_UNCHANGED)


@pytest.mark.parametrize(("bit_depth", "kind"), [(8, np.uint8), (16, np.uint16)])
def test_what_is_written_reads_back(tmp_path, bit_depth, kind):
    scene = render_scene("circuit", frames=2, size=(48, 64), bit_depth=bit_depth)
    folder = tmp_path / "deep" / "stack"
    paths = write_scene(scene, folder)

    assert [path.relative_to(folder).as_posix() for path in paths] == ["frames/frame_00.png", "frames/frame_01.png"]
    for path, picture in zip([*paths, folder / "truth.png"], [*scene.frames, scene.truth], strict=True):
        stored = read(path)
        assert stored.dtype == kind
        np.testing.assert_array_equal(stored[..., ::-1], np.rint(picture * (2.0**bit_depth - 1)))
    stored = json.loads((folder / "scene.json").read_text())
    depth = stored["depth_black"] + read(folder / "depth.png") / 65535 * (stored["depth_white"] - stored["depth_black"])
    np.testing.assert_allclose(depth, scene.depth, atol=1e-4)


def test_the_description_holds_what_is_needed_to_use_the_stack(tmp_path, scene):
    write_scene(scene, tmp_path / "stack")
    stored = json.loads((tmp_path / "stack" / "scene.json").read_text())

    assert stored["name"] == "desk"
    assert stored["focus_distances"] == scene.focus_distances
    assert stored["options"]["seed"] == 0
    np.testing.assert_array_equal(stored["transforms"], scene.transforms)


def test_nothing_is_overwritten_unless_allowed(tmp_path, scene):
    (tmp_path / "truth.png").write_bytes(b"mine")

    with pytest.raises(OutputError, match=r"truth\.png: exists"):
        write_scene(scene, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["truth.png"]
    assert (tmp_path / "truth.png").read_bytes() == b"mine"


def test_overwriting_removes_the_frames_of_a_longer_stack_and_nothing_else(tmp_path, scene):
    write_scene(scene, tmp_path)
    (tmp_path / "frames" / "frame_notes.txt").write_text("mine")
    (tmp_path / "frames" / "frame_07.png").write_text("mine")

    write_scene(render_scene("flat", frames=2, size=(32, 32)), tmp_path, overwrite=True)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["depth.png", "frames", "scene.json", "truth.png"]
    assert sorted(path.name for path in (tmp_path / "frames").iterdir()) == [
        *("frame_00.png", "frame_01.png", "frame_07.png", "frame_notes.txt")
    ]


def test_a_failure_leaves_nothing_behind(tmp_path, scene, monkeypatch):
    def fail(*_):
        raise OutputError("No space left on device")

    monkeypatch.setattr("allfocus.scenes.writing.describe_scene", fail)
    with pytest.raises(OutputError, match="No space left"):
        write_scene(scene, tmp_path / "stack")
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_the_folder_is_refused(tmp_path, scene):
    (tmp_path / "stack").write_text("mine")

    with pytest.raises(OutputError, match="cannot be made"):
        write_scene(scene, tmp_path / "stack", overwrite=True)
    assert (tmp_path / "stack").read_text() == "mine"
