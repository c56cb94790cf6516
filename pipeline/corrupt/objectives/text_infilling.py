"""BART's text infilling: replace each span (Poisson length, also 0) with a single [MASK]."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64, UInt64
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives import Draws
from clozeline.pipeline.corrupt.objectives._denoising import LOST, DenoisingPair, PairOptions, TokenRows
from clozeline.pipeline.kernels.distributions import poisson_thresholds
from clozeline.pipeline.kernels.ragged import insert_at, span_mask, starts_in_rows
from clozeline.pipeline.kernels.rates import MeanLength, Rate, count_at_rate, parts_per_million, thousandths
from clozeline.pipeline.kernels.sampling import (
    choose,
    draw_replacements,
    exclusive_cumsum,
    offsets_of,
    permute,
    rows_of,
)
from clozeline.pipeline.kernels.spans import draw_lengths, limit_spans
from clozeline.pipeline.rows import UNDO, Feature, Ragged
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import ORDERS, SLOTS


class TextInfilling(DenoisingPair):
    """Text infilling of BART (arXiv 1910.13461 §2.2): each span (Poisson length) is replaced with a single [MASK].

    Exactly k = round half up of noise_density x n tokens are removed, from 1 to n - 1. Spans, also those of length 0,
    lie in distinct gaps between the kept tokens, so no two [MASK] touch, and the input is never longer than the
    original. Features: `input_ids` [n - k + S + 2], `target_ids` [n + 1], `span_starts` and `span_lengths` [S] in
    target tokens.

    Example (noise_density 0.375, so 3 of 8; lengths 0, 3 in the gaps 1, 3; without special tokens):
        target  The puppies are frolicking outside the house .
        input   The [MASK] puppies are [MASK] house .
    """

    composition_rank: ClassVar[int] = 2
    rate_option: ClassVar[str] = "noise_density"
    noise_features = (
        Feature("span_starts", "uint16", UNDO, "content indices in the target where the spans start"),
        Feature("span_lengths", "uint16", UNDO, "tokens of each span, 0 allowed"),
    )

    @config_class
    class Options(PairOptions):
        noise_density: Rate = 0.3
        """Share of the tokens (or words) that are removed."""
        poisson_lambda: MeanLength = 3.0
        """Mean of the Poisson distribution of span lengths, in units."""
        unit: Literal["token", "word"] = "token"
        """Unit of `noise_density` and span lengths."""
        random_share: Rate = 0.0
        """Share of spans that become a random id instead of [MASK] (BART large: 0.1)."""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        if options.unit == "word":
            vocabulary.require_words(f"{self.label}.unit: word")
        self._mask = self.id_of("mask")
        self._random_ppm = parts_per_million(options.random_share)
        self._mean = thousandths(options.poisson_lambda)
        self._thresholds = poisson_thresholds(self._mean)

    def noise(self, text: TokenRows, draws: Draws) -> tuple[Ragged, dict[str, Ragged]]:
        """Draw spans of units, map them to tokens, and replace each with one mask."""
        ids, keys = text.ids, draws.keys(self.label)
        bounds, unit_offsets = self._units(ids)
        starts, lengths = self._draw_spans(keys, np.diff(unit_offsets))
        spans, rows = starts.lengths, rows_of(starts)
        # begins, sizes: spans in tokens, flat
        if bounds is None:
            begins, sizes = starts.values + ids.offsets[rows], lengths
        else:
            first = starts.values + unit_offsets[rows]
            begins, sizes = bounds[first], bounds[first + lengths] - bounds[first]
        # remove the spans, and insert one mask per span
        kept = ids.values.compress(~span_mask(len(ids.values), begins, sizes))
        flat_positions = begins - (np.cumsum(sizes) - sizes) + np.arange(len(begins))
        marks = Ragged(np.full(len(begins), self._mask, dtype=ids.values.dtype), starts.offsets)
        masked = draw_replacements(
            keys, marks, mask=self._mask, replaceable=self.vocabulary.replaceable,
            mask_ppm=1_000_000 - self._random_ppm, random_ppm=self._random_ppm,
        )  # fmt: skip
        taken = np.bincount(rows, sizes, minlength=len(ids)).astype(np.int64)
        result = Ragged(insert_at(kept, flat_positions, masked), offsets_of(ids.lengths - taken + spans))
        # spans in tokens of their row
        columns = {"span_starts": begins - ids.offsets[rows], "span_lengths": sizes}
        return result, {name: Ragged(values.astype(np.uint16), starts.offsets) for name, values in columns.items()}

    def starts_after(self, text: TokenRows, noise: Mapping[str, Ragged]) -> Ragged:
        """Return the sentence starts in the input; a sentence that starts inside a span starts after its mask."""
        spans, starts = noise["span_starts"], text.sentence_starts
        old = text.ids.offsets
        sizes = noise["span_lengths"].values.astype(np.int64)
        begins = spans.values + old[rows_of(spans)]
        flat_positions = starts.values.astype(np.int64) + np.repeat(old[:-1], starts.lengths)
        # earlier: spans before each sentence start; overlap: tokens from the start to the end of the last such span
        earlier = np.searchsorted(begins, flat_positions, side="left")
        ends = np.concatenate(([0], np.cumsum(sizes)))
        overlap = np.zeros(len(flat_positions), dtype=np.int64)
        inside = earlier > 0
        last = earlier[inside] - 1
        overlap[inside] = np.maximum(0, begins[last] + sizes[last] - flat_positions[inside])
        taken = np.bincount(rows_of(spans), sizes, minlength=len(old) - 1).astype(np.int64)
        offsets = offsets_of(text.ids.lengths - taken + spans.lengths)
        return starts_in_rows(flat_positions - ends[earlier] + overlap + earlier, offsets)

    def _units(self, ids: Ragged) -> tuple[Int64 | None, Int64]:
        """Return the token offsets of all words (None: units are tokens), and the first unit of each row."""
        if self.options.unit == "token":
            return None, ids.offsets
        opens = self.vocabulary.opens_word(ids.values)
        opens[ids.offsets[:-1][ids.lengths > 0]] = True
        first = np.flatnonzero(opens)
        return np.append(first, len(ids.values)), np.searchsorted(first, ids.offsets)

    def _draw_spans(self, keys: UInt64, units: Int64) -> tuple[Ragged, Int64]:
        """Draw the start and length of each span, in units of its row, ascending."""
        noise = count_at_rate(units, self._rate, np.maximum(1, units - 1))
        kept = units - noise
        drawn = draw_lengths(keys, noise, self._thresholds, 32 + (1500 * noise + self._mean - 1) // self._mean)
        lengths = limit_spans(drawn, np.minimum(kept + 1, noise))
        spans = lengths.lengths
        order = permute(keys, spans, ORDERS)
        shuffled = lengths.values[order.values + np.repeat(lengths.offsets[:-1], spans)]
        gaps = choose(keys, kept + 1, spans, SLOTS)
        return Ragged(gaps.values + exclusive_cumsum(shuffled, lengths.offsets), gaps.offsets), shuffled

    def undo(self, content: Int64, noise: Mapping[str, NDArray[Any]], length: int) -> Int64:
        """Remove the masks, and insert `LOST` tokens for the spans."""
        starts, lengths = noise["span_starts"].astype(np.int64), noise["span_lengths"].astype(np.int64)
        size = len(content) - len(starts) + int(lengths.sum())
        marks = starts - (np.cumsum(lengths) - lengths) + np.arange(len(starts))
        if len(starts) and (marks[-1] >= len(content) or (np.diff(marks) < 1).any()):
            raise ValueError(f"spans {starts.tolist()} of {lengths.tolist()} tokens do not fit the input")
        restored = np.full(size, LOST, dtype=np.int64)
        restored[~span_mask(size, starts, lengths)] = np.delete(content, marks)
        return restored
