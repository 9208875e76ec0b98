"""The plan of a fusion: slabs that cover the stack, names, and every refusal before anything is read or written."""

import itertools
import os
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allfocus.cli.fuse_command import fuse as fuse_command
from allfocus.errors import AllfocusError, InputError, OutputError
from allfocus.stack.command_words import command_line
from allfocus.stack.options import FuseOptions, gather
from allfocus.stack.outputs import FuseOutputs, preview_path
from allfocus.stack.plan import cut_slabs, plan_stack


def plan_fusion(paths, output, **values):
    """The plan of what ``fuse_files`` would do with the same arguments."""
    options, outputs = gather(None, output, values)
    return plan_stack(paths, outputs, options)


@given(st.integers(3, 200), st.data())
def test_slabs_cover_the_stack_in_order_with_at_least_the_overlap_asked_for(count, data):
    size = data.draw(st.integers(2, count - 1))
    overlap = data.draw(st.integers(0, size - 1))
    slabs = cut_slabs(count, size, overlap)
    assert slabs[0][0] == 0
    assert slabs[-1][1] == count
    assert all(last - first == size for first, last in slabs)
    assert set(range(count)) == {index for first, last in slabs for index in range(first, last)}
    shared = [before[1] - after[0] for before, after in itertools.pairwise(slabs)]
    assert all(value >= overlap for value in shared)
    assert all(value == overlap for value in shared[:-1])
    assert len(set(slabs)) == len(slabs)


@pytest.mark.parametrize(
    ("slabs", "words"),
    [((1, 0), "nothing to fuse"), ((0, 0), "nothing to fuse"), ((2, 2), "overlap by 2"), ((2, -1), "overlap by -1"),
     ((3, 1), "holds all 3 frames"), ((9, 1), "holds all 3 frames")],
)  # fmt: skip
def test_slabs_that_make_no_sense_are_refused(stack_folder, tmp_path, slabs, words):
    with pytest.raises(InputError, match=words):
        plan_fusion(stack_folder, tmp_path / "o.png", slabs=slabs)


def test_the_names_of_slabs_count_frames_from_one(stack_folder, tmp_path):
    plan = plan_fusion(stack_folder, tmp_path / "o.tif", slabs=(2, 1))
    names = [slab.path.name for slab in plan.slabs(3)]
    assert names == ["o_slab01_frames001-002.tif", "o_slab02_frames002-003.tif"]
    assert plan.slabs(1200)[-1].path.name == "o_slab1199_frames1199-1200.tif"


def test_every_output_is_listed_the_picture_first(stack_folder, tmp_path):
    options = dict(
        decision_map=tmp_path / "m.png", depth_map=tmp_path / "d.tif", confidence_map=tmp_path / "c.png",
        check_map=tmp_path / "k.png", report=tmp_path / "r.html", slabs=(2, 0),
    )  # fmt: skip
    names = [path.name for path in plan_fusion(stack_folder, tmp_path / "o.png", **options).files(3)]
    assert names[0] == "o.png"
    assert sorted(names[1:]) == [
        "c.png", "d.tif", "d_preview.tif", "k.png", "m.png", "o_slab01_frames001-002.png", "o_slab02_frames002-003.png",
        "r.html",
    ]  # fmt: skip
    assert preview_path(tmp_path / "d.tif").name in names


OUTPUTS = {
    "decision_map": "map.png",
    "depth_map": "map.png",
    "confidence_map": "map.png",
    "check_map": "map.png",
    "report": "page.html",
}


@pytest.mark.parametrize("option", OUTPUTS)
def test_any_output_that_exists_or_is_a_frame_or_another_output_is_refused(stack_folder, tmp_path, option):
    target = tmp_path / OUTPUTS[option]
    target.write_text("precious")
    with pytest.raises(OutputError, match=f"{target.name}: exists"):
        plan_fusion(stack_folder, tmp_path / "o.png", **{option: target})
    plan_fusion(stack_folder, tmp_path / "o.png", **{option: target}, overwrite=True)
    with pytest.raises(OutputError, match="does not exist"):
        plan_fusion(stack_folder, tmp_path / "o.png", **{option: tmp_path / "nowhere" / target.name})
    if option != "report":
        frame = stack_folder / "frame_1.png"
        with pytest.raises(InputError, match=r"frame_1\.png: is a frame of the stack"):
            plan_fusion(stack_folder, tmp_path / "o.png", **{option: frame}, overwrite=True)
        with pytest.raises(InputError, match="named for two outputs"):
            plan_fusion(stack_folder, tmp_path / "o.png", **{option: tmp_path / "o.png"})
    assert target.read_text() == "precious"


