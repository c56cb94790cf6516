"""Drop the lines of a scanned or printed book that hold a page number."""

import re
from itertools import pairwise
from typing import Final

from clozeline.pipeline.clean.filters import KEEP, Document, Filter, TextStatistics, Verdict

_NUMBER: Final = re.compile(
    r"[\[({|\u2013\u2014-]* ?(?:page|seite|p\.|pg\.|s\.)? ?(?:(\d{1,4})|([ivxlc]{1,8}))"
    r"(?: ?(?:of|von|/) ?\d{1,4})? ?[\])}|\u2013\u2014-]*",
    re.IGNORECASE,
)
_ROMAN: Final = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_END_OF_SENTENCE: Final = re.compile(r"""[.?!…:;"'”’»)\]。！？]\Z""")
_LEAST_PAGES: Final = 3
_LEAST_LINES: Final = 5
"""Minimum lines between two page numbers; items of a list are closer."""


class PageNumbers(Filter):
    """Drops lines that are page numbers, such as `12`, `- 12 -`, `[12]`, `Page 12 of 90` and `xii`.

    They count up, some lines apart, and at least half of them interrupt a sentence, which chapter
    numbers never do. Where one interrupts a sentence, the empty lines around it are dropped too.
    """

    VERSION = 2

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the text without page numbers; no text is rejected."""
        lines = statistics.text.split("\n")
        pages = _find_pages(lines)
        inside = {page for page in pages if _is_inside_sentence(lines, page)}
        if not pages or 2 * len(inside) < len(pages):
            return KEEP
        # empty lines around a number would split the sentence
        text = "\n".join(
            line
            for at, line in enumerate(lines)
            if at not in pages and (line or inside.isdisjoint((at - 1, at + 1)))
        )
        text = re.sub(r"\n{3,}", "\n\n", text).strip()
        return Verdict(text=text, removed={"page_numbers": len(statistics.text) - len(text)})


def _find_pages(lines: list[str]) -> set[int]:
    """Return the indices of lines with page numbers that count up by one or two, lines apart."""
    numbered = [(at, value) for at, line in enumerate(lines) if (value := _page_number(line))]
    pages = set[int]()
    for (at, value), (next_at, next_value) in pairwise(numbered):
        if 1 <= next_value - value <= 2 and next_at - at > _LEAST_LINES:
            pages |= {at, next_at}
    return pages if len(pages) >= _LEAST_PAGES else set()


def _page_number(line: str) -> int:
    """Return the page number that a line consists of; 0 for any other line."""
    if len(line) > 20 or (match := _NUMBER.fullmatch(line.strip())) is None:
        return 0
    if match[1]:
        return int(match[1])
    values = [_ROMAN[letter] for letter in match[2].lower()]
    return sum(
        -value if value < after else value
        for value, after in zip(values, [*values[1:], 0], strict=True)
    )


def _is_inside_sentence(lines: list[str], page: int) -> bool:
    """Return whether the text before a line continues behind it."""
    before = next((lines[at] for at in (page - 1, page - 2) if at >= 0 and lines[at]), "")
    return bool(before) and _END_OF_SENTENCE.search(before.rstrip()) is None
