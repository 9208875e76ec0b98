"""A wrong picture is never made without a word: damage in files, odd networks, transparency, several positions."""

import base64
import io
import os
import struct

import numpy as np
import pytest
import tifffile
from PIL import Image as PillowImage

import allfocus
from allfocus.errors import InputError, MemoryShortageError
from allfocus.fusion.inference import weights_folder
from allfocus.fusion.network_checks import read_network, require_finite
from allfocus.images import memory
from allfocus.images.image import Image
from allfocus.images.jpeg_check import require_sound_jpeg
from allfocus.images.reading import read_image
from allfocus.images.stack_opening import read_stack
from allfocus.images.writing import write_image


@pytest.fixture(scope="module")
def photo() -> np.ndarray:
    frame = allfocus.render_scene("desk", frames=2, size=(400, 600)).frames[0]
    return np.rint(frame * 255).astype(np.uint8)


def encode(pixels: np.ndarray, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    PillowImage.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


JPEGS = {
    "baseline": {"quality": 92},
    "progressive": {"quality": 92, "progressive": True},
    "restarts": {"quality": 92, "restart_marker_blocks": 7},
    "full colour": {"quality": 92, "subsampling": 0, "optimize": True},
}


@pytest.mark.parametrize("kind", JPEGS)
@pytest.mark.parametrize("place", [0.3, 0.5, 0.7, 0.85])
def test_zeros_in_a_jpeg_are_told(tmp_path, photo, kind, place):
    data = bytearray(encode(photo, "JPEG", **JPEGS[kind]))
    (tmp_path / "sound.jpg").write_bytes(data)
    assert read_image(tmp_path / "sound.jpg").width == 600
    start = int(len(data) * place)
    data[start : start + 4096] = bytes(len(data[start : start + 4096]))
    data[-2:] = b"\xff\xd9"
    (tmp_path / "zeros.jpg").write_bytes(data)
    with pytest.raises(InputError, match=r"zeros\.jpg: .*damaged"):
        read_image(tmp_path / "zeros.jpg")


def test_restart_markers_out_of_order_are_told(tmp_path, photo):
    data = encode(photo, "JPEG", **JPEGS["restarts"])
    first = data.index(b"\xff\xd2", 600)
    for broken in (data[:first] + b"\xff\xd6" + data[first + 2 :], data[:first] + data[first + 2 :]):
        with pytest.raises(InputError, match="damaged"):
            require_sound_jpeg(broken)


@pytest.mark.parametrize("name", ["zeros.jpg", "zeros.webp"])
def test_frames_with_zeros_are_left_out_where_that_is_wanted(tmp_path, photo, name):
    kind = {"zeros.jpg": "JPEG", "zeros.webp": "WEBP"}[name]
    for number in range(3):
        (tmp_path / f"{number}{name[5:]}").write_bytes(encode(photo, kind, quality=95))
    data = bytearray((tmp_path / f"2{name[5:]}").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4096] = bytes(4096)
    (tmp_path / f"2{name[5:]}").write_bytes(data)
    result = allfocus.fuse_files(tmp_path, tmp_path / "out.png", method="average", align=False, skip_bad=True)
    assert list(result.left_out) == [f"2{name[5:]}"]
    with pytest.raises(InputError, match="damaged"):
        allfocus.fuse_files(tmp_path / f"[0-9]{name[5:]}", tmp_path / "o.png", method="average", align=False)


@pytest.mark.parametrize("options", [{"quality": 95}, {"quality": 30}, {"lossless": True}])
def test_zeros_in_a_webp_are_told_and_flat_pictures_are_not_blamed(tmp_path, photo, options):
    path = tmp_path / "a.webp"
    for flat in (0, 255):
        path.write_bytes(encode(np.full((1500, 2000, 3), flat, np.uint8), "WEBP", **options))
        assert np.abs(read_image(path).pixels - flat / 255).max() < 3 / 255
    data = bytearray(encode(np.tile(photo, (2, 2, 1)), "WEBP", **options))
    path.write_bytes(data)
    read_image(path)
    start = len(data) // 2
    data[start : start + 4096] = bytes(min(4096, len(data) - start))
    path.write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        read_image(path)


def test_zeros_in_a_jpeg_inside_a_tiff_are_told(tmp_path, photo):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.tile(photo, (2, 2, 1)), tile=(512, 512), compression="jpeg", photometric="rgb")
    read_image(path)
    with tifffile.TiffFile(path) as tiff:
        offset, size = tiff.pages[0].dataoffsets[1], tiff.pages[0].databytecounts[1]
    data = bytearray(path.read_bytes())
    data[offset + size // 2 : offset + size // 2 + 2048] = bytes(2048)
    path.write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        read_image(path)


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        *((284, 3), (284, 0), (284, 77), (266, 9), (317, 17), (254, 99), (262, 200), (258, 7000), (339, 7)),
        *((273, 0), (256, 300), (257, 200), (258, 4), (317, 2), (278, 1), (284, 2)),
    ],
)
def test_an_entry_that_means_nothing_is_told(tmp_path, photo, tag, value):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, photo, photometric="rgb")
    data = bytearray(path.read_bytes())
    start = struct.unpack("<I", data[4:8])[0]
    places = [start + 2 + 12 * entry for entry in range(struct.unpack("<H", data[start : start + 2])[0])]
    tags = [struct.unpack("<H", data[at : at + 2])[0] for at in places]
    at = places[tags.index(tag if tag in tags else 296)]  # in place of the unit of the resolution
    data[at : at + 12] = struct.pack("<HHIHH", tag, 3, 1, value, 0)
    path.write_bytes(data)
    with pytest.raises(InputError):
        read_image(path)


