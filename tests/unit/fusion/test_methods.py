"""The table of methods, `fuse`, and the shared check through `fuse`: what every method that runs must do."""

import base64
import dataclasses
import importlib
import importlib.resources
import importlib.util
import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from allfocus import plugins
from allfocus.cli import main
from allfocus.errors import InputError, MissingDependencyError
from allfocus.fusion import detail_meter, mending, method_choice, methods
from allfocus.fusion.maps import FusedMaps
from allfocus.fusion.method import Abilities, Method
from allfocus.fusion.method_choice import find_method, require_method
from allfocus.fusion.methods import METHODS, list_methods
from allfocus.fusion.settings import DecisionSettings
from allfocus.fusion.stack_fusion import FusionResult, fuse
from allfocus.images.image import Image, ImageStack
from allfocus.images.spool import FrameSpool
from allfocus.network.contract import GRAPH_KEYS
from allfocus.network.graph_file import graph_of
from allfocus.scenes.rendering import render_scene

PUBLISHED = {
    *("ips", "ips-hard", "ips-paper", "dsift", "dct-corr", "laplacian-pyramid", "laplacian-pyramid-energy"),
    *("guided-filter", "wavelet", "depth-map", "average"),
    *("cnn", "ifcnn", "swinfusion", "u2fusion", "mff-gan", "zmff", "fusion2void", "stackmff-v4"),
}
"""Names that users write into commands, recipes and manifests; the one list that is kept by hand."""
CORE = [name for name, method in METHODS.items() if not method.extra]
RUNNING = [name for name, method in METHODS.items() if method.extra != "rivals"]
"""The others are checked in tests/unit/rivals, as most need weights."""
DECIDING = [name for name in RUNNING if METHODS[name].decides]

every_method = pytest.mark.parametrize("method", RUNNING)


def small_pair(dtype=np.float32, *, colour=True):
    """Two frames of 24 x 33 in the type that is asked for."""
    shape = (24, 33, 3) if colour else (24, 33)
    frames = [np.random.default_rng(seed).random(shape) for seed in (1, 2)]
    if np.issubdtype(dtype, np.integer):
        return [np.rint(frame * np.iinfo(dtype).max).astype(dtype) for frame in frames]
    return [frame.astype(dtype) for frame in frames]


# The table


def test_the_table_holds_every_method_and_the_default_is_first():
    names = [method.name for method in list_methods()]
    assert sorted(names) == sorted(PUBLISHED)
    assert {*CORE} > {*DECIDING} > {"ips", "ips-hard"}
    assert names[0] == "ips"
    assert all(name == method.name for name, method in METHODS.items())


def test_every_method_says_what_it_does_and_where_it_comes_from():
    for method in list_methods():
        assert method.summary
        assert method.paper or method.name == "average"


@every_method
def test_the_function_of_a_method_that_runs_exists(method):
    assert callable(METHODS[method].load())
    assert not METHODS[method].missing


