"""Promises of every page of a report, checked on the parsed page."""

from html.parser import HTMLParser

HOSTILE = '$\\q$ #000001 id="a" <b>&amp;\x00\ud800 <script>alert(\'x\')</script> " onload=x'
"""A text that breaks out wherever it is not escaped; it also looks like what the pictures are
rewritten by."""
_VOID = {"meta", "br", "path"}
_REFERENCES = {"href", "src", "xlink:href", "srcset", "action", "data", "poster"}


class ParsedPage(HTMLParser):
    """Tags, texts, table cells, descriptions of pictures, and mistakes of a page."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags = []
        self.texts = []
        self.cells = []
        self.pictures = []
        self.mistakes = []
        self._open = []
        self._scrolls = []
        self.feed(page)
        self.close()
        if self._open:
            self.mistakes.append(f"not closed: {self._open}")

    def handle_starttag(self, tag, attributes):
        facts = dict(attributes)
        self.tags.append((tag, facts))
        if tag == "table" and not any(self._scrolls):
            self.mistakes.append("a table without a box to scroll in")
        if self._open and self._open[-1] == "svg" and self.tags[-2][0] == "svg" and tag != "title":
            self.mistakes.append(f"a picture begins with {tag}, not with its title")
        self.mistakes += [f"{tag} refers to {facts[name]}" for name in _REFERENCES & facts.keys()]
        self.mistakes += [f"{tag} has {name}" for name in facts if name.startswith("on")]
        if any("url(" in (value or "") for value in facts.values()):
            self.mistakes.append(f"{tag} refers to a file in a style")
        if tag not in _VOID:
            self._open.append(tag)
            self._scrolls.append("scroll" in (facts.get("class") or "").split())

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if tag in _VOID:
            return
        if not self._open or self._open.pop() != tag:
            self.mistakes.append(f"</{tag}> closes another tag")
        self._scrolls.pop()

    def handle_data(self, data):
        if self._open and self._open[-1] != "style":
            self.texts.append(data)
        if self._open and self._open[-1] in ("td", "th"):
            self.cells.append(data)
        if self._open[-2:] == ["svg", "title"]:
            self.pictures.append(data)

    def count(self, tag):
        return sum(name == tag for name, _ in self.tags)


def checked(page):
    """Parse a page and check that it is well formed, refers to nothing and can be read aloud."""
    parsed = ParsedPage(page)

    assert parsed.mistakes == []
    assert parsed.count("script") == 0
    assert parsed.count("link") == 0
    assert "@import" not in page
    assert ("meta", {"name": "viewport", "content": "width=device-width"}) in parsed.tags
    assert "prefers-color-scheme:dark" in page

    return parsed
