"""What is kept between two starts, or comes from a client as a record: finishes, the queue, presets, export sizes."""

import dataclasses
import json
import os

import numpy as np
import pytest

from allfocus.errors import AllfocusError, InputError
from allfocus.finishing.finish import Crop, Finish, ScaleBar, Spot, finish_from_json
from allfocus.finishing.rendering import OutputSize, finish_image
from allfocus.images.image import Image
from allfocus.stack.kept_options import FILE as KEPT
from allfocus.stack.kept_options import read_kept
from allfocus.web.queue_file import FILE as QUEUE
from allfocus.web.queue_file import KeptQueue, KeptWork, read_queue

HUGE = 10**5000
SPOT = {"x": 1, "y": 1, "radius": 1}
RECORDS = {
    "a list": [],
    "text": "exposure",
    "a number": 7,
    "nothing": None,
    "an unknown word": {"blur": 1},
    "text for a number": {"exposure": "1"},
    "truth for a number": {"exposure": True},
    "nothing for a number": {"gamma": None},
    "no number": {"exposure": float("nan")},
    "infinity": {"contrast": float("-inf")},
    "5000 digits": {"exposure": HUGE},
    "beyond its end": {"exposure": 5.001},
    "no gamma": {"gamma": 0},
    "black above white": {"black": 0.7, "white": 0.3},
    "black at white": {"black": 0.5, "white": 0.5},
    "five turns": {"turns": 5},
    "half a turn": {"turns": 0.5},
    "5000 digits of turns": {"turns": HUGE},
    "truth for turns": {"turns": True},
    "turned over": {"angle": 46},
    "spots that are text": {"spots": "spot"},
    "spots that are nothing": {"spots": None},
    "spots that are a number": {"spots": 7},
    "a spot that is none": {"spots": [7]},
    "a spot without a place": {"spots": [{"radius": 3}]},
    "a spot that is nowhere": {"spots": [{**SPOT, "x": float("nan")}]},
    "a spot far away": {"spots": [{**SPOT, "y": 10**9}]},
    "a spot of nothing": {"spots": [{**SPOT, "radius": 0}]},
    "a huge spot": {"spots": [{**SPOT, "radius": 301}]},
    "too many spots": {"spots": [SPOT] * 201},
    "spots over everything": {"spots": [{**SPOT, "radius": 300}] * 12},
    "a crop that is a list": {"crop": [0, 0, 1, 1]},
    "a crop of nothing": {"crop": {"left": 0, "top": 0, "width": 0, "height": 1}},
    "a crop of fractions": {"crop": {"left": 0.5, "top": 0, "width": 1, "height": 1}},
    "a crop before the picture": {"crop": {"left": -1, "top": 0, "width": 1, "height": 1}},
    "a crop of text": {"crop": {"left": "0", "top": 0, "width": 1, "height": 1}},
    "5000 digits of crop": {"crop": {"left": 0, "top": 0, "width": HUGE, "height": 1}},
    "half a crop": {"crop": {"left": 0}},
    "a bar that is a number": {"scale_bar": 7},
    "a bar without a size": {"scale_bar": {}},
    "a bar of no size": {"scale_bar": {"pixel_size": 0}},
    "a bar of endless size": {"scale_bar": {"pixel_size": 1e7}},
    "a bar elsewhere": {"scale_bar": {"pixel_size": 1, "corner": ["x"]}},
    "a bar of another colour": {"scale_bar": {"pixel_size": 1, "colour": {"a": 1}}},
    "a bar of text": {"scale_bar": {"pixel_size": 1, "length": "long"}},
}


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_that_is_no_finish_is_one_sentence(kind):
    with pytest.raises(InputError) as caught:
        finish_from_json(RECORDS[kind])
    assert len(str(caught.value)) < 500


