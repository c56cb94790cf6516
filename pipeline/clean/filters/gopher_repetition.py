"""Repetition rules of Gopher (Rae et al. 2021, arXiv:2112.11446, table A1)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, ClassVar, Final

from pydantic import Field

from clozeline.configuration.config import Natural, config_class
from clozeline.pipeline.clean.filters import (
    Document,
    Measure,
    TextStatistics,
    ThresholdFilter,
    at_most,
)
from clozeline.pipeline.clean.filters.gopher_quality import Share

_QUOTED: Final = re.compile(r"^[^\S\n]*>.*\n?", re.MULTILINE)


class GopherRepetition(ThresholdFilter):
    """Rejects texts with many repeated lines, paragraphs or n-grams.

    An n-gram that occurs once is not a repetition, and a row of equal marks, such as a ruler or a
    blank to fill in, is one mark. datatrove counts both. Lines that start with `>` are not judged:
    mails quote what another text says.

    40 times "the same words again " -> rejected as `top_2_gram`: 320 of 839 characters are "the
    same"
    """

    VERSION = 5
    thresholds: ClassVar[Mapping[str, str]] = {
        "dup_para_frac": "paragraphs",
        "dup_para_char_frac": "paragraph_chars",
        "dup_line_frac": "lines",
        "dup_line_char_frac": "line_chars",
        **{f"top_{n}_gram": "top_ngrams" for n in (2, 3, 4)},
        **{f"duplicated_{n}_n_grams": "duplicate_ngrams" for n in range(5, 11)},
    }

    @config_class
    class Options:
        """Thresholds, as published."""

        min_words: Natural = 50
        """texts with fewer words pass: the thresholds are for pages, and a phrase is a large share
        of a short text"""
        paragraphs: Share = 0.3
        """maximum fraction of paragraphs that repeat an earlier one, 0 to 1"""
        paragraph_chars: Share = 0.2
        """maximum fraction of characters in such paragraphs, 0 to 1"""
        lines: Share = 0.3
        """maximum fraction of lines that repeat an earlier one, 0 to 1"""
        line_chars: Share = 0.2
        """maximum fraction of characters in such lines, 0 to 1"""
        top_ngrams: dict[Annotated[int, Field(ge=2, le=4)], Share] = field(
            default_factory=lambda: {2: 0.2, 3: 0.18, 4: 0.16}
        )
        """maximum fraction of characters in the most frequent n-gram, 0 to 1, by n from 2 to 4"""
        duplicate_ngrams: dict[Annotated[int, Field(ge=5, le=10)], Share] = field(
            default_factory=lambda: {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
        )
        """maximum fraction of characters in n-grams that occurred before, 0 to 1, by n from 5 to
        10"""

    options: Options

    def measure(self, document: Document, statistics: TextStatistics) -> Iterator[Measure]:
        """Yield the measures, cheapest first."""
        options = self.options
        if ">" in statistics.text and _QUOTED.search(statistics.text):
            own = _QUOTED.sub("", statistics.text)
            statistics = TextStatistics(own, as_written=statistics.as_written)
        size = max(1, len(statistics.text))
        if statistics.words < options.min_words:
            return

        paragraphs = statistics.duplicate_paragraphs
        yield at_most(
            "dup_para_frac", paragraphs.copies / max(1, paragraphs.pieces), options.paragraphs
        )
        yield at_most("dup_para_char_frac", paragraphs.copied_chars / size, options.paragraph_chars)

        lines = statistics.duplicate_lines
        yield at_most("dup_line_frac", lines.copies / max(1, lines.pieces), options.lines)
        yield at_most("dup_line_char_frac", lines.copied_chars / size, options.line_chars)

        for n, threshold in sorted(options.top_ngrams.items()):
            yield at_most(f"top_{n}_gram", statistics.top_ngram_chars(n) / size, threshold)
        for n, threshold in sorted(options.duplicate_ngrams.items()):
            yield at_most(
                f"duplicated_{n}_n_grams", statistics.duplicate_ngram_chars(n) / size, threshold
            )
