"""Show a row of any set as passages and tables, chosen by its columns, not by the name of its objective."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.pipeline.corrupt.preview.noise_parts import has_noise, noise_parts
from clozeline.pipeline.corrupt.preview.pieces import PLAIN, Mark, Pieces
from clozeline.pipeline.corrupt.preview.predictions import has_values, prefix_length, read_by_attention
from clozeline.pipeline.corrupt.preview.view import Cell, Parts, Passage, Sheet, Token
from clozeline.pipeline.rows import Row

# The text column of each type of set.
_TEXTS: Final = ("input_ids", "ids", "token_ids")
# Pairs of columns that hold two texts, and their titles.
_PAIRS: Final = {
    ("ids", "partner_ids"): ("window", "partner, from another document"),
    ("ids", "target_ids"): ("text", "other side"),
    ("input_ids", "input_ids_b"): ("one text", "the text it belongs to"),
    ("token_ids", "target_ids"): ("text", "other side"),
}
_BOUNDARIES: Final = {"sentence_starts": "|", "segment_starts": "‖", "document_starts": "▌"}
_NUMBERS: Final = {
    "sentence_label": "sentence label",
    "languages": "language codes of the segments",
    "label_weight": "weight of each label",
    "label_count": "added to the divisor of the loss",
    "task": "task",
    "partner_document_uid": "partner",
    "target_language": "language code of the other side",
}
_SENTENCE_LABELS: Final = ("0: the second segment follows the first", "1: it does not (from elsewhere, or swapped)")
# Tokens shown on either side of a predicted one.
_CONTEXT: Final = 5
_HIDDEN: Final = (Token("▁", "marker", 0, "not seen yet"),)


def row_parts(show: Pieces, row: Row) -> Parts:
    """Return everything to show of a row."""
    for (first, second), (title, other) in _PAIRS.items():
        if first in row.columns and has_values(row, second):
            both = [show.passage(title, row[first], None, _boundaries(row)), show.passage(other, row[second])]
            return [*both, *_number_sheets(row)]
    return [*_text_parts(show, fragment_as_labels(row)), *_number_sheets(row)]


def fragment_as_labels(row: Row) -> Row:
    """Return a row whose `target_ids` begin at `target_start` of its input as a row with labels; others as they are."""
    if not has_values(row, "target_start"):
        return row
    positions = int(row["target_start"][0]) + np.arange(len(row["target_ids"]))
    columns = {"input_ids": row["input_ids"], "label_positions": positions, "label_ids": row["target_ids"]}
    return Row(row.fixed, columns)


def _text_parts(show: Pieces, row: Row) -> Parts:
    columns = row.columns
    if "label_positions" in columns and "label_ids" in columns:
        return _label_parts(show, row)
    if "prediction_order" in columns:
        return _prediction_parts(show, row)
    # two columns, or one cut after its prefix
    if "target_ids" in columns:
        ids, target = row["input_ids"], row["target_ids"]
    else:
        prefix = prefix_length(row)
        ids, target = np.split(row["input_ids"], [prefix]) if prefix else (np.empty(0, np.int64),) * 2
    if np.isin(ids, show.vocabulary.sentinels).any():
        return _sentinel_parts(show, ids.astype(np.int64), target.astype(np.int64))
    if "target_ids" in columns:
        both = [show.passage(title, columns[f"{title}_ids"]) for title in ("input", "target")]
        return noise_parts(show, row) if has_noise(columns) else both
    name = next(name for name in _TEXTS if name in columns)
    return [show.passage(name, row[name], _prefix_marks(row, name), _boundaries(row)), *_attention_sheets(row)]


def _label_parts(show: Pieces, row: Row) -> Parts:
    """Show a row with labels: input, original, labels, and the other columns about them."""
    ids, positions = row["input_ids"].astype(np.int64), row["label_positions"].astype(np.int64)
    original = ids.copy()
    original[positions] = row["label_ids"]
    marks, originals = _prefix_marks(row, "input_ids"), _prefix_marks(row, "input_ids")
    markers = {} if "target_ids" in row.columns else _boundaries(row)
    rows: list[tuple[Cell, ...]] = []
    for position in positions.tolist():
        shown, label = int(ids[position]), int(original[position])
        is_mask = shown == show.vocabulary.specials.get("mask", -1)
        role: Any = "masked" if is_mask else "kept" if shown == label else "replaced"
        marks[position] = Mark(role, 0, f"original {show.piece(label)!r}")
        originals[position] = Mark(role, 0, f"input {show.piece(shown)!r}")
        cells = (show.label(label, originals[position]), show.label(shown, marks[position]))
        rows.append((str(position), *cells, role))
    parts: list[Passage | Sheet] = [
        show.passage("input", ids, marks, markers),
        show.passage("original", original, originals, markers),
        Sheet(f"labels ({len(rows)})", ("position", "original", "input", "what"), tuple(rows)),
        *_attention_sheets(row),
    ]
    if has_values(row, "span_starts"):
        # each span with the tokens on both sides that predict it
        spans: list[tuple[Cell, ...]] = []
        for start, length in zip(row["span_starts"].tolist(), row["span_lengths"].tolist(), strict=True):
            left, span, right = np.split(original[start - 1 : start + length + 1], [1, 1 + length])
            spans.append((str(start), show.cell(left), show.cell(span, Mark("span", len(spans))), show.cell(right)))
        header = ("position", "left boundary", "span", "right boundary")
        parts.append(Sheet(f"spans ({len(spans)})", header, tuple(spans)))
    if has_values(row, "crop_start"):
        # content tokens are counted after [CLS]; the second view has the same special tokens around its crop
        first, length = int(row["crop_start"][0]), int(row["crop_length"][0])
        crop = np.concatenate((original[:1], original[1 + first : 1 + first + length], original[-1:]))
        parts.append(show.passage(f"second view, from content token {first}", crop))
    return parts


def _prediction_parts(show: Pieces, row: Row) -> Parts:
    """Show a row with an order of prediction: its input, and what each predicted token can read."""
    ids, order = row["input_ids"].astype(np.int64), row["prediction_order"].tolist()
    marks = [PLAIN] * len(ids)
    for rank, position in enumerate(order):
        marks[position] = Mark("predicted", rank, f"predicted as number {rank + 1}")

    def read(first: int, last: int, unseen: frozenset[int]) -> Cell:
        positions = range(max(0, first), min(len(ids), last))
        cells = [_HIDDEN if at in unseen else show.label(int(ids[at]), marks[at]) for at in positions]
        return tuple(token for cell in cells for token in cell)

    rows: list[tuple[Cell, ...]] = []
    for rank, position in enumerate(order):
        unseen = frozenset(order[rank:])
        left, right = read(position - _CONTEXT, position, unseen), read(position + 1, position + 1 + _CONTEXT, unseen)
        rows.append((str(rank + 1), str(position), left, show.label(int(ids[position]), marks[position]), right))
    header = ("number", "position", "reads before it", "token", "reads after it")
    markers = {} if "target_ids" in row.columns else _boundaries(row)
    sheet = Sheet(f"order of prediction ({len(rows)})", header, tuple(rows))
    return [show.passage("input", ids, marks, markers), sheet]


def _sentinel_parts(show: Pieces, ids: Int64, target: Int64) -> Parts:
    """Show an input with sentinels, the target with their spans, and the original that both make."""
    rank = {token: number for number, token in enumerate(show.vocabulary.sentinels)}
    spans = sentinel_spans(show.without_end(target), show.vocabulary.sentinels)
    marks, target_marks = (
        [Mark("sentinel", rank[token]) if token in rank else PLAIN for token in column.tolist()]
        for column in (ids, target)
    )
    for number, positions in spans.items():
        for position in positions.tolist():
            target_marks[position] = Mark("span", number)
    original: list[int] = []
    originals: list[Mark] = []
    rows: list[tuple[Cell, ...]] = []
    for position, token in enumerate(ids.tolist()):
        if token not in rank:
            original.append(token)
            originals.append(PLAIN)
            continue
        number = rank[token]
        span = target[spans.get(number, np.empty(0, np.int64))]
        original += span.tolist()
        originals += [Mark("span", number, f"after {show.piece(token)} in the target")] * len(span)
        before, after = show.around(ids, position)
        sentinel = show.cell(ids[position : position + 1], marks[position])
        rows.append((sentinel, before, show.cell(span, Mark("span", number)), after))
    return [
        show.passage("input", ids, marks),
        show.passage("target", target, target_marks),
        show.passage("original", np.array(original), originals),
        Sheet(f"spans ({len(rows)})", ("sentinel", "before", "span", "after"), tuple(rows)),
    ]


def sentinel_spans(target: NDArray[Any], sentinels: tuple[int, ...]) -> dict[int, Int64]:
    """Return the positions in a target of the tokens after each sentinel, by the sentinel's rank."""
    rank = {token: number for number, token in enumerate(sentinels)}
    firsts = [position for position, token in enumerate(target.tolist()) if token in rank]
    return {rank[int(target[first])]: np.arange(first + 1, last) for first, last in pairwise([*firsts, len(target)])}


