"""Labels of a batch, scattered into dense rows, against what each example asks for: every objective that trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from clozeline import registry
from clozeline.pipeline.corrupt.objectives import Objective, build_objective
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.labels import dense_labels
from tests.pipeline.corruption_cases import samples, vocabulary

WORDS = vocabulary()
NONE = -100
OBJECTIVES: list[dict[str, Any]] = [
    *({"name": name} for name in registry.names("clozeline.pipeline.corrupt.objectives")),
    {"name": "mass", "architecture": "encoder"},
    {"name": "masked_lm", "attention": "prefix"},
    {"name": "prefix_lm", "architecture": "encoder_decoder"},
    {"name": "causal_lm", "architecture": "encoder_decoder"},
]


def wanted(objective: Objective, example: Any, width: int) -> list[int]:
    """The row of labels of one example; a filler row's columns are empty."""
    dense = [NONE] * width
    if "target_ids" in example:
        dense[: len(example["target_ids"])] = example["target_ids"].tolist()
    elif "label_positions" in example:
        for position, label in zip(example["label_positions"].tolist(), example["label_ids"].tolist(), strict=True):
            dense[position] = label
    elif "prediction_order" in example:
        for position in example["prediction_order"].tolist():
            dense[position] = example["input_ids"].tolist()[position]
    elif objective.architecture == "decoder":
        ids = example["input_ids"].tolist()
        (prefix,) = example["prefix_length"].tolist() if len(example.get("prefix_length", ())) else (0,)
        for position in range(max(1, prefix), len(ids)):
            dense[position - 1] = ids[position]
    return dense


@pytest.mark.parametrize("entry", OBJECTIVES, ids=str)
def test_labels_stand_exactly_where_examples_have_them(entry: dict[str, Any]) -> None:
    """-100 on context, frame, padding and filler; a batch of nothing but filler has no label at all."""
    objective = build_objective(entry, WORDS)
    rows = samples([40, 2, 17, 64, 9], WORDS, sentences=3)
    examples, skips = objective.corrupt(rows, np.zeros(len(rows), np.uint16), 1)
    kept = examples.take(np.flatnonzero(skips == 0))
    assert len(kept) >= 3
    columns = {
        name: Ragged(column.values, np.append(column.offsets, column.offsets[-1]))
        for name, column in kept.columns.items()
    }
    weight = np.append(np.ones(len(kept), np.float32), np.float32(0))
    collate = Collate(objective.architecture, columns, WORDS.specials,  # type: ignore[arg-type]
                      decoder_start=objective.frame.decoder_start)  # fmt: skip
    tensors = collate({name: columns[name] for name in collate.columns}, weight)
    side = "decoder_input_ids" if objective.architecture == "encoder_decoder" else "input_ids"
    if "label_index" not in tensors:
        assert not {"target_ids", "label_ids"} & columns.keys()
        return
    shape = tuple(tensors[side].shape)
    dense = np.full(shape, NONE)
    index = tensors["label_index"].numpy()
    assert len(set(index.tolist())) == len(index)
    dense.reshape(-1)[index] = tensors["label_ids"].numpy()
    for row in range(len(kept)):
        assert dense[row].tolist() == wanted(objective, kept.row(row).columns, shape[1])
    assert dense[-1].tolist() == [NONE] * shape[1], "filler"
    assert dense_labels(tensors)["labels"].tolist() == dense.tolist()
    empty = {name: Ragged(column.values[:0], np.zeros(3, np.int64)) for name, column in columns.items()}
    nothing = collate({name: empty[name] for name in collate.columns}, np.zeros(2, np.float32))
    assert len(nothing["label_index"]) == len(nothing["label_ids"]) == 0


def test_labels_for_models_of_other_libraries() -> None:
    """By hand: two rows and filler, of which one label would be counted if it had weight."""
    tensors = {
        "input_ids": torch.tensor([[5, 6, 7], [8, 9, 0], [4, 4, 4]], dtype=torch.int32),
        "lengths": torch.tensor([3, 2, 3]),
        "row_weight": torch.tensor([1.0, 1.0, 0.0]),
        "label_index": torch.tensor([0, 1, 3, 6]),
        "label_ids": torch.tensor([6, 7, 9, 4]),
    }
    found = dense_labels(tensors)
    assert found["input_ids"].dtype == torch.int64
    assert found["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0], [1, 1, 1]]
    assert found["labels"].tolist() == [[6, 7, NONE], [9, NONE, NONE], [NONE, NONE, NONE]]
    shifted = dense_labels(tensors, next_token=True)["labels"]
    assert shifted.tolist() == [[NONE, 6, 7], [NONE, 9, NONE], [NONE, NONE, NONE]]
    assert torch.equal(shifted[0, 1:], found["input_ids"][0, 1:]), "a causal model shifts them itself"
