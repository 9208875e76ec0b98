"""Strokes laid down dab by dab: flow, pressure, staying within one thing; the same in parts, and gone after undo."""

import math
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import TypeAdapter

from allfocus.web.dabs import DabMask, ReadGuide, is_dabbed, mask_level, most_dabs, place_dabs
from allfocus.web.layers import guide_tile, halve, to_bytes
from allfocus.web.retouching import paint, replay, stroke_area, stroke_weight
from allfocus.web.stroke import PEN_USES, STROKE_MODES, Stroke

WIDTH, HEIGHT = 400, 300
EVERYTHING = (0, 0, WIDTH, HEIGHT)

coordinates = st.tuples(st.floats(-30, 430, width=32), st.floats(-30, 330, width=32)).map(list)


@st.composite
def dabbed(draw: st.DrawFn) -> Stroke:
    """A stroke with what needs dabs, large enough for masks of both levels of the picture."""
    points = draw(st.lists(coordinates, min_size=1, max_size=3))
    pen = draw(st.sampled_from(PEN_USES))
    pressures = draw(st.lists(st.floats(0, 1, width=16), min_size=len(points), max_size=len(points)))
    return Stroke(
        "s",
        draw(st.sampled_from(["frame-a", "frame-b"])),
        points,
        radius=draw(st.sampled_from([3.0, 20.0, 64.0, 90.0])),
        hardness=draw(st.sampled_from([0.0, 0.6, 1.0])),
        opacity=draw(st.sampled_from([0.4, 1.0])),
        mode=draw(st.sampled_from(STROKE_MODES)),
        flow=draw(st.sampled_from([0.05, 0.5])),
        tolerance=draw(st.sampled_from([None, 0.1, 1.0])),
        pen=pen,
        pressures=[] if pen == "none" else pressures,
        gain=draw(st.sampled_from([0.5, 1.0, 1.7])),
    )


def pictures() -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(1)
    draw = lambda: cv2.GaussianBlur(random.random((HEIGHT, WIDTH, 3)), (0, 0), 4)  # noqa: E731
    drawn = {name: draw() for name in ("original", "frame-a", "frame-b")}
    return {name: np.rint(65535 * (p - p.min()) / (p.max() - p.min())).astype(np.uint16) for name, p in drawn.items()}


PICTURES = pictures()


def guide_of(samples: NDArray[Any]) -> ReadGuide:
    """What reads the smoothed tiles of a picture in memory."""
    levels = [samples, halve(to_bytes(samples))]
    return lambda level, column, row: guide_tile(levels[level], column, row)


GUIDES = {name: guide_of(samples) for name, samples in PICTURES.items()}


def put(painted: NDArray[Any], stroke: Stroke, area: tuple[int, int, int, int]) -> None:
    paint(painted, stroke, PICTURES[stroke.source], area, GUIDES[stroke.source])


def mask(stroke: Stroke, samples: NDArray[Any] | None = None) -> NDArray[np.float64]:
    return DabMask(stroke, WIDTH, HEIGHT, None if samples is None else guide_of(samples)).weight(EVERYTHING)


@settings(max_examples=25)
@given(stroke=dabbed(), cut=st.tuples(st.integers(0, WIDTH), st.integers(0, HEIGHT)))
def test_a_stroke_painted_in_parts_is_the_stroke_and_changes_nothing_outside_its_area(
    stroke: Stroke, cut: tuple[int, int]
) -> None:
    whole, parts, inside = (PICTURES["original"].copy() for _ in range(3))
    put(whole, stroke, EVERYTHING)
    x, y = cut
    for area in ((0, 0, x, y), (x, 0, WIDTH, y), (0, y, x, HEIGHT), (x, y, WIDTH, HEIGHT)):
        put(parts, stroke, area)
    put(inside, stroke, stroke_area(stroke, WIDTH, HEIGHT))
    assert np.array_equal(whole, parts)
    assert np.array_equal(whole, inside)


