"""What some frame shows and the fused picture does not: how much, where, and the worst places at 100 %."""

import numpy as np

from allfocus.fusion.lost_detail import WARNING_ERASED, WARNING_SHARE, LostDetail, paint_lost_detail
from allfocus.fusion.lost_places import LostPlace
from allfocus.pages.html import build_table, escape
from allfocus.pages.pictures import Window, data_address
from allfocus.stack_report.contents import StackReport
from allfocus.stack_report.pictures import ReportedStack, read_window, shrink_frame

MAP_SIDE = 960
"""Pixels of the longer side of the map on the page."""
PLACE_SIDE = 256
"""Pixels of a close-up; more where a place is larger."""
MOST_PLACES = 4


def lost_section(report: StackReport, frames: ReportedStack, gain: np.float32) -> str:
    """The HTML about lost detail; empty where it was not measured.

    Args:
        report: What to tell.
        frames: On the grid of the fused picture.
        gain: By how much pictures are shown brighter.
    """
    lost = report.lost_detail
    if lost is None:
        return ""
    if not lost.places:
        return "<h2>Lost detail</h2><p>None: wherever a frame shows detail, the fused picture shows it too.</p>"
    closer = "".join(_close_up(report, frames, place, gain) for place in lost.places[:MOST_PLACES])
    return (
        f"<h2>Lost detail</h2>{_sentence(lost)}{_table(lost)}"
        f'<div class="maps gallery">{_map(report, lost)}</div>'
        '<h3>At 100 %, where most is lost</h3><p class="quiet">Beside the fused picture the frame that shows more.</p>'
        f'<div class="closeups">{closer}</div>'
    )


def _sentence(lost: LostDetail) -> str:
    kind = ' class="warning"' if lost.is_worth_a_warning else ""
    mended = f"<p>{lost.mending[:1].upper()}{lost.mending[1:]}.</p>" if lost.mended else ""
    return mended + (
        f"<p{kind}>In {_percent(lost.share)} of the picture less than half of the detail is left that some frame "
        f'shows; in {_percent(lost.erased)} less than a third.</p><p class="quiet">Worth a look above '
        f"{WARNING_SHARE:g} % of the one or {WARNING_ERASED:g} % of the other. Rings around transparent things that "
        "are out of focus can be taken for detail.</p>"
    )


def _percent(share: float) -> str:
    return f"{share:.2f} %" if share >= 0.01 or share == 0 else "less than 0.01 %"


def _table(lost: LostDetail) -> str:
    row = "".join(f"<td>{share:.2f} %</td>" for share in lost.bands.values())
    widths = [f"{2**band}&ndash;{2 ** (band + 1)} px" for band in lost.bands]
    return build_table(["Width of the detail", *widths], [f'<tr><th scope="row">lost</th>{row}</tr>'], label="Lost")


def _map(report: StackReport, lost: LostDetail) -> str:
    picture = paint_lost_detail(shrink_frame(report.image, MAP_SIDE), lost)
    height, width = picture.shape[:2]
    return (
        '<figure class="map"><button type="button" class="frame" data-label="Lost detail"><img alt="Lost detail map" '
        f'width="{width}" height="{height}" src="{data_address(picture, quality=85)}"></button>'
        "<figcaption>The fused picture in grey; a warm colour where detail is lost.</figcaption></figure>"
    )


def _close_up(report: StackReport, frames: ReportedStack, place: LostPlace, gain: np.float32) -> str:
    size = (int(report.image.shape[0]), int(report.image.shape[1]))
    rows, columns = place.window(size, side=min(PLACE_SIDE, *size))
    window: Window = (rows.start, columns.start, rows.stop - rows.start, columns.stop - columns.start)
    where = f"{place.left + place.width // 2}, {place.top + place.height // 2}"
    pictures = (
        (f"fused, around {where}: {100 * place.lost:.0f} % lost", read_window(report.image, window)),
        (f"{report.names[place.frame]} (frame {place.frame + 1})", read_window(frames[place.frame], window)),
    )
    figures = "".join(
        f'<figure><img alt="lost at {where}: {escape(name)}" width="{window[3]}" height="{window[2]}" '
        f'src="{data_address(pixels * gain, quality=90)}"><figcaption>{escape(name)}</figcaption></figure>'
        for name, pixels in pictures
    )
    return f'<div class="closeup">{figures}</div>'
