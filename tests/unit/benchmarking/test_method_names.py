"""Benchmarks that take a method tell a wrong name before they render anything."""

import re
import sys
from pathlib import Path

import pytest
from scripts import ROOT, load_script

FOLDER = ROOT / "benchmarks"


def takes_method(script: Path) -> bool:
    return re.search(r'add_argument\(\s*"--method"', script.read_text(encoding="utf-8")) is not None


SCRIPTS = sorted(script.name for script in FOLDER.glob("*.py") if takes_method(script))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_wrong_name_is_told_in_a_line_before_anything_is_done(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--method", "ipz"])
    script = load_script(FOLDER / name)
    with pytest.raises(SystemExit) as ended:
        script.main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.out == ""
    *usage, line = said.err.splitlines()
    assert line.startswith(f"{name}: error: argument --method: unknown method 'ipz'; did you mean 'ips'?")
    assert usage[0].startswith("usage: ")


def test_a_network_that_is_not_there_is_no_method(tmp_path):
    check = load_script("benchmarks/method_names.py").check_method
    with pytest.raises(Exception, match=r"own\.onnx: there is no such file"):
        check(str(tmp_path / "own.onnx"))
    (tmp_path / "own.onnx").touch()
    assert check(str(tmp_path / "own.onnx")) == str(tmp_path / "own.onnx")


def test_older_versions_take_every_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "allfocus.fusion.method_choice", None)
    assert load_script("benchmarks/method_names.py").check_method("ipz") == "ipz"
