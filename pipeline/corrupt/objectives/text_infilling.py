"""Text infilling: replace each span of tokens with a single [MASK] (BART)."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64, UInt64
from clozeline.columns import UNDO, Feature
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives import RandomKeys
from clozeline.pipeline.corrupt.objectives._choice import MASK, WORD, PossibleChoices
from clozeline.pipeline.corrupt.objectives._denoising import (
    LOST,
    DenoisingPair,
    PairOptions,
    TokenRows,
)
from clozeline.pipeline.kernels.distributions import poisson_thresholds
from clozeline.pipeline.kernels.ragged import (
    flatten_positions,
    insert_at,
    span_mask,
    starts_in_rows,
)
from clozeline.pipeline.kernels.rates import (
    MeanLength,
    Rate,
    count_at_rate,
    parts_per_million,
    thousandths,
)
from clozeline.pipeline.kernels.sampling import (
    choose,
    draw_replacements,
    exclusive_cumsum,
    offsets_of,
    permute,
    rows_of,
)
from clozeline.pipeline.kernels.spans import draw_lengths, limit_spans
from clozeline.pipeline.kernels.whole_words import find_words, split_long_words
from clozeline.pipeline.rows import Ragged
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import ORDERS, SLOTS


class TextInfilling(DenoisingPair):
    """Text infilling of BART (arXiv 1910.13461 §2.2): each span becomes a single [MASK].

    Of the n tokens exactly k are removed: noise_density x n, rounded half up, from 1 to n - 1. Span
    lengths follow a Poisson distribution; a span of length 0 inserts a [MASK]. Spans lie in
    distinct gaps between the remaining tokens. So no two [MASK] touch, and the input is never
    longer than the original.

    With `unit: word` spans are drawn in words; a word longer than k tokens is treated as words of
    one token each. If the spans then have too many tokens, those drawn last are cut; if they have
    too few, those drawn first grow to the right. Features: `input_ids` [n - k + S + 2],
    `target_ids` [n + 1], `span_starts` and `span_lengths` [S] in target tokens.

    Example (noise_density 0.375, so 3 of 8; lengths 0, 3 in the gaps 1, 3; without special tokens):
        target  The puppies are frolicking outside the house .
        input   The [MASK] puppies are [MASK] house .
    """

    VERSION = 2
    composition_rank = 2
    rate_option = "noise_density"
    choices = PossibleChoices("[before 2, 4-5]", (MASK, WORD))
    noise_features = (
        Feature(
            "span_starts", "uint16", UNDO, "content indices in the target where the spans start"
        ),
        Feature("span_lengths", "uint16", UNDO, "tokens of each span, 0 allowed"),
    )

    @config_class
    class Options(PairOptions):
        noise_density: Rate = 0.3
        """Share of the tokens that are removed."""
        poisson_lambda: MeanLength = 3.0
        """Mean of the Poisson distribution of span lengths, in units."""
        unit: Literal["token", "word"] = "token"
        """Unit of span lengths."""
        random_share: Rate = 0.0
        """Share of the spans that become a random id of the corpus instead of [MASK] (BART large:
        0.1)."""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        if options.unit == "word":
            vocabulary.require_words(f"{self.label}.unit: word")
        self.reads_words = options.unit == "word"
        self._mask = self.id_of("mask")
        self._random_ppm = parts_per_million(options.random_share)
        self.shares = {"spans": options.noise_density, "length": options.poisson_lambda}
        self._mean = thousandths(options.poisson_lambda)
        self._thresholds = poisson_thresholds(self._mean)

    def add_noise(
        self, text: TokenRows, random_keys: RandomKeys
    ) -> tuple[Ragged, dict[str, Ragged]]:
        """Choose spans, and replace each with one mask."""
        ids = text.ids
        keys = random_keys.for_label(self.label)
        if self.chosen is None:
            begins, sizes, rows = self._choose_spans(keys, text)
        else:
            begins, sizes = self.chosen.token_spans(len(ids.values))
            rows = np.zeros_like(begins)
        spans = np.bincount(rows, minlength=len(ids))
        offsets = offsets_of(spans)

        # remove the spans, and insert one mask per span
        kept = ids.values.compress(~span_mask(len(ids.values), begins, sizes))
        flat_positions = begins - (np.cumsum(sizes) - sizes) + np.arange(len(begins))
        marks = Ragged(np.full(len(begins), self._mask, dtype=ids.values.dtype), offsets)
        if self.chosen is None:
            masked = draw_replacements(
                keys,
                marks,
                mask=self._mask,
                replaceable=self.vocabulary.replaceable,
                mask_ppm=1_000_000 - self._random_ppm,
                random_ppm=self._random_ppm,
            )
        else:
            masked = self.chosen.replace_spans(self._mask)

        taken = np.bincount(rows, sizes, minlength=len(ids)).astype(np.int64)
        result = Ragged(
            insert_at(kept, flat_positions, masked), offsets_of(ids.lengths - taken + spans)
        )

        # spans in tokens of their row
        columns = {"span_starts": begins - ids.offsets[rows], "span_lengths": sizes}
        return result, {
            name: Ragged(values.astype(np.uint16), offsets) for name, values in columns.items()
        }

    def sentence_starts_after(self, text: TokenRows, noise: Mapping[str, Ragged]) -> Ragged:
        """Return the sentence starts after masking; a start inside a span moves behind its mask."""
        spans = noise["span_starts"]
        starts = text.sentence_starts
        old = text.ids.offsets
        sizes = noise["span_lengths"].values.astype(np.int64)
        begins = spans.values + old[rows_of(spans)]
        flat_positions = flatten_positions(starts, old)

        # earlier: spans before each sentence start; overlap: tokens from the start to the end of
        # the last such span
        earlier = np.searchsorted(begins, flat_positions, side="left")
        ends = np.concatenate(([0], np.cumsum(sizes)))
        overlap = np.zeros(len(flat_positions), dtype=np.int64)
        inside = earlier > 0
        last = earlier[inside] - 1
        overlap[inside] = np.maximum(0, begins[last] + sizes[last] - flat_positions[inside])
        taken = np.bincount(rows_of(spans), sizes, minlength=len(old) - 1).astype(np.int64)
        offsets = offsets_of(text.ids.lengths - taken + spans.lengths)
        return starts_in_rows(flat_positions - ends[earlier] + overlap + earlier, offsets)

    def _choose_spans(self, keys: UInt64, text: TokenRows) -> tuple[Int64, Int64, Int64]:
        """Choose spans in ascending order; return their flat positions, tokens and rows."""
        ids = text.ids

        if self.options.unit == "token":
            starts, lengths, _ = self._draw_spans(keys, ids.lengths)
            rows = rows_of(starts)
            return starts.values + ids.offsets[rows], lengths, rows

        # words that are longer than the tokens to remove are split into single tokens
        budgets = self._count_noise(ids.lengths)
        opens = (
            self.vocabulary.opens_word(ids.values) if text.opens_word is None else text.opens_word
        )
        words = find_words(ids, opens, self._reserved)
        words = split_long_words(words, budgets)
        starts, lengths, order = self._draw_spans(keys, np.diff(words.offsets))

        # begins, sizes: spans in tokens, flat
        rows = rows_of(starts)
        bounds = np.append(words.starts, len(ids.values))
        first = starts.values + words.offsets[rows]
        begins = bounds[first]
        sizes = bounds[first + lengths] - bounds[first]

        # too many tokens: cut the spans that were drawn last, and drop those that become empty
        by_draw = order.values + order.offsets[rows]
        before = _sums_before(sizes, by_draw, starts.offsets)
        cut = np.minimum(sizes, np.maximum(budgets[rows] - before, 0))
        keep = (cut > 0) | (sizes == 0)
        begins = begins[keep]
        sizes = cut[keep]
        rows = rows[keep]
        by_draw = by_draw[keep]

        # too few tokens: the spans that were drawn first grow, up to a token before the next span
        is_last = np.append(rows[1:] != rows[:-1], True)[: len(rows)]
        ends = np.where(is_last, ids.offsets[rows + 1], np.append(begins[1:], 0)[: len(rows)] - 1)
        free = np.where(sizes > 0, ends - begins - sizes, 0)
        missing = budgets - np.bincount(rows, sizes, minlength=len(ids)).astype(np.int64)
        before = _sums_before(free, by_draw, starts.offsets)
        return begins, sizes + np.clip(missing[rows] - before, 0, free), rows

    def _count_noise(self, units: Int64) -> Int64:
        """Return how many units to remove from rows of `units`: at most all but one."""
        return count_at_rate(units, self._rate, np.maximum(1, units - 1))

    def _draw_spans(self, keys: UInt64, units: Int64) -> tuple[Ragged, Int64, Ragged]:
        """Draw starts and lengths of spans, in units of their row, ascending.

        Return them with the order in which the spans were drawn.
        """
        noise = self._count_noise(units)
        kept = units - noise
        drawn = draw_lengths(
            keys, noise, self._thresholds, 32 + (1500 * noise + self._mean - 1) // self._mean
        )
        lengths = limit_spans(drawn, np.minimum(kept + 1, noise))
        spans = lengths.lengths
        order = permute(keys, spans, ORDERS)
        shuffled = lengths.values[order.values + np.repeat(lengths.offsets[:-1], spans)]
        gaps = choose(keys, kept + 1, spans, SLOTS)
        return (
            Ragged(gaps.values + exclusive_cumsum(shuffled, lengths.offsets), gaps.offsets),
            shuffled,
            order,
        )

    def undo(self, content: Int64, noise: Mapping[str, NDArray[np.generic]], length: int) -> Int64:
        """Replace each mask with as many `LOST` tokens as its span has."""
        starts = noise["span_starts"].astype(np.int64)
        lengths = noise["span_lengths"].astype(np.int64)
        size = len(content) - len(starts) + int(lengths.sum())
        marks = starts - (np.cumsum(lengths) - lengths) + np.arange(len(starts))
        if len(starts) and (marks[-1] >= len(content) or (np.diff(marks) < 1).any()):
            raise ValueError(
                f"spans from {starts.tolist()} of {lengths.tolist()} tokens do not fit the input"
            )
        restored = np.full(size, LOST, dtype=np.int64)
        restored[~span_mask(size, starts, lengths)] = np.delete(content, marks)
        return restored


def _sums_before(values: Int64, by_draw: Int64, offsets: Int64) -> Int64:
    """Return for each span the sum of `values` over the spans of its row that were drawn earlier.

    `by_draw` is the flat index of each span in the order of the draws, `offsets` the offsets of the
    rows in this order.
    """
    drawn = np.zeros(int(offsets[-1]), dtype=np.int64)
    drawn[by_draw] = values
    return exclusive_cumsum(drawn, offsets)[by_draw]
