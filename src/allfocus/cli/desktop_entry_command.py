"""``allfocus desktop-entry``: allfocus in the menus of the desktop, and as a program that opens pictures."""

import os
import sys
from pathlib import Path

import click

from allfocus.cli.printing import echo, overwrite_option
from allfocus.errors import InputError

MADE = "Made by allfocus desktop-entry"
"""What marks files that may be replaced and removed."""

PROJECT_TYPE = "application/vnd.allfocus+zip"
PICTURE_TYPES = (
    *("image/tiff", "image/png", "image/jpeg", "image/webp", "image/bmp", "image/heif"),
    *("image/x-adobe-dng", "image/x-canon-cr2", "image/x-canon-cr3", "image/x-nikon-nef", "image/x-sony-arw"),
    *("image/x-fuji-raf", "image/x-panasonic-rw2", "image/x-olympus-orf", "image/x-pentax-pef"),
)


@click.command("desktop-entry", short_help="Add allfocus to the menus of the desktop (Linux).")
@click.option("--remove", is_flag=True, help="Take it out again.")
@overwrite_option
def desktop_entry(remove: bool, overwrite: bool) -> None:
    """Install a .desktop file for the present user, with the type of project files (.allfocus) and an icon.

    File managers then offer allfocus for pictures and folders, and open projects with it; so can whatever exports
    pictures to "another program", such as darktable or Lightroom. Files that this command did not make are not replaced
    without --overwrite.
    """
    from allfocus.files.placing import made_folder, replace_file
    from allfocus.files.protection import existing_file

    if sys.platform != "linux":
        raise InputError("desktop entries are of Linux; make a shortcut to: allfocus open FILES...")
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not base.is_absolute():  # such a setting is to be ignored, says the specification
        base = Path.home() / ".local/share"
    files = describe_files(base)
    if remove:
        for path in files:
            if path.is_file() and not path.is_symlink() and _is_ours(path):
                path.unlink()
                echo(f"removed {path}")
    else:
        strangers = [path for path in files if os.path.lexists(path) and not (path.is_file() and _is_ours(path))]
        if strangers and not overwrite:
            raise existing_file(strangers[0])
        for path, text in files.items():
            with made_folder(path.parent):
                replace_file(path, text.encode(), overwrite=True)
            echo(path)
    _refresh(base)


def describe_files(base: Path) -> dict[Path, str]:
    """Every file that makes the entry, with its content.

    Args:
        base: The user's folder for data of programs.
    """
    entry = "\n".join(
        [
            "[Desktop Entry]",
            f"# {MADE}",
            "Type=Application",
            "Name=allfocus",
            "GenericName=Focus stacking",
            "Comment=One sharp picture from a stack of partly focused ones",
            f"Exec={command()} open %F",
            "Icon=allfocus",
            "Terminal=false",
            "StartupNotify=true",
            "Categories=Graphics;Photography;Science;",
            "Keywords=focus;stack;macro;microscope;",
            f"MimeType={';'.join((PROJECT_TYPE, *PICTURE_TYPES, 'inode/directory'))};",
            "",
        ]
    )
    kind = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<!-- {MADE} -->\n'
        '<mime-info xmlns="http://www.freedesktop.org/standards/shared-mime-info">\n'
        f'  <mime-type type="{PROJECT_TYPE}">\n    <comment>allfocus project</comment>\n'
        '    <sub-class-of type="application/zip"/>\n    <glob pattern="*.allfocus"/>\n  </mime-type>\n</mime-info>\n'
    )
    drawing = (Path(__file__).parents[1] / "web" / "static" / "icon.svg").read_text(encoding="utf-8")
    return {
        base / "applications" / "allfocus.desktop": entry,
        base / "mime" / "packages" / "allfocus.xml": kind,
        base / "icons" / "hicolor" / "scalable" / "apps" / "allfocus.svg": f"{drawing.rstrip()}\n<!-- {MADE} -->\n",
    }


def command() -> str:
    """How this installation is called, quoted as desktop entries want it."""
    script = Path(sys.executable).with_name("allfocus")
    words = [str(script)] if script.is_file() else [sys.executable, "-m", "allfocus.cli"]
    return " ".join(map(quote, words))


def quote(word: str) -> str:
    r"""A word of an Exec line: by the rules of the specification, first for the command, then for the file.

    Example:
        >>> quote("/opt/my tools/$x/allfocus"), quote("/usr/bin/allfocus")
        ('"/opt/my tools/\\\\$x/allfocus"', '/usr/bin/allfocus')
    """
    if not set(word) & set(" \t\n\"'\\><~|&;$*?#()`%"):
        return word
    inner = "".join(f"\\{letter}" if letter in '"`$\\' else letter for letter in word).replace("%", "%%")
    escaped = inner.replace("\\", "\\\\")
    return f'"{escaped}"'


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return MADE.encode() in file.read(1_000_000)


def _refresh(base: Path) -> None:
    """Have the desktop read its lists anew, where it has programs for that."""
    import shutil
    import subprocess

    for program, folder in (("update-desktop-database", "applications"), ("update-mime-database", "mime")):
        found = shutil.which(program)
        if found and (base / folder).is_dir():
            subprocess.run([found, str(base / folder)], check=False, capture_output=True, timeout=60)
