"""How the Lua plug-ins make a command line of words, order frames and name results."""

import shlex
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allfocus.images.listing import natural_order

lupa = pytest.importorskip("lupa", reason="needs the extra dev")

INTEGRATIONS = Path(__file__).resolve().parents[3] / "integrations"
COPIES = [INTEGRATIONS / "darktable/allfocus/command.lua", INTEGRATIONS / "lightroom/allfocus.lrplugin/command.lua"]
VERSIONS = ("lua51", "lua53", "lua54")
NAME = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


def load(version="lua54"):
    runtime = __import__(f"lupa.{version}", fromlist=["LuaRuntime"]).LuaRuntime()
    return runtime, runtime.execute(COPIES[0].read_text(encoding="utf-8"))


RUNTIME, COMMAND = load()


def test_both_plug_ins_hold_the_same_file():
    assert COPIES[0].read_bytes() == COPIES[1].read_bytes()


@pytest.mark.parametrize("path", sorted(INTEGRATIONS.rglob("*.lua")), ids=lambda path: path.name)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_file_compiles_in_the_lua_of_its_program(path, version):
    runtime, _ = load(version)
    loader = runtime.globals()["loadstring"] if version == "lua51" else runtime.globals()["load"]
    found = loader(path.read_text(encoding="utf-8"))
    assert not isinstance(found, tuple), found


@given(NAME)
@example("Käfer's \"legs\" '' $HOME `x` \\")
def test_a_shell_makes_the_same_word_of_a_quoted_one(word):
    assert shlex.split(COMMAND.quote(word)) == [word]


@pytest.mark.parametrize("version", VERSIONS)
def test_windows_gets_quotes_and_doubled_percents(version):
    _, command = load(version)
    assert command.quote("C:\\100 % Käfer\\a&b.tif", True) == '"C:\\100 %% Käfer\\a&b.tif"'
    assert command.quote("C:\\", True) == '"C:\\\\"'


@pytest.mark.parametrize("version", VERSIONS)
def test_the_line_names_output_options_and_frames_in_order(version):
    runtime, command = load(version)
    frames = runtime.table("a b.tif", "-c.tif")
    line = command.line("all focus", frames, "o'ut.tif", "log", runtime.table(align=False, prefer="near"))
    words = ["all focus", "fuse", "-o", "o'ut.tif", "--no-align", "--prefer", "near", "--", "a b.tif", "-c.tif"]
    assert shlex.split(line) == [*words, ">", "log", "2>&1"]
    plain = command.line("allfocus", frames, "out.tif", "log", runtime.table(align=True))
    assert shlex.split(plain)[:5] == ["allfocus", "fuse", "-o", "out.tif", "--"]


@given(st.lists(st.from_regex(r"[a-c_]{0,3}[0-9]{0,3}[a-c]{0,2}[0-9]{0,2}", fullmatch=True), unique=True))
def test_names_come_in_the_order_of_folders_on_the_command_line(names):
    for name in names:
        for other in names:
            assert COMMAND.comes_before(name, other) == (natural_order(name) < natural_order(other)), (name, other)


def test_counting_is_by_value():
    for first, second in [("DSC9.NEF", "DSC10.NEF"), ("DSC10.NEF", "dsc100.nef"), ("a.tif", "DSC1.NEF")]:
        assert COMMAND.comes_before(first, second)
        assert not COMMAND.comes_before(second, first)


def test_a_result_has_a_name_that_no_file_has():
    taken = {"/p/DSC 1-DSC.2_allfocus.tif", "/p/DSC 1-DSC.2_allfocus_2.tif"}
    found = COMMAND.free_name("/p", "DSC 1.NEF", "DSC.2.NEF", "tif", lambda name: name in taken, "/")
    assert found == "/p/DSC 1-DSC.2_allfocus_3.tif"


def test_what_the_program_complained_about_is_told():
    said = "a notice\nallfocus: frames differ in size: a.tif is 3x4 (see allfocus fuse --help)\n"
    assert COMMAND.complaint(said, "allfocus") == "frames differ in size: a.tif is 3x4 (see allfocus fuse --help)"
    told = COMMAND.complaint("sh: 1: no-such: not found\n", "no-such")
    assert "not found" in told
    assert "'no-such'" in told
    assert "said nothing" in COMMAND.complaint("", "x")
