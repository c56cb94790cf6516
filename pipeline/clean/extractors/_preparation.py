"""Prepare a page for extractors: remove hidden parts, and write down what only layout shows."""

import re
from collections import Counter
from typing import Any, Final

from lxml import etree
from resiliparse.parse.html import HTMLTree

from clozeline.pipeline.clean.extractors._formulas import replace_by_text, write_formulas
from clozeline.pipeline.text.superscripts import is_exponent, is_reference

_XHTML: Final = re.compile(
    r"(?i)<!doctype[^>]*\bXHTML\b|<html\b[^>]*\bxmlns\s*=[\s\"']*\S+/1999/xhtml"
)
# elements that XHTML closes with `/>`, but HTML does not
_CLOSED: Final = re.compile(
    r"(?i)<(a|b|div|em|h\d|i|iframe|li|p|script|span|strong|style|td|title)\b([^<>]*)/>"
)
_DELETED: Final = ("del", "s", "strike")
_HIDDEN: Final = (
    "[hidden], [aria-hidden='true' i], [style*='display' i], [style*='visibility' i], "
    f"{', '.join(_DELETED)}"
)
_DELETION: Final = re.compile(rf"(?i)<(/?)({'|'.join(_DELETED)})\b[^<>]*>")
# of two declarations of a property, the last one counts
_UNSEEN: Final = re.compile(
    r"(?:^|;)\s*(display|visibility)\s*:\s*(?:none|hidden|collapse)\b(?!.*;\s*\1\s*:)", re.DOTALL
)
_REWRITTEN: Final = (
    "rt, rp, rtc, ruby, :is(h1, h2, h3, h4, h5, h6, summary, dt) button, sup, "
    "a:is([role='doc-noteref'], [class*='footnote' i], [href*='#'][href*='note' i], "
    "[href*='#fn' i], [href*='#_ftn' i], [href*='#_edn' i])"
)
"""Readings of ruby, buttons in headings, and what may refer to notes."""


def prepare_page(html: str) -> HTMLTree:
    """Parse a page without hidden elements, ruby readings and buttons around headings.

    Exponents are marked with `^`; references to notes and deleted text are removed.

    Well-formed XHTML is parsed as XML, without entities and network. If more than two thirds of the
    text are hidden, all is shown: a script shows it.

        "<h2><button>Why?</button></h2><p hidden>No</p><p>10<sup>6</sup>" ->
        "<h2>Why?</h2><p>10^6</p>"
    """
    if _XHTML.search(html, 0, 4096):
        html = _read_xhtml(html)
    page = HTMLTree.parse(html)
    tree: Any = page  # its lists of nodes take quadratic time, except by `values`
    write_formulas(tree)
    _remove_hidden(tree, html)

    nodes = list(tree.body.query_selector_all(_REWRITTEN).values())
    for node in nodes:
        if node.tag in ("rt", "rp", "rtc"):
            node.remove()
    for node in nodes:
        if node.tag in ("ruby", "button"):
            replace_by_text(tree, node, node.text)
        elif node.tag in ("sup", "a"):
            _rewrite_reference(tree, node)

    return page


def _read_xhtml(html: str) -> str:
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, encoding="utf-8"
    )
    try:
        root = etree.fromstring(html.strip().encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError:
        return _CLOSED.sub(r"<\1\2></\1>", html)
    return str(etree.tostring(root, method="html", encoding="unicode"))


def _remove_hidden(tree: Any, html: str) -> None:
    """Remove what is hidden or deleted, unless that is most of the page: a script shows it."""
    nodes = list(tree.body.query_selector_all(_HIDDEN).values())
    # a page about language models writes <s> as text, which would delete all that follows
    marks = _DELETION.findall(html) if any(node.tag in _DELETED for node in nodes) else ()
    tags = Counter((tag.lower(), end) for end, tag in marks)
    deleted = {tag for tag, end in tags if tags[tag, ""] == tags[tag, "/"]}
    hidden: list[Any] = []

    for node in nodes:
        if (node.tag in deleted or _is_hidden(node)) and not (hidden and hidden[-1].contains(node)):
            hidden.append(node)
        # extractors take these attributes for signs of hidden text
        for name in ("hidden", "aria-hidden", "style"):
            node.delattr(name)

    if hidden and 3 * sum(map(_count_characters, hidden)) <= 2 * _count_characters(tree.body):
        for node in hidden:
            replace_by_text(tree, node, "")


def _rewrite_reference(tree: Any, node: Any) -> None:
    """Remove a reference to a note, and mark an exponent with `^`."""
    raised = node.text.strip()
    before = _find_text_before(node)
    link = node.query_selector("a") or node.closest("a")
    is_link = link is not None and link.text.strip() in raised
    if (node.tag == "sup" or before[-1:].strip()) and is_reference(raised, before, is_link=is_link):
        replace_by_text(tree, node, "")
    elif node.tag == "sup" and is_exponent(raised, before):
        replace_by_text(tree, node, f"^{raised}")


def _count_characters(node: Any) -> int:
    return len("".join(node.inner_text.split()))


def _find_text_before(node: Any) -> str:
    while node.prev is None and getattr(node.parent, "tag", "") in ("a", "span"):
        node = node.parent
    return "" if node.prev is None else node.prev.text or ""


def _is_hidden(node: Any) -> bool:
    return bool(
        (node.hasattr("hidden") and node.getattr("hidden") != "until-found")
        or _UNSEEN.search((node.getattr("style") or "").lower())
        or (node.getattr("aria-hidden") or "").lower() == "true"
    )
