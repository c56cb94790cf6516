"""A row as passages and sheets. Which ones follows from the columns that the row has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.rows import Row
from tools.viewer.masked_parts import prediction_parts, prefix_of, sheets_beside_labels
from tools.viewer.pair_parts import number_sheets, two_texts
from tools.viewer.pieces import PLAIN, Mark, Pieces
from tools.viewer.traces import Trace, has_noise, sentinel_spans, trace_noise
from tools.viewer.view import Cell, Passage, Role, Sheet, Token

__all__ = ["RowReader"]

Parts = list[Passage | Sheet]
Ints = NDArray[np.int64]

_CONTEXT: Final = 5
"""Tokens shown on either side of a span."""
_BASES: Final = ("input_ids", "ids", "token_ids")


@dataclass(frozen=True)
class RowReader:
    """Reads rows of one set.

    Args:
        pieces: ids to text.
        most: tokens of a passage that are shown.
    """

    pieces: Pieces
    most: int

    def parts(self, row: Row) -> Parts:
        """Everything to show of a row."""
        both = two_texts(self, row, self._markers(row, pair=True))
        return [*(both or self._texts(row)), *number_sheets(row)]

    def _texts(self, row: Row) -> Parts:
        columns = row.columns
        if "label_positions" in columns and "label_ids" in columns:
            return self._labels(row)
        if "prediction_order" in columns:
            return prediction_parts(self, row, self._markers(row))
        if "target_start" in columns:
            return self._labels(_fragment_as_labels(row))
        split = self._input_and_target(row)
        if split is not None and np.isin(split[0], self.pieces.vocabulary.sentinels).any():
            return self._sentinels(*split)
        if "target_ids" in columns and has_noise(columns):
            return self._noise(row)
        if "target_ids" in columns:
            return [self.passage(title, columns[f"{title}_ids"]) for title in ("input", "target")]
        return self._plain(row)

    def _input_and_target(self, row: Row) -> tuple[Ints, Ints] | None:
        """Two columns, or one with the target behind the prefix."""
        columns = row.columns
        if "target_ids" in columns:
            return columns["input_ids"].astype(np.int64), columns["target_ids"].astype(np.int64)
        if "prefix_length" in columns:
            ids, prefix = columns["input_ids"].astype(np.int64), int(columns["prefix_length"][0])
            return ids[:prefix], ids[prefix:]
        return None

    def passage(
        self, title: str, ids: NDArray[Any], marks: Sequence[Mark] | None = None, markers: dict[int, str] | None = None
    ) -> Passage:
        """Tokens with markers in front of some of them, cut at the most that is shown."""
        shown = min(len(ids), self.most)
        cuts = sorted({0, shown, *(place for place in markers or {} if 0 <= place < shown)})
        tokens: list[Token] = []
        for first, last in pairwise(cuts):
            if markers and first in markers:
                tokens.append(Token(markers[first], "marker"))
            tokens += self.pieces.tokens(ids[first:last].tolist(), None if marks is None else marks[first:last])
        if shown < len(ids):
            tokens.append(Token(f" … {len(ids) - shown:,} more tokens", "marker"))
        return Passage(f"{title} ({len(ids):,} tokens)", tuple(tokens))

    def cell(self, ids: NDArray[Any], mark: Mark = PLAIN) -> Cell:
        """Tokens with one mark."""
        return tuple(self.pieces.tokens(ids.tolist(), [mark] * len(ids)))

    def label(self, token: int, mark: Mark) -> tuple[Token, ...]:
        """One token on one line; blanks alone are shown by signs."""
        (shown,) = self.pieces.tokens([token], [mark])
        text = shown.text.replace("\n", "")
        return (replace(shown, text=text if text.strip() else "␣" * len(text)),)

    def _markers(self, row: Row, *, pair: bool = False) -> dict[int, str]:
        """Boundaries that the columns name, for the base column."""
        markers: dict[int, str] = {}
        found = {"sentence_starts": "|", "segment_starts": "‖", "document_starts": "▌"}
        for name, sign in found.items():
            if name in row.columns and (pair or "target_ids" not in row.columns):
                markers |= {int(place): sign for place in row.columns[name]}
        return markers

    def _plain(self, row: Row) -> Parts:
        base = next(name for name in _BASES if name in row.columns)
        ids = row.columns[base]
        marks = None
        if "prefix_length" in row.columns:
            prefix = prefix_of(row)
            marks = [Mark("prefix")] * prefix + [PLAIN] * (len(ids) - prefix)
        return [self.passage(base, ids, marks, self._markers(row))]

    def _labels(self, row: Row) -> Parts:
        ids, original = row.columns["input_ids"].astype(np.int64), row.columns["input_ids"].astype(np.int64)
        positions, labels = row.columns["label_positions"].astype(np.int64), row.columns["label_ids"].astype(np.int64)
        original[positions] = labels
        mask = self.pieces.vocabulary.specials.get("mask", -1)
        prefix = prefix_of(row)
        marks, before = ([Mark("prefix")] * prefix + [PLAIN] * (len(ids) - prefix) for _ in range(2))
        rows: list[tuple[Cell, ...]] = []
        for place, label in zip(positions.tolist(), labels.tolist(), strict=True):
            shown = int(ids[place])
            kind: Role = "masked" if shown == mask else "kept" if shown == label else "replaced"
            marks[place] = Mark(kind, 0, f"original {self.pieces.piece(label)!r}")
            before[place] = Mark(kind, 0, f"input {self.pieces.piece(shown)!r}")
            cells = (self.label(label, before[place]), self.label(shown, marks[place]))
            rows.append((str(place), *cells, kind))
        return [
            self.passage("input", ids, marks, self._markers(row)),
            self.passage("original", original, before, self._markers(row)),
            Sheet(f"labels ({len(rows)})", ("place", "original", "input", "what"), tuple(rows)),
            *sheets_beside_labels(self, row, original),
        ]

    def _sentinels(self, ids: Ints, target: Ints) -> Parts:
        """Sentinels and their spans side by side, and the text put together again."""
        sentinels = self.pieces.vocabulary.sentinels
        rank = {token: number for number, token in enumerate(sentinels)}
        spans = sentinel_spans(self._without_end(target), sentinels)
        marks = [Mark("sentinel", rank[token]) if token in rank else PLAIN for token in ids.tolist()]
        original: list[int] = []
        before: list[Mark] = []
        rows: list[tuple[Cell, ...]] = []
        for place, token in enumerate(ids.tolist()):
            if token not in rank:
                original.append(token)
                before.append(PLAIN)
                continue
            number = rank[token]
            span = target[spans.get(number, np.empty(0, np.int64))]
            original += span.tolist()
            before += [Mark("span", number, f"behind {self.pieces.piece(token)} in the target")] * len(span)
            around = (ids[max(0, place - _CONTEXT) : place], ids[place + 1 : place + 1 + _CONTEXT])
            rows.append((self.cell(ids[place : place + 1], Mark("sentinel", number)), self.cell(around[0]),
                         self.cell(span, Mark("span", number)), self.cell(around[1])))  # fmt: skip
        return [
            self.passage("input", ids, marks),
            self.passage("target", target, self._target_marks(target, spans, rank)),
            self.passage("original", np.array(original), before),
            Sheet(f"spans ({len(rows)})", ("sentinel", "before", "span", "after"), tuple(rows)),
        ]

    def _target_marks(self, target: Ints, spans: dict[int, Ints], rank: dict[int, int]) -> list[Mark]:
        marks = [Mark("sentinel", rank[token]) if token in rank else PLAIN for token in target.tolist()]
        for number, places in spans.items():
            for place in places.tolist():
                marks[place] = Mark("span", number)
        return marks

    def _without_end(self, target: Ints) -> Ints:
        end = self.pieces.vocabulary.specials.get("eos")
        return target[:-1] if len(target) and int(target[-1]) == end else target

    def _noise(self, row: Row) -> Parts:
        """Input and original with the noise between them."""
        ids, target = (row.columns[name].astype(np.int64) for name in ("input_ids", "target_ids"))
        content = self._without_end(target)
        trace = trace_noise(row.columns, len(content))
        head = len(ids) - len(trace.origin) - 1
        if not 0 <= head <= 1:
            return [self.passage("input", ids), self.passage("target", target)]
        marks = [PLAIN] * head + [self._input_mark(trace, place) for place in trace.origin.tolist()] + [PLAIN]
        before = [self._input_mark(trace, place) for place in range(len(content))] + [PLAIN]
        for number, span in enumerate(trace.spans):
            for place in span.tolist():
                before[place] = Mark("span", number, "taken away")
        input_markers = {} if not trace.order else self._sentence_markers(trace, trace.origin, head)
        markers = {} if not trace.order else self._sentence_markers(trace, np.arange(len(content)), 0)
        parts: Parts = [
            self.passage("input", ids, marks, input_markers),
            self.passage("original (target)", target, before[: len(target)], markers),
        ]
        return parts + self._noise_sheets(trace, ids, content, head)

    def _input_mark(self, trace: Trace, place: int) -> Mark:
        if place < 0:
            span = len(trace.spans[-1 - place])
            return Mark("infilled", -1 - place, f"stands for {span} tokens")
        if trace.order:
            return Mark("sentence", int(trace.sentence[place]), f"place {place} in the original")
        if place < trace.rotation or place in trace.shuffled:
            return Mark("moved", 0, f"place {place} in the original")
        return Mark("plain", 0, f"place {place} in the original")

    def _sentence_markers(self, trace: Trace, origin: Ints, head: int) -> dict[int, str]:
        """The original number of each sentence in front of its first token that is left."""
        markers: dict[int, str] = {}
        current = -1
        for place, token in enumerate(origin.tolist()):
            if token >= 0 and int(trace.sentence[token]) != current:
                current = int(trace.sentence[token])
                markers[place + head] = f"[{current + 1}]"
        return markers

    def _noise_sheets(self, trace: Trace, ids: Ints, content: Ints, head: int) -> Parts:
        parts: Parts = []
        if trace.order:
            rows = [
                (
                    str(place + 1),
                    str(number + 1),
                    self.cell(content[trace.sentence == number], Mark("sentence", number)),
                )
                for place, number in enumerate(trace.order)
            ]
            parts.append(Sheet("sentence order", ("in the input", "in the original", "sentence"), tuple(rows)))
        if trace.rotation:
            moved = self.cell(content[: trace.rotation], Mark("moved"))
            parts.append(Sheet("rotation", ("tokens moved to the end", "text"), ((str(trace.rotation), moved),)))
        if trace.spans:
            parts.append(Sheet(f"spans ({len(trace.spans)})", ("", "before", "taken away", "after"),
                               tuple(self._span_rows(trace, ids, content, head))))  # fmt: skip
        return parts

    def _span_rows(self, trace: Trace, ids: Ints, content: Ints, head: int) -> list[tuple[Cell, ...]]:
        rows: list[tuple[Cell, ...]] = []
        for number, span in enumerate(trace.spans):
            place = head + int(np.argmax(trace.origin == -1 - number))
            around = (ids[max(0, place - _CONTEXT) : place], ids[place + 1 : place + 1 + _CONTEXT])
            taken: Cell = self.cell(content[span], Mark("span", number)) if len(span) else "(nothing: a length of 0)"
            rows.append((self.cell(ids[place : place + 1], Mark("infilled", number)), self.cell(around[0]), taken,
                         self.cell(around[1])))  # fmt: skip
        return rows


def _fragment_as_labels(row: Row) -> Row:
    """A fragment that stands from `target_start` on, as labels at their places."""
    target = row.columns["target_ids"]
    places = int(row.columns["target_start"][0]) + np.arange(len(target))
    return Row(row.fixed, {"input_ids": row.columns["input_ids"], "label_positions": places, "label_ids": target})
