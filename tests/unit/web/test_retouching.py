"""The brush: exact inside, smooth at its edge, nothing outside, and undo that leaves no trace."""

import io
import itertools
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from allfocus.alignment.stack_alignment import align
from allfocus.images.writing import to_integers
from allfocus.scenes.rendering import render_scene
from allfocus.web.dabs import ReadGuide
from allfocus.web.retouching import paint, replay, stroke_area, stroke_weight
from allfocus.web.stroke import STROKE_MODES, Stroke

WIDTH, HEIGHT = 60, 40
EVERYTHING = (0, 0, WIDTH, HEIGHT)

coordinates = st.floats(-20, 80, allow_nan=False, width=32)
strokes = st.builds(
    Stroke,
    id=st.just("s"),
    source=st.sampled_from(["frame-a", "frame-b"]),
    points=st.lists(st.tuples(coordinates, coordinates).map(list), min_size=1, max_size=4),
    radius=st.floats(0.3, 30, allow_nan=False),
    hardness=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    opacity=st.sampled_from([0.01, 0.4, 1.0]),
    mode=st.sampled_from(STROKE_MODES),
)


def pictures(seed: int, kind: type = np.uint16) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    draw = (lambda: random.integers(0, 65536, (HEIGHT, WIDTH, 3)).astype(np.uint16)) if kind is np.uint16 else (
        lambda: random.random((HEIGHT, WIDTH, 3), np.float32)
    )  # fmt: skip
    return {name: draw() for name in ("original", "frame-a", "frame-b")}


def no_guide(source: str) -> ReadGuide:
    raise AssertionError(f"a plain stroke looked at the colours of {source}")


def distance_to_line(stroke: Stroke) -> NDArray[np.float64]:
    """The plain twin: the distance of every pixel centre to the nearest of many points on the line."""
    points = np.array(stroke.points, np.float64)
    steps = np.linspace(0, 1, 2001)[:, None]
    line = [start + steps * (end - start) for start, end in itertools.pairwise(points)] or [points]
    centres = np.stack(np.meshgrid(np.arange(WIDTH) + 0.5, np.arange(HEIGHT) + 0.5), -1).reshape(-1, 1, 2)
    nearest = [np.sqrt(((centres - part[None]) ** 2).sum(-1)).min(1) for part in line]
    return np.min(nearest, axis=0).reshape(HEIGHT, WIDTH)


@pytest.mark.parametrize("hardness", [0.0, 0.5, 1.0])
def test_the_weight_is_that_of_the_distance_to_the_line(hardness: float) -> None:
    stroke = Stroke("s", "frame-a", [[10.25, 12.0], [40.0, 30.5], [45.0, 8.0]], 9.0, hardness)
    distance = distance_to_line(stroke)
    weight = stroke_weight(stroke, EVERYTHING)
    assert (weight[distance <= 9 * hardness - 0.02] == 1).all()
    assert (weight[distance >= 9.02] == 0).all()
    if hardness < 1:
        t = np.clip((distance - 9 * hardness) / (9 - 9 * hardness), 0, 1)
        assert np.abs(weight - (1 - 3 * t**2 + 2 * t**3)).max() < 0.01


@given(stroke=strokes)
def test_nothing_outside_the_area_of_a_stroke_has_weight(stroke: Stroke) -> None:
    left, top, right, bottom = stroke_area(stroke, WIDTH, HEIGHT)
    weight = stroke_weight(stroke, EVERYTHING)
    weight[top:bottom, left:right] = 0
    assert not weight.any()