def test_a_method_whose_extra_is_missing_says_which(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert METHODS["ips-paper"].missing == "it needs the extra train: pip install 'allfocus[train]'"
    assert METHODS["zmff"].missing == "it needs the extra rivals: pip install 'allfocus[rivals]'"
    assert not METHODS["ips"].missing
    with pytest.raises(
        MissingDependencyError, match=r"ips-paper cannot run: .*allfocus\[train\].*methods that can: ips,"
    ):
        fuse(small_pair(), method="ips-paper")


# Methods from elsewhere


def test_a_function_is_a_method():
    """It gets float frames in 0..1 and its picture comes back in the type of the frames."""
    seen = []

    def brightest(frames):
        """The brightest of all frames."""
        seen.extend(frame.dtype for frame in frames)
        return np.maximum.reduce(frames)

    frames = small_pair(np.uint8)
    result = fuse(frames, method=brightest)
    assert np.array_equal(result.image, np.maximum(*frames))
    assert set(seen) == {np.dtype(np.float32)}
    assert result.decision is None


def test_a_function_that_decides_gets_depth_and_confidence():
    def last(frames):
        return FusedMaps(frames[-1], np.ones(frames[0].shape[:2], np.int16))

    result = fuse(small_pair(), method=last)
    assert (result.depth == 1).all()
    assert result.confidence.shape == result.decision.shape


class Entry:
    """An entry point of an installed package."""

    def __init__(self, name, value):
        self.name, self._value = name, value
        self.dist = type("Distribution", (), {"name": "a-package"})

    def load(self):
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


@pytest.fixture
def install(monkeypatch):
    """Pretends that a package offers entries in the group of methods."""

    def offer(**entries):
        found = [Entry(name, value) for name, value in entries.items()]
        monkeypatch.setattr(plugins, "entry_points", lambda group: found if group == plugins.METHODS_GROUP else [])
        methods.method_catalogue.cache_clear()

    yield offer
    monkeypatch.undo()
    methods.method_catalogue.cache_clear()


def test_methods_of_installed_packages_are_listed_and_fuse(install):
    limited = Method(
        "two-only", "a method for pairs", abilities=Abilities(frames=(2, 2)), function=lambda frames: frames[0]
    )
    install(brightest=lambda frames: np.maximum.reduce(frames), pairs=limited)
    assert [method.name for method in list_methods()][-2:] == ["brightest", "two-only"]
    frames = small_pair()
    assert np.array_equal(fuse(frames, method="brightest").image, np.maximum(*frames))
    assert require_method("brightest", listed=True).name == "brightest"
    with pytest.raises(InputError, match="two-only fuses exactly 2 frames, got 3"):
        fuse([*frames, frames[0]], method="two-only")
    with pytest.raises(InputError, match="brightest knows no preference"):
        fuse(frames, method="brightest", prefer="near")


def test_a_method_of_a_package_does_not_replace_ours_and_that_is_told(install, capsys, stack_folder, tmp_path):
    install(average=lambda frames: frames[0], brightest=np.maximum.reduce)
    assert find_method("average") is METHODS["average"]
    assert main.run(["methods"]) == 0
    shown = capsys.readouterr()
    assert "brightest" in shown.out.splitlines()
    assert shown.err.startswith("warning: average of the package a-package is passed over: allfocus has something")
    assert shown.err.endswith("(name-taken)\n")
    assert main.run(["methods", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["passed_over"]
    assert (told["code"], told["parameters"]["package"]) == ("name-taken", "a-package")
    assert main.run(["fuse", str(stack_folder), "-o", str(tmp_path / "a.png"), "--method", "average"]) == 0
    assert "average of the package a-package is passed over" in capsys.readouterr().err
    assert main.run(["fuse", str(stack_folder), "-o", str(tmp_path / "b.png"), "--method", "dsift"]) == 0
    assert "passed over" not in capsys.readouterr().err


def test_of_two_packages_with_one_name_the_second_is_passed_over_and_told(install):
    def mine(frames):
        return frames[0]

    install(first=Method("mine", "one", function=mine), second=Method("mine", "another", function=mine))
    assert find_method("mine").summary == "one"
    (error,) = methods.method_catalogue().passed_over
    assert error.parameters["owner"] == "a-package"


@pytest.mark.parametrize(("value", "words"), [(RuntimeError("broken"), "cannot be loaded"), (3, "is a int")])
def test_a_package_that_offers_no_method_is_named(install, value, words):
    install(odd=value)
    with pytest.raises(MissingDependencyError, match=f"odd of the package a-package {words}"):
        list_methods()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("ipps", "ips"),
        ("laplacian", "laplacian-pyramid"),
        ("guided", "guided-filter"),
        ("DSIFT", "dsift"),
    ],
)
def test_an_unknown_method_names_the_nearest(name, nearest):
    for call in (find_method, lambda name: fuse(small_pair(), method=name)):
        with pytest.raises(InputError, match=f"unknown method '{name}'; did you mean '{nearest}'"):
            call(name)


def test_a_known_method_is_found():
    assert find_method("wavelet") is METHODS["wavelet"]


# The shared check


@every_method
@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_the_result_has_the_shape_and_type_of_a_frame(method, dtype, colour):
    frames = small_pair(dtype, colour=colour)
    result = fuse(frames, method=method)
    assert isinstance(result, FusionResult)
    assert result.image.shape == frames[0].shape
    assert result.image.dtype == dtype
    assert np.isfinite(result.image).all()
    assert result.image.max() <= (np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 1)
    assert result.image.min() >= 0
    assert result.image.std() > 0


@every_method
def test_integers_and_their_fractions_give_the_same_picture(method):
    integers = small_pair(np.uint16)
    fractions = [(frame / np.float32(65535)).astype(np.float32) for frame in integers]
    expected = fuse(fractions, method=method).image
    # Half a level by rounding, and a little more for the scaling in 32 bits.
    np.testing.assert_allclose(fuse(integers, method=method).image / 65535, expected, atol=0.51 / 65535)


@every_method
def test_two_runs_give_the_same_bits(method):
    frames = small_pair()
    assert (fuse(frames, method=method).image == fuse(frames, method=method).image).all()


@every_method
def test_the_frames_are_left_untouched(method):
    frames = small_pair()
    before = [frame.copy() for frame in frames]
    fuse(frames, method=method)
    np.testing.assert_array_equal(frames, before)


@pytest.mark.parametrize("method", CORE)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_equal_integer_frames_come_back_bit_for_bit(method, dtype, count):
    frame = small_pair(dtype)[0]
    assert (fuse([frame] * count, method=method).image == frame).all()


@pytest.mark.parametrize("method", RUNNING)
def test_decision_and_depth_come_together(method):
    result = fuse(small_pair(), method=method)
    if method not in DECIDING:
        assert result.decision is None
        assert result.depth is None
        return
    assert result.decision.shape == result.depth.shape == (24, 33)
    assert result.decision.dtype == np.int16
    assert set(np.unique(result.decision)) <= {-1, 0, 1}
    assert result.depth.dtype == np.float32
    assert result.depth.min() >= 0
    assert result.depth.max() <= 1


@pytest.mark.parametrize("method", DECIDING)
def test_depth_is_the_position_in_the_stack(method, triple):
    result = fuse(triple.frames, method=method)
    for index in range(3):
        chosen = triple.decision == index
        assert np.median(result.depth[chosen]) == pytest.approx(index / 2, abs=1e-3)


@every_method
@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([], "at least 2 frames, got 0"),
        ([np.zeros((8, 8), np.float32)], "at least 2 frames, got 1"),
        ([np.zeros((8, 8), np.float32), np.zeros((8, 9), np.float32)], r"frame 2 has shape \(8, 9\)"),
        ([np.zeros((8, 8, 3), np.uint8), np.zeros((8, 8), np.uint8)], r"frame 2 has shape \(8, 8\)"),
        ([np.zeros((8, 8, 4), np.uint8)] * 2, r"frame 1 has shape \(8, 8, 4\)"),
        ([np.zeros((0, 8), np.float32)] * 2, r"frame 1 has shape \(0, 8\)"),
        ([np.zeros((8, 8), np.float32), np.full((8, 8), np.nan)], "frame 2 holds values that are not finite"),
        ([np.full((8, 8), np.inf), np.zeros((8, 8), np.float32)], "frame 1 holds values that are not finite"),
        ([np.zeros((8, 8), np.uint8), np.zeros((8, 8), np.int32)], "frame 2 holds int32"),
        ([np.zeros((8, 8), bool)] * 2, "frame 1 holds bool"),
        ([np.zeros((8, 8), np.complex64)] * 2, "frame 1 holds complex64"),
    ],
)
def test_frames_that_do_not_fit_are_refused_by_number(method, frames, message):
    with pytest.raises(InputError, match=message):
        fuse(frames, method=method)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_of_64_bits_are_refused_and_the_right_ones_named(dtype):
    frames = [np.zeros((8, 8), dtype)] * 2
    with pytest.raises(InputError, match=f"frame 1 holds {np.dtype(dtype)}; give uint8, uint16, .*or floating point"):
        fuse(frames, method="average")