def _attention_sheets(row: Row) -> Parts:
    """Show what a position may read, where the row restricts it."""
    if (reads := read_by_attention(row)) is None:
        return []
    facts = [("a position reads", reads)]
    if prefix := prefix_length(row):
        facts.append(("last position of the prefix", str(prefix - 1)))
    return [Sheet("attention", (), tuple(facts))]


def _number_sheets(row: Row) -> Parts:
    """Show what the single numbers of a row say."""
    facts: list[tuple[str, str]] = []
    for name, title in _NUMBERS.items():
        if not has_values(row, name):
            continue
        values = row[name]
        if name == "sentence_label":
            meaning = _SENTENCE_LABELS[int(values[0])]
        elif name == "task":
            meaning = f"number {int(values[0])} of the configuration"
        elif name == "partner_document_uid":
            meaning = f"document {values.tobytes().hex()}, from token {int(row['partner_offset'][0])}"
        else:
            meaning = ", ".join(f"{value:g}" for value in values.tolist())
        facts.append((title, meaning))
    return [Sheet("what the row says", (), tuple(facts))] if facts else []


def _boundaries(row: Row) -> Mapping[int, str]:
    return {int(at): sign for name, sign in _BOUNDARIES.items() for at in row.columns.get(name, ())}


def _prefix_marks(row: Row, name: str) -> list[Mark]:
    prefix = prefix_length(row)
    return [Mark("prefix")] * prefix + [PLAIN] * (len(row[name]) - prefix)
