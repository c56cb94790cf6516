"""Labels of micro-batches against loops, transformers' inputs of every objective, and bits for
generators."""

import numpy as np
import pytest
import torch

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.labels import (
    TARGET_END,
    build_label_values,
    build_labels,
    build_target_rows,
    dense_labels,
    draw_sample_bits,
)
from tests.extensions.published.peers import saved
from tests.pipeline.corruption_cases import samples, vocabulary
from tests.refusals import refused
from tests.shard_sets import roles_of
from tests.train.synthetic import LENGTH, random_rows

TEACHER = ("teacher_ids", "teacher_weights")


def test_a_label_at_the_first_place_cannot_be_predicted_from_before():
    columns = {
        name: Ragged.from_lists([[3], [0]], np.uint16) for name in ("label_positions", "label_ids")
    }
    build_labels(columns, 10, np.array([1, 0]))
    with pytest.raises(IntegrityError, match="a label at position 0 cannot be predicted"):
        build_labels(columns, 10, np.array([0, 1]))


def test_stored_scores_are_rows_of_labels_or_rows_of_the_batch():
    columns = {
        "teacher_ids": Ragged.from_lists([[5, 6, 7, 8], [], [9, 4]], np.uint16),
        "teacher_weights": Ragged.from_lists([[0.5, 0.25, 1, 0], [], [0.125, 0.5]], np.float16),
    }
    weights = {"row_weight": torch.ones(3)}
    labels = {"label_ids": torch.tensor([1, 2, 3])}
    by_label = build_label_values(TEACHER, columns, weights | labels)

    assert by_label["teacher_ids"].tolist() == [[5, 6], [7, 8], [9, 4]]

    one_each = {name: column.take(np.array([2, 1])) for name, column in columns.items()}
    by_row = build_label_values(TEACHER, one_each, {"row_weight": torch.ones(2)})

    assert by_row["teacher_ids"].tolist() == [[9, 4], [0, 0]]
    assert by_row["teacher_weights"].tolist() == [[0.125, 0.5], [0, 0]]

    with pytest.raises(IntegrityError, match="teacher_ids: 6 stored values for 4 labels"):
        build_label_values(TEACHER, columns, weights | {"label_ids": torch.zeros(4)})

    assert build_label_values(TEACHER, {}, weights | {"label_ids": torch.zeros(0)})[
        "teacher_ids"
    ].shape == (0, 0)


MBART_PAD = 1
EOS = 2
FIRST = 4
LANGUAGES = (30, 31, 32)
SPECIAL = {"pad": MBART_PAD, "eos": EOS}


def test_rows_of_two_sets_start_as_their_sets_say():
    targets = {"target_ids": Ragged.from_lists([[8, 9, EOS, 31], [8, EOS], []], np.uint16)}
    begin = np.array([TARGET_END, 6, TARGET_END])
    found = build_target_rows(targets, {}, begin, MBART_PAD, isolate_documents=False)[
        "decoder_input_ids"
    ]

    assert found.tolist() == [
        [31, 8, 9, EOS],
        [6, 8, MBART_PAD, MBART_PAD],
        [MBART_PAD] * 4,
    ]


def test_masked_rows_have_no_target_to_start_with():
    masked = ["input_ids", "label_positions", "label_ids"]
    form = RowForm(decoder_start="target_end")
    with refused("target_ids"):
        Collate("encoder_decoder", roles_of(masked), {**SPECIAL, "mask": 3}, form)


WORDS = vocabulary()
NONE = -100
REFUSED = {"rank", "sentence_label", "span_left", "input_ids_b", "languages"}
"""Tensors of objectives that a model of another library has no input for."""
OBJECTIVES = [
    *({"name": name} for name in OBJECTIVES.available()),
    {"name": "mass", "architecture": "encoder"},
    {"name": "masked_lm", "attention": "prefix"},
    {"name": "prefix_lm", "architecture": "encoder_decoder"},
    {"name": "causal_lm", "architecture": "encoder_decoder"},
]


def wanted(objective, example, width):
    """The row of labels of one example; a filler row's columns are empty."""
    dense = [NONE] * width

    if "target_ids" in example:
        dense[: len(example["target_ids"])] = example["target_ids"].tolist()
    elif "label_positions" in example:
        for position, label in zip(
            example["label_positions"].tolist(), example["label_ids"].tolist(), strict=True
        ):
            dense[position] = label
    elif "prediction_order" in example:
        for position in example["prediction_order"].tolist():
            dense[position] = example["input_ids"].tolist()[position]
    elif objective.architecture == "decoder":
        ids = example["input_ids"].tolist()
        (prefix,) = (
            example["prefix_length"].tolist() if len(example.get("prefix_length", ())) else (0,)
        )
        for position in range(max(1, prefix), len(ids)):
            dense[position - 1] = ids[position]

    return dense


@pytest.mark.parametrize("entry", OBJECTIVES, ids=str)
def test_labels_stand_exactly_where_examples_have_them(entry):
    """-100 on context, frame, padding and filler.

    A batch of nothing but filler has no label at all.
    """
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
    collate = Collate(
        objective.architecture,
        roles_of(columns),
        WORDS.specials,
        RowForm(decoder_start=objective.form.decoder_start),
    )

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

    empty = {
        name: Ragged(column.values[:0], np.zeros(3, np.int64)) for name, column in columns.items()
    }
    nothing = collate({name: empty[name] for name in collate.columns}, np.zeros(2, np.float32))

    assert len(nothing["label_index"]) == len(nothing["label_ids"]) == 0