# Any range of values


def full_range_pair():
    """Two frames that reach from 0 to 1, so that any range of them becomes these very frames inside."""
    frames = small_pair()
    frames[0][0, 0, 0], frames[1][5, 5, 1] = 0, 1
    return frames


@every_method
@pytest.mark.parametrize(("low", "high"), [(-5.0, 3000.0), (0.0, 65535.0), (-2e-6, 1e-6), (-1e6, -1e5), (0.0, 1.02)])
def test_floating_point_of_any_range_is_fused_in_its_own_units(method, low, high):
    frames = full_range_pair()
    own = [frame.astype(np.float64) * (high - low) + low for frame in frames]
    expected, result = fuse(frames, method=method), fuse(own, method=method)
    assert result.image.dtype == np.float64
    np.testing.assert_allclose((result.image - low) / (high - low), expected.image, atol=2e-5)
    if expected.decision is not None:
        assert np.mean(result.decision != expected.decision) < 0.005
        np.testing.assert_allclose(result.confidence, expected.confidence, atol=1e-3)


CLASSICAL = sorted(set(CORE) - {"ips", "ips-hard"})


@settings(max_examples=40, deadline=None)
@given(
    method=st.sampled_from(CLASSICAL),
    seed=st.integers(0, 2**16),
    factor=st.floats(1e-3, 1e6),
    offset=st.floats(-10, 10),
    count=st.integers(2, 4),
)
def test_other_units_give_the_same_picture_in_those_units(method, seed, factor, offset, count):
    """fuse(a x + b) = a fuse(x) + b, for x that reaches from 0 to 1; the offset is in units of the factor."""
    assume(offset < 0 or (1 + offset) * factor > 1)  # within 0..1 values are brightness, not units of their own
    generator = np.random.default_rng(seed)
    frames = [generator.random((20, 28, 3)) for _ in range(count)]
    frames[0][3, 3, 0], frames[-1][9, 9, 2] = 0, 1
    expected = fuse(frames, method=method).image
    found = fuse([(frame + offset) * factor for frame in frames], method=method).image / factor - offset
    # Rounding decides where two frames are as good as equal.
    assert np.mean(np.abs(found - expected) > 2e-5) < 0.02