@given(stroke=strokes, cut=st.tuples(st.integers(0, WIDTH), st.integers(0, HEIGHT)))
def test_a_stroke_painted_in_parts_is_the_stroke(stroke: Stroke, cut: tuple[int, int]) -> None:
    whole, parts = pictures(1)["original"], pictures(1)["original"]
    source = pictures(1)[stroke.source]
    paint(whole, stroke, source, EVERYTHING)
    x, y = cut
    for area in ((0, 0, x, y), (x, 0, WIDTH, y), (0, y, x, HEIGHT), (x, y, WIDTH, HEIGHT)):
        paint(parts, stroke, source, area)
    assert np.array_equal(whole, parts)


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
def test_the_core_is_the_source_bit_for_bit_and_the_rest_is_untouched(kind: type) -> None:
    layers = pictures(2, kind)
    painted = layers["original"].copy()
    stroke = Stroke("s", "frame-a", [[20.0, 20.0]], 10.0, 0.5)
    paint(painted, stroke, layers["frame-a"], stroke_area(stroke, WIDTH, HEIGHT))
    weight = stroke_weight(stroke, EVERYTHING)
    assert (weight == 1).any()
    assert np.array_equal(painted[weight == 1], layers["frame-a"][weight == 1])
    assert np.array_equal(painted[weight == 0], layers["original"][weight == 0])
    between = (weight > 0) & (weight < 1)
    low, high = np.minimum(layers["original"], layers["frame-a"]), np.maximum(layers["original"], layers["frame-a"])
    assert ((painted >= low) & (painted <= high))[between].all()


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
def test_opacity_takes_that_part_of_the_source(kind: type) -> None:
    layers = pictures(4, kind)
    painted = layers["original"].copy()
    stroke = Stroke("s", "frame-a", [[30.0, 20.0]], 9.0, 1.0, opacity=0.25)
    paint(painted, stroke, layers["frame-a"], EVERYTHING)
    inside = stroke_weight(stroke, EVERYTHING) == 1
    wanted = 0.75 * layers["original"][inside].astype(np.float64) + 0.25 * layers["frame-a"][inside]
    assert np.abs(painted[inside] - wanted).max() <= (0.5 if kind is np.uint16 else 1e-6)
    assert np.array_equal(painted[~inside], layers["original"][~inside])


@pytest.mark.parametrize("grey", [False, True])
def test_lighten_and_darken_take_whole_pixels_by_their_grey_and_leave_the_others(grey: bool) -> None:
    layers = {name: pixels[..., 0].copy() if grey else pixels for name, pixels in pictures(5).items()}
    shades = {name: pixels if grey else pixels @ np.array([0.299, 0.587, 0.114]) for name, pixels in layers.items()}
    lighter = shades["frame-a"] > shades["original"]
    for mode, taken in (("lighten", lighter), ("darken", shades["frame-a"] < shades["original"])):
        painted = layers["original"].copy()
        paint(painted, Stroke("s", "frame-a", [[30.0, 20.0]], 99.0, 1.0, mode=mode), layers["frame-a"], EVERYTHING)
        assert np.array_equal(painted[taken], layers["frame-a"][taken])
        assert np.array_equal(painted[~taken], layers["original"][~taken])
    assert lighter.any()
    assert not lighter.all()


@given(drawn=st.lists(strokes, min_size=1, max_size=5))
def test_undo_by_replay_gives_what_was_there_before(drawn: list[Stroke]) -> None:
    layers = pictures(3)
    painted = layers["original"].copy()
    for stroke in drawn[:-1]:
        paint(painted, stroke, layers[stroke.source], EVERYTHING)
    before = painted.copy()
    area = stroke_area(drawn[-1], WIDTH, HEIGHT)
    paint(painted, drawn[-1], layers[drawn[-1].source], area)
    replay(painted, layers["original"], drawn[:-1], layers.__getitem__, area, no_guide)
    assert np.array_equal(painted, before)


def read_download(client: Any, job_id: str, **options: Any) -> NDArray[Any]:
    content = client.get(f"/api/jobs/{job_id}/download", params=options).content
    pixels: NDArray[Any] = tifffile.imread(io.BytesIO(content))
    return pixels


@pytest.fixture(scope="module")
def shaken() -> list[NDArray[np.uint16]]:
    """Four 16-bit frames, 200 x 150, that do not lie on each other."""
    frames = render_scene("slope", frames=4, size=(150, 200), shake=3.0).frames
    return [to_integers(frame, 16) for frame in frames]


@pytest.fixture
def shaken_job(client: Any, fused_job: str) -> str:
    """A finished job of the shaken frames, without a stroke: whatever other tests have painted is undone."""
    while client.job(fused_job)["strokes"]:
        assert client.post(f"/api/jobs/{fused_job}/undo").status_code == 200
    return fused_job


@pytest.fixture(scope="module")
def fused_job(client: Any, shaken: list[NDArray[np.uint16]]) -> str:
    """The same, with what other tests have painted."""
    files = []
    for frame in shaken:
        file = io.BytesIO()
        tifffile.imwrite(file, frame, photometric="rgb")
        files.append(file.getvalue())
    job_id: str = client.make_job(files)
    job = client.fuse(job_id, method="depth-map")
    assert job["result"]["aligned"] is True
    return job_id


