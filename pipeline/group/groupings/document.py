"""Group documents into rows: one per row, or windows of complete sentences of a long one."""

from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.arrays import Int64
from clozeline.configuration.config import STRICT
from clozeline.pipeline.group.groupings import (
    Context,
    Grouped,
    Grouping,
    MinimumRow,
    PartOptions,
    Starts,
    filter_by_minimum,
    sample_rows,
    starts_at,
    starts_feature,
    without_empty,
)
from clozeline.pipeline.kernels.ragged import starts_in_rows
from clozeline.pipeline.rows import Feature, Ragged, Rows
from clozeline.pipeline.vocabulary import Vocabulary


class Document(Grouping):
    """A document of at most `length` tokens is one row; a longer one is cut into windows of complete sentences.

    A sentence longer than `length` is cut at `length` and continued in the next row. The last window may be short.

    Example (length 4, sentences a b | c d e | f g h i j):
        a b | c d e | f g h i | j
    """

    VERSION: ClassVar[int] = 1

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(PartOptions):
        """Parameters of document rows."""

        length: Annotated[int, Field(ge=1)]
        """Most tokens in a row."""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary) -> None:
        super().__init__(options, vocabulary)
        self._starts = starts_feature("sentence_starts", options.length, "row indices of sentence starts, first 0")
        self.columns = (Feature("ids", "ids", 1, "content tokens"), self._starts)

    def group(self, documents: Rows, minimum: MinimumRow, context: Context) -> Grouped:
        """Cut each document on its own."""
        filled = without_empty(documents)
        tokens, sentences = filled.columns["token_ids"], filled.columns["sentence_starts"]
        values = tokens.values.astype(self.vocabulary.id_dtype, copy=False)
        flat_positions = sentences.values.astype(np.int64) + np.repeat(tokens.offsets[:-1], sentences.lengths)
        starts, parts = self._windows(filled, flat_positions, context)
        offsets = np.append(tokens.offsets[starts.first] + starts.offset, tokens.offsets[-1])
        columns = {
            "ids": Ragged(values, offsets),
            "sentence_starts": starts_in_rows(flat_positions, offsets, self._starts.dtype),
        }
        lengths = np.diff(offsets)
        kept, dropped = filter_by_minimum(lengths, lengths, columns["sentence_starts"].lengths, minimum)
        if not kept.all():
            columns = {name: column.take(np.flatnonzero(kept)) for name, column in columns.items()}
        rows = sample_rows(filled, starts.take(kept), columns, parts[kept])
        counts: dict[str, Any] = {
            "tokens_in": len(values),
            "tokens_in_samples": int(lengths[kept].sum()),
            "tokens_dropped": dropped,
            "separators": 0,
            "documents_dropped": {"empty": len(documents) - len(filled)},
        }
        return Grouped(rows, counts)

    def _windows(self, documents: Rows, sentences: Int64, context: Context) -> tuple[Starts, NDArray[np.uint8]]:
        """Return where all windows start, and their parts; each round cuts one window of every open document."""
        tokens, draws = documents.columns["token_ids"].offsets, self.part_draws(context)
        first = np.arange(len(documents))
        begin, end = tokens[:-1], tokens[1:]
        windows: list[tuple[Any, ...]] = []
        while len(begin):
            starts = starts_at(documents, first, begin - tokens[first], context.label)
            parts, lengths = draws.of_rows(starts.uids)
            windows.append((starts.first, starts.offset, starts.uids, parts))
            limit = begin + lengths
            long = limit < end
            first, begin, end, limit = first[long], begin[long], end[long], limit[long]
            whole = sentences[np.searchsorted(sentences, limit, side="right") - 1] if len(limit) else limit
            begin = np.where(whole > begin, whole, limit)
        if not windows:
            return starts_at(documents, first, begin, context.label), np.empty(0, np.uint8)
        first, offset, uids, parts = (np.concatenate(column) for column in zip(*windows, strict=True))
        order = np.lexsort((offset, first))
        return Starts(first, offset, uids).take(order), parts[order]