@pytest.mark.parametrize("name", ["d_preview.png", "o_slab02_frames002-003.png"])
def test_previews_and_slabs_are_checked_too(stack_folder, tmp_path, name):
    (tmp_path / name).write_text("precious")
    with pytest.raises(OutputError, match=f"{name}: exists"):
        plan_fusion(stack_folder, tmp_path / "o.png", depth_map=tmp_path / "d.png", slabs=(2, 1))


def test_the_output_may_not_be_the_preview(stack_folder, tmp_path):
    with pytest.raises(InputError, match="named for two outputs"):
        plan_fusion(stack_folder, tmp_path / "d_preview.png", depth_map=tmp_path / "d.png")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"report": "r.pdf"}, "html"),
        ({"depth_map": "d.jpg"}, "16"),
        ({"compression": "lzw"}, "PNG cannot be written with compression lzw"),
        ({"compression": 12}, "PNG cannot be written with compression 12"),
        ({"method": "average", "confidence_map": "c.png"}, "average"),
        ({"method": "average", "linear_light": True}, "linear light"),
        ({"linear_light": True}, r"frame_0\.png: has no colour profile"),
    ],
)
def test_what_a_format_a_method_or_the_frames_cannot_do_is_refused(stack_folder, tmp_path, options, words):
    options = {name: tmp_path / value if "." in str(value) else value for name, value in options.items()}
    with pytest.raises(AllfocusError, match=words):
        plan_fusion(stack_folder, tmp_path / "o.png", **options)


def test_the_command_line_is_understood_by_the_command_and_says_the_same():
    options = FuseOptions(
        method="dsift", align=False, crop=False, prefer="near", skip_bad=True, linear_light=False, unveil=False,
        slabs=(8, 3), bit_depth=16, quality=80, compression="lzw", device="cpu", max_pixels=1000,
    )  # fmt: skip
    outputs = FuseOutputs(
        "out.tif", decision_map="a b/m.png", depth_map=Path("d.png"), confidence_map="c.png", check_map="k.png",
        veil_map="v.png", report="r.html", overwrite=True,
    )  # fmt: skip
    words = shlex.split(command_line(["shots", "more shots"], outputs, options))
    assert words[:2] == ["allfocus", "fuse"]
    parsed = fuse_command.make_context("fuse", words[2:]).params
    assert [str(path) for path in parsed.pop("frames")] == ["shots", "more shots"]
    assert not parsed.pop("dry_run")
    assert not parsed.pop("as_json")
    assert parsed.pop("after") is None
    assert parsed.pop("weights") is None  # the command names them with the method
    assert FuseOptions(**{name: parsed.pop(name) for name in options.settings()}) == options
    found = FuseOutputs(parsed.pop("output"), **parsed)
    assert (str(found.picture), found.settings()) == ("out.tif", outputs.settings())
    # Nothing that is not standard is left out, and nothing that is standard is said.
    assert command_line("shots", FuseOutputs("o.png"), FuseOptions()) == "allfocus fuse shots -o o.png"


def test_the_command_of_a_frame_whose_name_begins_with_a_dash_can_be_given():
    words = command_line(["-x 1.png", "b.png"], FuseOutputs("o.png"), FuseOptions())
    assert words == f"allfocus fuse '{os.path.join('.', '-x 1.png')}' b.png -o o.png"


@pytest.mark.parametrize(
    ("options", "answer"), [({"method": "dsift"}, "dsift removes no haze"), ({"unveil": False}, "to be left on")]
)
def test_a_map_of_veils_that_nobody_takes_off_is_refused_with_the_reason(stack_folder, tmp_path, options, answer):
    with pytest.raises(InputError, match=answer):
        plan_fusion(stack_folder, tmp_path / "o.png", veil_map=tmp_path / "v.png", **options)
