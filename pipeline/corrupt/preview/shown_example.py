"""Show a short example as lines of words: labels stand below the words of the input that they belong to."""

from collections.abc import Sequence
from typing import TypeAlias

from rich.cells import cell_len

from clozeline.pipeline.corrupt.objectives import Objective
from clozeline.pipeline.corrupt.preview.row_parts import fragment_as_labels
from clozeline.pipeline.corrupt.preview.words import TextCodec
from clozeline.pipeline.rows import Row

Line: TypeAlias = tuple[str, Sequence[str]]

_NO_LOSS = "__"
_SOURCES = {"ids": "text", "partner_ids": "partner", "target_ids": "other side"}


def lines_of(objective: Objective, words: TextCodec, sample: Row, example: Row) -> list[str]:
    """Return the sample's texts, input and labels, and the other features; `__` marks a position without loss."""
    starts = set(sample["sentence_starts"][1:].tolist())
    lines: list[tuple[str, str]] = []
    for name, title in _SOURCES.items():
        if name in sample.columns:
            # a stroke in front of each sentence but the first
            marked = [
                f"| {word}" if name == "ids" and position in starts else word
                for position, word in enumerate(words.words(sample[name].tolist()))
            ]
            lines.append((title, " ".join(marked)))
    predicted, shown = _predict_lines(objective, words, example)
    aligned: list[Line] = [("input", words.words(example["input_ids"].tolist())), *predicted]
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


def _predict_lines(objective: Objective, words: TextCodec, example: Row) -> tuple[list[Line], set[str]]:
    """Return what the model predicts, a cell for each word of the input, and the features that are shown by now."""
    row = fragment_as_labels(example)
    columns, cells = row.columns, [_NO_LOSS] * len(row["input_ids"])
    title, shown = "labels", {"input_ids"}
    if "target_ids" in columns or "input_ids_b" in columns:
        return [], shown
    if "label_positions" in columns:
        positions, labels = row["label_positions"].tolist(), words.words(row["label_ids"].tolist())
        title = "target" if objective.architecture == "encoder_decoder" else title
        shown |= {"target_ids"} if row is not example else {"label_positions", "label_ids"}
    elif "prediction_order" in columns:
        positions = row["prediction_order"].tolist()
        title, labels = "predicted as number", [str(rank + 1) for rank in range(len(positions))]
    elif objective.architecture == "decoder" or objective.frame.predict_from == "previous":
        first = max(1, int(row["prefix_length"][0]) if "prefix_length" in columns else 1)
        labels = words.words(row["input_ids"][first:].tolist())
        positions = list(range(first - 1, first - 1 + len(labels)))
    else:
        return [], shown
    for position, label in zip(positions, labels, strict=True):
        cells[position] = label
    return [(title, cells)], shown
