"""Custom filters of FineWeb (Penedo et al. 2024, arXiv:2406.17557, section 3.6)."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final

from pydantic import Field

from clozeline.configuration.config import Natural, config_class
from clozeline.pipeline.clean.filters import (
    Document,
    Measure,
    TextStatistics,
    ThresholdFilter,
    at_least,
    at_most,
)
from clozeline.pipeline.clean.filters.gopher_quality import Share
from clozeline.pipeline.text.sentence_marks import OTHER_MARKS, SENTENCE_TERMINAL

_MARKS: Final = SENTENCE_TERMINAL + OTHER_MARKS + "\u17d6\u17d9\u17da"
"""Marks that end a sentence, and the Khmer signs ៖ ៙ ៚, as in datatrove."""


class FinewebQuality(ThresholdFilter):
    r"""Rejects lists, menus and tables.

    These are texts of short lines, of lines without a full stop, or of repeated lines.

    Empty lines count only as newlines. As in datatrove, a closing quote after the full stop is not
    a terminal mark; add it to `stop_chars` for dialogue.

    "Home\nNews\nContact\nHelp" -> rejected as `line_punct_ratio`: no line ends in a full stop
    """

    VERSION = 4
    thresholds: ClassVar[Mapping[str, str]] = {
        "line_punct_ratio": "line_punct_thr",
        "short_line_ratio": "short_line_thr",
        "char_dup_ratio": "char_duplicates_ratio",
        "list_ratio": "new_line_ratio",
    }

    @config_class
    class Options:
        """Thresholds, as published, under the names of datatrove."""

        line_punct_thr: Share = 0.12
        """minimum fraction of lines that end in a terminal mark, 0 to 1"""
        stop_chars: str | None = None
        """the terminal marks; null: Unicode's marks that end a sentence, in all scripts"""
        short_line_thr: Share = 0.67
        """maximum fraction of short lines, 0 to 1"""
        short_line_length: Natural = 30
        """maximum length of a short line in characters"""
        char_duplicates_ratio: Share = 0.01
        """maximum fraction of characters in lines that repeat an earlier one, 0 to 1"""
        new_line_ratio: Annotated[float, Field(ge=0)] = 0.3
        """maximum newlines per token"""

    def __init__(self, options: Options) -> None:
        self._options = options
        marks = _MARKS if options.stop_chars is None else re.escape(options.stop_chars)
        self._ends_sentence = re.compile(f"[{marks}]" if marks else "(?!)").match

    def measure(self, document: Document, statistics: TextStatistics) -> Iterator[Measure]:
        """Yield the measures in datatrove's order."""
        options = self._options
        lines = statistics.nonempty_lines
        count = max(1, len(lines))
        ended = sum([self._ends_sentence(line[-1]) is not None for line in lines])
        yield at_least("line_punct_ratio", ended / count, options.line_punct_thr)

        short = sum([len(line) <= options.short_line_length for line in lines])
        yield at_most("short_line_ratio", short / count, options.short_line_thr)

        newlines = len(statistics.lines) - 1
        copied = statistics.duplicate_lines.copied_chars
        yield at_most(
            "char_dup_ratio", copied / max(1, sum(map(len, lines))), options.char_duplicates_ratio
        )
        yield at_most(
            "list_ratio", newlines / max(1, statistics.token_count), options.new_line_ratio
        )
