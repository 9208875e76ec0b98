"""What a batch leaves to look at: a table of all stacks as CSV, and a contact sheet as one HTML page."""

import base64
import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path

from allfocus.batch.manifest import FUSED, StackRecord
from allfocus.batch.own_files import lost_thumbnail_path, thumbnail_path
from allfocus.images.writing import replace_file

SUMMARY_NAME = "summary.csv"
SHEET_NAME = "contact_sheet.html"
COLUMNS = (
    "stack",
    "status",
    "output",
    "frames",
    "left_out",
    "lost_percent",
    "lost_flag",
    "width",
    "height",
    "seconds",
    "processor_seconds",
    "worker",
    "error",
    "notices",
)

STYLE = """
.cards figure { margin: 0; } .cards img { width: 100%; height: auto; }
.failed-stack { border: 1px solid var(--line); border-left: 4px solid #c0392b; border-radius: 5px; }
.lost { color: #c0392b; }
.failed-stack { padding: .5rem .8rem; overflow-wrap: anywhere; }
"""


def write_summary(folder: Path, rows: Sequence[StackRecord]) -> Path:
    """The path of the CSV file, which has one row for each stack; left alone when nothing has changed."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in rows:
        values = {**vars(row), "frames": len(row.inputs), "notices": "; ".join(row.notices)}
        values["lost_flag"] = "yes" if row.lost_flag else ""
        writer.writerow([_plain(values[column]) for column in COLUMNS])
    path = folder / SUMMARY_NAME
    _write_if_changed(path, text.getvalue().encode("utf-8", "backslashreplace"))
    return path


def _plain(value: object) -> object:
    """A cell that a spreadsheet does not take for a formula, whatever files are called."""
    if not isinstance(value, str):
        return value
    # Spreadsheets pass over blanks and control characters before they look for a formula.
    begins = value.lstrip("".join(map(chr, range(33))) + "\x7f\xa0\ufeff")[:1]
    dangerous = begins in ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20") or value[:1] in ("\t", "\r")
    return f"'{value}" if begins and dangerous else value


def write_contact_sheet(folder: Path, rows: Sequence[StackRecord], *, title: str) -> Path:
    """The path of the page, which shows every result small, with those that failed first.

    The page holds the small pictures itself and links to the large ones beside it.
    """
    # Imported here because a run that finds nothing to do should cost nothing.
    from allfocus.pages.html import build_page

    failed = [row for row in rows if row.status != FUSED]
    fused = [row for row in rows if row.status == FUSED]
    parts = []
    if failed:
        parts.append('<section id="failed"><h2>Failed</h2>' + "".join(map(_failure, failed)) + "</section>")
    cards = "".join(_card(folder, row) for row in fused)
    parts.append(
        f'<section id="fused"><h2>Fused</h2><div class="scene"><div class="cards">{cards}</div></div></section>'
    )
    page = build_page(
        title,
        byline=f"{len(fused)} of {len(rows)} stacks fused" + (f", {len(failed)} failed" if failed else ""),
        links=({"failed": f"Failed ({len(failed)})"} if failed else {}) | {"fused": f"Fused ({len(fused)})"},
        body="".join(parts),
        footer=f"<p>Made by allfocus batch. All figures: <code>{SUMMARY_NAME}</code></p>",
        styles=[STYLE],
    )
    path = folder / SHEET_NAME
    _write_if_changed(path, page.encode("utf-8", "backslashreplace"))
    return path


def _card(folder: Path, row: StackRecord) -> str:
    from urllib.parse import quote

    from allfocus.pages.html import escape

    name = escape(row.stack)
    thumbnail = thumbnail_path(folder, row.stack)
    picture = _embed(thumbnail, name)
    size = f"{row.width}&#215;{row.height}, {len(row.inputs)} frames, {row.seconds:.1f} s"
    left_out = f", {row.left_out} left out" if row.left_out else ""
    return (
        f'<figure><button class="frame" type="button" data-label="{name}">{picture}</button>'
        f'<figcaption><a href="{escape(quote(os.fsencode(row.output)))}">{name}</a><br>'
        f'<span class="quiet">{size}{left_out}</span>{_lost(folder, row)}</figcaption></figure>'
    )


def _lost(folder: Path, row: StackRecord) -> str:
    """What a stack that is worth a look lost: how much, and the worst place beside the frame that shows more."""
    from allfocus.pages.html import escape

    if not row.lost_flag:
        return ""
    label = f"{escape(row.stack)}: lost detail, the result and the frame that shows more"
    picture = _embed(lost_thumbnail_path(folder, row.stack), label)
    button = f'<button class="frame" type="button" data-label="{label}">{picture}</button>' if picture else ""
    return f'<br><span class="lost">detail lost in {row.lost_percent:.2g} % of the picture</span>{button}'


def _embed(thumbnail: Path, label: str) -> str:
    """A small picture inside the page; empty where there is none."""
    if not thumbnail.is_file():
        return ""
    data = base64.b64encode(thumbnail.read_bytes()).decode("ascii")
    return f'<img loading="lazy" alt="{label}" src="data:image/webp;base64,{data}">'


def _failure(row: StackRecord) -> str:
    from allfocus.pages.html import escape

    return f'<p class="failed-stack"><strong>{escape(row.stack)}</strong><br>{escape(row.error)}</p>'


def _write_if_changed(path: Path, data: bytes) -> None:
    try:
        if path.read_bytes() == data:
            return
    except OSError:
        pass
    replace_file(path, data, overwrite=True)
