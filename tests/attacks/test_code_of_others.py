"""Plug-ins that raise, end the program, give nonsense or write where they must not; functions given as methods."""

import dataclasses
import sys

import numpy as np
import pytest

import allfocus
from allfocus import plugins
from allfocus.cli.main import run
from allfocus.datasets import catalogue as datasets
from allfocus.datasets.folder_of_stacks import FOLDER
from allfocus.errors import InputError, MissingDependencyError
from allfocus.fusion import methods
from allfocus.fusion.maps import FusedMaps
from allfocus.fusion.method import Abilities, Method
from allfocus.fusion.stack_fusion import fuse
from allfocus.metrics import catalogue as metrics

FRAMES = [np.random.default_rng(seed).random((24, 33, 3), np.float32) for seed in (1, 2, 3)]
MEAN, GREY = np.mean(FRAMES, axis=0), np.zeros((24, 33), np.float32)


TABLES = (methods.method_catalogue, metrics.metric_catalogue, datasets.dataset_catalogue)


class Entry:
    """An entry point of an installed package."""

    dist = type("Distribution", (), {"name": "a-package"})

    def __init__(self, name, load):
        self.name, self.load = name, load


@pytest.fixture
def install(monkeypatch):
    """Pretends that a package offers a method; what it is called with loads it."""

    def offer(load, wanted=plugins.METHODS_GROUP):
        monkeypatch.setattr(plugins, "entry_points", lambda group: [Entry("mine", load)] if group == wanted else [])
        for table in TABLES:
            table.cache_clear()

    yield offer
    monkeypatch.undo()
    for table in TABLES:
        table.cache_clear()


def leave(*_, **__):
    sys.exit(0)


def fail(error):
    def function(*_, **__):
        raise error

    return function


LOADS = {
    "ends the program": leave,
    "raises": fail(RuntimeError("x" * 10_000)),
    "is not there": fail(ModuleNotFoundError("no module")),
    "goes round and round": lambda: LOADS["goes round and round"](),
    "nothing": lambda: None,
    "a number": lambda: 7,
    "text": lambda: "allfocus.fusion.average:fuse_average",
    "another method's name and no abilities": lambda: Method("x", "y", abilities=None, function=np.mean),
    "a number as a name": lambda: Method(7, "y", function=np.mean),
    "no name": lambda: Method("", "y", function=np.mean),
    "a name of two lines": lambda: Method("a\nb", "y", function=np.mean),
    "escapes as a name": lambda: Method("\x1b[31mred", "y", function=np.mean),
    "a file as a name": lambda: Method("own.onnx", "y", function=np.mean),
    "weights in its name": lambda: Method("ifcnn@/etc/passwd", "y", function=np.mean),
    "a name of a novel": lambda: Method("n" * 101, "y", function=np.mean),
    "a number as a summary": lambda: Method("x", 7, function=np.mean),
    "an extra of nobody": lambda: Method("x", "y", extra="everything", function=np.mean),
    "weights without files": lambda: Method("x", "y", abilities=Abilities(weights=True), function=np.mean),
    "no function": lambda: Method("x", "y"),
    "a function that is nowhere": lambda: Method("x", "y", function="nowhere"),
    "options that are none": lambda: Method("x", "y", options=7, function=np.mean),
}


@pytest.mark.parametrize("kind", LOADS)
def test_a_plugin_that_is_none_is_told_with_its_package(install, kind):
    install(LOADS[kind])
    with pytest.raises(MissingDependencyError, match="of the package a-package") as caught:
        allfocus.list_methods()
    assert len(str(caught.value)) < 500


def test_a_description_that_is_no_text_is_told(install):
    function = type("Odd", (), {"__call__": leave, "__doc__": 7})()
    install(lambda: function)
    with pytest.raises(MissingDependencyError, match="a-package"):
        allfocus.list_methods()


