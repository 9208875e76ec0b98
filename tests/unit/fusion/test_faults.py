"""Faults: what was lost is found first, each with its frame, and a brush along its line brings it back."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import allfocus
from allfocus.fusion.detail_meter import measure_lost_detail
from allfocus.fusion.faults import LOST, MOST_FAULTS, MOST_NODES, UNSURE, Fault, _walk, find_faults
from allfocus.fusion.stack_fusion import FusionResult
from allfocus.scenes.rendering import render_scene

LEGS = (((60, 60), (170, 120)), ((220, 250), (330, 190)), ((380, 50), (430, 170)))


def leg_frames(count: int = 6) -> list[np.ndarray]:
    """Even ground, and three legs that one frame each shows; the others have blurred them to nothing."""
    random = np.random.default_rng(3)
    ground = 0.6 + 0.04 * cv2.GaussianBlur(random.standard_normal((320, 480)).astype(np.float32), (0, 0), 1.2)
    frames = []
    for number in range(count):
        frame = ground.copy()
        for place, (start, end) in enumerate(LEGS):
            leg = np.zeros_like(ground)
            cv2.line(leg, start, end, 1.0, 4, cv2.LINE_AA)
            frame *= 1 - 0.9 * (leg if number == 2 * place else cv2.GaussianBlur(leg, (0, 0), 25))
        frames.append(frame)
    return frames


def coverage(fault: Fault, shape: tuple[int, int]) -> np.ndarray:
    """How much of each pixel the brush along a fault's line covers, by the plain definition."""
    line = np.zeros(shape, np.uint8)
    cv2.polylines(line, [np.array(fault.points).round().astype(np.int32)], isClosed=False, color=1)
    distance = cv2.distanceTransform(1 - line, cv2.DIST_L2, 5)
    core = fault.radius * fault.hardness
    return np.clip((fault.radius - distance) / (fault.radius - core), 0, 1)


def paint(image: np.ndarray, frames: list[np.ndarray], faults: tuple[Fault, ...]) -> np.ndarray:
    painted = image.astype(np.float32).copy()
    for fault in faults:
        weight = coverage(fault, painted.shape[:2])
        painted += (weight if painted.ndim == 2 else weight[..., None]) * (frames[fault.frame] - painted)
    return painted


