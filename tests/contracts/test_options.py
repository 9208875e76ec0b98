"""Every front end has every option of a fusion: a new field of FuseOptions or FuseOutputs needs nothing else."""

import dataclasses
import shlex
from pathlib import Path

import pytest

import allfocus
from allfocus.cli.batch_command import ONLY_FOR_STACKS, PLANES_TAKE
from allfocus.cli.batch_command import batch as batch_command
from allfocus.cli.fuse_command import fuse as fuse_command
from allfocus.stack import options as module
from allfocus.stack.command_words import command_line
from allfocus.stack.option_fields import BATCH, FUSE, STUDIO
from allfocus.stack.options import FuseOptions, describe_options, gather, offered
from allfocus.stack.outputs import KINDS, MAPS, FuseOutputs, describe_outputs

FIELDS = {own.name: own for own in dataclasses.fields(FuseOptions)}
OTHER = {
    "method": "dsift",
    "align": False,
    "crop": False,
    "reference": 2,
    "brightness": False,
    "prefer": "far",
    "skip_bad": True,
    "cull": True,
    "fill_rims": False,
    "dark": "dark.tif",
    "hot_pixels": True,
    "position": "B2",
    "time": "all",
    "channels": "DAPI,3",
    "decide_by": "DAPI",
    "pairs": "jpeg",
    "demosaic": "dht",
    "linear_light": True,
    "unveil": False,
    "slabs": (4, 1),
    "z_step": "2.5um",
    "pixel_size": "0.8um",
    "filled": True,
    "bit_depth": 16,
    "quality": 80,
    "compression": "lzw",
    "max_pixels": 1000,
    "device": "cpu",
    "threads": 1,
}
"""For each option a value that it does not have by default."""

every_option = pytest.mark.parametrize("name", FIELDS)


def test_there_is_another_value_for_every_option():
    assert set(OTHER) == set(FIELDS)
    assert all(value != FIELDS[name].default for name, value in OTHER.items())


@every_option
def test_every_option_has_a_help_text_a_title_and_a_reason_where_it_is_absent(name):
    about = describe_options()[name]
    assert about.help
    assert not about.help.endswith(".")
    assert about.title
    assert set(about.absent) <= {BATCH, STUDIO}
    assert all(about.absent.values())
    assert not about.ability or about.ability in {
        own.name for own in dataclasses.fields(allfocus.Method("", "").abilities)
    }


@every_option
def test_no_option_is_a_path_and_none_can_be_changed(name):
    assert "Path" not in str(FIELDS[name].type)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(FuseOptions(), name, None)


def options_among(parameters) -> FuseOptions:
    return FuseOptions(**{name: value for name, value in parameters.items() if name in FIELDS})


@pytest.mark.parametrize(("command", "front_end"), [(fuse_command, FUSE), (batch_command, BATCH)])
def test_the_commands_have_every_option_they_should_with_its_help(command, front_end):
    found = {parameter.name: parameter for parameter in command.params}
    for name, about in describe_options().items():
        assert (name in found) == (front_end not in about.absent), name
        if name in found:
            assert about.help in found[name].help
    standard = command.make_context("x", ["frames", "-o", "out"]).params
    assert options_among(standard) == FuseOptions()


@every_option
def test_the_command_to_copy_says_every_option_and_is_understood(name):
    options = FuseOptions(**{name: OTHER[name]})
    words = shlex.split(command_line("shots", FuseOutputs("o.tif"), options))
    parsed = fuse_command.make_context("fuse", words[2:]).params
    assert options_among(parsed) == options


@pytest.mark.parametrize("name", MAPS)
def test_every_output_is_an_option_of_the_command_and_a_map_of_a_batch(name):
    words = shlex.split(command_line("shots", FuseOutputs("o.tif", **{name: "file.png"}), FuseOptions()))
    parsed = fuse_command.make_context("fuse", words[2:]).params
    assert str(parsed[name]) == "file.png"
    kind = next(kind for kind, output in KINDS.items() if output == name)
    assert f"{kind}_maps" in {parameter.name for parameter in batch_command.params}
    beside = FuseOutputs.beside(Path("out/beetle.tif"), "beetle", [kind])
    assert beside.maps()[name].name.startswith(f"beetle_{kind}.")