# --- several positions ------------------------------------------------------------------------------------------------


def several(path, kind: str) -> None:
    planes = np.zeros((2, 4, 32, 32), np.uint8)
    if kind == "positions":
        with tifffile.TiffWriter(path, ome=True) as writer:
            for number in range(2):
                writer.write(planes[number], metadata={"axes": "ZYX", "Name": f"well {number}"})
        return
    options = {
        "time of OME": {"ome": True, "metadata": {"axes": "TZYX"}},
        "channels of OME": {"ome": True, "metadata": {"axes": "CZYX"}},
        "regions of OME": {"ome": True, "metadata": {"axes": "RZYX"}},
        "positions of OME": {"ome": True, "metadata": {"axes": "PZYX"}},
        "time of ImageJ": {"imagej": True, "metadata": {"axes": "TZYX"}},
        "channels of ImageJ": {"imagej": True, "metadata": {"axes": "CZYX"[0:0] + "ZCYX"}},
        "named axes": {"metadata": {"axes": "PZYX"}},
        "axes without a name": {},
    }[kind]
    tifffile.imwrite(path, planes, photometric="minisblack", **options)


@pytest.mark.parametrize(
    "kind",
    [
        *("positions", "time of OME", "channels of OME", "regions of OME", "positions of OME", "time of ImageJ"),
        *("channels of ImageJ", "named axes", "axes without a name"),
    ],
)
def test_a_file_with_several_stacks_is_never_one_stack(tmp_path, kind):
    several(tmp_path / "a.tif", kind)
    with pytest.raises(InputError, match=r"a\.tif: it holds"):
        read_stack(tmp_path / "a.tif")
    if kind == "positions":
        with pytest.raises(InputError, match="well 0, well 1"):
            read_stack(tmp_path / "a.tif")


@pytest.mark.parametrize("options", [{"ome": True}, {"imagej": True}, {}, {"metadata": None}])
def test_one_stack_in_a_file_is_still_read(tmp_path, options):
    metadata = {"metadata": {"axes": "ZYX"}} if options and "metadata" not in options else {}
    tifffile.imwrite(
        tmp_path / "a.tif", np.zeros((4, 32, 32), np.uint8), photometric="minisblack", **options, **metadata
    )
    assert len(read_stack(tmp_path / "a.tif")) == 4


# --- transparency -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [1, 60, 127, 200, 254])
def test_half_transparent_frames_are_fused_and_stay_half_transparent(tmp_path, small_stack, level):
    alpha = np.full(small_stack[0].shape[:2], level / 255, np.float32)
    for number, frame in enumerate(small_stack):
        write_image(Image(frame, alpha=alpha), tmp_path / f"{number}.png")
    plain = allfocus.fuse(small_stack, method="average").image
    allfocus.fuse_files(tmp_path, tmp_path / "out.png", method="average", align=False)
    result = read_image(tmp_path / "out.png")
    assert (np.rint(result.alpha * 255) == level).all()
    assert np.abs(result.pixels - plain).max() < 1 / 100


# --- networks ---------------------------------------------------------------------------------------------------------