BUILT = {
    "spots that are none": lambda: Finish(spots=(7,)),
    "spots that are text": lambda: Finish(spots="abc"),
    "nothing for spots": lambda: Finish(spots=None),
    "a list of spots": lambda: Finish(spots=[Spot(1, 1, 1)]),
    "a crop that is none": lambda: Finish(crop=(0, 0, 1, 1)),
    "a bar that is none": lambda: Finish(scale_bar=1.0),
    "5000 digits": lambda: Finish(exposure=HUGE),
    "5000 digits of a spot": lambda: Spot(HUGE, 1, 1),
    "no number as a side": lambda: OutputSize(long_side=float("nan")),
    "text as a side": lambda: OutputSize(long_side="100"),
    "half a pixel": lambda: OutputSize(long_side=10.5),
    "truth as a side": lambda: OutputSize(long_side=True),
    "no number as a percentage": lambda: OutputSize(percent=float("nan")),
    "text as a percentage": lambda: OutputSize(percent="50"),
    "two sizes": lambda: OutputSize(100, 50),
}


@pytest.mark.parametrize("kind", BUILT)
def test_no_odd_value_makes_a_finish_or_a_size(kind):
    with pytest.raises(InputError):
        BUILT[kind]()


FINISHES = {
    "all that there is": Finish(
        exposure=5,
        temperature=100,
        tint=-100,
        black=0.1,
        white=0.1003,
        gamma=10,
        contrast=100,
        turns=3,
        angle=45,
        spots=(Spot(0, 0, 300), Spot(5, 5, 1)),
        scale_bar=ScaleBar(1e-6),
    ),
    "dark": Finish(exposure=-5, temperature=-100, tint=100, gamma=0.1, contrast=-100, angle=-45),
    "spots outside": Finish(spots=(Spot(999_999, 999_999, 300),)),
    "one spot 200 times": Finish(spots=(Spot(3, 3, 2),) * 200),
    "one pixel": Finish(crop=Crop(0, 0, 1, 1), scale_bar=ScaleBar(1)),
    "a bar of kilometres": Finish(scale_bar=ScaleBar(1e6)),
    "a hair's breadth": Finish(angle=1e-9),
}


@pytest.mark.parametrize("shape", [(1, 1), (1, 1, 3), (1, 70), (70, 1, 3), (13, 17), (40, 33, 3)])
@pytest.mark.parametrize("kind", FINISHES)
def test_any_finish_gives_a_picture_of_numbers_of_any_size(kind, shape):
    image = Image(np.random.default_rng(1).random(shape, np.float32))
    if 1 in shape and abs(FINISHES[kind].angle) > 1:  # nothing full is left of it
        with pytest.raises(InputError, match="beyond the picture"):
            finish_image(image, FINISHES[kind])
        return
    for size in (None, OutputSize(long_side=1), OutputSize(long_side=300), OutputSize(percent=400)):
        made = finish_image(image, FINISHES[kind], size=size).pixels
        assert made.size
        assert 0 <= made.min() <= made.max() <= 1


@pytest.mark.parametrize("shape", [(4, 40_000), (40_000, 4, 3)])
def test_a_picture_of_more_than_32767_pixels_a_side_is_finished(shape):
    finish = dataclasses.replace(FINISHES["one spot 200 times"], exposure=0.5, turns=1)
    made = finish_image(Image(np.full(shape, 0.5, np.float32)), finish, size=OutputSize(percent=50)).pixels
    assert 0.4 < made.min() <= made.max() < 0.7


# --- the queue ---