@pytest.mark.parametrize("method", CORE)
@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.uint32, ">u2", ">f4"])
def test_integers_with_a_sign_of_32_bits_and_of_the_other_byte_order_are_fused(method, dtype):
    kind = np.dtype(dtype)
    low, high = (-1000, 30000) if kind.kind == "i" else (0, 65535)
    frames = [np.rint(frame * (high - low) + low) for frame in full_range_pair()]
    expected = fuse(frames, method=method).image
    result = fuse([frame.astype(kind) for frame in frames], method=method).image
    assert result.dtype == kind
    close = np.abs(result.astype(np.float64) - expected) <= 0.51
    assert close.mean() > 0.995


@pytest.mark.parametrize("method", ["ips", "average", "depth-map"])
def test_what_lies_outside_of_a_mask_has_no_say_in_the_range(method):
    frames = [frame * 100 for frame in full_range_pair()]
    masks = [np.ones((24, 33), bool), np.ones((24, 33), bool)]
    masks[1][:, :4] = False
    spoiled = [frames[0], frames[1].copy()]
    spoiled[1][:, :4] = -9999
    expected = fuse(frames, method=method, valid=masks).image
    np.testing.assert_allclose(fuse(spoiled, method=method, valid=masks).image, expected, atol=1e-3)


# Ways to give frames, and progress


def test_a_stack_an_array_and_a_generator_give_what_a_list_gives():
    frames = small_pair()
    expected = fuse(frames).image
    stack = ImageStack([Image(frame) for frame in frames])
    for way in (stack, np.stack(frames), (frame for frame in frames), tuple(frames)):
        assert (fuse(way).image == expected).all()


def test_sixteen_bits_are_not_reduced_to_eight():
    frames = small_pair(np.uint16)
    assert len(np.unique(fuse(frames, method="ips").image)) > 256


@every_method
def test_progress_is_called_and_ends_when_all_is_done(method):
    calls = []
    fuse(small_pair(), method=method, progress=lambda done, total: calls.append((done, total)))
    assert len(calls) >= 2
    assert all(0 <= done <= total for done, total in calls)
    assert calls[0][0] == 0
    assert calls[-1][0] == calls[-1][1] >= 1


def test_the_default_method_is_ips(monkeypatch):
    asked = []
    monkeypatch.setattr(method_choice, "find_method", lambda name: asked.append(name) or METHODS["average"])
    fuse(small_pair())
    assert asked == ["ips"]


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="methode"):
        fuse(small_pair(), methode="ips")


# Networks of one's own


onnx = pytest.importorskip("onnx", reason="needs the extra train")


@pytest.fixture(scope="module")
def desk():
    return render_scene("desk", frames=3, size=(96, 128))


@pytest.fixture
def own_network(tmp_path):
    path = tmp_path / "own.onnx"
    path.write_bytes((importlib.resources.files("allfocus") / "weights" / "ips.onnx").read_bytes())
    return path


def test_the_file_of_a_network_is_a_method(desk, own_network):
    expected, found = fuse(desk.frames, method="ips"), fuse(desk.frames, method=str(own_network))
    np.testing.assert_array_equal(found.image, expected.image)
    np.testing.assert_array_equal(found.decision, expected.decision)


