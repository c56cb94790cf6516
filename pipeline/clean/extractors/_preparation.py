"""Prepare a page for extractors: remove hidden parts, and write down what only layout shows."""

import re
from collections import Counter
from collections.abc import Set
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
_HIDDEN: Final = "[hidden], [aria-hidden='true' i], [style*='display' i], [style*='visibility' i]"
_DELETION: Final = re.compile(r"(?i)<(/?)(del|s|strike)\b[^<>]*>")
# of two declarations of a property, the last one counts
_UNSEEN: Final = re.compile(
    r"(?:^|;)\s*(display|visibility)\s*:\s*(?:none|hidden|collapse)\b(?!.*;\s*\1\s*:)", re.DOTALL
)
_BUTTONS: Final = (
    "h1 button, h2 button, h3 button, h4 button, h5 button, h6 button, summary button, dt button"
)
_REFERENCES: Final = (
    "sup, a[role='doc-noteref'], a[class*='footnote' i], a[href*='#'][href*='note' i], "
    "a[href*='#fn' i], a[href*='#_ftn' i], a[href*='#_edn' i]"
)


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
    # a page about language models writes <s> as text, which would delete all that follows
    tags = Counter((tag.lower(), end) for end, tag in _DELETION.findall(html))
    deleted = {tag for tag, end in tags if tags[tag, ""] == tags[tag, "/"]}
    page = HTMLTree.parse(html)
    tree: Any = page  # its lists of nodes take quadratic time, except by `values`
    write_formulas(tree)
    _remove_hidden(tree, deleted)

    for node in tree.body.query_selector_all("rt, rp, rtc").values():
        node.decompose()
    for node in tree.body.query_selector_all(f"ruby, {_BUTTONS}").values():
        replace_by_text(tree, node, node.text)
    for node in tree.body.query_selector_all(_REFERENCES).values():
        raised = node.text.strip()
        before = _find_text_before(node)
        link = node.query_selector("a") or node.closest("a")
        is_link = link is not None and link.text.strip() in raised
        if (node.tag == "sup" or before[-1:].strip()) and is_reference(
            raised, before, is_link=is_link
        ):
            replace_by_text(tree, node, "")
        elif node.tag == "sup" and is_exponent(raised, before):
            replace_by_text(tree, node, f"^{raised}")

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


def _remove_hidden(tree: Any, deleted: Set[str]) -> None:
    """Remove what is hidden or deleted, unless that is most of the page: a script shows it."""
    hidden: list[Any] = []

    for node in tree.body.query_selector_all(", ".join((_HIDDEN, *deleted))).values():
        if (node.tag in deleted or _is_hidden(node)) and not (hidden and hidden[-1].contains(node)):
            hidden.append(node)
        # extractors take these attributes for signs of hidden text
        for name in ("hidden", "aria-hidden", "style"):
            node.delattr(name)

    if 3 * sum(map(_count_characters, hidden)) <= 2 * _count_characters(tree.body):
        for node in hidden:
            replace_by_text(tree, node, "")


def _count_characters(node: Any) -> int:
    return len("".join(node.inner_text.split()))


def _find_text_before(node: Any) -> str:
    while node.prev is None and getattr(node.parent, "tag", "") in ("a", "span"):
        node = node.parent
    return "" if node.prev is None else node.prev.text or ""


def _is_hidden(node: Any) -> bool:
    if node.hasattr("hidden") and node.getattr("hidden") != "until-found":
        return True
    if _UNSEEN.search((node.getattr("style") or "").lower()):
        return True
    return (node.getattr("aria-hidden") or "").lower() == "true"