def test_painted_pixels_are_the_aligned_frames_own_in_the_downloaded_file(
    client: Any, shaken: list[NDArray[np.uint16]], shaken_job: str
) -> None:
    job = client.job(shaken_job)
    before = read_download(client, shaken_job)
    assert before.dtype == np.uint16
    assert before.shape == (job["result"]["height"], job["result"]["width"], 3)
    aligned = align(shaken).frames[2]
    assert aligned.shape == before.shape
    body = {"source": f"frame-{job['frames'][2]['id']}", "points": [[60, 60], [90, 70]], "radius": 20, "hardness": 0.6}
    answer = client.post(f"/api/jobs/{shaken_job}/strokes", json=body).json()
    left, top, right, bottom = answer["area"]
    assert answer["revision"] == job["result"]["revision"] + 1
    after = read_download(client, shaken_job)
    stroke = Stroke("s", "x", body["points"], 20, 0.6)  # type: ignore[arg-type]
    weight = stroke_weight(stroke, (0, 0, before.shape[1], before.shape[0]))
    assert np.array_equal(after[weight == 1], aligned[weight == 1])
    assert not np.array_equal(after[weight == 1], before[weight == 1])
    assert np.array_equal(after[weight == 0], before[weight == 0])
    outside = np.ones(weight.shape, bool)
    outside[top:bottom, left:right] = False
    assert not weight[outside].any()
    second = {**body, "source": f"frame-{job['frames'][0]['id']}", "points": [[80, 60]], "hardness": 0.0}
    client.post(f"/api/jobs/{shaken_job}/strokes", json=second)
    twice = read_download(client, shaken_job)
    undone = client.post(f"/api/jobs/{shaken_job}/undo").json()
    assert (len(undone["strokes"]), undone["redo_count"]) == (1, 1)
    assert np.array_equal(read_download(client, shaken_job), after)
    client.post(f"/api/jobs/{shaken_job}/redo")
    assert np.array_equal(read_download(client, shaken_job), twice)
    client.post(f"/api/jobs/{shaken_job}/undo")
    client.post(f"/api/jobs/{shaken_job}/undo")
    assert client.post(f"/api/jobs/{shaken_job}/undo").status_code == 409
    assert np.array_equal(read_download(client, shaken_job), before)


def test_downloads_have_the_depth_and_kind_asked_for(client: Any, shaken_job: str) -> None:
    sixteen, eight = read_download(client, shaken_job), read_download(client, shaken_job, bits=8)
    assert eight.dtype == np.uint8
    assert np.abs(eight.astype(int) - sixteen.astype(int) / 257).max() <= 0.51
    for kind, first in (("png", b"\x89PNG"), ("jpeg", b"\xff\xd8")):
        answer = client.get(f"/api/jobs/{shaken_job}/download", params={"format": kind})
        assert answer.content.startswith(first)
        assert answer.headers["content-disposition"].startswith("attachment")
    assert client.get(f"/api/jobs/{shaken_job}/download", params={"format": "jpeg", "bits": 16}).status_code == 400
    assert client.get(f"/api/jobs/{shaken_job}/download", params={"format": "gif"}).status_code == 400
    client.wait_until_nothing_is_left()


