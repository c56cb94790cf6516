"""Document: one row for each document, or windows of complete sentences of a long document."""

from typing import ClassVar

import numpy as np

from clozeline.arrays import Int64
from clozeline.columns import IDS, Feature
from clozeline.configuration.config import Positive, config_class
from clozeline.pipeline.group.groupings import (
    Context,
    GroupedRows,
    Grouping,
    MinimumRow,
    PartOptions,
    Starts,
)
from clozeline.pipeline.kernels.ragged import flatten_positions, starts_in_rows
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.vocabulary import Vocabulary


class DocumentGrouping(Grouping):
    """One row for each document; a document over `length` tokens is cut into several rows.

    The rows of a long document hold complete sentences. A sentence longer than `length` is cut at
    `length` and continues in the next row. The last row may be short.

    Example (length 4, sentences a b | c d e | f g h i j):
        a b | c d e | f g h i | j
    """

    @config_class
    class Options(PartOptions):
        length: Positive
        """Most tokens in a row."""

    options: Options
    drops_rest: ClassVar[bool] = False
    """only the first row of a document is kept"""

    def __init__(self, options: Options, vocabulary: Vocabulary) -> None:
        super().__init__(options, vocabulary)
        self._starts = self.starts_feature(
            "sentence_starts", "row indices of sentence starts, first 0"
        )
        self.columns = (Feature("ids", "ids", IDS, "content tokens"), self._starts)

    def group(self, documents: RowBatch, minimum: MinimumRow, context: Context) -> GroupedRows:
        filled = self.drop_empty(documents)
        tokens = filled.columns["token_ids"]
        sentences = filled.columns["sentence_starts"]
        values = tokens.values.astype(self.vocabulary.id_dtype, copy=False)
        flat_positions = flatten_positions(sentences, tokens.offsets)

        def ends(starts: Starts, lengths: Int64) -> Int64:
            # all positions are flat
            begin = tokens.offsets[starts.first] + starts.offset
            limit = begin + lengths
            is_long = limit < tokens.offsets[starts.first + 1]
            cut = np.where(is_long, self.cut(begin, limit, flat_positions), limit)
            return cut - tokens.offsets[starts.first]

        # cut the documents, and count starts from the start of their row
        starts, parts = self.windows(filled, context, ends)
        offsets = np.append(tokens.offsets[starts.first] + starts.offset, tokens.offsets[-1])
        columns = {
            "ids": Ragged(values, offsets),
            "sentence_starts": starts_in_rows(flat_positions, offsets, self._starts.dtype),
            **self.word_starts(filled, tokens.offsets, offsets),
        }

        # drop rows below the minimum
        lengths = np.diff(offsets)
        kept, dropped = minimum.filter(lengths, lengths, columns["sentence_starts"].lengths)
        if self.drops_rest:
            later = kept & (starts.offset > 0)
            dropped |= {"cut": int(lengths[later].sum())} if later.any() else {}
            kept &= ~later
        if not kept.all():
            columns = {name: column.take(np.flatnonzero(kept)) for name, column in columns.items()}
        rows = starts.take(kept).sample_rows(filled, columns, parts[kept])
        return GroupedRows(rows, self.count_tokens(documents, int(lengths[kept].sum()), dropped))

    def cut(self, begin: Int64, limit: Int64, sentences: Int64) -> Int64:
        """Return the ends of rows that begin in a document and end in it, at most at the limit.

        It is the last start of a sentence that fits, or the limit.
        """
        last_start = sentences[np.searchsorted(sentences, limit, side="right") - 1]
        return np.where(last_start > begin, last_start, limit)