JOB = "0" * 24
LINES = {
    "no JSON": b"{",
    "nothing": b"",
    "a list": b"[]",
    "text": b'"x"',
    "nested": b"[" * 100_000,
    "NUL": bytes(100),
    "no waiting": b'{"paused": true}',
    "waiting that is text": b'{"paused": true, "waiting": "abcd"}',
    "waiting that is a number": b'{"paused": true, "waiting": 7}',
    "waiting that is nothing": b'{"paused": 1, "waiting": null}',
    "work that is a number": b'{"paused": true, "waiting": [7]}',
    "too little": b'{"paused": true, "waiting": [["a"]]}',
    "too much": b'{"paused": true, "waiting": [["a", "b", false, null, 1]]}',
    "a number as a job": b'{"paused": true, "waiting": [[1, "ips", false, null]]}',
    "a number as a method": b'{"paused": true, "waiting": [["a", 1, false, null]]}',
    "text as truth": b'{"paused": true, "waiting": [["a", "ips", "no", null]]}',
    "slabs of text": b'{"paused": true, "waiting": [["a", "ips", true, "ab"]]}',
    "slabs of nothing": b'{"paused": true, "waiting": [["a", "ips", true, [0, 0]]]}',
    "slabs that go back": b'{"paused": true, "waiting": [["a", "ips", true, [2, 5]]]}',
    "slabs of truth": b'{"paused": true, "waiting": [["a", "ips", true, [true, false]]]}',
    "no numbers": b'{"paused": NaN, "waiting": [["a", "ips", true, [Infinity, 0]]]}',
    "5000 digits": b'{"paused": true, "waiting": [["a", "ips", true, [' + b"9" * 5000 + b", 0]]]}",
    "five megabytes": b'{"paused": true, "waiting": [' + b'["a", "ips", false, null],' * 200_000 + b"]}",
    "bytes that are no text": b'{"paused": true, "waiting": [["\xff", "ips", false, null]]}',
}


@pytest.mark.parametrize("kind", LINES)
def test_a_queue_that_was_tampered_with_is_an_empty_one(tmp_path, kind):
    (tmp_path / QUEUE).write_bytes(LINES[kind])
    assert read_queue(tmp_path) == KeptQueue()


@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "folder"])
@pytest.mark.parametrize("name", [QUEUE, KEPT])
def test_no_odd_file_in_place_of_what_is_kept_holds_the_start_up(tmp_path, name, kind):
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
    if name == QUEUE:
        assert read_queue(tmp_path) == KeptQueue()
        return
    with pytest.raises(AllfocusError):
        read_kept(tmp_path)


def test_work_that_is_named_twice_waits_once(tmp_path):
    twice = [[JOB, "ips", False, None]] * 3 + [[JOB, "dsift", True, None]] * 2 + [[JOB, "ips", True, [3, 1]]]
    (tmp_path / QUEUE).write_text(json.dumps({"paused": False, "waiting": twice}))
    assert read_queue(tmp_path).waiting == (
        KeptWork(JOB, "ips"), KeptWork(JOB, "dsift", True), KeptWork(JOB, "ips", True, (3, 1)),
    )  # fmt: skip


# --- presets ---

PRESETS = {
    "no JSON": b"{",
    "nothing": b"",
    "a list": b"[]",
    "nested": b"[" * 100_000,
    "no presets": b'{"options": null}',
    "presets that are a list": b'{"options": null, "presets": [1]}',
    "presets that are text": b'{"options": null, "presets": "ab"}',
    "a preset that is a number": b'{"options": null, "presets": {"a": 7}}',
    "a preset that is nothing": b'{"options": null, "presets": {"a": null}}',
    "options that are text": b'{"options": "ips", "presets": {}}',
    "a method that is a number": b'{"options": {"method": 7}, "presets": {}}',
    "truth as text": b'{"options": {"align": "yes"}, "presets": {}}',
    "a number as truth": b'{"options": {"align": 1}, "presets": {}}',
    "a preference of nobody": b'{"options": {"prefer": "up"}, "presets": {}}',
    "5000 digits": b'{"options": {"prefer": ' + b"9" * 5000 + b'}, "presets": {}}',
    "two megabytes": b'{"options": null, "presets": {"a": "' + b"x" * 2**21 + b'"}}',
}


@pytest.mark.parametrize("kind", PRESETS)
def test_presets_that_were_tampered_with_are_one_sentence(tmp_path, kind):
    (tmp_path / KEPT).write_bytes(PRESETS[kind])
    with pytest.raises(InputError) as caught:
        read_kept(tmp_path)
    assert len(str(caught.value)) < 500
