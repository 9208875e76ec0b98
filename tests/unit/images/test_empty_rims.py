"""Empty rims of frames that other software has moved: told from dark corners, pages and coins, and filled by others."""

import cv2
import numpy as np
import pytest

import allfocus
from allfocus.images.empty_rims import RimFinder, find_rim

SIZE = HEIGHT, WIDTH = 240, 320


def scene(seed: int = 0) -> np.ndarray:
    """Something everywhere, 0.2 to 0.9, uint8 (240, 320, 3)."""
    coarse = np.random.default_rng(seed).uniform(0.2, 0.9, (15, 20, 3)).astype(np.float32)
    return np.rint(255 * cv2.resize(coarse, (WIDTH, HEIGHT), interpolation=cv2.INTER_LINEAR)).astype(np.uint8)


def covered(turn: float = 0.0, scale: float = 1.0, shift: tuple[float, float] = (0, 0)) -> np.ndarray:
    """How much of each pixel a frame covers that was moved so, (240, 320, 1)."""
    motion = cv2.getRotationMatrix2D((WIDTH / 2, HEIGHT / 2), turn, scale)
    motion[:, 2] += shift
    return cv2.warpAffine(np.ones(SIZE, np.float32), motion, (WIDTH, HEIGHT))[..., None]


def moved(picture: np.ndarray, fill: int = 0, **motion) -> np.ndarray:
    share = covered(**motion)
    return np.rint(share * picture + (1 - share) * fill).astype(np.uint8)


def found(*frames: np.ndarray) -> dict[int, np.ndarray]:
    finder = RimFinder()
    for index, frame in enumerate(frames):
        finder.add(index, frame)
    rims = finder.find(range(len(frames)), lambda index: frames[index])
    return {index: rims.shown(index) for index in rims.rims}


@pytest.mark.parametrize("fill", [0, 255])
@pytest.mark.parametrize(
    "motion", [{"shift": (7, -4)}, {"turn": 1.0}, {"scale": 0.96}, {"scale": 0.98, "turn": -0.6, "shift": (3, 5)}]
)
def test_rim_of_a_moved_frame_is_found_and_nothing_else(fill, motion):
    masks = found(moved(scene(), fill, **motion), scene())
    assert list(masks) == [0]
    share = covered(**motion)[..., 0]
    assert not masks[0][share < 0.5].any()
    # Two pixels at its end are not trusted, and a line may be off by three.
    assert masks[0][cv2.erode(share, np.ones((15, 15)), borderType=cv2.BORDER_CONSTANT, borderValue=0) == 1].all()


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
def test_rim_is_found_in_frames_of_16_bits_and_of_floating_point(kind):
    frames = [moved(scene(), scale=0.96), scene()]
    factor = {np.uint16: 257, np.float32: np.float32(1 / 255)}[kind]
    assert list(found(*(frame.astype(kind) * factor for frame in frames))) == [0]


def test_rim_is_found_in_a_grey_frame():
    assert list(found(moved(scene(), scale=0.96)[..., 0], scene()[..., 0])) == [0]


@pytest.mark.parametrize(("quality", "scale"), [(60, 0.9), (85, 0.97)])
def test_rim_is_found_after_jpeg(quality, scale):
    frame = moved(scene(), scale=scale, turn=0.4)
    frame = cv2.imdecode(cv2.imencode(".jpg", frame, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR)
    masks = found(frame, scene())
    assert list(masks) == [0]
    assert not masks[0][covered(scale=scale, turn=0.4)[..., 0] < 0.5].any()


def test_frame_without_a_rim_has_none():
    assert find_rim(scene()) is None


def test_black_border_that_all_frames_have_belongs_to_the_picture():
    assert not found(*(moved(scene(seed), scale=0.9) for seed in range(3)))


def page(radius: float) -> np.ndarray:
    """A page that fills most of the picture before black, out of focus by so much."""
    share = np.zeros((*SIZE, 1), np.float32)
    share[20:-20, 30:-30] = 1
    picture = share * scene()
    return np.rint(cv2.GaussianBlur(picture, (0, 0), radius) if radius else picture).astype(np.uint8)


@pytest.mark.parametrize("radius", [1.5, 4, 10, 20])
def test_black_around_a_page_is_no_rim(radius):
    assert not found(page(0), page(radius))


def test_coin_before_black_is_no_frame():
    rows, columns = np.indices(SIZE)
    disc = (rows - HEIGHT / 2) ** 2 + (columns - WIDTH / 2) ** 2 < (HEIGHT / 2 - 4) ** 2
    coin = np.where(disc[..., None], scene(), 0).astype(np.uint8)
    assert find_rim(coin) is None
    assert not found(coin, scene())


def test_dark_corner_is_no_rim():
    rows, columns = np.indices(SIZE)
    dark = scene()
    dark[rows + columns < 60] = np.random.default_rng(1).integers(0, 9, (3,))
    assert not found(dark, scene())


def test_noise_that_is_nearly_black_is_no_rim():
    frame = scene()
    frame[:6] = np.random.default_rng(1).integers(0, 11, (6, WIDTH, 3))
    assert not found(frame, scene())


def test_edge_of_a_thing_that_others_show_soft_is_no_rim():
    """A dark bar along one side: other frames show it grey, being out of focus, but they show an edge there too."""
    sharp, soft = scene(), scene()
    sharp[:40] = 0
    soft[:40] = 60
    soft = cv2.GaussianBlur(soft, (0, 0), 3)
    assert not found(sharp, soft)


def test_what_no_frame_shows_stays_as_it_is():
    motions = [{"shift": (10, 0)}, {"shift": (0, 10)}]
    frames = [moved(scene(), **motion) for motion in motions]
    masks = found(*frames)
    assert list(masks) == [0, 1]
    empty = np.logical_and.reduce([covered(**motion)[..., 0] == 0 for motion in motions])
    assert empty.any()
    assert all(mask[empty].all() for mask in masks.values())


def test_other_frames_fill_the_rims_of_files(tmp_path):
    rendered = allfocus.render_scene("desk", frames=3, size=SIZE, seed=3)
    frames = [np.rint(255 * np.asarray(frame)).astype(np.uint8) for frame in rendered.frames]
    rimmed = [moved(frames[0], scale=0.95), frames[1], moved(frames[2], turn=1.2)]
    whole = allfocus.fuse(frames).image.astype(int)
    for number, frame in enumerate(rimmed):
        allfocus.write_image(frame.astype(np.float32) / 255, tmp_path / f"{number}.png")
    ends = (covered(scale=0.95) * covered(turn=1.2))[..., 0] < 1
    told: list[str] = []
    for align in (True, False):
        result = allfocus.fuse_files(
            [tmp_path / f"{number}.png" for number in range(3)],
            tmp_path / f"fused{align}.tif",
            align=align,
            notice=told.append,
        )
        assert np.abs(whole - 255 * result.image)[ends].mean() < 20
        assert result.covered is None
        assert "2 of 3 (0.png, 2.png)" in told[0]
    kept = allfocus.fuse_files(
        [tmp_path / f"{number}.png" for number in range(3)], tmp_path / "kept.tif", fill_rims=False
    )
    assert (kept.image[0] < 0.05).mean() > 0.5


def test_arrays_are_fused_as_they_are():
    """Whoever compares methods compares them on the same pixels; masks can be given."""
    frames = [moved(scene(), scale=0.95), scene()]
    mean = np.mean(frames, axis=0)
    assert np.abs(allfocus.fuse(frames, method="average").image - mean).max() <= 0.51