def make_network(path, *, value: float = 0.0, external: str | None = None) -> None:
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weight = helper.make_tensor("weight", kind, [1], [value])
    if external is not None:
        weight.ClearField("float_data")
        weight.data_location = onnx.TensorProto.EXTERNAL
        entry = weight.external_data.add()
        entry.key, entry.value = "location", external
    nodes = [
        helper.make_node("ReduceMean", ["frames", "axes"], ["mean"], keepdims=0),
        helper.make_node("Add", ["mean", "weight"], ["logits"]),
    ]
    axes = helper.make_tensor("axes", onnx.TensorProto.INT64, [1], [1])
    frames = helper.make_tensor_value_info("frames", kind, ["n", 3, "h", "w"])
    logits = helper.make_tensor_value_info("logits", kind, ["n", "h", "w"])
    graph = helper.make_graph(nodes, "network", [frames], [logits], [weight, axes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_network_that_gives_no_numbers_is_an_error(value):
    sound = np.zeros((2, 16, 16), np.float32)
    assert require_finite(sound, (2, 16, 16), None) is not None
    broken = sound.copy()
    broken[1, 3, 4] = value
    with pytest.raises(InputError, match=r"a\.onnx: gave 1 of 512 values that are not numbers"):
        require_finite(broken, (2, 16, 16), "a.onnx")
    with pytest.raises(InputError, match="shape"):
        require_finite(sound, (2, 16, 17), "a.onnx")


@pytest.mark.parametrize("place", ["weights.bin", "../weights.bin", "/tmp/weights.bin"])
def test_weights_in_other_files_are_not_read(tmp_path, small_stack, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.bin").write_bytes(np.zeros(1, np.float32).tobytes())
    make_network(tmp_path / "sound.onnx")
    assert read_network(tmp_path / "sound.onnx") == (tmp_path / "sound.onnx").read_bytes()
    make_network(tmp_path / "a.onnx", external=place)
    with pytest.raises(InputError, match="other files"):
        allfocus.fuse(small_stack, method=str(tmp_path / "a.onnx"))


@pytest.mark.parametrize("hidden", ["in a constant", "in a branch", "in a function", "in the metadata", "sparse"])
def test_weights_in_other_files_are_found_wherever_they_are_named(tmp_path, hidden):
    onnx = pytest.importorskip("onnx")
    make_network(tmp_path / "inner.onnx", external="weights.bin")
    make_network(tmp_path / "a.onnx")
    inner, model = onnx.load_model(tmp_path / "inner.onnx", load_external_data=False), onnx.load(tmp_path / "a.onnx")
    tensor = inner.graph.initializer[0]
    if hidden == "in a constant":
        model.graph.node.append(onnx.helper.make_node("Constant", [], ["c"], value=tensor))
    elif hidden == "in a branch":
        model.graph.node.append(onnx.helper.make_node("If", ["x"], ["y"], then_branch=inner.graph))
    elif hidden == "in a function":
        node = onnx.helper.make_node("Constant", [], ["c"], value=tensor)
        opset = [onnx.helper.make_opsetid("", 18)]
        model.functions.append(onnx.helper.make_function("own", "f", [], ["c"], [node], opset))
    elif hidden == "in the metadata":
        entry = model.metadata_props.add()
        entry.key, entry.value = "whole", base64.b64encode((tmp_path / "inner.onnx").read_bytes()).decode()
    else:
        model.graph.sparse_initializer.add().values.CopyFrom(tensor)
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match="other files"):
        read_network(tmp_path / "a.onnx")


def test_the_shipped_network_needs_no_other_file():
    assert read_network(weights_folder() / "ips.onnx")


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".png", ".jpg", ".webp", ".tif"])
def test_too_little_memory_says_so_and_blames_no_frame(tmp_path, small_stack, monkeypatch, ending):
    for number, frame in enumerate(small_stack):
        write_image(frame, tmp_path / f"{number}{ending}")
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(MemoryShortageError, match="GB of memory"):
        allfocus.fuse_files(tmp_path, tmp_path / "out.png", method="average", skip_bad=True)


def test_a_decoder_that_runs_out_of_memory_is_no_damage(tmp_path, small_stack, monkeypatch):
    import imagecodecs

    for number, frame in enumerate(small_stack):
        write_image(frame, tmp_path / f"{number}.png")

    def fail(data):
        raise MemoryError

    monkeypatch.setattr(imagecodecs, "png_decode", fail)
    with pytest.raises(MemoryShortageError, match="not enough memory"):
        allfocus.fuse_files(tmp_path, tmp_path / "out.png", method="average", skip_bad=True)


def test_stderr_of_others_is_not_swallowed_while_jpegs_are_checked(photo, capfd):
    data = encode(photo, "JPEG")
    require_sound_jpeg(data)
    os.write(2, b"mine\n")
    assert capfd.readouterr().err == "mine\n"
