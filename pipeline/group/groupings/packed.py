"""Packed: documents run on in rows of one fixed length."""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

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
    filter_by_minimum,
    row_offsets,
    sample_rows,
    starts_at,
    starts_feature,
    without_empty,
)
from clozeline.pipeline.group.groupings._parts import PartDraws
from clozeline.pipeline.kernels.ragged import insert_at, starts_in_rows
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import Feature, Ragged, Rows
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import sample_uid


class Packed(Grouping):
    """All documents, each followed by its separator, are one stream of tokens, cut every `length` tokens.

    A separator belongs to the document before it and may open a row. The shard's last row may be short.

    Example (length 4, separator eos, documents a b c and d e f g h):
        a b c </s> | d e f g | h </s>
        document_starts [0] [0] [0], offsets 0, 0, 4
    """

    VERSION: ClassVar[int] = 1

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(PartOptions):
        """Parameters of packed rows."""

        length: Annotated[int, Field(ge=1)]
        """Tokens in a row, separators included."""
        separator: Literal["none", "sep", "eos"] = "none"
        """Special token after each document."""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary) -> None:
        super().__init__(options, vocabulary)
        sentences = starts_feature("sentence_starts", options.length, "row indices of sentence starts, first 0")
        documents = starts_feature("document_starts", options.length, "row indices of document starts, first 0")
        self.columns = (Feature("ids", "ids", 1, "content tokens and separators"), sentences, documents)
        self._start_dtype = documents.dtype
        name = options.separator
        self._separator = None if name == "none" else vocabulary.id_of(name, f"grouping packed, separator {name},")

    def group(self, documents: Rows, minimum: MinimumRow, context: Context) -> Grouped:
        """Lay the documents end to end and cut."""
        filled = without_empty(documents)
        tokens, sentences = filled.columns["token_ids"], filled.columns["sentence_starts"]
        # Lay all tokens end to end; `begins` [documents + 1] and `sentence_positions` [sentences] index this stream.
        begins = offsets_of(tokens.lengths + (self._separator is not None))
        stream, separators = self._stream(tokens, begins)
        draws = self.part_draws(context)
        sentence_positions = sentences.values.astype(np.int64) + np.repeat(begins[:-1], sentences.lengths)
        # Cut the stream at `offsets` [rows + 1], and count starts from the start of their row.
        offsets = self.bounds(filled, begins, sentence_positions, draws, context.label)
        columns = {
            "ids": Ragged(stream, offsets),
            "sentence_starts": starts_in_rows(sentence_positions, offsets, self._start_dtype),
            "document_starts": starts_in_rows(begins[:-1], offsets, self._start_dtype),
        }
        # Drop rows below the minimum; separators do not count as tokens.
        lengths = np.diff(offsets)
        in_row = np.bincount(np.searchsorted(offsets, separators, side="right") - 1, minlength=len(lengths))
        kept, dropped = filter_by_minimum(lengths, lengths - in_row, columns["sentence_starts"].lengths, minimum)
        # Name each row after its first token: document, and offset in it.
        first = np.searchsorted(begins, offsets[:-1], side="right") - 1
        starts = starts_at(filled, first, offsets[:-1] - begins[first], context.label)
        if not kept.all():
            columns = {name: column.take(np.flatnonzero(kept)) for name, column in columns.items()}
        rows = sample_rows(filled, starts.take(kept), columns, draws.of_rows(starts.uids)[0][kept])
        counts: dict[str, Any] = {
            "tokens_in": len(tokens.values),
            "tokens_in_samples": int((lengths - in_row)[kept].sum()),
            "tokens_dropped": dropped,
            "separators": int(in_row[kept].sum()),
            "documents_dropped": {"empty": len(documents) - len(filled)},
        }
        return Grouped(rows, counts)

    def bounds(self, documents: Rows, begins: Int64, sentences: Int64, draws: PartDraws, label: str) -> Int64:
        """Return where rows begin in the stream, and its end.

        Args:
            documents: the documents that have tokens.
            begins: where each document begins in the stream, and the stream's end.
            sentences: where sentences begin in the stream.
            draws: of the lengths of rows.
            label: label of the grouping.
        """
        end = int(begins[-1])
        if len({length for length, _ in self.options.parts}) > 1:
            return cuts(documents, begins.tolist(), draws, label, lambda _, limit: min(limit, end))
        return row_offsets(end, self.options.length)

    def _stream(self, tokens: Ragged, begins: Int64) -> tuple[NDArray[Any], Int64]:
        values = tokens.values.astype(self.vocabulary.id_dtype, copy=False)
        if self._separator is None:
            return values, np.empty(0, dtype=np.int64)
        ends = begins[1:] - 1  # the last position of each document is its separator
        return insert_at(values, ends, self._separator), ends


def cuts(documents: Rows, begins: list[int], draws: PartDraws, label: str, stop: Callable[[int, int], int]) -> Int64:
    """Return bounds of rows whose lengths follow from where they start, one after another.

    Args:
        documents: the documents that have tokens.
        begins: where each document begins in the stream, and the stream's end.
        draws: of the lengths of rows.
        label: label of the grouping.
        stop: from where a row begins and where a full row ends to where the row ends.
    """
    uids = [uid.tobytes() for uid in documents.fixed["document_uid"]]
    copies = documents.fixed["copy"].tolist()
    bounds, document = [0], 0
    while bounds[-1] < begins[-1]:
        while begins[document + 1] <= bounds[-1]:
            document += 1
        offset = bounds[-1] - begins[document]
        _, length = draws.of_row(sample_uid(uids[document], copies[document], offset, label))
        bounds.append(stop(bounds[-1], bounds[-1] + length))
    return np.array(bounds, dtype=np.int64)