def test_lost_legs_come_first_each_with_its_frame_and_painting_brings_them_back() -> None:
    frames = leg_frames()
    fusion = allfocus.fuse(frames, method="average")
    faults = find_faults(fusion)
    assert fusion.lost_detail is not None
    assert fusion.lost_detail.share > 2
    assert {fault.frame for fault in faults[:3]} == {0, 2, 4}
    for fault in faults[:3]:
        start, end = LEGS[fault.frame // 2]
        middle = [(start[axis] + end[axis]) / 2 for axis in (0, 1)]
        assert fault.kind == LOST
        assert fault.left < middle[0] < fault.left + fault.width
        assert fault.top < middle[1] < fault.top + fault.height
        assert fault.share > 0.6
    assert measure_lost_detail(paint(fusion.image, frames, faults[:3]), frames).share < 0.02 * fusion.lost_detail.share


def test_legs_that_a_method_loses_on_a_rendered_scene_are_found_first_and_brought_back() -> None:
    scene = render_scene("legs", frames=6, size=(400, 600), seed=11)
    frames = [np.asarray(frame, np.float32) for frame in scene.frames]
    fusion = allfocus.fuse(frames, method="dct-corr")
    faults = find_faults(fusion)
    assert fusion.lost_detail is not None
    assert fusion.lost_detail.share > 1
    for fault in faults[:10]:
        box = scene.thin_things[fault.top : fault.top + fault.height, fault.left : fault.left + fault.width]
        assert box.any(), fault
    assert measure_lost_detail(paint(fusion.image, frames, faults), frames).share < 0.05 * fusion.lost_detail.share


def bent_leg(shown: tuple[tuple[float, float], ...], *, gap: int = 0) -> FusionResult:
    """An even result that has lost a leg of two parts, and how much of each part every frame shows."""
    frames = []
    for number in range(6):
        frame = np.full((320, 480), 0.6, np.float32)
        strengths = shown[number] if number < len(shown) else (0.0, 0.0)
        parts = (((60, 60), (200, 150)), ((206 + gap, 152), (420, 170)))
        for (start, end), strength in zip(parts, strengths, strict=True):
            leg = np.zeros_like(frame)
            cv2.line(leg, start, end, 1.0, 4, cv2.LINE_AA)
            frame *= 1 - 0.8 * strength * leg
        frames.append(frame)
    image = np.full((320, 480), 0.6, np.float32)
    return FusionResult(image, lost_detail=measure_lost_detail(image, frames))


def test_a_leg_that_one_frame_shows_well_is_one_fault_though_another_is_best_for_a_part_of_it() -> None:
    (fault,) = find_faults(bent_leg(((0, 0), (1, 0.8), (0.6, 1))))
    assert fault.frame == 1
    assert fault.left <= 60
    assert fault.left + fault.width >= 420, "the whole leg, longer than a place that is not thin may be"
    covered = coverage(fault, (320, 480))
    assert min(covered[105, 130], covered[160, 300], covered[170, 415]) == 1


def test_parts_that_no_frame_shows_together_are_faults_of_their_own() -> None:
    faults = find_faults(bent_leg(((0, 0), (1, 0.3), (0.3, 1))))
    assert {fault.frame for fault in faults[:2]} == {1, 2}
    assert all(fault.width < 300 for fault in faults)


@pytest.mark.parametrize(("gap", "count"), [(20, 1), (60, 2)])
def test_parts_of_a_leg_are_one_fault_if_they_hardly_lie_apart(gap: int, count: int) -> None:
    assert len(find_faults(bent_leg(((1, 1),), gap=gap))) == count


def test_a_wide_place_is_cut_where_a_thin_one_is_not() -> None:
    wide = np.full((320, 480), 0.5, np.float32)
    wide[40:280, 40:440] += 0.3 * np.random.default_rng(0).standard_normal((240, 400)).astype(np.float32)
    image = np.full((320, 480), 0.5, np.float32)
    faults = find_faults(FusionResult(image, lost_detail=measure_lost_detail(image, [wide, image, image])))
    assert len(faults) > 3
    assert max(fault.width for fault in faults) <= 240


def test_a_good_result_has_no_lost_places() -> None:
    frames = leg_frames()
    assert [f for f in find_faults(allfocus.fuse(frames, method="laplacian-pyramid")) if f.kind == LOST] == []


def test_without_a_measurement_there_are_none() -> None:
    assert find_faults(FusionResult(np.zeros((20, 20, 3), np.float32))) == ()


def test_a_textured_patchwork_without_confidence_is_in_doubt_and_names_the_frame_with_most_of_it() -> None:
    random = np.random.default_rng(1)
    image = random.random((256, 256), np.float32)
    confidence, decision = np.ones((256, 256), np.float32), np.zeros((256, 256), np.int16)
    confidence[64:128, 64:128] = 0.02
    decision[64:128, 64:128] = 1
    decision[64:128:2, 64:84] = 3
    decision[64:128, 84:104] = 2
    faults = find_faults(FusionResult(image, decision, None, confidence))
    assert [(fault.kind, fault.frame) for fault in faults] == [(UNSURE, 1)]
    assert (faults[0].left, faults[0].top, faults[0].width, faults[0].height) == (64, 64, 64, 64)


@pytest.mark.parametrize("channels", [1, 2, 4, 5])
def test_pictures_of_any_number_of_channels_are_looked_at(channels: int) -> None:
    image = np.random.default_rng(1).random((128, 128, channels), np.float32)
    decision = np.random.default_rng(2).integers(0, 3, (128, 128)).astype(np.int16)
    assert find_faults(FusionResult(image, decision, None, np.zeros((128, 128), np.float32)))[0].kind == UNSURE


@pytest.mark.parametrize("change", ["calm", "sure", "of one frame"])
def test_places_that_are_calm_sure_or_of_one_frame_are_not_in_doubt(change: str) -> None:
    image = np.random.default_rng(1).random((256, 256), np.float32)
    confidence, decision = np.full((256, 256), 0.02, np.float32), np.zeros((256, 256), np.int16)
    decision[:, 128:] = 1
    if change == "calm":
        image = 0.5 + 0.001 * image
        image[:16], image[-16:] = 0, 1
        confidence[:24] = confidence[-24:] = 1
    elif change == "sure":
        confidence[:] = 0.9
    else:
        decision[:] = 2
    assert find_faults(FusionResult(image, decision, None, confidence)) == ()


def test_the_list_is_bounded_however_much_is_lost() -> None:
    frames = [np.full((500, 700), 0.6, np.float32) for _ in range(7)]
    for number, (row, column) in enumerate(np.ndindex(12, 17)):
        frames[number % 7][row * 40 + 24 : row * 40 + 44, column * 40 + 30 : column * 40 + 33] = 0
    faults = find_faults(allfocus.fuse(frames, method="average"))
    assert len(faults) == MOST_FAULTS
    assert all(len(fault.points) <= 2 * MOST_NODES for fault in faults)
    assert [fault.strength for fault in faults] == sorted((fault.strength for fault in faults), reverse=True)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=40, unique=True))
def test_the_line_passes_through_every_node_and_makes_no_longer_step_than_the_tree_needs(nodes: list) -> None:
    line = _walk(np.array(nodes, np.float64))
    assert {tuple(point) for point in line.astype(int)} == set(nodes)
    assert len(line) <= max(1, 2 * len(nodes) - 1)
    # No step is longer than the widest gap of the shortest tree: otherwise it would cut across what is no part of it.
    apart = np.sqrt(np.square(np.array(nodes)[:, None] - np.array(nodes)[None]).sum(-1))
    joined, widest = {0}, 0.0
    while len(joined) < len(nodes):
        rest = [node for node in range(len(nodes)) if node not in joined]
        gaps = apart[np.ix_(sorted(joined), rest)].min(axis=0)
        widest = max(widest, float(gaps.min()))
        joined.add(rest[int(gaps.argmin())])
    steps = np.sqrt(np.square(np.diff(line, axis=0)).sum(axis=1))
    assert (steps <= widest + 1e-9).all()
