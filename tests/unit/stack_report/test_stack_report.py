"""The report of one stack: self-contained, well formed, and telling what happened."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from page_reader import PageReader

from allfocus.alignment.stack_alignment import StackAlignment
from allfocus.errors import InputError, OutputError
from allfocus.fusion.detail_meter import measure_lost_detail
from allfocus.images.spool import FrameSpool
from allfocus.pages.html import build_page
from allfocus.pages.pictures import data_address, shrink
from allfocus.pages.plots import line_plot
from allfocus.stack_report import StackReport, build_stack_report, check_report_path, write_stack_report
from allfocus.stack_report.alignment_section import describe_motion, measure_motion
from allfocus.stack_report.pictures import (
    MIXTURE,
    choose_windows,
    frame_colours,
    paint_decision,
    reduce_difference,
    share_of_frames,
    shrink_frame,
    take_pixels,
)

SIZE = (90, 120)


@pytest.fixture(scope="module")
def frames():
    generator = np.random.default_rng(0)
    sharp = generator.random((*SIZE, 3), dtype=np.float32)
    stack = []
    for number in range(3):
        frame = np.full((*SIZE, 3), 0.5, np.float32)
        frame[:, 40 * number : 40 * (number + 1)] = sharp[:, 40 * number : 40 * (number + 1)]
        stack.append(frame)
    return stack


@pytest.fixture(scope="module")
def report(frames):
    decision = np.repeat(np.arange(3, dtype=np.int16), 40)[None].repeat(SIZE[0], axis=0)
    image = np.choose(decision[..., None], frames).astype(np.float32)
    turn = np.radians(0.5)
    turned = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1.0]])
    alignment = StackAlignment(
        transforms=(np.array([[1, 0, 3.0], [0, 1, -2.0], [0, 0, 1]]), np.eye(3), turned),
        brightness=((1.05, 1.05, 1.05), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0)),
        confidences=(0.95, 1.0, 0.3),
        model="similarity",
        reference=1,
        size=SIZE,
        registered=False,
    )
    return StackReport(
        image,
        ("near & <b>.png", "middle.png", "far.png"),
        output="sharp.tif",
        decision=decision,
        depth=decision.astype(np.float32) / 2,
        confidence=np.full(SIZE, 0.5, np.float32),
        alignment=alignment,
        settings={"method": "ips", "prefer": None, "align": True},
        command="allfocus fuse near.png middle.png far.png -o sharp.tif",
        seconds={"aligning": 1.5, "fusing": 3.0},
        notices=("the frames were aligned", "left out bad.png: it is damaged"),
        left_out={"bad.png": "it is damaged"},
        origin={"machine": "a <machine>", "slabs": [], "planes": [1, 2]},
    )


def read(page):
    reader = PageReader()
    reader.feed(page)
    assert reader.open == []
    return reader


def test_the_page_needs_no_other_file_and_no_network(report, frames):
    page = build_stack_report(report, frames=frames)
    reader = read(page)
    assert len([address for address in reader.addresses if address.startswith("data:image/webp;base64,")]) > 10
    assert all(address.startswith(("data:image/webp;base64,", "#")) for address in reader.addresses)
    assert all(f'id="{address[1:]}"' in page for address in reader.addresses if address.startswith("#"))
    assert all(reader.alternatives[:-1]), "every picture has words for those who cannot see it; the viewer gets them"
    for part in re.findall(r"<style>(.*?)</style>|<script>(.*?)</script>", page, re.DOTALL):
        assert not any("http" in text or "url(" in text or "import" in text for text in part)


def test_the_page_tells_what_happened(report, frames):
    text = " ".join(" ".join(read(build_stack_report(report, frames=frames)).text).split())
    for words in (
        "sharp.tif: sharp from 3 frames",
        "120 x 90",
        "1 frame was left out.",
        "bad.png : it is damaged",
        "33.3 % of the picture",
        "alignment reliable (0.95)",
        "alignment doubtful (0.30)",
        "moved 3.0 px right and 2.0 px up",
        "turned 0.50° clockwise",
        "made 5.0 % brighter",
        "Model: similarity. middle.png (frame 2) stayed as it is.",
        "Growth, %",
        "Decision",
        "Depth",
        "Confidence of the depth",
        "prefer not set",
        "align yes",
        "allfocus fuse near.png middle.png far.png -o sharp.tif",
        "fusing 3.0 s",
        "a <machine>",
        "planes 1, 2",
    ):
        assert words in text
    assert "slabs" not in text, "what is empty is not worth a line"
    assert "Left out bad.png" not in text, "it is told once, on top"


def test_names_are_escaped(report, frames):
    page = build_stack_report(report, frames=frames)
    assert "near & <b>" not in page
    assert "near &amp; &lt;b&gt;.png" in page


def test_a_spool_and_arrays_give_the_same_page(report, frames):
    with FrameSpool(bit_depth=32) as spool:
        for frame in frames:
            spool.append(frame)
        from_disk = build_stack_report(report, frames=spool)
    assert from_disk == build_stack_report(report, frames=frames)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_integer_pictures_look_like_floating_point_ones(report, frames, kind):
    levels = np.rint(report.image * np.iinfo(kind).max).astype(kind)
    pictures = [page.count("data:image") for page in (
        build_stack_report(replace(report, image=levels), frames=frames), build_stack_report(report, frames=frames)
    )]  # fmt: skip
    assert pictures[0] == pictures[1]
    assert np.abs(shrink_frame(levels, 60) - shrink_frame(report.image, 60)).max() < 0.01


def test_what_a_method_does_not_give_is_not_shown(report, frames):
    bare = StackReport(report.image[..., 0], report.names)
    page = build_stack_report(bare, frames=[frame[..., 0] for frame in frames])
    text = " ".join(read(page).text)
    assert "Switched off" in text
    assert "blends all frames" in text
    for absent in ('id="maps"', 'id="settings"', "left out", "seconds in all"):
        assert absent not in page


def test_dark_files_are_shown_brighter_and_it_is_said(report, frames):
    dark = replace(report, image=report.image / 100)
    page = build_stack_report(dark, frames=[frame / 100 for frame in frames])
    assert "times brighter" in page
    assert "times brighter" not in build_stack_report(report, frames=frames)
    assert len(page) > 0.8 * len(build_stack_report(report, frames=frames)), "black pictures would take no room"


def test_a_registered_stack_says_that_nothing_was_moved(report, frames):
    still = replace(report.alignment, registered=True, transforms=(np.eye(3),) * 3, brightness=((1.0, 1.0, 1.0),) * 3)
    page = build_stack_report(replace(report, alignment=still), frames=frames)
    assert "none was moved" in page
    assert "moved most" not in page
    assert page.count("<svg") == 1


def test_long_stacks_show_some_differences_and_all_frames(report, frames):
    many = [frames[number % 3] for number in range(20)]
    names = tuple(f"{number}.png" for number in range(20))
    page = build_stack_report(replace(report, names=names, alignment=None), frames=many)
    assert page.count('alt="difference from') == 8
    assert "8 of 20 frames" in page
    assert 'alt="difference from 0.png"' in page
    assert 'alt="difference from 19.png"' in page
    assert all(f'alt="{name}"' in page for name in names)


def test_long_stacks_list_the_colours_of_the_frames_that_gave_something(report, frames):
    many = frames[:1] * 30
    decision = np.zeros(report.image.shape[:2], np.int32)
    decision[:, ::2] = 17
    long = replace(report, names=tuple(f"f{number}.png" for number in range(30)), decision=decision, alignment=None)
    legend = build_stack_report(long, frames=many).partition('class="legend"')[2].partition("</ul>")[0]
    assert legend.count("<li") == 2
    assert "f0.png" in legend
    assert "f17.png" in legend


def test_progress_counts_the_frames(report, frames):
    told = []
    build_stack_report(report, frames=frames, progress=lambda done, count: told.append((done, count)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_the_file_is_written_whole_and_never_replaced_unasked(report, frames, tmp_path):
    path = write_stack_report(report, tmp_path / "report.html", frames=frames)
    assert path.read_text().endswith("</html>\n")
    with pytest.raises(OutputError, match="exists already"):
        write_stack_report(report, path, frames=frames)
    write_stack_report(report, path, frames=frames, overwrite=True)
    assert [found.name for found in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("name", ["report.png", "report", "missing/report.html"])
def test_a_path_that_cannot_be_a_page_is_refused_early(tmp_path, name):
    with pytest.raises(OutputError):
        check_report_path(tmp_path / name)


@pytest.mark.parametrize(
    "change",
    [
        {"names": ("a", "b")},
        {"decision": np.zeros((5, 5), np.int16)},
        {"depth": np.zeros((5, 5), np.float32)},
        {"confidence": np.zeros((5, 5), np.float32)},
        {"image": np.zeros((5, 5, 3), np.float32)},
    ],
)
def test_parts_that_do_not_fit_are_refused(report, frames, change):
    with pytest.raises(InputError, match="give"):
        build_stack_report(replace(report, **change), frames=frames)


def test_an_alignment_of_other_frames_is_refused(report, frames):
    two = replace(report.alignment, transforms=report.alignment.transforms[:2])
    with pytest.raises(InputError, match="of 2 frames, the stack has 3"):
        build_stack_report(replace(report, alignment=two), frames=frames)


# --- words ----------------------------------------------------------------------------------------------------------


def test_motion_is_measured_at_the_middle():
    size, turn, growth = (101, 201), 0.4, 0.012
    angle, scale = np.radians(turn), 1 + growth
    around = np.array([[1, 0, 100.0], [0, 1, 50.0], [0, 0, 1]])
    spin = scale * np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1 / scale]])
    shift = np.array([[1, 0, -4.0], [0, 1, 1.5], [0, 0, 1]])
    transform = shift @ around @ spin @ np.linalg.inv(around)
    assert measure_motion(transform, size) == pytest.approx((-4.0, 1.5, growth, turn))
    assert describe_motion(transform, size) == (
        "moved 4.0 px left and 1.5 px down, enlarged 1.20 %, turned 0.40° clockwise"
    )


def test_motion_without_shift_growth_or_turn_is_still_told():
    shear = np.array([[1, 0.05, -2.5], [0.05, 1 + 0.0025, -5.125], [0, 0, 1.0]])
    assert "not moved" not in describe_motion(shear, (101, 201))


# --- pictures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(90, 120), (1000, 700), (601, 1999), (3, 5000), (5000, 3), (1, 1)])
@pytest.mark.parametrize("side", [1, 37, 480])
def test_reduced_pictures_have_the_size_and_the_mean_of_the_whole(size, side):
    picture = np.random.default_rng(1).random(size, dtype=np.float32)
    small = shrink_frame(picture, side)
    assert small.ndim == 3
    assert max(small.shape[:2]) <= side
    assert small.shape[:2] == shrink(picture, side).shape[:2]
    if min(size) > 100:
        assert small.mean() == pytest.approx(picture.mean(), abs=0.01)


def test_reducing_in_bands_agrees_with_reducing_the_whole():
    gradient = np.linspace(0, 1, 1300 * 900, dtype=np.float32).reshape(1300, 900)
    assert np.abs(shrink_frame(gradient, 130)[..., 0] - shrink(gradient, 130)).max() < 0.01


def test_differences_are_taken_before_reducing():
    board = (np.indices((200, 200)).sum(axis=0) % 2).astype(np.float32)
    assert reduce_difference(board, 1 - board, 20).mean() == pytest.approx(1)
    assert reduce_difference(board, board, 20).max() == 0


def test_shares_count_every_pixel_once():
    decision = np.random.default_rng(0).integers(-1, 4, (700, 30))
    assert share_of_frames(decision, 4).sum() == pytest.approx((decision >= 0).mean())


def test_a_painted_decision_has_only_the_colours_of_its_frames():
    decision = np.random.default_rng(0).integers(-1, 4, (300, 200))
    painted = paint_decision(decision, 4, 77).reshape(-1, 3)
    allowed = np.concatenate([frame_colours(4), np.full((1, 3), MIXTURE, np.float32)])
    assert {tuple(colour) for colour in painted} <= {tuple(colour) for colour in allowed}
    assert len(set(map(tuple, allowed))) == 5
    assert take_pixels(decision, 77).shape == (77, 51)


def test_close_ups_lie_where_decisions_change_and_do_not_overlap():
    decision = np.zeros((400, 600), np.int16)
    decision[:, 300:] = 5
    windows = choose_windows(np.ones((100, 150), np.float32), decision, (400, 600), side=96, count=3)
    assert len(windows) == 3
    assert all(left < 300 < left + width for _, left, _, width in windows)
    tops = sorted(top for top, _, _, _ in windows)
    assert all(after - before >= 96 for before, after in itertools.pairwise(tops))


def test_a_picture_smaller_than_a_close_up_is_shown_whole():
    [window] = choose_windows(np.ones((40, 50), np.float32), None, (40, 50), side=256, count=3)
    assert (window[0], window[2], window[3]) == (0, 40, 40)


# --- the frame of a page --------------------------------------------------------------------------------------------


def test_a_page_links_to_its_parts_and_escapes_its_words():
    page = build_page("<t>", byline="<b>", links={"x": "<l>"}, body='<p id="x"></p>', footer="", styles=["/*own*/"])
    reader = read(page)
    assert "#x" in reader.addresses
    assert "/*own*/" in page
    assert not any(tag in page for tag in ("<t>", "<b>", "<l>"))


@pytest.mark.parametrize("values", [[0.0], [0.0, 0.0], [1e-9, 2e-9], [-3, 5, 1e6]])
def test_line_plots_stay_inside_their_frame(values):
    plot = line_plot({"a": values}, title="t & u")
    assert "t &amp; u" in plot
    heights = [float(y) for y in re.findall(r'cy="([-\d.]+)"', plot)]
    assert len(heights) == len(values)
    assert all(0 <= y <= 150 for y in heights)


# Lost detail


@pytest.fixture(scope="module")
def dull(report, frames):
    """The report of a picture that shows the last of three frames as a plain grey."""
    image = report.image.copy()
    image[:, 80:] = 0.5
    return replace(report, image=image, lost_detail=measure_lost_detail(image, frames))


def test_the_report_shows_the_worst_places_beside_the_frame_that_has_more(dull, frames):
    page = build_stack_report(dull, frames=frames)
    reader = read(page)
    assert '<section id="lost">' in page
    assert "#lost" in reader.addresses
    place = dull.lost_detail.places[0]
    assert place.frame == 2
    where = f"{place.left + place.width // 2}, {place.top + place.height // 2}"
    assert f"lost at {where}: fused, around {where}: {100 * place.lost:.0f} % lost" in reader.alternatives
    assert f"lost at {where}: far.png (frame 3)" in reader.alternatives
    rows, columns = place.window(SIZE, side=90)
    for picture in (dull.image, frames[2]):
        assert data_address(picture[rows, columns], quality=90) in reader.addresses
    assert "Lost detail map" in reader.alternatives
    text = " ".join(" ".join(reader.text).split())
    assert f"In {dull.lost_detail.share:.2f} % of the picture less than half of the detail is left" in text


def test_the_report_says_when_nothing_is_lost_and_nothing_when_it_was_not_measured(report, frames):
    assert "Lost detail" not in build_stack_report(report, frames=frames)
    kept = replace(report, lost_detail=measure_lost_detail(report.image, frames))
    page = build_stack_report(kept, frames=frames)
    assert "wherever a frame shows detail, the fused picture shows it too" in page
    assert "Lost detail map" not in read(page).alternatives


def test_lost_detail_of_another_picture_is_refused(dull, frames):
    small = replace(dull.lost_detail, map=dull.lost_detail.map[:-1])
    with pytest.raises(InputError, match="lost detail has a map of shape"):
        build_stack_report(replace(dull, lost_detail=small), frames=frames)
