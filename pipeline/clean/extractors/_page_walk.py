"""Read a page once: its block-level elements (frames) and the text between their boundaries (blocks).

The parser is lexbor, by selectolax; the tree is never changed. A frame's subtree covers the blocks `start` to `end`,
because both are listed in document order, so sums over subtrees are differences of cumulative sums.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from clozeline.pipeline.clean.extractors._class_hints import HINTS, find_hints

TAGS: Final = (
    "body", "div", "p", "li", "h1", "h2", "h3", "h4", "h5", "h6", "td", "th", "tr", "table", "ul", "ol", "dl", "dt",
    "dd", "pre", "blockquote", "figure", "figcaption", "section", "article", "main", "aside", "nav", "header", "footer",
    "form", "fieldset", "address", "details", "summary", "center", "caption", "thead", "tbody", "tfoot", "hgroup",
    "listing", "xmp", "menu", "search", "legend", "dir", "plaintext",
)  # fmt: skip
"""Block-level elements; the index is `Frames.tag`."""
TAG: Final = {name: index for index, name in enumerate(TAGS)}
ARTICLE_BODY: Final = 1 << HINTS.index("article_body")

# what to do at a node; larger numbers are block-level elements, `_FRAME` + index into `TAGS`
_INLINE, _SKIP, _LINK, _BREAK, _RULE, _MATH, _TEXT, _SCRIPT, _SPAN, _EMPHASIS, _FRAME = range(11)
_ACTIONS: Final = {
    **{name: _FRAME + index for index, name in enumerate(TAGS)},
    **dict.fromkeys(
        ("style", "noscript", "template", "svg", "iframe", "object", "embed", "canvas", "audio", "video", "map",
         "input", "select", "textarea", "button", "option", "datalist", "dialog", "head", "title", "link", "meta", "rt",
         "rp", "progress", "meter", "noembed", "noframes", "frameset", "-comment", "-doctype"),
        _SKIP,
    ),
    **dict.fromkeys(("b", "strong", "i", "em"), _EMPHASIS), **dict.fromkeys(("span", "mjx-math"), _SPAN),
    "a": _LINK, "br": _BREAK, "hr": _RULE, "math": _MATH, "-text": _TEXT, "script": _SCRIPT,
}  # fmt: skip
_INLINES: Final = frozenset((_INLINE, _LINK, _SPAN, _EMPHASIS))
_VERBATIM: Final = frozenset(_FRAME + TAG[name] for name in ("pre", "listing", "xmp", "plaintext"))
_STATIC_IDS: Final = 250  # the parser's ids of elements of the standard are smaller, those of others are addresses
_HIDDEN: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LINE_BREAK: Final = "\0"  # the parser lets no NUL into text
_actions_by_id: dict[int, int] = {}


@dataclass
class Page:
    """Parallel lists: of frames in document order, the first one is `body`; and of blocks in document order."""

    parent: list[int] = field(default_factory=list)
    """index of the frame around a frame; -1 for the first"""
    tag: list[int] = field(default_factory=list)
    """index into `TAGS`"""
    hints: list[int] = field(default_factory=list)
    """hint bits of a frame's own class, id and role"""
    signature: list[int] = field(default_factory=list)
    """equal for frames with equal tags and classes up to the root"""
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    """blocks of a frame's subtree"""
    texts: list[str] = field(default_factory=list)
    """text of a block, white space folded but for the lines of `pre` and of `br`; never empty"""
    frame: list[int] = field(default_factory=list)
    """innermost frame of a block"""
    link_characters: list[int] = field(default_factory=list)
    emphasized: list[int] = field(default_factory=list)
    """characters in links, and characters in bold or italic type"""
    links: list[int] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    nodes: int = 0
    """nodes visited: the work done"""

    def add_frame(self, parent: int, tag: int, hints: int, signature: int) -> int:
        """Add a frame that starts at the next block, and return its index."""
        self.parent.append(parent)
        self.tag.append(tag)
        self.hints.append(hints)
        self.signature.append(signature)
        self.start.append(len(self.texts))
        self.end.append(0)
        return len(self.parent) - 1


def read_page(html: str) -> Page:
    """Return frames and blocks of a page; without blocks if it has no visible text."""
    page = Page()
    body = LexborHTMLParser(html).body
    if body is not None:
        _walk(page, body, html)
    return page


