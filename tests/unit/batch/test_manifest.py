"""What a batch remembers."""

import io
import os

import pytest

from allfocus.batch.manifest import (
    FAILED,
    FUSED,
    BatchManifest,
    StackRecord,
    content_key,
    frame_states,
    parse_record,
    read_manifest,
    settings_key,
    still_valid,
)
from allfocus.errors import OutputError


def record(name, status=FUSED, **more):
    return StackRecord(name, status, f"{name}.png", **more)


@pytest.fixture
def frames(tmp_path):
    paths = [tmp_path / f"{number}.png" for number in range(2)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 10)
    return paths


def fused_record(frames, root):
    states = frame_states(frames, root)
    return record("a", inputs=states, input_key=content_key(frames, states), settings_key="s")


def test_what_is_appended_is_read_back_and_the_last_line_counts(tmp_path):
    with BatchManifest(tmp_path).opened() as manifest:
        manifest.append([record("a", FAILED, error="é"), record("b", notices=("x", "y"))])
        manifest.append([record("a", width=3, output_state=(1, 2))])
    assert read_manifest(tmp_path) == {
        "a": record("a", width=3, output_state=(1, 2)),
        "b": record("b", notices=("x", "y")),
    }


def test_a_torn_last_line_is_dropped_and_the_next_one_is_whole(tmp_path):
    with BatchManifest(tmp_path).opened() as manifest:
        manifest.append([record("a"), record("b")])
    path = tmp_path / "manifest.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    with BatchManifest(tmp_path).opened() as manifest:
        assert set(manifest.records) == {"a"}
        manifest.append([record("c")])
    assert set(read_manifest(tmp_path)) == {"a", "c"}
    assert all(map(parse_record, path.read_bytes().splitlines()))


def test_a_manifest_full_of_old_lines_is_made_short(tmp_path):
    with BatchManifest(tmp_path).opened() as manifest:
        for number in range(200):
            manifest.append([record("a", width=number)])
    with BatchManifest(tmp_path).opened():
        pass
    assert len((tmp_path / "manifest.jsonl").read_bytes().splitlines()) == 1
    assert read_manifest(tmp_path)["a"].width == 199


@pytest.mark.parametrize("line", [b"", b"null", b"[]", b"\xff", b'{"stack": 1}', b'{"surprise": 1}'])
def test_lines_that_are_not_ours_are_no_records(line):
    assert parse_record(line) is None


def test_only_one_run_at_a_time_writes(tmp_path):
    with (
        BatchManifest(tmp_path).opened(),
        pytest.raises(OutputError, match="another batch"),
        BatchManifest(tmp_path).opened(),
    ):
        pass
    with BatchManifest(tmp_path).opened():
        pass


def test_unchanged_frames_are_valid_without_being_read(tmp_path, frames, monkeypatch):
    known = fused_record(frames, tmp_path)
    monkeypatch.setattr("allfocus.batch.manifest.content_key", lambda *_: pytest.fail("read"))
    assert still_valid(known, frames, frame_states(frames, tmp_path), "s") is known


def test_a_touched_frame_is_valid_and_a_changed_one_of_the_same_size_is_not(tmp_path, frames):
    known = fused_record(frames, tmp_path)
    os.utime(frames[0], ns=(1, 1))
    states = frame_states(frames, tmp_path)
    touched = still_valid(known, frames, states, "s")
    assert touched is not None
    assert touched.inputs == states
    frames[0].write_bytes(b"x" * 10)
    assert still_valid(known, frames, frame_states(frames, tmp_path), "s") is None


@pytest.mark.parametrize("change", ["settings", "fewer", "order", "failed", "missing", "none"])
def test_anything_else_that_differs_is_fused_again(tmp_path, frames, change):
    known, now, key = fused_record(frames, tmp_path), list(frames), "s"
    if change == "settings":
        key = "t"
    elif change == "fewer":
        now = frames[:1]
    elif change == "order":
        now = frames[::-1]
    elif change == "failed":
        known = record("a", FAILED, inputs=known.inputs, input_key=known.input_key, settings_key="s")
    elif change == "missing":
        frames[1].unlink()
    elif change == "none":
        known = None
    assert still_valid(known, now, frame_states(now, tmp_path), key) is None


def test_the_key_of_settings_depends_on_each_of_them_and_on_the_version():
    keys = {
        settings_key({"a": 1, "b": 2}, "1"),
        settings_key({"a": 1, "b": 3}, "1"),
        settings_key({"a": 1, "b": 2}, "2"),
    }
    assert len(keys) == 3
    assert settings_key({"b": 2, "a": 1}, "1") in keys


def test_a_full_disk_is_one_clear_error_also_on_closing(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    records = BatchManifest(tmp_path)
    # Not opened as such: no device may be a manifest.
    records._file = io.FileIO("/dev/full", "ab")
    with records._file, pytest.raises(OutputError, match=r"No space left on device.*free some space"):
        records.append([StackRecord("a", FUSED, "a.png")])
