"""Predictions of an example: counted, and as lines of words with labels below their words."""

from typing import Final

import numpy as np
from rich.cells import cell_len

from clozeline.pipeline.corrupt.objectives import Objective
from clozeline.pipeline.corrupt.preview.words import TextCodec
from clozeline.pipeline.rows import Row

_PREDICTED: Final = {
    "labels": "original tokens of the input: {}", "order": "tokens of the input, each in its turn: {}",
    "next": "tokens that follow a position: {}", "target": "tokens of the target, one after another: {}",
    "pair": "which text of a batch belongs to which",
}  # fmt: skip
_NO_LOSS: Final = "__"
TEXTS: Final = {"ids": "text", "partner_ids": "partner, from another document", "target_ids": "other side"}
"""Columns of a sample that hold texts."""


def scored_positions(row: Row) -> tuple[str, list[int]]:
    """Return what the loss of an example scores, as its columns say, and where, in the order of the labels.

    `labels` and `order` (of prediction) are tokens of the input, `next` is each token from those before it, `target` a
    second sequence, with positions in `target_ids`; `pair` compares two sequences, and no token is predicted.
    """
    columns = row.columns
    if "input_ids_b" in columns:
        return "pair", []
    if "target_ids" in columns:
        return "target", [*range(len(row["target_ids"]))]
    for form, name in (("labels", "label_positions"), ("order", "prediction_order")):
        if name in columns:
            return form, row[name].tolist()
    first = max(1, prefix_length(row))
    return "next", [*range(first - 1, max(first, len(row["input_ids"])) - 1)]


def describe_predictions(row: Row) -> tuple[tuple[str, str], ...]:
    """Return what an example lets a model predict, and what is not scored."""
    (form, positions), length = scored_positions(row), len(row["input_ids"])
    unscored = length - len(positions) * (form != "target")
    rest = "single tokens" if form == "pair" else f"{unscored} positions of the input"
    return ("predicted", _PREDICTED[form].format(len(positions))), ("not scored", rest)


def lines_of(objective: Objective, words: TextCodec, sample: Row, example: Row) -> list[str]:
    """Return the sample's texts, input and labels, and the other features; `__` marks a position without loss."""
    starts = set(sample["sentence_starts"][1:].tolist())
    lines: list[tuple[str, str]] = []
    for name, title in TEXTS.items():
        if name in sample.columns:
            # a stroke in front of each sentence but the first
            marked = [
                f"| {word}" if name == "ids" and position in starts else word
                for position, word in enumerate(words.words(sample[name].tolist()))
            ]
            lines.append((title.partition(",")[0], " ".join(marked)))
    row = fragment_as_labels(example)
    form, positions = scored_positions(row)
    ids, shown = row["input_ids"], {"input_ids"}
    aligned = [("input", words.words(ids.tolist()))]
    if form in ("labels", "order", "next"):
        # the label below each word that has one
        if form == "labels":
            title = "target" if objective.architecture == "encoder_decoder" else "labels"
            labels = words.words(row["label_ids"].tolist())
            shown |= {"label_positions", "label_ids"} if row is example else {"target_ids"}
        elif form == "order":
            title, labels = "predicted as number", [str(rank + 1) for rank in range(len(positions))]
        else:
            title, labels = "labels", words.words(ids[position + 1] for position in positions)
        below = dict(zip(positions, labels, strict=True))
        aligned.append((title, [below.get(position, _NO_LOSS) for position in range(len(ids))]))
    # pad the cells of each column to the widest of them
    widths = [max(map(cell_len, column)) for column in zip(*(cells for _, cells in aligned), strict=True)]
    for title, cells in aligned:
        padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True))
        lines.append((title, " ".join(padded)))
    for feature in objective.features:
        if feature.name not in shown:
            values = example[feature.name].tolist()
            text = " ".join(words.words(values) if feature.dtype == "ids" else map(str, values))
            lines.append((feature.name, text if values or feature.dtype == "ids" else "(none)"))
    width = max(len(title) for title, _ in lines) + 2
    return [(title.ljust(width) + text).rstrip() for title, text in lines]


def fragment_as_labels(row: Row) -> Row:
    """Return a row whose `target_ids` begin at `target_start` of its input as a row with labels; others as they are."""
    if not has_values(row, "target_start"):
        return row
    positions = int(row["target_start"][0]) + np.arange(len(row["target_ids"]))
    columns = {"input_ids": row["input_ids"], "label_positions": positions, "label_ids": row["target_ids"]}
    return Row(row.fixed, columns)


def prefix_length(row: Row) -> int:
    """Return the number of tokens of the prefix; 0 without one."""
    return int(row["prefix_length"][0]) if has_values(row, "prefix_length") else 0


def has_values(row: Row, name: str) -> bool:
    """Return whether a row has values in a column."""
    return len(row.columns.get(name, ())) > 0
