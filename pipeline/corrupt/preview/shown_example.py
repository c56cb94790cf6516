"""Show a short example as lines of words: labels stand below the words of the input that they belong to."""

from collections.abc import Sequence
from typing import TypeAlias

from rich.cells import cell_len

from clozeline.pipeline.corrupt.objectives import Objective
from clozeline.pipeline.corrupt.preview.predictions import predictions_of
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
    found, cells = predictions_of(row), [_NO_LOSS] * len(row["input_ids"])
    title, shown = "labels", {"input_ids"}
    if found.form == "labels":
        labels = words.words(row["label_ids"].tolist())
        title = "target" if objective.architecture == "encoder_decoder" else title
        shown |= {"target_ids"} if row is not example else {"label_positions", "label_ids"}
    elif found.form == "order":
        title, labels = "predicted as number", [str(rank + 1) for rank in range(len(found.positions))]
    elif found.form == "next":
        labels = words.words(row["input_ids"][[position + 1 for position in found.positions]].tolist())
    else:
        return [], shown
    for position, label in zip(found.positions, labels, strict=True):
        cells[position] = label
    return [(title, cells)], shown
