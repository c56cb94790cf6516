"""Parallel: one row for each pair of aligned texts."""

from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import Bool, Int64
from clozeline.columns import IDS, Feature, Role
from clozeline.configuration.config import Positive, config_class
from clozeline.pipeline.group.groupings import (
    Context,
    GroupedRows,
    Grouping,
    MinimumRow,
    PartOptions,
    Starts,
)
from clozeline.pipeline.kernels.rates import MILLION
from clozeline.pipeline.kernels.sampling import offsets_of, rows_of
from clozeline.pipeline.rows import Ragged, RowBatch, segments
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import POSITIONS, below, kernel_keys, random_bits

SourceShare: TypeAlias = tuple[str, int, int]
"""label of an input, longest source text in tokens, and share of its pairs to keep in parts per
million"""


class ParallelGrouping(Grouping):
    """One row for each pair of texts; pairs are never packed.

    `cut: longer` removes tokens from the end of the longer side (of equal ones the target) while
    both together exceed `length`. `cut: source` cuts the source at `length` and drops pairs whose
    target exceeds `target_length`. With `sources` only pairs of these inputs are taken. Each input
    has a length and a share; the column `part` stores its index.

    Example (cut longer, length 5; text a b c d, other side v w x):
        ids a b c, target_ids v w
    """

    @config_class
    class Options(PartOptions):
        length: Annotated[int, Field(ge=2)]
        """Most tokens of both sides together (`cut: longer`), or of the source (`cut: source`)."""
        cut: Literal["longer", "source"] = "longer"
        """Side that is cut if a pair is too long."""
        target_length: Positive | None = None
        """Most tokens of the target, which is never cut (`cut: source`)."""
        sources: tuple[SourceShare, ...] = ()
        """Inputs to take (`cut: source`), with their length and share in parts per million; none:
        all inputs."""

        def __post_init__(self) -> None:
            if (self.cut == "source") != (self.target_length is not None):
                raise ValueError("give target_length with `cut: source`, and only then")
            if self.sources and (self.cut == "longer" or self.parts):
                raise ValueError("sources need `cut: source`, and no parts")

    keeps_words = False
    second_text: ClassVar = "target"
    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary) -> None:
        super().__init__(options, vocabulary)
        self._starts = self.starts_feature(
            "sentence_starts", "row indices of sentence starts in ids, first 0"
        )
        self.columns = (
            Feature("ids", "ids", IDS, "tokens of the text"),
            self._starts,
            Feature("target_ids", "ids", IDS, "tokens of the other side"),
            Feature(
                "target_language", "uint8", Role("row", below="languages"), "code of its language"
            ),
        )

    def group(self, documents: RowBatch, minimum: MinimumRow, context: Context) -> GroupedRows:
        sources = _side(documents, "token_ids")
        targets = _side(documents, "target_ids")
        starts = Starts.at(
            documents, np.arange(len(documents)), np.zeros(len(documents), np.int64), context.label
        )
        parts, lengths, unwanted = self._parts(documents, starts.uids, context)

        # the number of tokens to keep of each side
        if self.options.cut == "source":
            first = np.minimum(sources.lengths, lengths)
            second = targets.lengths
        else:
            half = lengths // 2
            first = np.where(sources.lengths <= half, sources.lengths, lengths - half)
            first = np.where(targets.lengths <= half, lengths - targets.lengths, first)
            first = np.minimum(sources.lengths, first)
            second = np.minimum(targets.lengths, lengths - first)

        both = sources.lengths + targets.lengths

        # the sentence starts to keep
        document_starts = _side(documents, "sentence_starts")
        inside = document_starts.values < np.repeat(first, document_starts.lengths)
        in_row = np.bincount(rows_of(document_starts)[inside], minlength=len(documents))
        sentence_starts = Ragged(
            document_starts.values[inside].astype(self._starts.dtype), offsets_of(in_row)
        )

        # drop pairs by the first reason that applies
        empty = (sources.lengths == 0) | (targets.lengths == 0)
        too_long = np.zeros(len(documents), np.bool_)
        if self.options.target_length is not None:
            too_long = targets.lengths > self.options.target_length
        short = first < minimum.tokens
        alone = sentence_starts.lengths < minimum.sentences
        reasons = {
            "empty": empty,
            **unwanted,
            "too_long": too_long,
            "too_short": short,
            "one_sentence": alone,
        }

        kept = np.ones(len(documents), np.bool_)
        dropped = {}
        for reason, rejected in reasons.items():
            dropped[reason] = int(both[kept & rejected].sum())
            kept &= ~rejected

        dropped["cut"] = int((both - first - second)[kept].sum())

        # the columns of the other pairs
        chosen = np.flatnonzero(kept)
        codes = _side(documents, "target_language")
        columns = {
            "ids": self._cut(sources, chosen, first),
            "sentence_starts": sentence_starts.take(chosen),
            "target_ids": self._cut(targets, chosen, second),
            "target_language": Ragged(codes.values.astype(np.uint8), codes.offsets).take(chosen),
        }

        counts: dict[str, object] = {
            "tokens_in_samples": int((first + second)[kept].sum()),
            "target_tokens": int(second[kept].sum()),
            "tokens_dropped": {reason: tokens for reason, tokens in dropped.items() if tokens},
            "separators": 0,
            "documents_dropped": {"empty": int(empty.sum())},
        }

        return GroupedRows(starts.take(kept).sample_rows(documents, columns, parts[kept]), counts)

    def _parts(
        self, documents: RowBatch, uids: NDArray[np.uint64], context: Context
    ) -> tuple[NDArray[np.uint8], Int64, dict[str, Bool]]:
        """Return the part and the length of each pair, and which pairs are not wanted, by reason.

        They belong to other inputs, or exceed the share of their input.
        """
        if not self.options.sources:
            parts, lengths = self.part_sampler(context).draw_rows(uids)
            return parts, lengths, {}

        # the index of each pair's input among the sources, or -1
        number = {name: index for index, (name, _, _) in enumerate(self.options.sources)}
        table = np.array([number.get(name, -1) for name in context.source_groups], np.int64)
        task = (
            table[documents.fixed["source_group"].astype(np.int64)]
            if len(table)
            else np.full(len(documents), -1)
        )

        keys = kernel_keys(context.seed, context.label, uids, np.zeros(len(uids), np.uint16))
        drawn = below(random_bits(keys, POSITIONS, 1)[:, 0] >> np.uint64(32), MILLION)
        share = np.array([share for _, _, share in self.options.sources])[task]
        lengths = np.array([length for _, length, _ in self.options.sources])[task]
        return (
            np.maximum(task, 0).astype(np.uint8),
            lengths,
            {"other_source": task < 0, "beyond_share": drawn >= share},
        )

    def _cut(self, side: Ragged, chosen: NDArray[np.intp], sizes: Int64) -> Ragged:
        values = segments(side.values, side.offsets[:-1][chosen], sizes[chosen])
        return Ragged(
            values.astype(self.vocabulary.id_dtype, copy=False), offsets_of(sizes[chosen])
        )


def _side(documents: RowBatch, name: str) -> Ragged:
    empty = Ragged(np.empty(0, np.uint16), np.zeros(len(documents) + 1, np.int64))
    return documents.columns.get(name, empty)
