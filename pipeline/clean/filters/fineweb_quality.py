"""Custom filters of FineWeb (Penedo et al. 2024, arXiv:2406.17557, section 3.6)."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.filters import Measure, ThresholdFilter, at_least, at_most
from clozeline.pipeline.clean.filters.gopher_quality import Share
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.text.text_statistics import TextStatistics

# Unicode's Sentence_Terminal characters as datatrove lists them, and the Khmer signs ៖ ៙ ៚
_SENTENCE_TERMINAL: Final = (
    "!.?\u0589\u061d-\u061f\u06d4\u0700-\u0702\u07f9\u0837\u0839\u083d\u083e\u0964\u0965\u104a\u104b\u1362\u1367\u1368"
    "\u166e\u1735\u1736\u17d4-\u17d6\u17d9\u17da\u1803\u1809\u1944\u1945\u1aa8-\u1aab\u1b5a\u1b5b\u1b5e\u1b5f\u1b7d"
    "\u1b7e\u1c3b\u1c3c\u1c7e\u1c7f\u203c\u203d\u2047-\u2049\u2e2e\u2e3c\u2e53\u2e54\u3002\ua4ff\ua60e\ua60f\ua6f3"
    "\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f\ua9c8\ua9c9\uaa5d-\uaa5f\uaaf0\uaaf1\uabeb\ufe52\ufe56\ufe57\uff01\uff0e"
    "\uff1f\uff61\U00010a56\U00010a57\U00010f55-\U00010f59\U00010f86-\U00010f89\U00011047\U00011048"
    "\U000110be-\U000110c1\U00011141-\U00011143\U000111c5\U000111c6\U000111cd\U000111de\U000111df\U00011238\U00011239"
    "\U0001123b\U0001123c\U000112a9\U0001144b\U0001144c\U000115c2\U000115c3\U000115c9-\U000115d7\U00011641\U00011642"
    "\U0001173c-\U0001173e\U00011944\U00011946\U00011a42\U00011a43\U00011a9b\U00011a9c\U00011c41\U00011c42\U00011ef7"
    "\U00011ef8\U00011f43\U00011f44\U00016a6e\U00016a6f\U00016af5\U00016b37\U00016b38\U00016b44\U00016e98\U0001bc9f"
    "\U0001da88"
)


class FinewebQuality(ThresholdFilter):
    r"""Rejects lists, menus and tables: texts of short lines, of lines without a full stop, or of repeated lines.

    Empty lines count only as newlines. A closing quote after the full stop is no terminal mark, as in datatrove; add it
    to `stop_chars` for dialogue.

    "Home\nNews\nContact\nHelp" -> rejected as `line_punct_ratio`: no line ends in a full stop
    """

    VERSION: ClassVar[int] = 2
    thresholds: ClassVar[Mapping[str, str]] = {
        "line_punct_ratio": "line_punct_thr",
        "short_line_ratio": "short_line_thr",
        "char_dup_ratio": "char_duplicates_ratio",
        "list_ratio": "new_line_ratio",
    }
    reasons: ClassVar[tuple[str, ...]] = tuple(thresholds)

    @config_class
    class Options:
        """Thresholds, as published, under the names of datatrove."""

        line_punct_thr: Share = 0.12
        """minimum fraction of lines that end in a terminal mark, 0 to 1"""
        stop_chars: str | None = None
        """the terminal marks; null: Unicode's marks that end a sentence, in all scripts"""
        short_line_thr: Share = 0.67
        """maximum fraction of short lines, 0 to 1"""
        short_line_length: Annotated[int, Field(ge=0)] = 30
        """maximum length of a short line in characters"""
        char_duplicates_ratio: Share = 0.01
        """maximum fraction of characters in lines that repeat an earlier one, 0 to 1"""
        new_line_ratio: Annotated[float, Field(ge=0)] = 0.3
        """maximum newlines per token"""

    def __init__(self, options: Options) -> None:
        self._options = options
        marks = _SENTENCE_TERMINAL if options.stop_chars is None else re.escape(options.stop_chars)
        self._ends_sentence = re.compile(f"[{marks}]" if marks else "(?!)").match

    def measure(self, document: Document, statistics: TextStatistics) -> Iterator[Measure]:
        """Yield the measures in datatrove's order."""
        options, lines = self._options, statistics.filled_lines
        count = max(1, len(lines))
        ended = sum([self._ends_sentence(line[-1]) is not None for line in lines])
        yield at_least("line_punct_ratio", ended / count, options.line_punct_thr)
        short = sum([len(line) <= options.short_line_length for line in lines])
        yield at_most("short_line_ratio", short / count, options.short_line_thr)
        newlines = len(statistics.lines) - 1
        copied = statistics.duplicate_lines.copied_chars
        yield at_most("char_dup_ratio", copied / max(1, sum(map(len, lines))), options.char_duplicates_ratio)
        yield at_most("list_ratio", newlines / max(1, statistics.token_count), options.new_line_ratio)