def test_planes_take_no_option_that_is_only_for_stacks():
    own = {*offered(BATCH), *(f"{kind}_maps" for kind in KINDS)}
    assert own <= {*ONLY_FOR_STACKS, *PLANES_TAKE}
    assert not set(ONLY_FOR_STACKS) & set(PLANES_TAKE)


def test_the_body_that_starts_a_job_has_every_option_with_what_the_page_shows():
    pytest.importorskip("fastapi")
    from allfocus.web.bodies import StartOptions

    schema = StartOptions.model_json_schema()
    assert set(schema["properties"]) == set(offered(STUDIO))
    for name, about in offered(STUDIO).items():
        shown = schema["properties"][name]
        assert shown["title"] == about.title
        assert about.help in shown["description"]
        assert shown["default"] == FIELDS[name].default
        assert shown["x-ability"] == about.ability
        assert StartOptions(**{name: OTHER[name]}).model_dump()[name] == OTHER[name]
    assert FuseOptions(**StartOptions().model_dump()) == FuseOptions()


def test_the_page_names_no_option_but_the_method():
    """It draws what the server describes, so a new option needs no script."""
    script = (Path(allfocus.__file__).parent / "web" / "static" / "options.js").read_text()
    named = [name for name in offered(STUDIO) if f'"{name}"' in script or f"chosen.{name}" in script]
    assert named == ["method"]


def test_the_studio_shows_keeps_and_says_every_option():
    pytest.importorskip("fastapi")
    from allfocus.web.job_records import Frame, Job, job_from_json, job_to_json
    from allfocus.web.job_views import command_to_copy, show_job

    options = FuseOptions(**{name: OTHER[name] for name in offered(STUDIO)})
    frames = [Frame(str(n), f"{n}.png", 6, 4, 3, 16, 9) for n in (1, 2)]
    job = Job("a", "b", 0.0, 0.0, frames=frames, options=options)
    assert job_from_json(job_to_json(job)).options == options
    assert show_job(job, None)["options"] == {name: OTHER[name] for name in offered(STUDIO)}
    parsed = fuse_command.make_context("fuse", shlex.split(command_to_copy(frames, options))[2:]).params
    assert options_among(parsed) == options


@every_option
def test_python_takes_every_option_alone_and_in_an_object(name):
    alone, _ = gather(None, "o.png", {name: OTHER[name]})
    assert alone == FuseOptions(**{name: OTHER[name]})
    changed, _ = gather(FuseOptions(quality=70), "o.png", {name: OTHER[name]})
    assert getattr(changed, name) == OTHER[name]
    assert name == "quality" or changed.quality == 70


def test_the_report_and_the_result_tell_every_option_and_output(tmp_path, stack_folder):
    page = tmp_path / "page.html"
    result = allfocus.fuse_files(stack_folder, tmp_path / "o.png", method="average", align=False, report=page)
    assert set(result.settings) == {*FIELDS, *describe_outputs()}
    text = page.read_text()
    assert all(name.replace("_", " ") in text or name in text for name in FIELDS)


def test_a_mistyped_option_fails_and_names_the_nearest():
    with pytest.raises(TypeError, match="no option 'metod'; did you mean 'method'"):
        allfocus.fuse_files("x", "y.png", metod="ips")


@pytest.mark.parametrize(
    ("name", "value"), [("prefer", "middle"), ("device", "tpu"), ("bit_depth", 12), ("quality", 0)]
)
def test_a_value_that_an_option_cannot_have_is_refused(name, value):
    with pytest.raises(allfocus.InputError, match=name) as caught:
        FuseOptions(**{name: value})
    assert caught.value.code == "bad-option"


def test_help_tells_what_every_field_is_for():
    for kind, described in ((FuseOptions, describe_options()), (FuseOutputs, describe_outputs())):
        assert all(f"{name}: {about.help}" in kind.__doc__ for name, about in described.items())


def test_what_is_offered_is_read_from_the_fields_alone():
    assert list(module.describe_options()) == list(FIELDS)
