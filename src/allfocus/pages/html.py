"""Pages that need no other file and no network: the frame of a page, tables and lists.

Reports differ in what they tell; how they look, in light and dark and in narrow windows, is decided here and in
``page.css``. ``page.js`` adds what is pleasant but not needed: a choice of theme, and enlarging pictures.
"""

import html
import importlib.resources
from collections.abc import Mapping, Sequence


def build_page(
    title: str,
    *,
    byline: str,
    links: Mapping[str, str],
    body: str,
    footer: str,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    label: str = "Sections",
) -> str:
    """A whole page as text.

    A picture in ``<button class="frame" data-label="...">`` is enlarged by a click; the arrow keys then go on to the
    next one inside the same element of the class ``scene``.

    Args:
        title: Plain text, also the heading.
        byline: Plain text below the heading.
        links: Name of an element on the page -> plain text of the link to it, for the bar that stays on top.
        body: HTML.
        footer: HTML; can be linked to as ``origin``.
        styles: CSS beside that of all pages.
        scripts: JavaScript beside that of all pages.
        label: What screen readers call the bar of links.

    Example:
        >>> page = build_page("A < B", byline="by hand", links={"origin": "Origin"}, body="<p>hello</p>", footer="")
        >>> "<h1>A &lt; B</h1>" in page, "http" in page
        (True, False)
    """
    items = "".join(f'<li><a href="#{escape(name)}">{escape(text)}</a></li>' for name, text in links.items())
    style = "".join([read_asset("allfocus.pages", "page.css"), *styles])
    script = "\n".join([read_asset("allfocus.pages", "page.js"), *scripts])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<header><div class="inner"><h1>{escape(title)}</h1><p class="quiet">{escape(byline)}</p></div></header>
<nav aria-label="{escape(label)}"><ul>{items}
<li class="theme"><button id="theme" type="button" hidden>theme: auto</button></li></ul></nav>
<main>{body}</main>
<footer id="origin">{footer}</footer>
<dialog id="viewer"><img alt=""><p><span></span>
<button type="button" data-step="-1" aria-label="Previous">←</button>
<button type="button" data-step="1" aria-label="Next">→</button>
<button type="button" data-step="close">close</button></p></dialog>
<script>{script}</script>
</body>
</html>
"""


def read_asset(package: str, name: str) -> str:
    """The text of a style sheet or script that is installed beside the code of a package."""
    return (importlib.resources.files(package) / name).read_text(encoding="utf-8")


def escape(text: object) -> str:
    """The text with the characters that mean something in HTML replaced.

    Bytes of a file name that are no text become question marks; a page could not hold them.

    Example:
        >>> escape('A&B <x> "y"')
        'A&amp;B &lt;x&gt; &quot;y&quot;'
    """
    return html.escape(str(text)).encode(errors="replace").decode()


def build_table(header: Sequence[str], rows: Sequence[str], *, kind: str = "", label: str = "") -> str:
    """A table that scrolls by itself where the window is narrow.

    Args:
        header: HTML of each column's title.
        rows: HTML of each row, ``<tr>`` included.
        kind: Class of the table.
        label: What screen readers call it; plain text.
    """
    head = "".join(f'<th scope="col">{title}</th>' for title in header)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}"><table class="{kind}">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def build_list(entries: Mapping[str, object]) -> str:
    """Names and what they stand for, both plain text, as a list of two columns.

    Example:
        >>> build_list({"method": "ips"})
        '<dl><dt>method</dt><dd>ips</dd></dl>'
    """
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in entries.items())}</dl>"
