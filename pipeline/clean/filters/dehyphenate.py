"""Join words that a printed page hyphenates at the end of a line."""

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from clozeline.pipeline.clean.filters import KEEP, Filter, Verdict
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.text.language_codes import LanguageTable
from clozeline.pipeline.text.text_statistics import TextStatistics

# a hyphen at the end of a line, the second part of the word, attached marks, and a blank; a page
# may end in between
_HYPHENATED: Final = re.compile(r"[-\u2010]\n\n?[ \t]*([^\W\d_]+)([^\s\-\u2010]*)( ?)")
_BEFORE: Final = re.compile(r"[^\W\d_]+\Z")
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_CONJUNCTIONS: Final = LanguageTable(
    {
        "en": {"and", "or"},
        "de": {"und", "oder"},
        "nl": {"en", "of"},
        "fr": {"et", "ou"},
        "es": {"y", "o"},
    }
)
"""Words after a suspended hyphen, by language: `pre- and post-war`, `Vor- und Nachteile`."""


class Dehyphenate(Filter):
    r"""Joins words that were hyphenated at line ends; the line then ends behind the word.

    The hyphen stays where the document shows that it is part of the word, as in `well-known`, and
    behind a single letter. A second part that starts with a capital, or a conjunction after a
    suspended hyphen, is a separate word.

    "an exam-\nple of it" -> "an example\nof it"
    """

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = ()

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the joined text; no text is rejected."""
        text = statistics.text
        if not _HYPHENATED.search(text):
            return KEEP

        # other words of the document show which hyphens belong to a word
        suspended = _CONJUNCTIONS.get(document.language, _CONJUNCTIONS["en"])
        words = set(_WORD.findall("".join(_uncut_pieces(text)).lower()))
        compounds = [word.split("-") for word in words if "-" in word]
        first = {parts[0] for parts in compounds}
        last = {parts[-1] for parts in compounds}

        def join(cut: re.Match[str]) -> str:
            before = _find_head(cut)
            rest = cut[1].lower()
            is_one_word = cut[1].islower() or (before + cut[1]).isupper()
            if not before or not is_one_word or rest in suspended:
                return cut[0]
            head = before.lower()
            is_known = head + rest in words and f"{head}-{rest}" not in words
            has_parts = (head in words and (rest in words or head in first)) or rest in last
            hyphen = "-" if len(head) == 1 or (has_parts and not is_known) else ""
            return f"{hyphen}{cut[1]}{cut[2]}{cut[3] and chr(10)}"

        joined = _HYPHENATED.sub(join, text)
        return (
            KEEP
            if joined == text
            else Verdict(text=joined, removed={"hyphens": len(text) - len(joined)})
        )


def _find_head(cut: re.Match[str]) -> str:
    """Return the letters before the hyphen of a hyphenated word."""
    before = _BEFORE.search(cut.string[max(0, cut.start() - 40) : cut.start()])
    return "" if before is None else before[0]


def _uncut_pieces(text: str) -> Iterator[str]:
    """Yield the text between hyphenated words."""
    at = 0
    for cut in _HYPHENATED.finditer(text):
        yield text[at : cut.start() - len(_find_head(cut))]
        at = cut.end(1)
    yield text[at:]
