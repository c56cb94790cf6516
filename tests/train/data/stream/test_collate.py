"""Tensors of micro-batches from stored columns, by hand and against loops.

Rows of several sets in one batch.
"""

from copy import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.columns import IDS, POSITIONS, ROW, STARTS, UNDO, WEIGHT, Role
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.collate import Collate
from tests.contracts import contract
from tests.model.small_models import built, changed, states
from tests.pipeline.corrupt.objectives.runner import VARIETIES, variants_of
from tests.pipeline.corruption_cases import WORDS, samples
from tests.refusals import refused
from tests.shard_sets import objective, roles_of, write_set
from tests.train.data.stream.collated_rows import MASK, PAD, SPECIAL, START, collated, column


@contract(OBJECTIVES, only=lambda name: name not in ("mixture", "text_to_text"))
def test_a_mixture_of_two_of_itself_makes_the_same_batches(name):
    """Positions, labels and inputs of the decoder, for every form of rows."""
    for options in ({}, *VARIETIES.get(name, ())):
        entry = {"name": name, **options, "label": "one"}
        mixed = {"name": "mixture", "parts": [entry, {**entry, "label": "other"}]}
        rows = samples([40, 64, 9] * 3)
        rows.fixed["part"][:] = 0
        batches = []

        alone = build_objective({"name": name, **options}, WORDS, "one")
        for made in (alone, build_objective(mixed, WORDS)):
            examples, _ = made.corrupt(rows, np.zeros(len(rows), np.uint16), 1)
            roles = {feature.name: feature.role for feature in made.features}
            collate = Collate(made.architecture, roles, dict(WORDS.specials), made.form)
            columns = {key: examples.columns[key] for key in collate.columns}
            batches.append({key: value.tolist() for key, value in collate(columns, None).items()})

        assert batches[0] == batches[1], options


@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_bidirectional_rows_show_a_decoder_the_token_that_it_predicts(attention):
    """The state that predicts a token depends on this token, and with causal attention it must
    not: both have the same labels."""
    options = {"grouping": "document", "attention": attention}
    leaking = build_objective({"name": "causal_lm", **options}, WORDS)
    (example,) = variants_of(leaking, [10, 11, 12, 13], count=1)
    lists = {name: [values.tolist()] * 2 for name, values in example.columns.items()}
    # the second row is shorter: its padding shows nothing
    lists["input_ids"] = [lists["input_ids"][0], lists["input_ids"][0][:3]]
    if attention == "bidirectional":
        lists["prefix_length"] = [[5], [3]]
        lists["label_positions"] = [[0, 1, 2, 3], [0, 1]]
        lists["label_ids"] = [lists["label_ids"][0], lists["label_ids"][0][:2]]
    found = collated("decoder", lists)

    assert found["label_index"] == [0, 1, 2, 3, 5, 6]
    assert found["label_ids"] == [11, 12, 13, 5, 11, 12]

    tensors = {name: torch.tensor(values) for name, values in found.items()}
    network = built("decoder")
    before = states(network, tensors)
    for row, position in ((0, 0), (0, 3), (1, 1)):
        after = states(network, changed(tensors, "input_ids", row, position + 1))
        is_seen = not torch.equal(before[row, position], after[row, position])

        assert is_seen == (attention == "bidirectional")