MASKED = {
    "label_positions": [[1, 3, 8], [2, 5]],
    "label_ids": [[9, 11, 6], [7, 5]],
}
IDS = {"input_ids": [[7, 8, 9, 10, 11, 12, 5, 6, 13], [6, 5, 14, 7, 9, 8]]}
PACKED = {"document_starts": [[0, 4, 7], [0, 3]]}
CASES = {
    "packed documents": ("bert", "encoder", MASKED | PACKED, {}),
    "segments": (
        "bert",
        "encoder",
        MASKED | {"segment_starts": [[0, 5], [0, 2]]},
        {},
    ),
    "segments from 0": (
        "bert",
        "encoder",
        MASKED | {"segment_starts": [[0, 5], [0, 2]]},
        {"restarts_segments": True},
    ),
    "left to right": (
        "bert",
        "encoder",
        MASKED | {"attention": [[1], [2]]},
        {},
    ),
    "a prefix of an encoder": (
        "bert",
        "encoder",
        MASKED
        | {
            "attention": [[3], [0]],
            "prefix_length": [[4], []],
        },
        {},
    ),
    "documents of a decoder": ("gpt2", "decoder", PACKED, {}),
    "a prefix of a decoder": (
        "gpt2",
        "decoder",
        {"prefix_length": [[4], [2]]},
        {},
    ),
    "documents with a prefix": (
        "gpt2",
        "decoder",
        PACKED | {"prefix_length": [[2], [1]]},
        {},
    ),
    "documents of Llama": ("llama", "decoder", PACKED, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_model_of_transformers_has_our_loss(tmp_path, case):
    """Nothing of a row is lost on the way.

    Its second row is padded, and a filler row comes last.
    """
    published, architecture, lists, options = CASES[case]
    theirs = saved(tmp_path, published, **({"type_vocab_size": 6} if "attention" in lists else {}))
    ours = build_checkpoint(read_checkpoint(tmp_path)).eval()
    columns = {
        name: Ragged.from_lists([*rows, []], np.uint16) for name, rows in (IDS | lists).items()
    }
    specials = {"pad": theirs.config.pad_token_id or 0}
    collate = Collate(architecture, roles_of(columns), specials, RowForm(**options))
    tensors = collate(
        {name: columns[name] for name in collate.columns}, np.array([1, 1, 0], np.float32)
    )
    dense = dense_labels(tensors, next_token=architecture == "decoder")
    if "prefix_length" in lists:  # what follows a prefix is causal, whoever shifts labels
        assert torch.equal(dense["attention_mask"], dense_labels(tensors)["attention_mask"])
    with torch.no_grad():
        wanted = next(loss for head, loss in ours(tensors).items() if "lm" in head)

        for kernel in ("eager", "sdpa"):
            theirs.set_attn_implementation(kernel)
            assert abs(float(theirs(**dense).loss - wanted.total / wanted.count)) < 1e-5
            plain = {name: dense[name] for name in ("input_ids", "labels")}
            assert abs(float(theirs(**plain).loss - wanted.total / wanted.count)) > 1e-3, (
                "the case tells nothing"
            )


@pytest.mark.parametrize(
    ("architecture", "lists", "name"),
    [
        ("encoder", MASKED | {"label_weight": [[0.5], [2.0]]}, "label_weight"),
        (
            "encoder_decoder",
            PACKED
            | {
                "target_ids": [[5, 6], [7]],
                "target_document_starts": [[0, 1], [0]],
            },
            "decoder_document_ids",
        ),
        (
            "encoder_decoder",
            {
                "target_ids": [[5, 6], [7]],
                "target_start": [[3], [1]],
            },
            "decoder_position_ids",
        ),
    ],
)
def test_what_no_input_holds_is_refused_by_name(architecture, lists, name):
    types = {"label_weight": np.float32}
    columns = {
        key: Ragged.from_lists(rows, types.get(key, np.uint16))
        for key, rows in (IDS | lists).items()
    }
    start = 0 if architecture == "encoder_decoder" else None
    tensors = Collate(architecture, roles_of(columns), {"pad": 0}, RowForm(decoder_start=start))(
        columns, None
    )
    with refused(rf"dense_labels.*\b{name}\b"):
        dense_labels(tensors)


ORIGIN = np.array([[0, 2, 5], [0, 2, 6], [1, 2, 5], [0, 6, 2], [0, 0, 0], [-1, -1, -1]])


def words(rows=slice(0, 6), seed=1, step=3):
    """The words of each row of a batch."""
    tensors = random_rows(4, rows.stop - rows.start, rows.start, 6)
    found = draw_sample_bits(seed, step, ORIGIN[rows], tensors)
    counts = torch.bincount(tensors["label_index"] // LENGTH, minlength=rows.stop - rows.start)
    return [part.tolist() for part in found.split(counts.tolist())]


def test_they_depend_on_seed_step_and_row_alone():
    whole = words()

    assert [
        *words(slice(0, 1)),
        *words(slice(1, 4)),
        *words(slice(4, 6)),
    ] == whole

    every = [
        word for found in (whole, words(seed=2), words(step=4)) for row in found for word in row
    ]

    assert len(set(every)) == len(every) == 3 * sum(map(len, whole))
    assert all(0 <= word < 1 << 32 for word in every)
