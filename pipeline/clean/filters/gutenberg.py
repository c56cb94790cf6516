"""Frame of Project Gutenberg's books: the header before the text, the license after it, and the credits."""

import re
from typing import ClassVar, Final

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.filters import KEEP, Filter, Verdict
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.text.text_statistics import TextStatistics

_BOOK: Final = r"(?:THE |THIS )?PROJECT GUTENBERG"
# a title in the marker may go over several lines
_START: Final = re.compile(
    rf"^[ \t]*\*{{3}} ?START OF {_BOOK}(?:[^*]{{0,300}}?\*{{3}}|[^\n]*)"
    r"|^[^\n]{0,9}END\*?THE SMALL PRINT![^\n]*",
    re.MULTILINE | re.IGNORECASE,
)
_END: Final = re.compile(
    rf"^[ \t]*\*{{3}} ?END OF {_BOOK}|^[ \t]*End of (?:the |this )?Project Gutenberg\b",
    re.MULTILINE | re.IGNORECASE,
)
_CREDITS: Final = re.compile(
    r"\s*(?:Produced by|Credits?:|E-?(?:text|book) (?:was )?(?:prepared|produced)|Transcribed (?:from|by)"
    r"|This e-?(?:text|book) was (?:prepared|produced)).*?(?:\n\s*\n|\Z)",
    re.DOTALL | re.IGNORECASE,
)


class Gutenberg(Filter):
    """Reduces a book of Project Gutenberg to its text: between the START and END lines, without credits.

    A text without these lines stays as it is. Of several books in a text, all from the first START to the END after the
    last START stay. The report counts the characters removed, as `edits`.

    "*** START OF THE PROJECT GUTENBERG EBOOK EMMA *** Emma Woodhouse" -> "Emma Woodhouse"
    """

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = ("gutenberg_frame_alone",)

    @config_class
    class Options:
        """This filter has no options."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the text of the book; a frame around nothing is rejected."""
        text = statistics.text
        first, last = 0, len(text)
        starts = [*_START.finditer(text)]
        if starts:
            first = starts[0].end()
            while (credit := _CREDITS.match(text, first)) is not None:
                first = credit.end()
        if (end := _END.search(text, max(first, starts[-1].end()) if starts else 0)) is not None:
            last = end.start()
        if (first, last) == (0, len(text)):
            return KEEP
        book = text[first:last].strip()
        if not book:
            return Verdict("gutenberg_frame_alone")
        return Verdict(text=book, removed={"frame": len(text) - len(book)})