@pytest.mark.parametrize("part", GRAPH_KEYS)
def test_a_network_of_ones_own_is_what_runs_at_every_level(desk, own_network, part):
    """The file is the graph of levels with context, and holds the others."""
    refined = {"context_pixels": 10_000, "refined_pixels": 10_000} if part.endswith("refine") else {}
    settings = DecisionSettings(largest_whole_side=64, **refined)
    model = onnx.load(own_network)
    held = next((entry for entry in model.metadata_props if entry.key == GRAPH_KEYS[part]), None)
    graph = model if held is None else onnx.load_from_string(graph_of(own_network.read_bytes(), part))
    kernel = next(tensor for tensor in graph.graph.initializer if len(tensor.dims) == 4)
    values = onnx.numpy_helper.to_array(kernel)
    kernel.CopyFrom(onnx.numpy_helper.from_array(-values, kernel.name))
    if held is not None:
        held.value = base64.b64encode(graph.SerializeToString()).decode()
    onnx.save(model, own_network)
    own, ours = (
        dataclasses.replace(found, options={**found.options, "settings": settings})
        for found in (method_choice.find_method(str(own_network)), METHODS["ips"])
    )
    # A picture with odd sides ends within the last cells of the network, which the inner graphs do not see.
    frames = desk.frames if part.startswith("inner") else [frame[:-3, :-5] for frame in desk.frames]
    assert np.abs(fuse(frames, method=own).image - fuse(frames, method=ours).image).max() > 0.01


@pytest.mark.parametrize("part", [part for part, key in GRAPH_KEYS.items() if key])
def test_a_network_that_lacks_a_graph_is_refused_whether_or_not_the_picture_needs_it(desk, own_network, part):
    model = onnx.load(own_network)
    kept = [entry for entry in model.metadata_props if entry.key != GRAPH_KEYS[part]]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    onnx.save(model, own_network)
    with pytest.raises(InputError, match=r"own\.onnx: is not a network of this version; allfocus export writes one"):
        fuse([frame[:24, :32] for frame in desk.frames[:2]], method=str(own_network))


@pytest.mark.parametrize("content", [b"", b"no network", "another"])
def test_a_file_that_is_no_network_of_ours_is_refused_by_name(desk, tmp_path, content):
    path = tmp_path / "wrong.onnx"
    if content == "another":
        value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
        node = onnx.helper.make_node("Identity", ["x"], ["y"])
        result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
        graph = onnx.helper.make_graph([node], "other", [value], [result])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
        onnx.save(model, path)
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"wrong\.onnx: is (no|not).*allfocus export writes one"):
        fuse(desk.frames, method=str(path))


def test_a_network_that_is_not_there_and_one_that_a_stranger_names_are_refused(own_network):
    with pytest.raises(InputError, match=r"missing\.onnx: there is no such file; allfocus export"):
        require_method("missing.onnx")
    assert require_method(str(own_network), prefer="near", maps=True, linear_light=True).abilities.streams
    with pytest.raises(InputError, match="unknown method"):
        require_method(str(own_network), listed=True)


# Lost detail


def test_what_was_lost_is_measured_whatever_holds_the_frames():
    scene = render_scene("desk", frames=4, size=(160, 208))
    plain = fuse(scene.frames, method="average").lost_detail
    assert plain.share > 2
    levels = [np.rint(frame * 255).astype(np.uint8) for frame in scene.frames]
    assert fuse(levels, method="average").lost_detail.share == pytest.approx(plain.share, rel=0.1)
    stack = ImageStack([Image(frame) for frame in scene.frames])
    assert fuse(stack, method="average").lost_detail.share == plain.share
    with FrameSpool(bit_depth=32) as spool:
        for frame in scene.frames:
            spool.append(frame)
        assert fuse(spool, method="average").lost_detail.share == plain.share


@pytest.mark.parametrize("method", ["average", "ips"])
def test_masks_keep_a_frame_from_counting_where_it_has_no_pixels(method, monkeypatch):
    scene = render_scene("desk", frames=4, size=(160, 208))
    whole = np.ones((160, 208), bool)
    half = whole.copy()
    half[:, :104] = False
    given = []
    measure = detail_meter.measure_lost_detail

    def remember(image, frames, *, valid, progress=None):
        given.extend(mask[:, :] for mask in valid)
        return measure(image, frames, valid=valid, progress=progress)

    for module in (detail_meter, mending):
        monkeypatch.setattr(module, "measure_lost_detail", remember)
    lost = fuse(scene.frames, method=method, valid=[half, half, half, whole]).lost_detail
    # A picture in which places were decided again is measured again.
    assert [mask.all() for mask in given[:4]] == [False, False, False, True]
    assert len(given) % 4 == 0
    assert not lost.map[:, :40].any()


def test_lost_detail_is_not_measured_when_nobody_asks():
    assert fuse(small_pair(), method="average", check=False).lost_detail is None
