"""Labels of a batch, scattered into dense rows, against what each example asks for: every objective that trains.

What a model of transformers makes of these inputs is compared with our model of the same weights on the batch itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clozeline import registry
from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from clozeline.pipeline.corrupt.objectives import Objective, build_objective
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.labels import dense_labels
from tests.model.checkpoints.published import saved
from tests.pipeline.corruption_cases import samples, vocabulary
from tests.shard_sets import roles_of

WORDS = vocabulary()
NONE = -100
REFUSED = {"rank", "sentence_label", "span_left", "input_ids_b", "languages"}
"""Tensors of objectives that a model of another library has no input for."""
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
    collate = Collate(objective.architecture, roles_of(columns), WORDS.specials,  # type: ignore[arg-type]
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
    if tensors.keys() & REFUSED or (objective.name == "mass" and "decoder_input_ids" in tensors):
        with pytest.raises(ConfigurationError):
            dense_labels(tensors)
    else:
        assert dense_labels(tensors)["labels"].tolist() == dense.tolist()
    empty = {name: Ragged(column.values[:0], np.zeros(3, np.int64)) for name, column in columns.items()}
    nothing = collate({name: empty[name] for name in collate.columns}, np.zeros(2, np.float32))
    assert len(nothing["label_index"]) == len(nothing["label_ids"]) == 0


def test_labels_for_models_of_other_libraries() -> None:
    """By hand: two rows and filler, of which one label would be counted if it had weight."""
    tensors = {
        "input_ids": torch.tensor([[5, 6, 7], [8, 9, 0], [4, 4, 4]], dtype=torch.int32),
        "position_ids": torch.arange(3).expand(3, 3),
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


MASKED = {"label_positions": [[1, 3, 8], [2, 5]], "label_ids": [[9, 11, 6], [7, 5]]}
IDS = {"input_ids": [[7, 8, 9, 10, 11, 12, 5, 6, 13], [6, 5, 14, 7, 9, 8]]}
PACKED = {"document_starts": [[0, 4, 7], [0, 3]]}
CASES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "packed documents": ("bert", "encoder", MASKED | PACKED, {}),
    "segments": ("bert", "encoder", MASKED | {"segment_starts": [[0, 5], [0, 2]]}, {}),
    "segments from 0": ("bert", "encoder", MASKED | {"segment_starts": [[0, 5], [0, 2]]}, {"restart_segments": True}),
    "left to right": ("bert", "encoder", MASKED | {"attention": [[1], [2]]}, {}),
    "a prefix of an encoder": ("bert", "encoder", MASKED | {"attention": [[3], [0]], "prefix_length": [[4], []]}, {}),
    "documents of a decoder": ("gpt2", "decoder", PACKED, {}),
    "a prefix of a decoder": ("gpt2", "decoder", {"prefix_length": [[4], [2]]}, {}),
    "documents with a prefix": ("gpt2", "decoder", PACKED | {"prefix_length": [[2], [1]]}, {}),
    "documents of Llama": ("llama", "decoder", PACKED, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_model_of_transformers_has_our_loss(tmp_path: Path, case: str) -> None:
    """Nothing of a row is lost on the way; its second row is padded, and a filler row comes last."""
    published, architecture, lists, options = CASES[case]
    theirs = saved(tmp_path, published, **({"type_vocab_size": 6} if "attention" in lists else {}))
    ours = build_checkpoint(read_checkpoint(tmp_path)).eval()
    columns = {name: Ragged.from_lists([*rows, []], np.uint16) for name, rows in (IDS | lists).items()}
    specials = {"pad": theirs.config.pad_token_id or 0}
    collate = Collate(architecture, roles_of(columns), specials, **options)  # type: ignore[arg-type]
    tensors = collate({name: columns[name] for name in collate.columns}, np.array([1, 1, 0], np.float32))
    dense = dense_labels(tensors, next_token=architecture == "decoder")
    if "prefix_length" in lists:  # what follows a prefix is causal, whoever shifts labels
        assert torch.equal(dense["attention_mask"], dense_labels(tensors)["attention_mask"])
    with torch.no_grad():
        wanted = next(loss for head, loss in ours(tensors).items() if "lm" in head)
        for kernel in ("eager", "sdpa"):
            theirs.set_attn_implementation(kernel)
            assert abs(float(theirs(**dense).loss - wanted.total / wanted.count)) < 1e-5
            plain = {name: dense[name] for name in ("input_ids", "labels")}
            assert abs(float(theirs(**plain).loss - wanted.total / wanted.count)) > 1e-3, "the case tells nothing"


@pytest.mark.parametrize(
    ("architecture", "lists", "options", "name"),
    [
        ("encoder", {"prediction_order": [[1, 0], [2]]}, {}, "rank"),
        ("encoder", MASKED | {"label_weight": [[0.5], [2.0]]}, {}, "label_weight"),
        ("encoder", MASKED | {"sentence_label": [[1], [0]]}, {}, "sentence_label"),
        ("encoder", MASKED | {"languages": [[1], [2]]}, {}, "languages"),
        ("encoder", MASKED | {"teacher_ids": [[1], [2]], "teacher_weights": [[1], [1]]}, {}, "teacher_ids"),
        (
            *("encoder_decoder", PACKED | {"target_ids": [[5, 6], [7]], "target_document_starts": [[0, 1], [0]]}),
            *({"decoder_start": 0}, "decoder_document_ids"),
        ),
        (
            *("encoder_decoder", {"target_ids": [[5, 6], [7]], "target_start": [[3], [1]]}, {"decoder_start": 0}),
            "decoder_position_ids",
        ),
    ],
)
def test_what_no_input_holds_is_refused_by_name(
    architecture: Any, lists: dict[str, Any], options: dict[str, Any], name: str
) -> None:
    types = {"label_weight": np.float32}
    columns = {key: Ragged.from_lists(rows, types.get(key, np.uint16)) for key, rows in (IDS | lists).items()}
    if "teacher_ids" in columns:
        columns |= {
            key: Ragged.from_lists([[1, 2, 3], [1, 2]], np.uint16) for key in ("teacher_ids", "teacher_weights")
        }
    tensors = Collate(architecture, roles_of(columns), {"pad": 0}, **options)(columns, None)
    with pytest.raises(ConfigurationError, match=rf"dense_labels.*\b{name}\b"):
        dense_labels(tensors)


def test_targets_that_count_from_the_start_are_no_moved_ones() -> None:
    """MASS rows that begin with their target; the shorter one is padded."""
    lists = {**IDS, "target_ids": [[5, 6], [7]], "target_start": [[0], [0]]}
    columns = {key: Ragged.from_lists(rows, np.uint16) for key, rows in lists.items()}
    dense = dense_labels(Collate("encoder_decoder", roles_of(columns), {"pad": 0}, decoder_start=0)(columns, None))
    assert dense["labels"].tolist() == [[5, 6], [7, NONE]]
