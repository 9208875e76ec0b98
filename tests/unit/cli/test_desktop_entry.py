"""The entry of the desktop: what is written, and what is left alone."""

import configparser
import shutil
import subprocess
import sys

import pytest

from allfocus.cli.desktop_entry_command import quote
from allfocus.cli.main import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="desktop entries are of Linux")

ENTRY = "applications/allfocus.desktop"


@pytest.fixture
def share(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    return tmp_path / "share"


def test_the_entry_opens_files_and_projects(share, capsys):
    assert run(["desktop-entry"]) == 0
    assert run(["desktop-entry"]) == 0  # its own files may be replaced
    entry = configparser.ConfigParser(interpolation=None, strict=True)
    entry.optionxform = str
    entry.read(share / ENTRY)
    values = entry["Desktop Entry"]
    assert values["Exec"].endswith(" open %F")
    assert {"image/tiff", "application/vnd.allfocus+zip"} <= set(values["MimeType"].split(";"))
    assert 'pattern="*.allfocus"' in (share / "mime/packages/allfocus.xml").read_text()
    validate = shutil.which("desktop-file-validate")
    if validate:
        subprocess.run([validate, share / ENTRY], check=True)
    capsys.readouterr()


def test_a_file_that_somebody_else_made_is_not_replaced_unasked(share, capsys):
    (share / "applications").mkdir(parents=True)
    (share / ENTRY).write_text("[Desktop Entry]\nName=mine\n")
    assert run(["desktop-entry"]) != 0
    assert "--overwrite" in capsys.readouterr().err
    assert (share / ENTRY).read_text() == "[Desktop Entry]\nName=mine\n"
    assert not (share / "mime").exists()
    assert run(["desktop-entry", "--remove"]) == 0
    assert (share / ENTRY).exists()
    assert run(["desktop-entry", "--overwrite"]) == 0
    assert "open %F" in (share / ENTRY).read_text()
    assert run(["desktop-entry", "--remove"]) == 0
    assert [path for path in share.rglob("allfocus.*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("/usr/bin/allfocus", "/usr/bin/allfocus"),
        ("/a b/c", '"/a b/c"'),
        ("/100%/x", '"/100%%/x"'),
        ("/$x", '"/\\\\$x"'),
    ],
)
def test_paths_are_quoted_as_the_specification_wants(word, quoted):
    assert quote(word) == quoted


def test_a_setting_that_is_no_absolute_path_is_ignored(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert run(["desktop-entry"]) == 0
    assert (tmp_path / "home/.local/share" / ENTRY).is_file()
    assert not (tmp_path / "relative").exists()
    capsys.readouterr()