def test_a_fragment_keeps_its_places_and_is_opened_by_the_token_before_it():
    """`[CLS] The kitten [MASK] [MASK] [MASK] ball [SEP]`, a fragment after [CLS], a row without
    one, and filler."""
    found = collated(
        "encoder_decoder",
        {
            "input_ids": [[1, 20, 21, MASK, MASK, MASK, 25, 2], [1, MASK, 31, 2], [7, 8], []],
            "target_ids": [[22, 23, 24], [30], [10, 11], []],
            "target_start": [[3], [1], [], []],
        },
        [1, 1, 1, 0],
        decoder_start=START,
    )

    assert found["decoder_input_ids"] == [
        [21, 22, 23],
        [1, PAD, PAD],
        [START, 10, PAD],
        [PAD] * 3,
    ]
    assert found["decoder_position_ids"] == [[3, 4, 5], [1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert found["decoder_lengths"] == [3, 1, 2, 1]
    assert found["label_index"] == [0, 1, 2, 3, 6, 7]
    assert found["label_ids"] == [22, 23, 24, 30, 10, 11]


def test_sets_with_and_without_isolation_share_a_batch():
    """A row whose fragments are of two documents, one whose fragment is of the whole row, and one
    of spans."""
    names = ["input_ids", "target_ids", "target_start", "document_starts", "target_document_starts"]
    fragments, whole, spans = (
        Collate("encoder_decoder", roles_of(chosen), SPECIAL, RowForm(decoder_start=1))
        for chosen in (
            names,
            names[:3],
            [*names[:2], *names[3:]],
        )
    )
    merged = copy(fragments)
    merged._parts = (fragments, whole, spans)
    lists = {
        "input_ids": [[1, 5, 3, 3, 8, 9, 2], [1, 5, 6, 3, 3, 9, 2], [5, 20, 8, 21]],
        "target_ids": [[6, 7, 8], [7, 8], [20, 6, 21, 9]],
        "target_start": [[2, 4], [3], []],
        "document_starts": [[0, 4], [], [0, 2]],
        "target_document_starts": [[0, 2], [], [0, 2]],
    }

    columns = {name: column(rows) for name, rows in lists.items()}
    found = {name: one.tolist() for name, one in merged(columns, None, np.array([0, 1, 2])).items()}

    assert found["document_ids"] == [
        [0, 0, 0, 0, 1, 1, 1],
        [0] * 7,
        [0, 0, 1, 1, 1, 1, 1],
    ]
    assert (found["cu_seqlens"], found["decoder_cu_seqlens"]) == (
        [0, 4, 7, 14, 16, 18, 21],
        [0, 2, 4, 8, 10, 12, 12],
    )
    assert found["decoder_input_ids"] == [[5, 6, 1, 0], [6, 7, 0, 0], [1, 20, 1, 21]]
    assert found["decoder_position_ids"] == [[2, 3, 0, 0], [3, 4, 0, 0], [0, 1, 0, 1]]
    assert [
        row[:size] for row, size in zip(found["decoder_document_ids"], [3, 2, 4], strict=True)
    ] == [
        [0, 0, 1],
        [0, 0],
        [0, 0, 1, 1],
    ]


MODES = {"bidirectional": 0, "left_to_right": 1, "right_to_left": 2, "prefix": 3}


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(range(4)), st.integers(1, 9)),
        min_size=1,
        max_size=6,
    ),
    st.data(),
)
def test_types_of_attention_modes_equal_a_slow_loop(rows, data):
    prefixes = [
        data.draw(st.integers(1, length)) if mode == MODES["prefix"] else 0 for mode, length in rows
    ]
    lists = {
        "input_ids": [[7] * length for _, length in rows],
        "prefix_length": [[p] for p in prefixes],
    }
    # a part of a mixture may leave it out
    lists |= {"attention": [[mode] if mode else [] for mode, _ in rows]}
    columns = {name: column(values) for name, values in lists.items()}
    tensors = Collate("encoder", roles_of(columns), SPECIAL)(columns, None)
    width = max(length for _, length in rows)

    assert tensors["attention"].tolist() == [mode for mode, _ in rows]
    assert tensors["prefix_length"].tolist() == prefixes

    for (mode, length), prefix, types in zip(
        rows, prefixes, tensors["type_ids"].tolist(), strict=True
    ):
        told = [
            {
                0: 0,
                1: 2,
                2: 3,
                3: 4 + (i >= prefix),
            }[mode]
            if i < length
            else 0
            for i in range(width)
        ]
        assert types == told


def test_segments_are_told_apart_in_bidirectional_rows_only():
    lists = {
        "input_ids": [[1, 5, 2, 6], [1, 5, 2, 6]],
        "segment_starts": [[0, 3], []],
        "attention": [[], [1]],
    }

    found = collated("encoder", lists | {"prefix_length": [[], [0]]})

    assert found["type_ids"] == [[0, 0, 0, 1], [2, 2, 2, 2]]
    assert found["segment_ids"] == [[0, 0, 0, 1], [0, 0, 0, 0]], (
        "for a table that holds segments alone"
    )


def test_masked_encoder_decoder_reads_the_label_before():
    """`The puppies are [MASK] outside [MASK] house .` between [CLS] and [SEP]: places 5 and 7 read
    a label."""
    found = collated(
        "encoder_decoder",
        {
            "input_ids": [[1, 20, 21, 22, MASK, 24, MASK, 26, 27, 2], []],
            "label_positions": [[4, 6], []],
            "label_ids": [[23, 25], []],
        },
        [1, 0],
        decoder_start=START,
    )

    assert found["decoder_input_ids"][0] == [
        START,
        MASK,
        MASK,
        MASK,
        MASK,
        23,
        MASK,
        25,
        MASK,
        MASK,
    ]
    assert found["decoder_input_ids"][1] == [PAD] * 10
    assert found["label_index"] == [4, 6]
    assert found["label_ids"] == [23, 25]
    assert found["decoder_lengths"] == [10, 1]


