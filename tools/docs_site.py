"""Builds the documentation as a site, one folder for each version, and lists the versions for their switcher.

    python tools/docs_site.py SITE                    builds this version into SITE/VERSION; a warning is an error
    python tools/docs_site.py SITE --base /allfocus/  the same for a site that will lie at that path of its host

Versions that lie in SITE already are kept and listed, so publishing is: fetch the published folder, build into it, put
it back. `SITE/index.html` leads to the newest.
"""

import argparse
import html
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from packaging.version import InvalidVersion, Version

from allfocus.version import __version__

ROOT = Path(__file__).resolve().parents[1]


def build_version(site: Path, version: str, *, pages: Path = ROOT / "docs") -> Path:
    """Builds the pages of this checkout; returns their folder. What was there of that version is replaced whole."""
    folder, fresh = site / version, site / f".{version}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    words = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "--fresh-env"]
    words += ["--builder", "html", "--doctree-dir", str(fresh / ".doctrees"), str(pages), str(fresh)]
    try:
        subprocess.run(words, check=True, env={**os.environ, "ALLFOCUS_DOCS_VERSION": version})
        shutil.rmtree(fresh / ".doctrees")
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def find_versions(site: Path) -> list[str]:
    """Returns the versions that lie in a site, the newest first."""
    found = []
    for page in site.glob("*/index.html"):
        try:
            found.append(Version(page.parent.name))
        except InvalidVersion:
            continue
    return [str(version) for version in sorted(found, reverse=True)]


def list_versions(site: Path, base: str) -> None:
    """Writes the list that the switcher of every version reads, and the page that leads to the newest."""
    versions = find_versions(site)
    entries = [
        {"name": version, "version": version, "url": f"{base}{version}/", "preferred": number == 0}
        for number, version in enumerate(versions)
    ]
    (site / "versions.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    newest = html.escape(f"{versions[0]}/")
    page = '<!doctype html><html lang="en"><meta charset="utf-8"><title>allfocus</title>'
    page += f'<meta http-equiv="refresh" content="0; url={newest}"><a href="{newest}">allfocus {newest}</a></html>\n'
    (site / "index.html").write_text(page, encoding="utf-8")


def main() -> None:
    """Builds, and lists what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path, help="the folder of all versions")
    parser.add_argument("--base", default="/", help="the path of the site on its host; begins and ends with /")
    arguments = parser.parse_args()
    if not (arguments.base.startswith("/") and arguments.base.endswith("/")):
        parser.error("--base begins and ends with /")
    arguments.site.mkdir(parents=True, exist_ok=True)
    try:
        folder = build_version(arguments.site, str(Version(__version__)))
    except subprocess.CalledProcessError as error:
        sys.exit(f"the site was not built: Sphinx ended with {error.returncode}")
    list_versions(arguments.site, arguments.base)
    print(f"{folder / 'index.html'}; versions: {', '.join(find_versions(arguments.site))}")


if __name__ == "__main__":
    main()
