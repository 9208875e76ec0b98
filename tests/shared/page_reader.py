"""What tests of pages that we write share: a reader that follows their tags."""

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "link", "hr", "input"}


class PageReader(HTMLParser):
    """Collects what a page refers to and shows, and checks that its tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        """Tags that are not closed yet."""
        self.addresses: list[str | None] = []
        """What pictures, scripts and links point to."""
        self.text: list[str] = []
        self.classes: list[str] = []
        self.alternatives: list[str | None] = []
        """What is said in place of each picture."""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name in ("src", "href"):
                self.addresses.append(value)
            if name == "class":
                self.classes += (value or "").split()
        if tag == "img":
            self.alternatives.append(dict(attributes).get("alt"))

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)
