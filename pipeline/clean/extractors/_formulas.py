"""Formulas of pages: each is written once, as TeX or else as the text of its MathML."""

import re
from typing import Any, Final

_COPY: Final = re.compile(r"\b(?:MathJax|MJX|mjx-)")
# a selector walks the entire page; `:is` asks only elements of the tag, or with the attribute
_FORMULAS: Final = (
    "script:is([type^='math/tex'], [type^='math/asciimath']), math, mjx-container, [class]:is("
    ".katex, .mwe-math-element, .MathJax, .MathJax_CHTML, .MathJax_SVG, .mjx-chtml), "
    "img:is([class*='mwe-math'], .math, .tex, .latex)"
)
_BLOCK: Final = ".katex-display, [display='block'], [display='true'], [type*='display']"
_WRAPPED: Final = re.compile(
    r"\{\\(?:display|text)style\s(.*)\}|(?:%\s*)?<!\[CDATA\[(.*?)(?:%\s*)?\]\]>", re.DOTALL
)
_INDENT: Final = re.compile(r"\s*\n\s*")


def replace_by_text(tree: Any, node: Any, text: str) -> None:
    """Put a text in place of a node, in one node with the text around it.

    resiliparse drops nodes of a single Chinese or Japanese character.
    """
    if (before := node.prev) is not None and before.tag == "#text":
        text = before.text + text
        before.remove()
    if (after := node.next) is not None and after.tag == "#text":
        text += after.text
        after.remove()
    node.parent.replace_child(tree.create_text_node(text), node)


def write_formulas(tree: Any) -> None:
    """Replace the formulas of KaTeX, MathJax, MediaWiki and MathML in a page by their text.

    Their visible forms repeat the letters, or consist of pictures.
    """
    nodes = list(tree.body.query_selector_all(_FORMULAS).values())
    # MathJax 2 keeps a formula in a script, behind what it shows
    for script in (node for node in nodes if node.tag == "script"):
        while (copy := script.prev_element) is not None and _COPY.search(copy.class_name or ""):
            copy.remove()

    last: Any = None
    for node in nodes:
        if last is not None and last.contains(node):
            continue
        last = node
        if node.parent is None:
            continue
        text = _read_formula(tree, node)
        block = node.closest(_BLOCK) or node.query_selector(_BLOCK)
        text = f" {text} " if block else text
        replace_by_text(tree, node, text)


def _read_formula(tree: Any, node: Any) -> str:
    math = node if node.tag == "math" else node.query_selector("math, img[alt]") or node
    source = math.query_selector("annotation[encoding$='tex' i]")
    tex = (
        (source.text if source else node.text if node.tag == "script" else None)
        or math.getattr("alttext")
        or math.getattr("data-latex")
        or math.getattr("alt")
    )
    if tex:
        match = _WRAPPED.fullmatch(tex.strip())
        return (match[1] or match[2] or "" if match else tex).strip()

    for other in math.query_selector_all("annotation, annotation-xml").values():
        other.remove()
    for part in math.query_selector_all("mfrac > :last-child, msup > :last-child").values():
        sign = "/" if part.parent.tag == "mfrac" else "^"
        part.parent.insert_before(tree.create_text_node(sign), part)
    return _INDENT.sub("", math.text or "")
