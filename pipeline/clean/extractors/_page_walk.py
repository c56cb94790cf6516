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

_INLINE, _SKIP, _BLOCK, _LINK, _BREAK, _RULE, _MATH, _TEXT, _SCRIPT, _SPAN, _EMPHASIS = range(11)
_ACTIONS: Final = {
    **dict.fromkeys(TAGS, _BLOCK),
    **dict.fromkeys(
        ("style", "noscript", "template", "svg", "iframe", "object", "embed", "canvas", "audio", "video", "map", "input",
         "select", "textarea", "button", "option", "datalist", "dialog", "head", "title", "link", "meta", "rt", "rp",
         "progress", "meter", "noembed", "noframes", "frameset", "-comment", "-doctype"),
        _SKIP,
    ),
    "a": _LINK, "br": _BREAK, "hr": _RULE, "math": _MATH, "-text": _TEXT, "script": _SCRIPT, "span": _SPAN,
    "mjx-math": _SPAN, **dict.fromkeys(("b", "strong", "i", "em"), _EMPHASIS),
}  # fmt: skip
_VERBATIM: Final = frozenset({TAG["pre"], TAG["listing"], TAG["xmp"], TAG["plaintext"]})
_STATIC_IDS: Final = 250  # the parser's ids of elements of the standard are smaller, those of others are addresses
_HIDDEN: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LINE_BREAK: Final = "\0"  # the parser lets no NUL into text
_by_id: dict[int, int] = {}


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


def read_page(html: str) -> Page:
    """Return frames and blocks of a page; without blocks if it has no visible text."""
    page = Page()
    body = LexborHTMLParser(html).body
    if body is not None:
        _Walk(page, "math/tex" in html).walk(body)
    return page


class _Walk:
    def __init__(self, page: Page, has_tex: bool) -> None:
        self._page = page
        self._has_tex = has_tex
        self._parts: list[str] = []
        self._link_characters = self._emphasized = self._links = self._breaks = 0

    def walk(self, body: LexborNode) -> None:
        """Visit each node once, with an explicit stack; leaving an element runs what its entry pushed."""
        page, parts, by_id = self._page, self._parts, _by_id
        parents, tags, hints, signatures = page.parent, page.tag, page.hints, page.signature
        starts, ends, texts = page.start, page.end, page.texts
        numbers: dict[tuple[int, int, str], int] = {}
        parents.append(-1), tags.append(0), hints.append(0), signatures.append(0), starts.append(0), ends.append(0)
        stack: list[tuple[LexborNode, int]] = []  # an open element, and what to do at its end
        frame = in_link = in_emphasis = visited = verbatim = 0
        after_break = False
        node = body.first_child
        while True:
            if node is None:
                if not stack:
                    break
                node, action = stack.pop()
                if action == _BLOCK:
                    if parts:
                        self._flush(frame, verbatim)
                        after_break = False
                    verbatim -= tags[frame] in _VERBATIM
                    ends[frame] = len(texts)
                    frame = parents[frame]
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
                if text.isspace():
                    if parts:
                        parts.append(text)
                else:
                    parts.append(text)
                    after_break = False
                    if in_link:
                        self._link_characters += len(text.strip())
                    if in_emphasis:
                        self._emphasized += len(text.strip())
                node = node.next
                continue
            if action == _BLOCK:
                attributes = node.attributes
                if attributes and _is_hidden(attributes):
                    node = node.next
                    continue
                if parts:
                    self._flush(frame, verbatim)
                    after_break = False
                tag = TAG[node.tag or "div"]
                names = attributes.get("class") or ""
                key = (signatures[frame], tag, names)
                parents.append(frame), tags.append(tag), starts.append(len(texts)), ends.append(0)
                signatures.append(numbers.setdefault(key, len(numbers) + 1))
                hints.append(_hints_of(attributes, names) if attributes else 0)
                frame = len(parents) - 1
                verbatim += tag in _VERBATIM
                stack.append((node, _BLOCK))
                node = node.first_child
            elif action == _INLINE:
                stack.append((node, _INLINE))
                node = node.first_child
            elif action == _LINK:
                in_link += 1
                self._links += 1
                stack.append((node, _LINK))
                node = node.first_child
            elif action == _EMPHASIS:
                in_emphasis += 1
                stack.append((node, _EMPHASIS))
                node = node.first_child
            elif action == _SPAN:
                attributes = node.attributes
                if attributes and (_is_hidden(attributes) or (self._has_tex and _is_preview(attributes))):
                    node = node.next
                    continue
                stack.append((node, _INLINE))
                node = node.first_child
            elif action == _BREAK:
                if after_break and parts and not verbatim:
                    self._flush(frame, verbatim)
                    after_break = False
                elif parts:
                    parts.append("\n" if verbatim else _LINE_BREAK)
                    self._breaks += 1
                    after_break = True
                node = node.next
            elif action == _RULE:
                if parts:
                    self._flush(frame, verbatim)
                node = node.next
            else:
                if action == _MATH:
                    parts.append(_formula(node))
                elif action == _SCRIPT and self._has_tex and (node.attributes.get("type") or "").startswith("math/tex"):
                    parts.append(node.text())
                node = node.next
        if parts:
            self._flush(0, 0)
        ends[0] = len(texts)
        page.nodes = visited

    def _flush(self, frame: int, verbatim: int) -> None:
        """End a block: fold its white space and note it, unless it is empty."""
        joined = "".join(self._parts)
        self._parts.clear()
        if verbatim:
            text = "\n".join(line.rstrip() for line in joined.splitlines()).strip("\n")
        elif self._breaks:
            text = "\n".join(" ".join(line.split()) for line in joined.split(_LINE_BREAK)).strip()
        else:
            text = " ".join(joined.split())
        if text:
            page = self._page
            page.texts.append(text)
            page.frame.append(frame)
            page.link_characters.append(min(self._link_characters, len(text)))
            page.emphasized.append(min(self._emphasized, len(text)))
            page.links.append(self._links)
            page.breaks.append(self._breaks)
        self._link_characters = self._emphasized = self._links = self._breaks = 0


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


def _is_preview(attributes: dict[str, str | None]) -> bool:
    """Return whether an element is MathJax's picture of a formula whose TeX follows in a script."""
    return (attributes.get("class") or "").startswith("MathJax")


def _formula(node: LexborNode) -> str:
    """Return a formula's TeX: its annotation, or else its alternative text, or else the text of its MathML."""
    for annotation in node.css("annotation"):
        if "tex" in (annotation.attributes.get("encoding") or "").lower():
            return annotation.text().strip()
    return (node.attributes.get("alttext") or node.text(separator=" ")).strip()
