"""A second adversary on the command line and the Python interface: odd numbers, names, arrays and networks."""

import contextlib
import io
import os
from pathlib import Path

import numpy as np
import pytest
from folder_contents import contents

import allfocus
from allfocus.cli.main import run
from allfocus.errors import AllfocusError, InputError, OutputError
from allfocus.images.writing import write_image


@pytest.fixture(scope="module")
def frames(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("options") / "frames"
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(3):
        write_image(random.random((24, 32, 3)).astype(np.float32), folder / f"{number}.png")
    return folder


def told(words: list[object]) -> tuple[int, str]:
    """The exit code of a command, and what it wrote to stderr."""
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        code = run([str(word) for word in words])
    return code, errors.getvalue()


def assert_refused(words: list[object], frames: Path, folder: Path) -> None:
    """The command says in one line why not; nothing is written, and the frames are as they were."""
    before, around = contents(frames), contents(folder)
    code, text = told(words)
    assert code == 2, text
    assert "unexpected" not in text
    assert text.count("\n") == 1
    assert contents(frames) == before
    assert contents(folder) == around


# --- the command line -------------------------------------------------------------------------------------------------

NUMBERS = ["0", "-1", "nan", "inf", "1e999", "1.5", "", "0x10", "--", "²", "x"]
ODD = {
    "--max-pixels": ["0", "-1", "nan", "1.5", "", "x"],
    "--quality": ["0", "-1", "101", "nan", "inf", "1.5", "", "9" * 30, "x"],
    "--bit-depth": [*NUMBERS, "7", "24"],
    "--compression": ["-1", "10", "nan", "1.5", "", "zip", "9" * 30, "lzw"],
    "--slab": [
        "0,0",
        "1,0",
        "2,2",
        "2,-1",
        "-2,1",
        "3,1,1",
        "2",
        "a,b",
        "nan,1",
        "9" * 20 + ",1",
        "3,2",
        ",",
        "",
        "2,1.5",
    ],
    "--prefer": ["", "NEAR", "both", "\x00"],
    "--device": ["", "tpu", "cuda:0", "\x00"],
    "--method": ["", "\x00", "IPS", "/etc/passwd", "nope.onnx", "a\x00.onnx", "/dev/zero.onnx", "x" * 5000, "a\nb"],
}


@pytest.mark.parametrize(("option", "value"), [(option, value) for option in ODD for value in ODD[option]])
def test_no_odd_value_is_an_option(frames, tmp_path, option, value):
    words = ["fuse", frames, "-o", tmp_path / "o.png", "--no-align", "--method", "average", option, value]
    assert_refused(words, frames, tmp_path)


@pytest.mark.parametrize("value", ["0", "-1", "4", "nan", "1.5", "", "9" * 30, "x"])
def test_no_odd_number_is_a_reference(frames, tmp_path, value):
    assert_refused(["align", frames, "-o", tmp_path / "out", "--reference", value], frames, tmp_path)


OUTPUTS = ["-o", "--depth-map", "--confidence-map", "--check-map", "--decision-map", "--report"]
PLACES = {
    "nothing": "",
    "the root": "/",
    "a folder": "{folder}",
    "no ending": "{folder}/o.",
    "an ending alone": "{folder}/.png",
    "another format": "{folder}/o.jp2",
    "a missing folder": "{folder}/nodir/o.png",
    "below a file": "{frames}/0.png/x.png",
    "a frame": "{frames}/0.png",
    "a frame by another way": "{frames}/../frames/./1.png",
    "a long name": "{folder}/" + "n" * 252 + ".png",
    "a device": "/dev/null",
    "the system": "/proc/self/x.png",
}


@pytest.mark.parametrize("option", OUTPUTS)
@pytest.mark.parametrize("kind", PLACES)
def test_no_odd_place_is_written_to(frames, tmp_path, option, kind):
    place = PLACES[kind].format(folder=tmp_path, frames=frames)
    outputs = ["-o", place] if option == "-o" else ["-o", tmp_path / "o.png", option, place]
    words = ["fuse", frames, "--no-align", "--method", "dsift", "--overwrite", *outputs]
    assert_refused(words, frames, tmp_path)


@pytest.mark.parametrize(
    ("one", "two"), [("o.png", "O.PNG"), ("é.png", "e\u0301.png"), ("o.png", "./o.png"), ("ß.png", "SS.png")]
)
def test_two_outputs_that_are_one_on_other_file_systems_are_refused(frames, tmp_path, one, two):
    outputs = ["-o", tmp_path / one, "--decision-map", f"{tmp_path}/{two}"]
    assert_refused(["fuse", frames, "--no-align", "--method", "dsift", *outputs], frames, tmp_path)


def test_the_preview_of_a_depth_map_is_not_the_picture(frames, tmp_path):
    outputs = ["-o", tmp_path / "d_Preview.png", "--depth-map", tmp_path / "d.png"]
    assert_refused(["fuse", frames, "--no-align", "--method", "dsift", *outputs], frames, tmp_path)


@pytest.mark.parametrize("place", ["a\x00.png", "\x00", "", "/", "a\x00/b.png"])
@pytest.mark.parametrize("name", ["output", "depth_map", "confidence_map", "check_map", "decision_map", "report"])
def test_no_name_that_a_file_cannot_have_is_an_output(frames, tmp_path, name, place):
    outputs = {"output": tmp_path / "o.png", name: place}
    with pytest.raises(OutputError):
        allfocus.fuse_files(frames, method="dsift", align=False, **outputs)
    assert not os.listdir(tmp_path)


# --- arrays -----------------------------------------------------------------------------------------------------------

SOUND = [np.random.default_rng(number).random((24, 32, 3)).astype(np.float32) for number in range(2)]
ARRAYS = {
    "empty": [],
    "one": SOUND[:1],
    "not a number": [SOUND[0], np.where(SOUND[1] > 0.9, np.nan, SOUND[1])],
    "infinite": [SOUND[0], np.where(SOUND[1] > 0.9, np.inf, SOUND[1])],
    "64 bits": [(frame * 255).astype(np.int64) for frame in SOUND],
    "yes and no": [frame > 0.5 for frame in SOUND],
    "complex": [frame.astype(complex) for frame in SOUND],
    "objects": [frame.astype(object) for frame in SOUND],
    "two types": [(SOUND[0] * 255).astype(np.uint8), (SOUND[1] * 65535).astype(np.uint16)],
    "a number and a level": [SOUND[0], (SOUND[1] * 255).astype(np.uint8)],
    "two channels": [frame[..., :2] for frame in SOUND],
    "one channel with an axis": [frame[..., :1] for frame in SOUND],
    "alpha": [np.dstack([frame, frame[..., :1]]) for frame in SOUND],
    "grey and colour": [SOUND[0], SOUND[1][..., 0]],
    "two sizes": [SOUND[0], SOUND[1][:20]],
    "no rows": [frame[:0] for frame in SOUND],
    "no columns": [frame[:, :0] for frame in SOUND],
    "a line": [np.zeros(5)] * 2,
    "five axes": [np.zeros((1, 1, 4, 4, 3))] * 2,
    "words": [np.array([["a", "b"]])] * 2,
    "a mask": [np.ma.masked_array(frame, frame > 0.9) for frame in SOUND],
    "nothing": [SOUND[0], None],
    "names": ["a", "b"],
}


@pytest.mark.parametrize("method", ["average", "dsift", "laplacian-pyramid", "ips"])
@pytest.mark.parametrize("kind", ARRAYS)
def test_what_is_no_stack_is_not_fused(kind, method):
    with pytest.raises(AllfocusError):
        allfocus.fuse(ARRAYS[kind], method=method)


@pytest.mark.parametrize("kind", ARRAYS)
def test_what_is_no_stack_is_not_aligned(kind):
    with pytest.raises(AllfocusError):
        allfocus.align(ARRAYS[kind])


@pytest.mark.parametrize("ending", [".png", ".tif", ".jpg", ".webp"])
@pytest.mark.parametrize(
    "kind", ["not a number", "infinite", "64 bits", "yes and no", "complex", "objects", "two channels", "no rows",
             "no columns", "a line", "five axes", "words", "nothing", "names"],
)  # fmt: skip
def test_what_is_no_picture_is_not_written(tmp_path, kind, ending):
    with pytest.raises(AllfocusError):
        write_image(ARRAYS[kind][1], tmp_path / f"a{ending}")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("ending", [".png", ".tif", ".jpg", ".webp"])
@pytest.mark.parametrize(
    "options",
    [{"quality": None},
     {"quality": 0}, {"quality": 101}, {"quality": 95.5}, {"quality": float("nan")}, {"quality": "95"},
     {"bit_depth": 0}, {"bit_depth": -8}, {"bit_depth": 24}, {"bit_depth": "8"}, {"compression": "zip"},
     {"compression": 11}, {"compression": -1}, {"compression": 3.5}],
)  # fmt: skip
def test_no_odd_option_writes_a_file(tmp_path, options, ending):
    with pytest.raises(OutputError):
        write_image(SOUND[0], tmp_path / f"a{ending}", **options)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("method", [None, 3, b"ips", ["ips"], "", "IPS"])
def test_what_is_no_method_is_refused(method):
    with pytest.raises(InputError):
        allfocus.fuse(SOUND, method=method)


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_limit_that_is_no_number_lets_nothing_through(frames, limit):
    with pytest.raises(InputError, match="more than the limit"):
        allfocus.read_image(frames / "0.png", max_pixels=limit)


@pytest.mark.parametrize("option", ["quality", "max_pixels"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("-inf"), "9", [9]])
def test_what_is_no_number_is_no_option(option, value):
    with pytest.raises(InputError, match=option) as told:
        allfocus.FuseOptions(**{option: value})
    assert told.value.code == "bad-option"


@pytest.mark.parametrize("name", ["", "\x00", "a\x00b", "x" * 5000, "*", "[", "**", "nodir/*.png"])
def test_what_names_no_frames_is_refused(name, tmp_path):
    with pytest.raises(AllfocusError):
        allfocus.fuse_files(name, tmp_path / "o.png", method="average")


# --- networks ---------------------------------------------------------------------------------------------------------


def network(**changes) -> bytes:
    """An ONNX file with the inputs of ours, which gives one answer in place of four; changes damage it."""
    onnx = pytest.importorskip("onnx")
    helper, tensor = onnx.helper, onnx.TensorProto
    kind = changes.get("kind", tensor.FLOAT)
    shape = changes.get("shape", ["n", 3, "h", "w"])
    entry = helper.make_tensor_value_info(changes.get("name", "frames"), kind, shape)
    out = helper.make_tensor_value_info("logits", kind, None)
    inputs = [entry, *(helper.make_tensor_value_info(name, kind, None) for name in changes.get("more", ()))]
    axes = helper.make_tensor("axes", tensor.INT64, [1], [1])
    node = helper.make_node(changes.get("operation", "ReduceMean"), [entry.name, "axes"], ["logits"])
    graph = helper.make_graph([node], "network", inputs, [out], [axes])
    opset = [helper.make_opsetid("", changes.get("opset", 18))]
    model = helper.make_model(graph, opset_imports=opset, ir_version=changes.get("version", 9))
    return bytes(model.SerializeToString())


NETWORKS = {
    "empty": lambda: b"",
    "no network": lambda: b"junk" * 100,
    "zeros": lambda: bytes(1000),
    "cut short": lambda: network()[:-20],
    "one answer": network,
    "another name": lambda: network(name="pictures"),
    "double precision": lambda: network(kind=11),
    "whole numbers": lambda: network(kind=7),
    "a fixed size": lambda: network(shape=[2, 3, 64, 64]),
    "one channel": lambda: network(shape=["n", 1, "h", "w"]),
    "more inputs": lambda: network(more=("other",)),
    "ours and more": lambda: network(more=("behind", "veil_above", "picture_above", "evil")),
    "an unknown operation": lambda: network(operation="Evil"),
    "a version to come": lambda: network(opset=999),
    "a format to come": lambda: network(version=99),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_what_is_no_network_is_one_sentence(frames, tmp_path, kind):
    path = tmp_path / "own.onnx"
    path.write_bytes(NETWORKS[kind]())
    words = ["fuse", frames, "-o", tmp_path / "o.png", "--no-align", "--method", path]
    assert_refused(words, frames, tmp_path)
