"""Join words that a printed page hyphenates at the end of a line."""

import re

from clozeline.pipeline.clean.filters import KEEP, Document, Filter, TextStatistics, Verdict
from clozeline.pipeline.text.line_ends import CUT_WORD, LineEnds


class Dehyphenate(Filter):
    r"""Joins words that were hyphenated at line ends; the line then ends behind the word.

    The hyphen stays where the document shows that it is part of the word, as in `well-known`,
    behind a single letter, and before a capital. A conjunction after a suspended hyphen is a
    separate word.

    "an exam-\nple of it" -> "an example\nof it"
    """

    VERSION = 2

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the joined text; no text is rejected."""
        line_ends = LineEnds(statistics.text, document.language)

        def join(cut: re.Match[str]) -> str:
            line = cut.string[cut.string.rfind("\n", 0, cut.start()) + 1 : cut.start() + 1]
            joined = line_ends.join(line, cut[1])
            if joined.endswith(" "):
                return cut[0]
            return f"{joined[len(line) - 1 :]}{cut[1]}{cut[2]}{cut[3] and chr(10)}"

        text, cuts = CUT_WORD.subn(join, statistics.text)
        if not cuts or text == statistics.text:
            return KEEP
        return Verdict(text=text, removed={"hyphens": len(statistics.text) - len(text)})
