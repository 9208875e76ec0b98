"""Layers on disk: levels that agree with the full size, tiles, and a cache that keeps within its limit."""

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from allfocus.web.layer_cache import LayerCache
from allfocus.web.layers import (
    difference,
    halve,
    jpeg_bytes,
    level_count,
    open_level,
    png_bytes,
    read_tile,
    refresh_levels,
    to_bytes,
    write_layer,
)
from allfocus.web.refusals import Refusal
from allfocus.web.settings import ServerSettings


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> NDArray[np.uint16]:
    shape = (height, width, channels) if channels == 3 else (height, width)
    return np.random.default_rng(seed).integers(0, 65536, shape).astype(np.uint16)


@pytest.mark.parametrize(("height", "width", "channels"), [(10, 7, 3), (300, 513, 3), (601, 256, 1), (1, 1000, 1)])
def test_a_layer_has_halves_until_one_tile_holds_everything(
    tmp_path: Path, height: int, width: int, channels: int
) -> None:
    samples = noise(height, width, channels)
    write_layer(tmp_path / "layer", samples)
    assert np.array_equal(open_level(tmp_path / "layer", 0), samples)
    count = level_count(width, height)
    assert len(list((tmp_path / "layer").iterdir())) == count
    shapes = [open_level(tmp_path / "layer", level).shape[:2] for level in range(count)]
    for finer, coarser in itertools.pairwise(shapes):
        assert coarser == (-(-finer[0] // 2), -(-finer[1] // 2))
    assert max(shapes[-1]) <= 256
    assert count == 1 or max(shapes[-2]) > 256


@given(
    left=st.integers(0, 599),
    top=st.integers(0, 299),
    width=st.integers(1, 300),
    height=st.integers(1, 200),
    white=st.sampled_from([1.0, 0.7]),
)
def test_refreshed_levels_are_those_of_a_layer_written_anew(
    left: int, top: int, width: int, height: int, white: float
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer"
        write_layer(path, noise(301, 601, 1), white=white)
        area = (left, top, min(left + width, 601), min(top + height, 301))
        open_level(path, 0, writable=True)[area[1] : area[3], area[0] : area[2]] = 40000
        refresh_levels(path, area, white=white)
        write_layer(Path(folder) / "anew", np.array(open_level(path, 0)), white=white)
        for level in range(level_count(601, 301)):
            assert np.array_equal(open_level(path, level), open_level(Path(folder) / "anew", level)), level


def test_tiles_put_together_are_the_picture(tmp_path: Path) -> None:
    samples = noise(300, 520)
    write_layer(tmp_path / "layer", samples)
    rows = [np.concatenate([read_tile(tmp_path / "layer", 0, c, r) for c in range(3)], 1) for r in range(2)]
    assert np.array_equal(np.concatenate(rows), to_bytes(samples))
    assert read_tile(tmp_path / "layer", 0, 5, 0).size == 0


def test_halving_and_reducing_round_to_the_nearest() -> None:
    assert halve(np.array([[10, 20], [30, 41]], np.uint8)).tolist() == [[25]]
    levels = np.arange(65536, dtype=np.uint16)[None]
    assert np.array_equal(to_bytes(levels), np.rint(levels / 257).astype(np.uint8))
    assert to_bytes(np.array([[0.5, 1.5, -1]], np.float32)).tolist() == [[128, 255, 0]]


def test_a_difference_is_black_where_pictures_agree() -> None:
    first = np.zeros((4, 5, 3), np.uint8)
    second = first.copy()
    second[1, 2] = 200
    shown = difference(first, second)
    assert shown[1, 2].tolist() == [255, 255, 255]
    assert shown.sum() == 3 * 255


def test_tiles_carry_the_colour_profile() -> None:
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    tile = jpeg_bytes(np.zeros((8, 8, 3), np.uint8), icc_profile=profile)
    assert Image.open(io.BytesIO(tile)).info["icc_profile"] == profile
    assert Image.open(io.BytesIO(png_bytes(np.zeros((8, 8), np.uint8)))).mode == "L"


def test_the_cache_deletes_what_was_used_longest_ago(tmp_path: Path) -> None:
    cache = LayerCache(3000, tmp_path)
    made: list[str] = []

    def get(name: str) -> Path:
        def make() -> None:
            made.append(name)
            (tmp_path / name).mkdir()
            (tmp_path / name / "level0.npy").write_bytes(bytes(1000))

        return cache.get(tmp_path / name, 1000, make)

    for name in ("a", "b", "c", "a", "d"):
        assert (get(name) / "level0.npy").exists()
    assert made == ["a", "b", "c", "d"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c", "d"]
    assert cache.used == 3000
    with pytest.raises(Refusal):
        cache.get(tmp_path / "huge", 3001, lambda: None)


def test_views_survive_a_cache_that_holds_one_layer(run_server: Any, tmp_path: Path, frame_files: list[bytes]) -> None:
    # One layer of 128 x 96 x 3 at 16 bits has 73,856 bytes.
    with run_server(ServerSettings(work=tmp_path / "work", cache_bytes=100_000)) as client:
        job_id = client.make_job(frame_files)
        layers = client.fuse(job_id, method="depth-map")["result"]["layers"]
        for _ in range(2):
            for layer in layers:
                if not layer.startswith("difference"):
                    assert client.get(f"/api/jobs/{job_id}/tiles/{layer}/0/0/0").status_code == 200, layer


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("result/0/0/0", 200),
        ("result/0/1/0", 404),
        ("result/1/0/0", 404),
        ("result/-1/0/0", 404),
        ("result/0/-1/0", 404),
        ("result/0/99999999999999999999/0", 404),
        ("result/x/0/0", 400),
        ("..%2fresult/0/0/0", 404),
        ("painted/0/0/0", 404),
        ("method-ips/0/0/0", 404),
        ("frame-/0/0/0", 404),
    ],
)
def test_only_tiles_that_exist_are_given(client: Any, tile_job: str, path: str, status: int) -> None:
    answer = client.get(f"/api/jobs/{tile_job}/tiles/{path}?revision=1")
    assert answer.status_code == status, answer.text
    if status == 200:
        assert "immutable" in answer.headers["cache-control"]


@pytest.fixture(scope="module")
def tile_job(client: Any, frame_files: list[bytes]) -> str:
    """A finished job without strokes."""
    job_id: str = client.make_job(frame_files)
    client.fuse(job_id, method="average")
    return job_id
