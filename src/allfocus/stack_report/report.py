"""The report of one fused stack: one HTML page with frames, alignment, decisions, depth, lost detail and times.

The page needs no other file and no network. It is built while the aligned frames are still at hand::

    with FrameSpool(...) as spool:
        ...
        write_stack_report(StackReport(image=result.image, names=names, ...), "report.html", frames=spool)
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import OutputError
from allfocus.fusion.depth import colour_depth
from allfocus.images.writing import check_output, replace_file
from allfocus.pages.html import build_list, build_page, build_table, escape, read_asset
from allfocus.pages.pictures import Pixels, Window, common_scale, data_address, draw_windows, heat_picture
from allfocus.stack_report.alignment_section import alignment_lines, alignment_section
from allfocus.stack_report.contents import StackReport, check_contents
from allfocus.stack_report.lost_section import lost_section
from allfocus.stack_report.pictures import (
    ReportedStack,
    choose_gain,
    choose_windows,
    frame_colours,
    paint_decision,
    read_window,
    reduce_difference,
    share_of_frames,
    shrink_frame,
)
from allfocus.version import __version__

FUSED_SIDE = 1600
"""Pixels of the longer side of the fused picture on the page."""
MAP_SIDE = 960
"""Pixels of the longer side of decision map, depth and confidence."""
DIFFERENCE_SIDE = 480
CLOSE_UP_SIDE = 256
"""Pixels; less in small pictures, of which a close-up would show nearly all."""
CLOSE_UP_FRAMES = 3
"""Frames shown beside the fused picture in a close-up: those that gave most of it."""
MOST_COLOURS = 24
"""Frames up to which all colours of the decision map are listed; of longer stacks those that gave a pixel."""
MOST_DIFFERENCES = 8
"""Frames whose difference from the fused picture is shown; of longer stacks evenly chosen ones."""


def write_stack_report(
    report: StackReport,
    path: str | os.PathLike[str],
    *,
    frames: ReportedStack,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """The path of the page, which now holds the report.

    Args:
        report: What to tell.
        path: Where to; ends in .html or .htm. See :func:`check_report_path` for a check before the long work.
        frames: The frames on the grid of the fused picture, of its size and in the order of ``report.names``: float32
            arrays in 0..1, or the spool they were fused from. They are read in bands, so memory does not grow.
        overwrite: Replace an existing file.
        progress: Called with frames done and frames in all.

    Raises:
        InputError: frames, names and picture do not fit together.
        OutputError: the file exists or cannot be written.

    Example:
        >>> import tempfile
        >>> import allfocus
        >>> scene = allfocus.render_scene("desk", frames=3, size=(64, 80))
        >>> result = allfocus.fuse(scene.frames)
        >>> report = StackReport(result.image, ("a.png", "b.png", "c.png"), decision=result.decision)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = write_stack_report(report, folder + "/report.html", frames=scene.frames)
        ...     page.read_text().startswith("<!doctype html>")
        True
    """
    check_report_path(path, overwrite=overwrite)
    page = build_stack_report(report, frames=frames, progress=progress)
    replace_file(Path(path), page.encode(), overwrite=overwrite)
    return Path(path)


def check_report_path(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Raise OutputError when no report could be written there: meant to be asked before the long work begins."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"{path}: a report is a page; give it a name that ends in .html")
    check_output(path, overwrite=overwrite, picture=False)


def build_stack_report(
    report: StackReport, *, frames: ReportedStack, progress: Callable[[int, int], None] | None = None
) -> str:
    """The page as text; for the arguments see :func:`write_stack_report`."""
    check_contents(report, frames)
    shown = _evenly_chosen(len(report.names), MOST_DIFFERENCES)
    side = 480 if len(frames) <= 16 else 320 if len(frames) <= 60 else 200
    thumbnails: list[str] = []
    differences: dict[int, NDArray[np.float32]] = {}
    gain = choose_gain(shrink_frame(report.image, DIFFERENCE_SIDE))
    for index in range(len(frames)):
        thumbnails.append(data_address(shrink_frame(frames[index], side) * gain, quality=72))
        if index in shown:
            differences[index] = reduce_difference(report.image, frames[index], DIFFERENCE_SIDE) * gain
        if progress is not None:
            progress(index + 1, len(frames))
    interest = np.asarray(np.mean(list(differences.values()), axis=0), np.float32)
    windows = choose_windows(interest, report.decision, report.image.shape[:2], side=_close_up_side(report), count=3)
    shares = None if report.decision is None else share_of_frames(report.decision, len(frames))
    sections = {
        "picture": ("Picture", _picture_section(report, frames, windows, gain)),
        "frames": ("Frames", _frames_section(report, thumbnails, shares)),
        "lost": ("Lost detail", lost_section(report, frames, gain)),
        "alignment": ("Alignment", alignment_section(report.alignment, report.names)),
        "maps": ("Maps", _maps_section(report, shares)),
        "differences": ("Differences", _differences_section(report, differences)),
        "settings": ("Settings and times", _settings_section(report)),
    }
    body = "".join(f'<section id="{name}">{text}</section>' for name, (_, text) in sections.items() if text)
    links = {name: title for name, (title, text) in sections.items() if text}
    return build_page(
        _title(report),
        byline=_byline(report),
        links=links,
        body=_left_out(report) + body,
        footer=f"<h3>Origin</h3>{build_list(_origin(report))}",
        styles=[read_asset("allfocus.stack_report", "report.css")],
    )


def _evenly_chosen(count: int, most: int) -> list[int]:
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, most))})


def _close_up_side(report: StackReport) -> int:
    return min(CLOSE_UP_SIDE, max(96, int(min(report.image.shape[:2])) // 3))


# --- sections -------------------------------------------------------------------------------------------------------


def _title(report: StackReport) -> str:
    name = Path(report.output).name if report.output else "A fused stack"
    return f"{name}: sharp from {len(report.names)} frames"


def _byline(report: StackReport) -> str:
    height, width = report.image.shape[:2]
    method = f"method {report.settings['method']}, " if "method" in report.settings else ""
    first, last = report.names[0], report.names[-1]
    return f"{first} to {last}, {width} x {height} pixels, {method}allfocus {__version__}"


def _left_out(report: StackReport) -> str:
    if not report.left_out:
        return ""
    items = "".join(f"<li><b>{escape(name)}</b>: {escape(why)}</li>" for name, why in report.left_out.items())
    several = "frames were" if len(report.left_out) > 1 else "frame was"
    return (
        f'<div class="alert" role="alert"><strong>{len(report.left_out)} {several} left out.</strong>'
        f"<ul>{items}</ul></div>"
    )


def _picture_section(report: StackReport, frames: ReportedStack, windows: list[Window], gain: np.float32) -> str:
    height, width = report.image.shape[:2]
    picture = shrink_frame(report.image, FUSED_SIDE) * gain
    figures = {
        f"{width * height / 1e6:.1f} megapixels": f"{width} x {height}",
        "frames fused": str(len(report.names)),
        "seconds in all": f"{sum(report.seconds.values()):.1f}" if report.seconds else "",
        "least confidence of alignment": (
            f"{min(report.alignment.confidences):.2f}" if report.alignment and report.alignment.measured else ""
        ),
    }
    cells = "".join(f"<li><b>{escape(text)}</b><span>{name}</span></li>" for name, text in figures.items() if text)
    notes = [note for note in report.notices if not note.startswith("left out ")]
    if gain > 1:
        notes.append(f"the files are dark: pictures and differences on this page are shown {gain:.3g} times brighter")
    listed = "".join(f"<li>{escape(note[:1].upper() + note[1:])}</li>" for note in notes)
    closer = "".join(_close_up(report, frames, window, number, gain) for number, window in enumerate(windows, start=1))
    return f"""<h2>Picture</h2><ul class="figures">{cells}</ul>
{f'<ul class="notes quiet">{listed}</ul>' if listed else ""}
<figure class="main-picture gallery" style="--ratio:{width / height:.3f}">
<button type="button" class="frame" data-label="fused picture">
<img alt="The fused picture" width="{width}" height="{height}" src="{data_address(picture, quality=82)}">
{draw_windows(windows, (height, width))}</button></figure>
<h3>At 100 %, where the choice of the frame changes</h3>
<p class="quiet">Each outline above, pixel by pixel: the fused picture, and the frames that gave most of it.</p>
<div class="closeups">{closer}</div>"""


def _close_up(report: StackReport, frames: ReportedStack, window: Window, number: int, gain: np.float32) -> str:
    top, left, height, width = window
    if report.decision is None:
        chosen = [0, len(frames) - 1]
    else:
        part = report.decision[top : top + height, left : left + width]
        shares = share_of_frames(part, len(frames))
        most = np.argsort(-shares, kind="stable")[:CLOSE_UP_FRAMES]
        chosen = [int(index) for place, index in enumerate(most) if place < 2 or shares[index] > 0.02]
    pictures = [("fused", read_window(report.image, window))]
    pictures += [(report.names[index], read_window(frames[index], window)) for index in sorted(chosen)]
    figures = "".join(
        f'<figure><img alt="close-up {number} of {escape(name)}" width="{width}" height="{height}" '
        f'src="{data_address(pixels * gain, quality=90)}"><figcaption>{escape(name)}</figcaption></figure>'
        for name, pixels in pictures
    )
    return f'<div class="closeup">{figures}</div>'


def _frames_section(report: StackReport, thumbnails: list[str], shares: NDArray[np.float64] | None) -> str:
    colours = _css_colours(len(report.names))
    height, width = report.image.shape[:2]
    cards = []
    for index, (name, thumbnail) in enumerate(zip(report.names, thumbnails, strict=True)):
        share = ""
        if shares is not None:
            filled = f'<i style="width:{100 * shares[index]:.2f}%"></i>' if shares[index] else ""
            bar = f'<span class="share">{filled}</span>'
            share = f"{_percent(shares[index])} of the picture{bar}"
        lines = "<br>".join(alignment_lines(report.alignment, index))
        is_reference = report.alignment is not None and index == report.alignment.reference
        tag = '<span class="tag">reference</span>' if is_reference else ""
        cards.append(
            f'<figure class="card" style="--own:{colours[index]}"><button type="button" class="frame" '
            f'data-label="{index + 1}: {escape(name)}"><img alt="{escape(name)}" width="{width}" '
            f'height="{height}" src="{thumbnail}"></button>'
            f"<figcaption><b>{index + 1}. {escape(name)}</b>{tag}<br>{share}{lines}</figcaption></figure>"
        )
    explain = "As they were fused, in the order of the stack. Click one to enlarge it; the arrow keys go on."
    blended = "" if shares is not None else " This method blends all frames and has no share of each."
    return (
        f"""<h2>Frames</h2><p class="quiet">{explain}{blended}</p><div class="frames gallery">{"".join(cards)}</div>"""
    )


def _maps_section(report: StackReport, shares: NDArray[np.float64] | None) -> str:
    count = len(report.names)
    maps = []
    if report.decision is not None:
        picture = paint_decision(report.decision, count, MAP_SIDE)
        maps.append(("Decision", picture, "The colour is the frame that each pixel came from; grey is a mixture."))
    if report.depth is not None:
        picture = colour_depth(shrink_frame(report.depth, MAP_SIDE)[..., 0])
        caption = f"{escape(report.names[0])} {_ramp()} {escape(report.names[-1])}: where in the stack it is sharp."
        maps.append(("Depth", picture, caption))
    if report.confidence is not None:
        picture = heat_picture(shrink_frame(report.confidence, MAP_SIDE)[..., 0], largest=1.0)
        caption = 'a guess <span class="scale"></span> sure. Dark areas have too little texture to tell their depth.'
        maps.append(("Confidence of the depth", picture, caption))
    if not maps:
        return ""
    figures = "".join(_map(title, picture, caption) for title, picture, caption in maps)
    legend = ""
    if shares is not None:
        colours = _css_colours(count)
        entries = "".join(
            f'<li style="--own:{colours[index]}"><i></i>{index + 1}. {escape(name)} {_percent(shares[index])}</li>'
            for index, name in enumerate(report.names)
            if count <= MOST_COLOURS or shares[index] > 0
        )
        legend = f'<ul class="legend" aria-label="Colours of the frames">{entries}</ul>'
    return f'<h2>Maps</h2><div class="maps gallery">{figures}</div>{legend}'


def _map(title: str, picture: Pixels, caption: str) -> str:
    height, width = picture.shape[:2]
    return (
        f'<figure class="map"><h3>{title}</h3><button type="button" class="frame" data-label="{title}"><img '
        f'alt="{title} map" width="{width}" height="{height}" src="{data_address(picture, quality=88)}"></button>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _differences_section(report: StackReport, differences: Mapping[int, NDArray[np.float32]]) -> str:
    largest = common_scale(list(differences.values()))
    cards = "".join(
        f'<figure class="card"><button type="button" class="frame" '
        f'data-label="fused minus {escape(report.names[index])}">'
        f'<img alt="difference from {escape(report.names[index])}" width="{values.shape[1]}" '
        f'height="{values.shape[0]}" src="{data_address(heat_picture(values, largest=largest), quality=72)}"></button>'
        f"<figcaption><b>{index + 1}. {escape(report.names[index])}</b></figcaption></figure>"
        for index, values in differences.items()
    )
    some = "" if len(differences) == len(report.names) else f" {len(differences)} of {len(report.names)} frames."
    return (
        f'<h2>Differences</h2><p class="quiet">The fused picture less each frame, 0 <span class="scale"></span> '
        f"{round(255 * largest)} of 255 levels and more. Black is what was taken from that frame, or what all frames "
        f'show alike.{some}</p><div class="cards gallery">{cards}</div>'
    )


def _settings_section(report: StackReport) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name.replace("_", " "))}</th><td>{escape(_value(value))}</td></tr>'
        for name, value in report.settings.items()
    )
    table = build_table(["Option", "Value"], [rows], kind="settings", label="Settings") if rows else ""
    command = f"<h3>The same again</h3><pre><code>{escape(report.command)}</code></pre>" if report.command else ""
    longest = max(report.seconds.values(), default=0) or 1
    bars = "".join(
        f'<span>{escape(step)}</span><i style="width:{100 * seconds / longest:.1f}%"></i><span>{seconds:.1f} s</span>'
        for step, seconds in report.seconds.items()
    )
    times = f'<h3>Where the time went</h3><div class="bars">{bars}</div>' if bars else ""
    return f"<h2>Settings and times</h2>{table}{command}{times}" if table or command or times else ""


# --- words and colours ----------------------------------------------------------------------------------------------


def _origin(report: StackReport) -> dict[str, str]:
    entries = {"made by": f"allfocus {__version__}", **report.origin}
    return {name: _value(value) for name, value in entries.items() if value not in (None, "", (), [])}


def _value(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _percent(share: float) -> str:
    return "0 %" if share == 0 else "below 0.1 %" if share < 0.001 else f"{100 * share:.1f} %"


def _css_colours(count: int) -> list[str]:
    return [_css(colour) for colour in frame_colours(count)]


def _css(colour: NDArray[np.float32]) -> str:
    return "#" + "".join(f"{round(255 * float(channel)):02x}" for channel in colour)


def _ramp() -> str:
    stops = ", ".join(_css_colours(9))
    return f'<span class="ramp" style="background:linear-gradient(90deg, {stops})"></span>'