def test_both_stacks_read_a_row_of_a_task():
    """A row of three tokens with a tag at its second one, and filler.

    No token of the row is a label.
    """
    lists = {
        "input_ids": [[7, 8, 9], []],
        "tag_positions": [[1], []],
        "tags": [[2], []],
    }
    found = collated("encoder_decoder", lists, [1, 0], decoder_start=START)

    assert found["decoder_input_ids"] == [[START, 7, 8], [PAD] * 3]
    assert (found["decoder_lengths"], found["label_index"], found["label_ids"]) == (
        [3, 1],
        [1],
        [2],
    )
    assert "label_ids" not in collated(
        "encoder_decoder", {"input_ids": [[7, 8]]}, decoder_start=START
    )


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("encoder", ["label_ids"], SPECIAL), {}, "input_ids"),
        (
            ("encoder", ["input_ids"], {"eos": 1}),
            {},
            r"'pad', the tokenizer of the shards has: eos; .*specials='{pad",
        ),
        (
            ("decoder", ["input_ids"], SPECIAL),
            {"padding_side": "left"},
            "rows of a decoder .* right only",
        ),
        (("encoder_decoder", ["input_ids", "target_ids"], SPECIAL), {}, "decoder_start"),
        (
            ("encoder_decoder", ["input_ids", "label_ids"], {"pad": 0}),
            {"decoder_start": 4},
            "target_ids",
        ),
    ],
)
def test_what_cannot_be_collated_is_refused(arguments, options, message):
    architecture, columns, special = arguments
    with refused(message):
        Collate(architecture, roles_of(columns), special, RowForm(**options))


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_column_without_a_rule_becomes_a_tensor_as_its_role_says(side):
    """Rows of four and two tokens, and filler.

    Positions move with rows that are padded on the left.
    """
    roles = {
        "input_ids": IDS,
        "kept": UNDO,
        "label_positions": POSITIONS,
        "label_ids": Role("label", "label_positions"),
        "kind": Role("row", head="mine"),
        "mode": ROW,
        "score": Role("row", head="mine", fraction=True),
        "share": WEIGHT,
        "rated": Role("label", "at", fraction=True),
        "at": POSITIONS,
        "grade": Role("label", "at"),
        "part": STARTS,
        "other": Role("ids", head="mine"),
        "inside": Role("position", "other"),
    }

    lists = {
        "input_ids": [[5, 6, 7, 8], [5, 6], []],
        "label_positions": [[1], [0], []],
        "label_ids": [[9], [9], []],
        "kind": [[2], [], []],
        "mode": [[3], [1], []],
        "at": [[0, 3], [1], []],
        "grade": [[4, 5], [6], []],
        "part": [[0, 2], [0], []],
        "other": [[8, 9], [], [7, 7, 7]],
        "inside": [[1], [], [2]],
    }

    columns = {name: column(rows) for name, rows in lists.items()}
    columns |= {name: Ragged.from_lists([[0.5], [], []], np.float32) for name in ("score", "share")}
    columns["rated"] = Ragged.from_lists([[0.5, 2], [1.5], []], np.float32)
    collate = Collate("encoder", roles, SPECIAL, RowForm(padding_side=side))
    found = collate(columns, np.array([1, 1, 0], np.float32))

    assert "kept" not in found
    assert (found["kind"].tolist(), found["mode"].tolist()) == ([2, -100, -100], [3, 1, 0])
    assert found["score"].isnan().tolist() == [False, True, True]
    assert found["share"].tolist() == [0.5, 1, 1]
    assert (found["grade"].tolist(), found["rated"].tolist()) == ([4, 5, 6], [0.5, 2, 1.5])
    assert found["part"].tolist() == [[0, 0, 1, 1], [0] * 4, [0] * 4]
    assert found["other"].tolist() == [[8, 9, PAD], [PAD] * 3, [7, 7, 7]]
    assert found["lengths_other"].tolist() == [2, 0, 3]
    assert found["inside"].tolist() == [1, 8]
    assert found["input_ids"].reshape(-1)[found["at"]].tolist() == [5, 8, 6]
    # a batch of sets that have none of these columns
    none = {name: column([[], [], []]) for name in columns} | {"input_ids": columns["input_ids"]}
    without = collate(none, None)

    assert {name: tensor.dtype for name, tensor in without.items()} == {
        name: one.dtype for name, one in found.items()
    }
    assert without["score"].isnan().all()


def test_the_side_of_the_padding_is_that_of_the_manifest(tmp_path):
    facts = objective("encoder")
    facts["frame"]["padding_side"] = "left"
    left, right = (
        write_set(tmp_path / side, [], objective=one).manifest
        for side, one in (("left", facts), ("right", objective("encoder")))
    )
    found = Collate.from_manifest(left)({"input_ids": column([[5, 6, 2], [7, 2]])}, None)

    assert found["left_padding"].tolist() == [0, 1]

    with refused(r"differ in .* padding.*: encoder padded on the left and encoder"):
        Collate.from_manifests([left, right])


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_order_of_prediction(side):
    """Rows of five, three and no tokens (filler).

    Places 3, 0 and 1 of the first are predicted in this order.
    """
    lists = {
        "input_ids": [[5, 6, 7, 8, 9], [10, 11, 12], []],
        "prediction_order": [[3, 0, 1], [1], []],
    }
    found = collated("encoder", lists, [1, 1, 0], padding_side=side)

    assert found["label_ids"] == [8, 5, 6, 11]

    if side == "right":
        assert found["rank"] == [
            [2, 3, 0, 1, 0],
            [0, 1, 0, 0, 0],
            [0] * 5,
        ]
        assert found["label_index"] == [3, 0, 1, 6]
    else:
        assert found["rank"] == [
            [2, 3, 0, 1, 0],
            [0, 0, 0, 1, 0],
            [0] * 5,
        ]
        assert found["label_index"] == [3, 0, 1, 8]
        assert found["left_padding"] == [0, 2, 4]

    assert [found["input_ids"][index // 5][index % 5] for index in found["label_index"]] == found[
        "label_ids"
    ]
