"""Find pages whose elements are nested very deeply, before a parser reads them."""

import re
from typing import Final

import numpy as np

_TAG: Final = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*")
# void elements, and elements with an optional end tag: parsers do not nest them in themselves
_FLAT: Final = frozenset(
    {
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
        "p", "li", "dt", "dd", "td", "th", "tr", "thead", "tbody", "tfoot", "option", "optgroup", "colgroup", "rp",
        "rt", "html", "head", "body",
    }
)  # fmt: skip


def is_deeper(html: str, max_depth: int) -> bool:
    """Return whether elements are nested deeper than `max_depth`."""
    # the nesting is at most the number of start tags; unclosed formatting elements count as nested
    tags = html.count("<")
    if tags <= max_depth or tags - html.count("</") <= max_depth:
        return False
    names = _TAG.findall(html)
    steps = _Steps()
    depth = np.cumsum(np.fromiter(map(steps.__getitem__, names), np.int64, len(names)))
    # measure from the lowest point so far, because end tags without a start tag do not reduce the depth
    lowest = np.minimum.accumulate(np.minimum(depth, 0))
    return int((depth - lowest).max(initial=0)) > max_depth


class _Steps(dict[str, int]):
    """By how much a tag such as `<div` or `</div` changes the depth."""

    def __missing__(self, tag: str) -> int:
        name = tag.lstrip("</").lower()
        step = self[tag] = 0 if name in _FLAT else -1 if tag.startswith("</") else 1
        return step
