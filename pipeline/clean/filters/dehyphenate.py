"""Words that a printed page hyphenates at the end of a line."""

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.filters import KEEP, Filter, Verdict
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.text.text_statistics import TextStatistics

# a hyphen at the end of a line, the rest of the word, what is attached to it, and a blank; a page may end between them
_CUT: Final = re.compile(r"[-\u2010]\n\n?[ \t]*([^\W\d_]+)([^\s\-\u2010]*)( ?)")
_BEFORE: Final = re.compile(r"[^\W\d_]+\Z")
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_WORD_CHARACTERS: Final = 40
_AND: Final[Mapping[str, frozenset[str]]] = {
    "en": frozenset({"and", "or"}),
    "de": frozenset({"und", "oder"}),
    "nl": frozenset({"en", "of"}),
    "fr": frozenset({"et", "ou"}),
    "es": frozenset({"y", "e", "o", "u"}),
}
"""Words after a suspended hyphen, by language: `pre- and post-war`, `Vor- und Nachteile`."""


class Dehyphenate(Filter):
    r"""Joins words that were hyphenated at line ends; the line then ends behind the word.

    The hyphen stays if the document has the word with it elsewhere, or both parts as words and not the word without it:
    `well-known`. A part that begins with a capital is a word of its own, and so is one after a suspended hyphen.

    "an exam-\nple of it" -> "an example\nof it"
    """

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = ()

    @config_class
    class Options:
        """This filter has no options."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the joined text; no text is rejected."""
        text = statistics.text
        if not _CUT.search(text):
            return KEEP
        suspended = _AND.get(document.language, _AND["en"])
        words = set(_WORD.findall("".join(_uncut_pieces(text)).lower()))

        def join(cut: re.Match[str]) -> str:
            head, rest = _head_of(cut).lower(), cut[1]
            if not head or not rest.islower() or rest in suspended:
                return cut[0]
            is_compound = f"{head}-{rest}" in words or {head, rest} <= words
            hyphen = "-" if is_compound and head + rest not in words else ""
            return f"{hyphen}{rest}{cut[2]}{cut[3] and chr(10)}"

        joined = _CUT.sub(join, text)
        if joined == text:
            return KEEP
        return Verdict(text=joined, removed={"hyphens": len(text) - len(joined)})


def _head_of(cut: re.Match[str]) -> str:
    """Return the letters before the hyphen of a cut word."""
    before = _BEFORE.search(cut.string[max(0, cut.start() - _WORD_CHARACTERS) : cut.start()])
    return "" if before is None else before[0]


def _uncut_pieces(text: str) -> Iterator[str]:
    """Yield the text between cut words."""
    at = 0
    for cut in _CUT.finditer(text):
        yield text[at : cut.start() - len(_head_of(cut))]
        at = cut.end(1)
    yield text[at:]
