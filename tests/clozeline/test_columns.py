"""Roles of columns, the tensors that follow from them, and the names that no column of a user may
have."""

import math

import numpy as np
import pytest
import torch

from clozeline.columns import (
    FIELDS,
    IGNORED,
    LABEL_INDEX,
    POSITIONS,
    STARTS,
    UNDO,
    BatchField,
    Feature,
    Role,
)
from clozeline.errors import IntegrityError
from clozeline.model.compilation.host_shapes import pad_labels
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards.block import arrow_schema, feature_columns, to_batch
from tests.refusals import refused


def fields_of(role, dtype="uint8", name="mine"):
    return Feature(name, dtype, role, "a column of a user").fields


def test_tensors_follow_from_the_role():
    assert fields_of(Role("row", head="h", below=3)) == (
        BatchField("mine", "row", filler=IGNORED, below=3),
    )
    assert fields_of(Role("row")) == (BatchField("mine", "row"),)
    assert fields_of(Role("row", head="h"), "float32") == (
        BatchField("mine", "row", "float32", math.nan),
    )
    assert fields_of(Role("weight"), "float32") == (BatchField("mine", "row", "float32", 1),)

    ids, lengths = fields_of(Role("ids", head="h"), "ids")

    assert (ids.per, ids.below, lengths) == (
        "text",
        "vocabulary",
        BatchField("lengths_mine", "row", of="mine"),
    )
    assert fields_of(UNDO) == ()

    (start,), (position,) = fields_of(STARTS), fields_of(POSITIONS)

    assert (start.per, position.per, position.below) == ("token", "entry", "tokens")


@pytest.mark.parametrize(
    ("of", "per"),
    [
        ("label_positions", "label"),
        ("prediction_order", "label"),
        ("input_ids", "token"),
        ("segment_starts", "segment"),
        ("", "segment"),
    ],
)
def test_an_entry_for_each_entry_of_another_column(of, per):
    (field,) = fields_of(Role("label", of, head="h", below=5))
    assert field == BatchField("mine", per, filler=IGNORED, below=5, of=of)
    assert fields_of(Role("label", of, head="h"), "float32")[0].filler == 0, (
        "a factor or a number of a label"
    )


@pytest.mark.parametrize(
    ("role", "value"),
    [(Role("label", "label_positions", head="h"), IGNORED), (Role("row", head="h"), math.nan)],
)
def test_a_value_that_a_head_takes_for_none_is_refused(role, value):
    feature = Feature("mine", "float32", role, "a column of a user")
    feature.stored_role.refuse_ignored("mine", np.array([-99, 0], np.float32))
    rows = RowBatch({}, {"mine": Ragged(np.array([1, value], np.float32), np.array([0, 1, 2]))})
    columns = feature_columns([feature], 300)
    with pytest.raises(IntegrityError, match="column mine"):
        to_batch(rows, columns, arrow_schema(columns))


@pytest.mark.parametrize("dtype", ["int16", "uint64", "float16"])
def test_a_type_that_no_batch_reads_is_refused(dtype):
    with refused("column mine"):
        Feature("mine", dtype, Role("row"), "a column of a user")


def test_a_column_of_the_same_set_may_hold_the_positions_or_starts():
    role = Role("label", "at", head="h")
    assert role.fields("grade", {"at": POSITIONS})[0].per == "entry"
    assert role.fields("grade", {"at": STARTS})[0].per == "segment"


@pytest.mark.parametrize(
    "name", ["label_index", "lengths", "row_weight", "decoder_lengths", "sample_words", "hidden_b"]
)
def test_names_of_tensors_that_batches_make_are_refused(name):
    with refused(f"column {name}: batches make a tensor of this name.*another name"):
        Feature(name, "uint8", Role("row", head="mine"), "taken")
    assert Feature(name, "uint8", UNDO, "no tensor").name == name


@pytest.mark.parametrize(
    "name", ["label_positions", "label_ids", "document_starts", "tags", "choice", "target_ids"]
)
def test_a_column_of_ours_with_another_role_is_refused(name):
    with refused(rf"column {name}: expected the role .*, got weight; give the column"):
        Feature(name, "float32", Role("weight"), "taken")


def test_a_tensor_of_the_labels_of_a_user_is_padded_by_its_filler():
    """Nothing but its declaration says so; what has no entry for each label stays as it is."""
    (rank,) = fields_of(Role("label", "label_positions", head="h", below=4), name="rank_of_label")
    tensors = {
        "label_index": torch.tensor([1, 4]),
        "rank_of_label": torch.tensor([3, 0]),
        "more": torch.tensor([7, 8]),
    }

    padded = pad_labels(tensors, 3, {rank.name: rank})

    assert padded["rank_of_label"].tolist() == [3, 0, IGNORED]
    assert (padded["label_index"].tolist(), padded["more"].tolist()) == ([1, 4, 0], [7, 8])


def test_declarations_are_one_for_each_name():
    assert all(name == field.name for name, field in FIELDS.items())
    assert FIELDS["label_index"] is LABEL_INDEX