@pytest.mark.parametrize(
    "change",
    [
        {"source": "result"},
        {"source": "frame-none"},
        {"source": "../frame"},
        {"points": []},
        {"points": [[1]]},
        {"points": [[1, 2, 3]]},
        {"points": [["x", 1]]},
        {"points": [[-500, -500]]},
        {"points": [[1, 1]] * 20_001},
        {"radius": 0},
        {"radius": 1e9},
        {"hardness": 1.1},
        {"flow": 0},
        {"tolerance": 0},
        {"pen": "tilt"},
        {"pressures": [0.5]},
        {"pen": "size", "pressures": [0.5, 0.5]},
        {"pen": "size", "pressures": [1.5]},
        {"gain": 5},
        {"tint": [1]},
        {"tint": [1, 1, 3]},
        {"extra": 1},
    ],
)
def test_a_stroke_that_makes_no_sense_is_refused(client: Any, shaken_job: str, change: dict[str, Any]) -> None:
    frame = client.job(shaken_job)["frames"][0]["id"]
    body = {"source": f"frame-{frame}", "points": [[9, 9]], "radius": 3, "hardness": 0.5, **change}
    answer = client.post(f"/api/jobs/{shaken_job}/strokes", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_a_frame_that_was_painted_from_cannot_be_removed(client: Any, shaken_job: str) -> None:
    frame = client.job(shaken_job)["frames"][1]["id"]
    body = {"source": f"frame-{frame}", "points": [[9, 9]], "radius": 3, "hardness": 0.5}
    client.post(f"/api/jobs/{shaken_job}/strokes", json=body)
    assert client.delete(f"/api/jobs/{shaken_job}/frames/{frame}").status_code == 409


def test_a_stroke_cut_short_by_a_crash_is_painted_again_from_the_original(client: Any, shaken_job: str) -> None:
    frame = client.job(shaken_job)["frames"][3]["id"]
    body = {"source": f"frame-{frame}", "points": [[50, 50]], "radius": 9, "hardness": 0.5}
    client.post(f"/api/jobs/{shaken_job}/strokes", json=body)
    good = read_download(client, shaken_job)
    painted = next((client.work / "jobs" / shaken_job / "layers").glob("*/painted"))
    (painted / "strokes.json").unlink()
    np.load(painted / "level0.npy", mmap_mode="r+")[20:40] = 77
    assert np.array_equal(read_download(client, shaken_job), good)


@pytest.mark.parametrize(("kind", "channels"), [("float", 3), ("float", 1), ("uint8", 1), ("uint8", 3)])
def test_every_kind_of_frame_can_be_painted_from(client: Any, kind: str, channels: int) -> None:
    random = np.random.default_rng(5)
    shape = (40, 50, 3) if channels == 3 else (40, 50)
    frames: list[NDArray[Any]] = [random.random(shape, np.float32) for _ in range(3)]
    if kind == "uint8":
        frames = [np.rint(frame * 255).astype(np.uint8) for frame in frames]
    files = []
    for frame in frames:
        file = io.BytesIO()
        tifffile.imwrite(file, frame, photometric="rgb" if channels == 3 else "minisblack")
        files.append(file.getvalue())
    job_id = client.make_job(files)
    job = client.fuse(job_id, method="average", align=False)
    before = read_download(client, job_id)
    assert before.dtype == (np.float32 if kind == "float" else np.uint16)
    body = {"source": f"frame-{job['frames'][1]['id']}", "points": [[20, 20]], "radius": 8, "hardness": 1}
    assert client.post(f"/api/jobs/{job_id}/strokes", json=body).status_code == 201
    after = read_download(client, job_id)
    core = stroke_weight(Stroke("s", "x", [[20.0, 20.0]], 8, 1), (0, 0, 50, 40)) == 1
    expected = frames[1] if kind == "float" else frames[1].astype(np.uint16) * 257
    assert np.array_equal(after[core], expected[core])
    assert np.array_equal(after[~core], before[~core])
    for layer in client.job(job_id)["result"]["layers"]:
        assert client.get(f"/api/jobs/{job_id}/tiles/{layer}/0/0/0").status_code == 200, layer


def test_strokes_of_many_hands_at_once_all_arrive(client: Any, shaken_job: str) -> None:
    job = client.job(shaken_job)
    width, height = job["result"]["width"], job["result"]["height"]
    random = np.random.default_rng(7)

    def act(number: int) -> int:
        x, y = random.random(2) * (width, height)
        body = {"source": f"frame-{job['frames'][number % 4]['id']}", "points": [[x, y]], "radius": 25, "hardness": 0.3}
        if number % 5 == 4:
            answer = client.post(f"/api/jobs/{shaken_job}/undo")
        elif number % 5 == 3:
            answer = client.get(f"/api/jobs/{shaken_job}/tiles/result/0/0/0")
        else:
            answer = client.post(f"/api/jobs/{shaken_job}/strokes", json=body)
        status: int = answer.status_code
        return status

    for number in range(0, 40, 5):
        act(number)  # one for each undo, which may come before all others
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(act, range(40))) <= {200, 201}
    painted = read_download(client, shaken_job)
    # Painted anew from the original, as after a restart, it is the same.
    shutil.rmtree(next((client.work / "jobs" / shaken_job / "layers").glob("*/painted")))
    assert np.array_equal(read_download(client, shaken_job), painted)
