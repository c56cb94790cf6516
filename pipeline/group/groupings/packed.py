"""Packed: documents one after another, cut into rows of a fixed length."""

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np

from clozeline import plugins
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
from clozeline.pipeline.group.groupings._grouping import PartSampler
from clozeline.pipeline.kernels.ragged import flatten_positions, insert_at, starts_in_rows
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import sample_uid


class PackedGrouping(Grouping):
    """All documents, each followed by its separator, in one stream, cut every `length` tokens.

    A separator belongs to the document before it, and may be the first token of a row. The last row
    of a shard may be short.

    Example (length 4, separator eos, documents a b c and d e f g h):
        a b c </s> | d e f g | h </s>
        document_starts [0] [0] [0], offsets 0, 0, 4
    """

    holds_documents = True
    has_separator = True
    cuts_at_length: ClassVar[bool] = True

    @config_class
    class Options(PartOptions):
        length: Positive
        """Tokens in a row, separators included."""
        separator: Literal["none", "sep", "eos"] = "none"
        """Special token after each document."""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary) -> None:
        super().__init__(options, vocabulary)
        sentences = self.starts_feature(
            "sentence_starts", "row indices of sentence starts, first 0"
        )
        documents = self.starts_feature(
            "document_starts", "row indices of document starts, first 0"
        )
        self.columns = (
            Feature("ids", "ids", IDS, "content tokens and separators"),
            sentences,
            documents,
        )

        self._start_dtype = documents.dtype

        where = f"grouping {plugins.name_of(type(self))}, separator {options.separator},"
        self._separator = (
            None if options.separator == "none" else vocabulary.id_of(options.separator, where)
        )
        self.separators = int(self._separator is not None)

    def group(self, documents: RowBatch, minimum: MinimumRow, context: Context) -> GroupedRows:
        """Concatenate the documents, and cut the stream into rows."""
        filled = self.drop_empty(documents)
        tokens = filled.columns["token_ids"]
        sentences = filled.columns["sentence_starts"]

        # concatenate all tokens; `begins` [documents + 1] and `sentence_positions` [sentences]
        # index this stream
        begins = offsets_of(tokens.lengths + self.separators)
        stream = tokens.values.astype(self.vocabulary.id_dtype, copy=False)
        separators = np.empty(0, dtype=np.int64)
        if self._separator is not None:
            separators = begins[1:] - 1  # the last position of each document is its separator
            stream = insert_at(stream, separators, self._separator)

        sampler = self.part_sampler(context)
        sentence_positions = flatten_positions(sentences, begins)

        # cut the stream at `offsets` [rows + 1], and count starts from the start of their row
        offsets = self.row_bounds(filled, begins, sentence_positions, sampler, context.label)
        columns = {
            "ids": Ragged(stream, offsets),
            "sentence_starts": starts_in_rows(sentence_positions, offsets, self._start_dtype),
            "document_starts": starts_in_rows(begins[:-1], offsets, self._start_dtype),
            **self.word_starts(filled, begins, offsets),
        }

        # drop rows below the minimum; separators do not count as tokens
        lengths = np.diff(offsets)
        in_row = np.bincount(
            np.searchsorted(offsets, separators, side="right") - 1, minlength=len(lengths)
        )
        kept, dropped = minimum.filter(
            lengths, lengths - in_row, columns["sentence_starts"].lengths
        )

        # the uid of a row follows from its first token: the document, and the offset in it
        first = np.searchsorted(begins, offsets[:-1], side="right") - 1
        starts = Starts.at(filled, first, offsets[:-1] - begins[first], context.label)
        if not kept.all():
            columns = {name: column.take(np.flatnonzero(kept)) for name, column in columns.items()}
        rows = starts.take(kept).sample_rows(
            filled, columns, sampler.draw_rows(starts.uids)[0][kept]
        )
        in_samples = int((lengths - in_row)[kept].sum())
        in_separators = int(in_row[kept].sum())
        return GroupedRows(rows, self.count_tokens(documents, in_samples, dropped, in_separators))

    def row_bounds(
        self, documents: RowBatch, begins: Int64, sentences: Int64, sampler: PartSampler, label: str
    ) -> Int64:
        """Return the starts of rows in the stream, and its end.

        `begins` [documents + 1] are the starts of the documents and the end of the stream;
        `sentences` are the starts of sentences.
        """
        end = int(begins[-1])
        if len({length for length, _ in self.options.parts}) > 1:
            return cut_stream(
                documents, begins.tolist(), sampler, label, lambda _, limit: min(limit, end)
            )
        # the last row is shorter if the length does not divide the total
        return np.append(np.arange(0, end, self.options.length), end)


def cut_stream(
    documents: RowBatch,
    begins: list[int],
    sampler: PartSampler,
    label: str,
    stop: Callable[[int, int], int],
) -> Int64:
    """Return the bounds of rows whose lengths are drawn by their starts, one row after another.

    `begins` are as in `PackedGrouping.row_bounds`. `stop` maps the start of a row, and the end of a
    full row from there, to the end of the row.
    """
    uids = [uid.tobytes() for uid in documents.fixed["document_uid"]]
    copies = documents.fixed["copy"].tolist()
    bounds = [0]
    document = 0
    while bounds[-1] < begins[-1]:
        while begins[document + 1] <= bounds[-1]:
            document += 1
        offset = bounds[-1] - begins[document]
        _, length = sampler.draw_row(sample_uid(uids[document], copies[document], offset, label))
        bounds.append(stop(bounds[-1], bounds[-1] + length))
    return np.array(bounds, dtype=np.int64)