@settings(max_examples=15)
@given(drawn=st.lists(dabbed(), min_size=1, max_size=3))
def test_undo_by_replay_gives_what_was_there_before(drawn: list[Stroke]) -> None:
    painted = PICTURES["original"].copy()
    for stroke in drawn[:-1]:
        put(painted, stroke, EVERYTHING)
    before = painted.copy()
    area = stroke_area(drawn[-1], WIDTH, HEIGHT)
    put(painted, drawn[-1], area)
    replay(painted, PICTURES["original"], drawn[:-1], PICTURES.__getitem__, area, GUIDES.__getitem__)
    assert np.array_equal(painted, before)


@given(stroke=dabbed())
def test_the_dabs_of_a_stroke_are_not_more_than_was_said_and_begin_with_those_of_its_beginning(stroke: Stroke) -> None:
    dabs = place_dabs(stroke)
    assert 1 <= len(dabs) <= most_dabs(stroke)
    first = replace(stroke, points=stroke.points[:-1], pressures=stroke.pressures[:-1])
    if first.points:
        beginning = place_dabs(first)
        assert np.array_equal(dabs[: len(beginning)], beginning)


@pytest.mark.parametrize("hardness", [0.0, 0.5, 1.0])
def test_dabs_that_take_all_at_once_are_about_the_plain_stroke(hardness: float) -> None:
    plain = Stroke("s", "frame-a", [[60.0, 60.0], [300.0, 200.0]], 40.0, hardness)
    pressed = replace(plain, pen="size", pressures=[1.0, 1.0])
    assert not is_dabbed(plain)
    assert is_dabbed(pressed)
    apart = np.abs(mask(pressed) - stroke_weight(plain, EVERYTHING))
    assert apart[:, :270].mean() < 0.003  # the end of a line lies between two dabs
    assert apart.mean() < 0.01


def test_flow_builds_up_within_one_stroke_and_never_beyond_its_shape() -> None:
    once = Stroke("s", "frame-a", [[100.0, 100.0], [200.0, 100.0]], 20.0, 0.5, flow=0.05)
    twice = replace(once, points=[*once.points, once.points[0]])
    first, second = mask(once), mask(twice)
    full = mask(replace(once, flow=0.999))
    assert 0.1 < first[100, 150] < 0.5
    assert second[100, 150] == pytest.approx(1 - (1 - first[100, 150]) ** 2, abs=0.03)
    assert (second >= first).all()
    assert (second <= full + 0.01).all()
    assert mask(replace(once, points=once.points[:1]))[100, 100] == 0.05


def test_the_pressure_of_a_pen_changes_size_and_opacity_as_it_is_told() -> None:
    points = [[100.0, 150.0], [300.0, 150.0]]
    light = {use: mask(Stroke("s", "a", points, 30.0, 1.0, pen=use, pressures=[0.5, 0.5])) for use in PEN_USES[1:]}
    rows = {use: int((values[:, 200] > 0).sum()) for use, values in light.items()}
    assert rows == {"size": 32, "opacity": 60, "both": 32}
    assert {use: values.max() for use, values in light.items()} == {"size": 1, "opacity": 0.5, "both": 0.5}
    swelling = mask(Stroke("s", "a", points, 30.0, 1.0, pen="size", pressures=[0.0, 1.0]))
    assert (swelling[:, 120] > 0).sum() < (swelling[:, 280] > 0).sum() / 2


def two_things(noise: float) -> NDArray[np.uint16]:
    """Dark on the left, bright from column 200 on, and as noisy as it is told."""
    picture = np.where(np.arange(WIDTH) < 200, 0.3, 0.6)[None, :, None] * np.ones((HEIGHT, 1, 3))
    picture = picture + noise * np.random.default_rng(2).standard_normal(picture.shape)
    return np.rint(65535 * picture.clip(0, 1)).astype(np.uint16)


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_a_brush_with_a_tolerance_stays_within_the_thing_under_its_middle(noise: float) -> None:
    stroke = Stroke("s", "frame-a", [[185.0, 60.0], [185.0, 240.0]], 40.0, 1.0, tolerance=0.25)
    weight = mask(stroke, two_things(noise))
    assert weight[60:240, 150:198].mean() > 0.999
    assert weight[:, 202:].max() == 0
    assert mask(replace(stroke, tolerance=None, flow=0.9))[150, 220] > 0.5
    # From the bright side it is the other one.
    bright = mask(replace(stroke, points=[[215.0, 60.0], [215.0, 240.0]]), two_things(noise))
    assert bright[:, :198].max() == 0
    assert bright[60:240, 202:250].mean() > 0.999


