"""An example as lines of words, chosen by the features that it has, never by its objective's name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray
from rich.cells import cell_len

from pipeline.objectives import Objective
from pipeline.preview.words import TextCodec
from pipeline.rows import Row

__all__ = ["lines_of"]

Line: TypeAlias = tuple[str, Sequence[str]]

_NO_LOSS = "__"
_SOURCES = {"ids": "text", "partner_ids": "partner", "target_ids": "other side"}


def lines_of(objective: Objective, words: TextCodec, sample: Row, example: Row) -> list[str]:
    """Return the sample's texts, then inputs and targets, then the other features.

    Labels are below their words of the input; `__` marks a position without loss.
    """
    starts = set(sample["sentence_starts"][1:].tolist())
    before = [
        (title, ["".join(_marked(words.words(sample[name].tolist()), starts if name == "ids" else set()))])
        for name, title in _SOURCES.items()
        if name in sample.columns
    ]
    shown = {"input_ids"}
    aligned = [("input", words.words(example["input_ids"].tolist())), *_under(objective, words, example, shown)]
    others = [
        (feature.name, [_values(feature.dtype, words, example[feature.name])])
        for feature in objective.features
        if feature.name not in shown
    ]
    return _laid_out([*before, *_even(aligned), *others])


def _under(objective: Objective, words: TextCodec, example: Row, shown: set[str]) -> list[Line]:
    """Return what the model predicts, below the input; add the names of the features used to `shown`."""
    columns, length = example.columns, len(example["input_ids"])
    if "target_start" in columns:
        shown |= {"target_ids"}
        start = int(example["target_start"][0])
        return [("target", _placed(length, range(start, length), words.words(example["target_ids"].tolist())))]
    if "target_ids" in columns or "input_ids_b" in columns:
        return []
    if "label_positions" in columns:
        shown |= {"label_positions", "label_ids"}
        labels = words.words(example["label_ids"].tolist())
        title = "target" if objective.architecture == "encoder_decoder" else "labels"
        return [(title, _placed(length, example["label_positions"].tolist(), labels))]
    if "prediction_order" in columns:
        order = example["prediction_order"].tolist()
        ranks = [str(rank + 1) for rank in range(len(order))]
        return [("predicted as number", _placed(length, order, ranks))]
    if objective.architecture == "decoder" or objective.frame.predict_from == "previous":
        first = max(1, int(example["prefix_length"][0]) if "prefix_length" in columns else 1)
        following = words.words(example["input_ids"][first:].tolist())
        return [("labels", _placed(length, range(first - 1, length), following))]
    return []


def _marked(shown: Sequence[str], starts: set[int]) -> Iterator[str]:
    """Yield words with a stroke in front of each sentence but the first."""
    for position, word in enumerate(shown):
        yield f"{' ' if position else ''}{'| ' if position in starts else ''}{word}"


def _placed(length: int, positions: Sequence[int], labels: Sequence[str]) -> list[str]:
    """Return labels at their positions, `__` elsewhere."""
    cells = [_NO_LOSS] * length
    for position, label in zip(positions, labels, strict=False):
        cells[position] = label
    return cells


def _even(lines: Sequence[Line]) -> list[Line]:
    """Pad the cells of a column to the widest of them."""
    widths = [max(map(cell_len, column)) for column in zip(*(cells for _, cells in lines), strict=True)]
    return [
        (title, [" ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True))])
        for title, cells in lines
    ]


def _values(dtype: str, words: TextCodec, values: NDArray[Any]) -> str:
    if dtype == "ids":
        return " ".join(words.words(values.tolist()))
    return " ".join(map(str, values.tolist())) if len(values) else "(none)"


def _laid_out(lines: Sequence[Line]) -> list[str]:
    """Return the lines with their titles in one column."""
    width = max(len(title) for title, _ in lines) + 2
    return [(title.ljust(width) + "".join(cells)).rstrip() for title, cells in lines]
