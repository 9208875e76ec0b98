"""Presets on the command line: the same that the studio has."""

import json

import pytest

from allfocus.cli.batch_command import batch
from allfocus.cli.fuse_command import fuse
from allfocus.cli.main import run
from allfocus.cli.serve_command import _read_settings as serve_settings
from allfocus.cli.serve_command import serve
from allfocus.errors import InputError
from allfocus.stack.kept_options import FILE, KeptOptions, read_kept, write_kept
from allfocus.stack.options import FuseOptions
from allfocus.stack.presets import PRESETS
from allfocus.web.settings import default_work_folder


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A preset that somebody has kept in the studio."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    default_work_folder().mkdir(parents=True)
    kept = KeptOptions(presets={"My lab": FuseOptions(method="dsift", pairs="jpeg", crop=False)})
    write_kept(default_work_folder(), kept)


def taken(command, *words):
    values = command.make_context("x", ["frames", "-o", "out", *words]).params
    return FuseOptions(**{name: value for name, value in values.items() if name in FuseOptions().settings()})


@pytest.mark.parametrize("command", [fuse, batch])
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_sets_its_options_and_no_others(command, name):
    assert taken(command, "--preset", name) == PRESETS[name].options
    assert taken(command, f"--preset={name.upper()}") == PRESETS[name].options


def test_options_that_are_given_win_over_the_preset_wherever_they_stand():
    assert taken(fuse, "--prefer", "far", "--preset", "macro") == FuseOptions(prefer="far", skip_bad=True)
    assert taken(fuse, "--preset", "microscope", "--crop", "--quality", "80") == FuseOptions(unveil=False, quality=80)


def test_a_preset_of_the_users_own_is_that_of_the_studio(own):
    assert taken(fuse, "--preset", "My lab") == FuseOptions(method="dsift", pairs="jpeg", crop=False)
    assert taken(fuse, "--preset", "My lab", "--method", "ips").method == "ips"


def test_presets_of_a_studio_in_a_folder_of_its_own_are_found_by_its_name(own, tmp_path, monkeypatch, capsys):
    (tmp_path / "lab").mkdir()
    write_kept(tmp_path / "lab", KeptOptions(presets={"Slides": FuseOptions(prefer="far")}))
    assert run(["fuse", "frames", "--preset", "Slides"]) == 2
    assert "ALLFOCUS_WORK" in capsys.readouterr().err
    assert run(["presets", "--work", str(tmp_path / "lab")]) == 0
    told = capsys.readouterr().out
    assert "Slides" in told
    assert "My lab" not in told
    assert run(["presets", "--work", str(tmp_path / "nowhere")]) == 2
    assert "nowhere: there is no such folder" in capsys.readouterr().err
    monkeypatch.setenv("ALLFOCUS_WORK", str(tmp_path / "lab"))
    assert taken(fuse, "--preset", "Slides") == taken(batch, "--preset", "Slides") == FuseOptions(prefer="far")
    assert serve_settings(serve.make_context("x", []).params).work == tmp_path / "lab"


def test_an_unknown_preset_is_refused_with_the_nearest(own, capsys):
    assert run(["fuse", "frames", "--preset", "my labb"]) == 2
    told = capsys.readouterr().err
    assert "'My lab'" in told
    assert "allfocus presets" in told


def test_the_list_names_all_with_what_they_set(own, capsys):
    assert run(["presets"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in (*PRESETS, "My lab", "--prefer near --skip-bad", "--method dsift --keep-size"))
    assert run(["presets", "--json"]) == 0
    shown = {preset["name"]: preset for preset in json.loads(capsys.readouterr().out)["presets"]}
    assert list(shown) == [*PRESETS, "My lab"]
    assert shown["My lab"]["own"]
    assert shown["My lab"]["options"]["pairs"] == "jpeg"


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"presets": {}}', '{"options": null, "presets": {"x": {"align": 1}}}',
     '{"options": null, "presets": {"x": {"prefer": "up"}}}'],
)  # fmt: skip
def test_a_damaged_file_is_named_and_the_presets_of_allfocus_need_none(own, content, capsys):
    (default_work_folder() / FILE).write_text(content)
    assert taken(fuse, "--preset", "macro") == PRESETS["macro"].options
    assert run(["fuse", "frames", "--preset", "My lab"]) == 2
    assert FILE in capsys.readouterr().err
    with pytest.raises(InputError, match=FILE):
        read_kept(default_work_folder())


def test_what_is_kept_reads_back(tmp_path):
    kept = KeptOptions(FuseOptions(prefer="near"), {"a": FuseOptions(linear_light=True), "b": FuseOptions(align=False)})
    write_kept(tmp_path, kept)
    assert read_kept(tmp_path) == kept
    assert read_kept(tmp_path / "nowhere") == KeptOptions()