def _walk(page: Page, body: LexborNode, html: str) -> None:
    """Visit each node once, with an explicit stack of the open elements and what to do at their ends."""
    by_id, parts, texts = _actions_by_id, _Parts(page), page.texts
    signatures: dict[tuple[int, int, str], int] = {}
    stack: list[tuple[LexborNode, int]] = []
    frame = page.add_frame(-1, 0, 0, 0)
    pieces = parts.pieces
    in_link = in_emphasis = verbatim = visited = 0
    after_break = False  # only white space since the last line break
    node = body.first_child
    while True:
        if node is None:  # the end of an element
            if not stack:
                break
            node, action = stack.pop()
            if action >= _FRAME:
                if pieces:
                    parts.end_block(frame, verbatim)
                    after_break = False
                if action in _VERBATIM:
                    verbatim -= 1
                page.end[frame] = len(texts)
                frame = page.parent[frame]
            elif action == _LINK:
                in_link -= 1
            elif action == _EMPHASIS:
                in_emphasis -= 1
            node = node.next
            continue
        visited += 1
        number = node.tag_id
        action = by_id.get(number, -1)
        if action < 0:
            action = _ACTIONS.get(node.tag or "-comment", _INLINE)
            if number < _STATIC_IDS:
                by_id[number] = action
        if action == _TEXT:
            text = node.text_content or ""
            if not text.isspace():
                pieces.append(text)
                after_break = False
                if in_link or in_emphasis:
                    size = len(text.strip())
                    parts.link_characters += size if in_link else 0
                    parts.emphasized += size if in_emphasis else 0
            elif pieces:
                pieces.append(text)
        elif action >= _FRAME:
            attributes = node.attributes
            if not attributes or not _is_hidden(attributes):
                if pieces:
                    parts.end_block(frame, verbatim)
                    after_break = False
                names = attributes.get("class") or ""
                hints = _hints_of(attributes, names) if attributes else 0
                key = (page.signature[frame], action, names)
                frame = page.add_frame(frame, action - _FRAME, hints, signatures.setdefault(key, len(signatures) + 1))
                if action in _VERBATIM:
                    verbatim += 1
                stack.append((node, action))
                node = node.first_child
                continue
        elif action in _INLINES:
            if action == _SPAN:
                attributes = node.attributes
                hidden = bool(attributes) and (_is_hidden(attributes) or _is_preview(attributes, html))
            else:
                hidden = False
            if not hidden:
                if action == _LINK:
                    in_link += 1
                    parts.links += 1
                elif action == _EMPHASIS:
                    in_emphasis += 1
                stack.append((node, action))
                node = node.first_child
                continue
        elif action == _BREAK:
            if pieces and after_break and not verbatim:
                parts.end_block(frame, verbatim)
                after_break = False
            elif pieces:
                pieces.append("\n" if verbatim else _LINE_BREAK)
                parts.breaks += 1
                after_break = True
        elif action == _RULE:
            if pieces:
                parts.end_block(frame, verbatim)
        elif action == _MATH:
            pieces.append(_formula(node))
        elif action == _SCRIPT and (node.attributes.get("type") or "").startswith("math/tex"):
            pieces.append(node.text())
        node = node.next
    if pieces:
        parts.end_block(frame, verbatim)
    page.end[frame] = len(texts)
    page.nodes = visited


class _Parts:
    """Text of the block that is being read."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.pieces: list[str] = []
        self.link_characters = self.emphasized = self.links = self.breaks = 0

    def end_block(self, frame: int, verbatim: int) -> None:
        """Fold the white space of the block and add it to the page, unless it is empty."""
        joined = "".join(self.pieces)
        self.pieces.clear()
        if verbatim:
            text = "\n".join(line.rstrip() for line in joined.splitlines()).strip("\n")
        elif self.breaks:
            text = "\n".join(" ".join(line.split()) for line in joined.split(_LINE_BREAK)).strip()
        else:
            text = " ".join(joined.split())
        if text:
            page = self._page
            page.texts.append(text)
            page.frame.append(frame)
            page.link_characters.append(min(self.link_characters, len(text)))
            page.emphasized.append(min(self.emphasized, len(text)))
            page.links.append(self.links)
            page.breaks.append(self.breaks)
        self.link_characters = self.emphasized = self.links = self.breaks = 0


def _hints_of(attributes: dict[str, str | None], names: str) -> int:
    identity = attributes.get("id")
    role = attributes.get("role")
    bits = find_hints(f"{names} {identity or ''} {role or ''}") if names or identity or role else 0
    if attributes.get("itemprop") == "articleBody":
        bits |= ARTICLE_BODY
    return bits


def _is_hidden(attributes: dict[str, str | None]) -> bool:
    """Return whether an element is not shown. A formula's text for screen readers counts as shown."""
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    style = attributes.get("style")
    return bool(style and _HIDDEN.search(style)) and "math" not in (attributes.get("class") or "")


def _is_preview(attributes: dict[str, str | None], html: str) -> bool:
    """Return whether an element is MathJax's picture of a formula whose TeX is in a script."""
    return (attributes.get("class") or "").startswith("MathJax") and "math/tex" in html


def _formula(node: LexborNode) -> str:
    """Return a formula's TeX: its annotation, or else its alternative text, or else the text of its MathML."""
    for annotation in node.css("annotation"):
        if "tex" in (annotation.attributes.get("encoding") or "").lower():
            return annotation.text().strip()
    return (node.attributes.get("alttext") or node.text(separator=" ")).strip()