RUNS = {
    "ends the program": leave,
    "raises": fail(ZeroDivisionError("division by zero")),
    "raises without a word": fail(KeyError()),
    "raises a novel": fail(ValueError("line\n" * 100_000)),
    "takes nothing": lambda: MEAN,
    "goes round and round": lambda frames: RUNS["goes round and round"](frames),
    "writes into the frames": lambda frames: np.copyto(frames[0], 0),
    "adds to the frames": lambda frames: frames[0].__iadd__(1),
    "is nowhere": "allfocus.nowhere:nothing",
    "is not in its module": "allfocus.fusion.average:nothing",
    "is no function": "allfocus.fusion.maps:LOWEST",
}
GIVEN = {
    "nothing": None,
    "text": "a picture",
    "a list of lists": [[1, 2], [3]],
    "an empty tuple": (),
    "too much": (MEAN,) * 6,
    "a dictionary": {"image": MEAN},
    "an empty picture": np.empty((0, 33, 3), np.float32),
    "another size": MEAN[:-1],
    "one channel of three": MEAN[..., 0],
    "four channels": np.concatenate([MEAN, MEAN[..., :1]], axis=2),
    "turned": MEAN.swapaxes(0, 1),
    "no numbers": np.where(MEAN > 0.5, np.nan, MEAN),
    "one that is no number": np.where(np.arange(MEAN.size).reshape(MEAN.shape) == 100, np.nan, MEAN),
    "infinity": np.where(MEAN > 0.5, np.inf, MEAN),
    "levels of 8 bits": np.rint(MEAN * 255).astype(np.uint8),
    "levels as fractions": MEAN * 255,
    "far below black": MEAN - 5,
    "complex": MEAN.astype(complex),
    "truths": MEAN > 0.5,
    "objects": MEAN.astype(object),
    "words": np.full(MEAN.shape, "0.5"),
    "times": np.zeros(MEAN.shape, "datetime64[s]"),
    "a decision of fractions": FusedMaps(MEAN, GREY),
    "a decision of another size": FusedMaps(MEAN, np.zeros((24, 32), np.int16)),
    "frames that there are not": FusedMaps(MEAN, np.full((24, 33), 3, np.int16)),
    "frames before the first": FusedMaps(MEAN, np.full((24, 33), -2, np.int16)),
    "a decision that is a number": FusedMaps(MEAN, 0),
    "a depth of no numbers": FusedMaps(MEAN, None, np.full((24, 33), np.nan, np.float32)),
    "a depth of three channels": FusedMaps(MEAN, None, MEAN),
    "a confidence of another size": FusedMaps(MEAN, None, GREY, GREY[1:]),
    "an infinite veil": FusedMaps(MEAN, None, GREY, GREY, GREY + np.inf),
    "no image": FusedMaps(None, np.zeros((24, 33), np.int16)),
}


@pytest.mark.parametrize("kind", RUNS)
def test_a_plugin_that_fails_is_told_with_its_package_and_the_frames_are_as_they_were(install, kind):
    install(lambda: Method("mine", "mine", function=RUNS[kind]))
    frames = [frame.copy() for frame in FRAMES]
    with pytest.raises(InputError, match="mine of the package a-package failed"):
        fuse(frames, method="mine")
    assert all(np.array_equal(*pair) for pair in zip(frames, FRAMES, strict=True))


@pytest.mark.parametrize("kind", GIVEN)
def test_no_nonsense_of_a_method_becomes_a_picture(kind):
    with pytest.raises(InputError, match=r"the method|that the method"):
        fuse(FRAMES, method=lambda frames: GIVEN[kind])


@pytest.mark.parametrize(
    "given",
    [MEAN, MEAN.astype(np.float64), MEAN * 1.2 - 0.1, (MEAN,), FusedMaps(MEAN, np.full((24, 33), -1, np.int64))],
)
def test_what_is_a_picture_is_taken(given):
    assert fuse(FRAMES, method=lambda frames: given).image.shape == MEAN.shape


def test_a_function_of_the_caller_raises_what_it_raises():
    with pytest.raises(ZeroDivisionError):
        fuse(FRAMES, method=fail(ZeroDivisionError()))


def test_a_command_with_a_plugin_that_ends_the_program_fails_and_writes_nothing(install, tmp_path, capsys):
    install(lambda: Method("mine", "mine", function=leave))
    (tmp_path / "frames").mkdir()
    for number, frame in enumerate(FRAMES):
        allfocus.write_image(frame, tmp_path / "frames" / f"{number}.png")
    words = ["fuse", str(tmp_path / "frames"), "-o", str(tmp_path / "out.png"), "--method", "mine", "--no-align"]
    assert run(words) != 0
    assert "mine of the package a-package failed" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["frames"]


def metric_of(function):
    return metrics.Metric("MINE", "mine", "my own", function, 0, 1, "none", "none")


SCORES = {
    "ends the program": leave,
    "raises": fail(IndexError()),
    "nothing": lambda fused, sources: None,
    "text": lambda fused, sources: "good",
    "a picture": lambda fused, sources: np.zeros((3, 3)),
    "complex": lambda fused, sources: 1j,
    "writes into the picture": lambda fused, sources: np.copyto(fused, 0),
    "is no function": 7,
}


@pytest.mark.parametrize("kind", SCORES)
def test_a_metric_that_fails_is_told_with_its_package(install, kind):
    install(lambda: metric_of(SCORES[kind]), plugins.METRICS_GROUP)
    pictures = [np.arange(256, dtype=np.uint8).reshape(16, 16)] * 2
    for protocol in ("grey", "rgb-mean"):
        with pytest.raises(InputError, match="MINE of the package a-package failed"):
            allfocus.score(pictures[0], pictures, metrics=["MINE"], protocol=protocol)
    assert pictures[0].sum() == 255 * 128


FOUND = {
    "ends the program": leave,
    "raises": fail(OSError("disk")),
    "nothing": lambda folder: None,
    "numbers": lambda folder: [1, 2],
    "text": lambda folder: "samples",
    "is no function": 7,
}


@pytest.mark.parametrize("kind", FOUND)
def test_a_data_set_that_fails_is_told_with_its_package(install, tmp_path, kind):
    install(lambda: dataclasses.replace(FOLDER, name="mine", find=FOUND[kind]), plugins.DATASETS_GROUP)
    with pytest.raises(InputError, match="mine of the package a-package failed"):
        datasets.find_dataset("mine", tmp_path)
