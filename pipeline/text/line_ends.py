"""Decide what stands between two lines of a paragraph: a blank, nothing, or a hyphen."""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from clozeline.pipeline.text.language_codes import LanguageTable
from clozeline.pipeline.text.normal_form import is_written_without_blanks

_SIGNS_OF_CUTS: Final = "\u00ac\u2e17"
"""Signs of scanned and Gothic print that only cut a word; the stored form has no soft hyphens."""
HYPHENS: Final = f"-\u2010\u058a{_SIGNS_OF_CUTS}"
"""Marks that cut a word at a line end, or belong to it."""
# a hyphen at the end of a line, the second part of the word, attached marks, and a blank; a page
# may end in between
CUT_WORD: Final = re.compile(rf"[{HYPHENS}]\n\n?[ \t]*([^\W\d_]+)([^{HYPHENS}\s]*)( ?)")
_LETTERS_BEFORE: Final = re.compile(rf"([^\W\d_]+)[{HYPHENS}]\Z")
_LETTERS_AFTER: Final = re.compile(r"[^\W\d_]+")
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LONGEST_HEAD: Final = 40
"""Characters of a line in which the first part of a cut word is searched."""
_CONJUNCTIONS: Final = LanguageTable(
    {
        "en": "and or",
        "de": "und oder",
        "nl": "en of",
        "fr": "et ou",
        "es": "y o",
    }
)
"""Words after a suspended hyphen, by language: `pre- and post-war`, `Vor- und Nachteile`."""


class LineEnds:
    """Joins lines of a text, whose other words show which hyphens belong to a word."""

    def __init__(self, text: str, language: str = "") -> None:
        self._text = text
        self._suspended = _CONJUNCTIONS.get(language, _CONJUNCTIONS["en"]).split()

    @cached_property
    def _words(self) -> set[str]:
        return set(_WORD.findall("".join(_uncut_pieces(self._text)).lower()))

    @cached_property
    def _compounds(self) -> tuple[set[str], set[str]]:
        """The first and the last parts of the words with a hyphen."""
        parts = [word.split("-") for word in self._words if "-" in word]
        return {each[0] for each in parts}, {each[-1] for each in parts}

    def join(self, line: str, following: str) -> str:
        """Return a line as it stands before the following one, in a single line.

        It ends in a blank, or has lost its hyphen, or is unchanged: in scripts without blanks, and
        if the hyphen belongs to the word.
        """
        if line[-1:] in HYPHENS and (after := _LETTERS_AFTER.match(following)) is not None:
            before = _LETTERS_BEFORE.search(line[-_LONGEST_HEAD:])
            if before is not None and line[-1] in _SIGNS_OF_CUTS:
                return line[:-1]
            if before is not None and not self._is_suspended(before[1].lower(), after[0].lower()):
                return line if self._keeps_hyphen(before[1], after[0]) else line[:-1]
        without = is_written_without_blanks(line[-1:]) and is_written_without_blanks(following[:1])
        return line if without else f"{line} "

    def _is_suspended(self, head: str, rest: str) -> bool:
        return rest in self._suspended and head + rest not in self._words

    def _keeps_hyphen(self, head: str, rest: str) -> bool:
        if rest[0].isupper() and not (head + rest).isupper():
            return True
        head = head.lower()
        rest = rest.lower()
        first, last = self._compounds
        words = self._words
        is_known = head + rest in words and f"{head}-{rest}" not in words
        has_parts = (head in words and (rest in words or head in first)) or rest in last
        return len(head) == 1 or (has_parts and not is_known)


def _uncut_pieces(text: str) -> Iterator[str]:
    """Yield the text between hyphenated words."""
    at = 0
    for cut in CUT_WORD.finditer(text):
        head = _LETTERS_BEFORE.search(text[max(0, cut.start() - _LONGEST_HEAD) : cut.start() + 1])
        yield text[at : cut.start() - (len(head[1]) if head else 0)]
        at = cut.end(1)
    yield text[at:]
