"""Document: one document a row, or windows of whole sentences of a long one."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.example import Feature, Ragged, Rows
from pipeline.groupings import Grouped, Grouping, Least, kept_by_least, sample_rows, without_empty
from pipeline.weaving import starts_in_rows

__all__ = ["Document"]

Int64: TypeAlias = NDArray[np.int64]


class Document(Grouping):
    """A document of at most `length` tokens is one row; a longer one is cut greedily in windows of whole sentences.

    A sentence longer than `length` is cut at `length` and goes on in the next row. The last window is as short as it
    comes.

    Example (length 4, sentences a b | c d e | f g h i j):
        a b | c d e | f g h i | j
    """

    VERSION: ClassVar[int] = 1
    columns: ClassVar[tuple[Feature, ...]] = (
        Feature("ids", "ids", 1, "content tokens"),
        Feature("sentence_starts", "uint16", 1, "row indices of sentence starts, first 0"),
    )

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """Parameters of document rows."""

        length: Annotated[int, Field(ge=1)]
        """Most tokens in a row."""

    options: Options

    def group(self, documents: Rows, least: Least, label: str) -> Grouped:
        """Cut each document on its own."""
        filled = without_empty(documents)
        tokens, sentences = filled.columns["token_ids"], filled.columns["sentence_starts"]
        values = tokens.values.astype(self.vocabulary.id_dtype, copy=False)
        places = sentences.values.astype(np.int64) + np.repeat(tokens.offsets[:-1], sentences.lengths)
        offsets = self._cuts(tokens.offsets, places)
        columns = {"ids": Ragged(values, offsets), "sentence_starts": starts_in_rows(places, offsets)}
        lengths = np.diff(offsets)
        kept, dropped = kept_by_least(lengths, lengths, columns["sentence_starts"].lengths, least)
        first = np.searchsorted(tokens.offsets, offsets[:-1], side="right") - 1
        offset = offsets[:-1] - tokens.offsets[first]
        if not kept.all():
            columns = {name: column.take(np.flatnonzero(kept)) for name, column in columns.items()}
        rows = sample_rows(filled, first[kept], offset[kept], columns, label)
        counts: dict[str, Any] = {
            "tokens_in": len(values),
            "tokens_in_samples": int(lengths[kept].sum()),
            "tokens_dropped": dropped,
            "separators": 0,
            "documents_dropped": {"empty": len(documents) - len(filled)},
        }
        return Grouped(rows, counts)

    def _cuts(self, documents: Int64, sentences: Int64) -> Int64:
        """Bounds of all windows over the flat tokens; one window of every open document in each round."""
        begin, end = documents[:-1], documents[1:]
        cuts = [documents]
        while len(begin):
            limit = begin + self.options.length
            long = limit < end
            begin, end, limit = begin[long], end[long], limit[long]
            whole = sentences[np.searchsorted(sentences, limit, side="right") - 1] if len(limit) else limit
            begin = np.where(whole > begin, whole, limit)
            cuts.append(begin)
        return np.sort(np.concatenate(cuts))
