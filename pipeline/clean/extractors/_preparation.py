"""Prepare a page for extractors: remove hidden parts, and write down what only layout shows."""

import re
from typing import Any, Final

from lxml import etree
from resiliparse.parse.html import HTMLTree

from clozeline.pipeline.text.exponents import is_exponent

_XHTML: Final = re.compile(
    r"(?i)<!doctype[^>]*\bXHTML\b|<html\b[^>]*\bxmlns\s*=[\s\"']*\S+/1999/xhtml"
)
# elements that XHTML closes with `/>`, but HTML does not
_CLOSED: Final = re.compile(
    r"(?i)<(a|b|div|em|h\d|i|iframe|li|p|script|span|strong|style|td|title)\b([^<>]*)/>"
)
_TOUCHED: Final = re.compile(r"(?i)hidden|display|visibility|<(?:rt|rp|rb|rtc|sup|button)\b")
_HIDDEN: Final = "[hidden], [aria-hidden='true' i], [style*='display' i], [style*='visibility' i]"
# formulas have a visual form that is hidden from screen readers
_SHOWN: Final = "math, [class*='math' i], [class*='katex' i]"
_MARK: Final = "data-unshown"
_BUTTONS: Final = (
    "h1 button, h2 button, h3 button, h4 button, h5 button, h6 button, summary button, dt button"
)
_NO_TEXT: Final = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<[^>]*>|\s+")


def prepare_page(html: str) -> str:
    """Return a page without hidden elements, ruby readings and buttons around headings.

    Exponents are marked with `^`.

    Well-formed XHTML is parsed as XML, without entities and network. If more than half of the text
    would be removed, nothing is: a script shows it.

        "<h2><button>Why?</button></h2><p hidden>No</p><p>10<sup>6</sup>" ->
        "<h2>Why?</h2><p>10^6</p>"
    """
    if _XHTML.search(html, 0, 4096):
        html = _read_xhtml(html)
    if not _TOUCHED.search(html):
        return html
    tree: Any = HTMLTree.parse(html)  # its lists of nodes take quadratic time, except by `values`
    if tree.body is None:
        return html
    _remove_hidden(tree.body)

    for node in tree.body.query_selector_all("rt, rp, rtc").values():
        node.decompose()
    for node in tree.body.query_selector_all(f"ruby, {_BUTTONS}").values():
        node.parent.replace_child(tree.create_text_node(node.text), node)
    for node in tree.body.query_selector_all("sup").values():
        before = node.prev.text if node.prev is not None else ""
        if is_exponent(node.text.strip(), before) and node.query_selector("a") is None:
            node.parent.replace_child(tree.create_text_node(f"^{node.text.strip()}"), node)

    return str(tree.document.html)


def _read_xhtml(html: str) -> str:
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, encoding="utf-8"
    )
    try:
        root = etree.fromstring(html.strip().encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError:
        return _CLOSED.sub(r"<\1\2></\1>", html)
    return str(etree.tostring(root, method="html", encoding="unicode"))


def _remove_hidden(body: Any) -> None:
    """Remove elements that an attribute or style hides; show them if they are most of the page."""
    for node in body.query_selector_all(_HIDDEN).values():
        if _is_hidden(node):
            node.setattr(_MARK, "")
        else:
            _show(node)

    unshown = body.query_selector_all(f"[{_MARK}]").values()
    outer = [node for node in unshown if not node.parent.closest(f"[{_MARK}]")]
    # a script shows hidden elements that hold most of the text
    hidden, total = (
        sum(len(_NO_TEXT.sub("", node.html)) for node in nodes)
        for nodes in (outer, [body] if outer else [])
    )

    if 2 * hidden <= total:
        for node in outer:
            node.decompose()
        return

    for node in unshown:
        _show(node)


def _show(node: Any) -> None:
    """Remove the attributes that extractors take for signs of hidden text."""
    for name in ("hidden", "aria-hidden", "style"):
        node.delattr(name)


def _is_hidden(node: Any) -> bool:
    if node.hasattr("hidden") and node.getattr("hidden") != "until-found":
        return True
    declarations = (
        each.partition(":")[::2] for each in (node.getattr("style") or "").lower().split(";")
    )
    style = {name.strip(): value.replace("!important", "").strip() for name, value in declarations}
    if style.get("display") == "none" or style.get("visibility") in ("hidden", "collapse"):
        return True
    if (node.getattr("aria-hidden") or "").lower() != "true":
        return False
    return not node.matches(_SHOWN) and node.query_selector(_SHOWN) is None
