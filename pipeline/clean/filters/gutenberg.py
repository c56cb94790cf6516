"""Remove what Project Gutenberg adds to a book: header, license and credits."""

import re
from typing import Final

from clozeline.pipeline.clean.filters import KEEP, Document, Filter, TextStatistics, Verdict

_BOOK: Final = r"(?:THE |THIS )?PROJECT GUTENBERG"
_FLAGS: Final = re.MULTILINE | re.IGNORECASE
# a title in the START line may take several lines
_START: Final = re.compile(
    rf"^[ \t]*\*{{3}} ?START OF {_BOOK}(?:[^*]{{0,300}}?\*{{3}}|[^\n]*)", _FLAGS
)
_SMALL_PRINT: Final = re.compile(r"^[^\n]{0,9}END\*?THE SMALL PRINT![^\n]*", _FLAGS)
_END: Final = re.compile(rf"^[ \t]*\*{{3}} ?END OF {_BOOK}", _FLAGS)
_LAST_WORDS: Final = re.compile(r"^[ \t]*End of (?:the |this )?Project Gutenberg\b", _FLAGS)
_CREDITS: Final = re.compile(
    r"\s*\W{0,3}(?:Produced by|Credits?:|E-?(?:text|book) (?:was "
    r")?(?:prepared|produced)|Transcribed (?:from|by)"
    r"|This e-?(?:text|book) was (?:prepared|produced)|Note: Project Gutenberg).*?(?:\n\s*\n|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_FRAME_CHARACTERS: Final = 1000
"""Maximum characters between the last words of a book and its END line."""


class Gutenberg(Filter):
    """Reduces a book of Project Gutenberg to its text.

    The text is between the START and END lines, without credits.

    A text without these lines is unchanged. Of several books in a text, everything from the first
    START to the last END stays. The report counts the removed characters, as `edits`.

    "*** START OF THE PROJECT GUTENBERG EBOOK EMMA *** Emma Woodhouse" -> "Emma Woodhouse"
    """

    VERSION = 1
    reasons = ("gutenberg_frame_alone",)

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the text of the book; a header and license without a text are rejected."""
        text = statistics.text
        first = _find_start(text)
        last = _find_end(text, first)
        if (first, last) == (0, len(text)):
            return KEEP
        book = text[first:last].strip()
        if not book:
            return Verdict("gutenberg_frame_alone")
        return Verdict(text=book, removed={"frame": len(text) - len(book)})


def _find_start(text: str) -> int:
    """Return where the book starts, behind the first START line and the credits; 0 without one."""
    start = _START.search(text)
    if start is None:
        start = _SMALL_PRINT.search(text)
        # the small print of some books is at their end
        if start is None or 2 * start.end() > len(text):
            return 0
    first = start.end()
    while (credit := _CREDITS.match(text, first)) is not None:
        first = credit.end()
    return first


def _find_end(text: str, first: int) -> int:
    """Return where the book ends: at the last END line, or the closing words right before it.

    Parts of a work may have such lines too.
    """
    *_, end = (len(text), *(match.start() for match in _END.finditer(text, first)))
    if _START.search(text, end):
        end = len(text)
    *_, last = (end, *(match.start() for match in _LAST_WORDS.finditer(text, first, end)))
    is_frame = end - last <= _FRAME_CHARACTERS or end == len(text)
    return last if is_frame else end