def test_a_large_brush_stays_within_a_thing_too_by_its_mask_at_half_the_size() -> None:
    picture = two_things(0.02)
    stroke = Stroke("s", "frame-a", [[120.0, 150.0]], 100.0, 1.0, tolerance=0.25)
    assert mask_level(stroke.radius, WIDTH, HEIGHT) == 1
    weight = mask(stroke, picture)
    assert weight[100:200, 60:196].mean() > 0.999
    assert weight[:, 204:].max() == 0


def test_a_dab_beyond_the_edge_takes_the_colour_of_the_nearest_pixel() -> None:
    stroke = Stroke("s", "frame-a", [[-20.0, 150.0], [405.0, 320.0]], 40.0, 1.0, tolerance=0.25)
    weight = mask(stroke, two_things(0.0))
    assert weight[150, 5] == 1
    assert weight[295, 395] == 1


def test_a_tolerance_without_the_colours_of_the_source_is_refused() -> None:
    with pytest.raises(ValueError, match="tiles of its source"):
        mask(Stroke("s", "frame-a", [[9.0, 9.0]], 5.0, 1.0, tolerance=0.5))


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
def test_gain_multiplies_the_source_and_ends_at_white(kind: type) -> None:
    white = 65535 if kind is np.uint16 else 1
    source = (np.linspace(0, 1, WIDTH)[None, :] * np.ones((HEIGHT, 1)) * white).astype(kind)
    for gain in (0.5, 1.5):
        painted = np.zeros_like(source)
        paint(painted, Stroke("s", "a", [[200.0, 150.0]], 900.0, 1.0, gain=gain), source, EVERYTHING)
        wanted = np.minimum(source.astype(np.float64) * gain, white)
        assert np.abs(painted - wanted).max() <= (0.5 if kind is np.uint16 else 1e-6)
    tinted = Stroke("s", "a", [[200.0, 150.0]], 900.0, 1.0, gain=0.8, tint=[1.1, 1.0, 0.5])
    for colours in (1, 3):  # the tint of a grey picture is none
        layer = np.dstack([source] * colours).squeeze()
        painted = np.zeros_like(layer)
        paint(painted, tinted, layer, EVERYTHING)
        wanted = layer.astype(np.float64) * 0.8 * (1 if colours == 1 else np.array(tinted.tint))
        assert np.abs(painted - wanted).max() <= (0.5 if kind is np.uint16 else 1e-6)


def test_smoothed_tiles_fit_each_other_without_a_seam() -> None:
    samples = to_bytes(PICTURES["frame-a"])
    rows = [np.concatenate([guide_tile(samples, column, row) for column in (0, 1)], axis=1) for row in (0, 1)]
    assert np.array_equal(np.concatenate(rows), cv2.medianBlur(samples, 5))
    assert guide_tile(samples, 2, 0).size == 0


def test_a_stroke_of_an_older_studio_is_a_plain_one() -> None:
    old = {"id": "1", "source": "frame-a", "points": [[1.0, 2.0]], "radius": 3.0, "hardness": 0.5}
    stroke = TypeAdapter(Stroke).validate_python(old)
    assert stroke.is_sound()
    assert not is_dabbed(stroke)
    assert stroke.gain == 1


@pytest.mark.parametrize(
    "change",
    [
        {"flow": 0.0},
        {"flow": math.nan},
        {"tolerance": 0.0},
        {"tolerance": 1.5},
        {"pen": "tilt"},
        {"pressures": [0.5]},
        {"pen": "size", "pressures": [0.5, 0.5]},
        {"pen": "size", "pressures": [math.nan]},
        {"gain": 0.0},
        {"gain": math.inf},
        {"tint": [1.0, 1.0]},
        {"tint": [1.0, 3.0, math.nan]},
    ],
)
def test_a_stroke_with_values_beyond_their_ranges_is_not_sound(change: dict[str, Any]) -> None:
    assert not Stroke("1", "frame-a", [[1.0, 2.0]], 3.0, 0.5, **change).is_sound()
