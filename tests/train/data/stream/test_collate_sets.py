"""Batches of rows of several sets: each set keeps its rules, and columns are aligned."""

from copy import copy

import numpy as np
import pytest

from clozeline.columns import IDS, POSITIONS, ROW, STARTS, Role
from clozeline.errors import IntegrityError
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.phases import phase_of
from tests.refusals import refused
from tests.shard_sets import IDS as IDS_COLUMN
from tests.shard_sets import fixed, ids_of, list_column, objective, roles_of, write_set
from tests.train.data.stream.collated_rows import MASK, SPECIAL, column, facts
from tests.train.data.stream.streams import open_stream

SEGMENTS = list_column("segment_starts")


LANGUAGES = list_column("languages", "uint8")


TAGS = (list_column("tag_positions"), list_column("tags"))


def written(folder, lists, **facts):
    """The manifest of a set of one row."""
    specs = [spec for spec in (IDS_COLUMN, SEGMENTS, LANGUAGES, *TAGS) if spec.name in lists]
    columns = {
        spec.name: Ragged.from_lists(lists[spec.name], np.dtype(spec.dtype)) for spec in specs
    }
    rows = RowBatch(fixed(np.ones(1, np.uint64)), columns)
    record = objective("encoder")
    record["frame"] |= facts
    return write_set(folder, [rows], columns=specs, objective=record).manifest


def test_each_set_of_a_batch_has_its_own_rule(tmp_path):
    """Positions restart with the second segment of a translation, never in a pair of sentences.

    All have tags.
    """
    pair = {
        "input_ids": [[1, 7, 2, 8, 9, 2]],
        "segment_starts": [[0, 3]],
        "languages": [[3, 5]],
    }
    text = {
        "input_ids": [[1, 7, 7, 7, 7, 2]],
        "languages": [[4]],
    }
    sets = [
        (pair, {"restarts_segments": True}),
        (pair, {}),
        (text, {}),
    ]
    sets = [
        ({**lists, "tag_positions": [[n]], "tags": [[n + 4]]}, options)
        for n, (lists, options) in enumerate(sets)
    ]
    manifests = [
        written(tmp_path / str(number), lists, **options)
        for number, (lists, options) in enumerate(sets)
    ]
    columns = {"input_ids": column([lists["input_ids"][0] for lists, _ in sets])}
    for name in ("segment_starts", "languages", "tag_positions", "tags"):
        columns[name] = column([lists[name][0] if name in lists else [] for lists, _ in sets])
    tensors = Collate.from_manifests(manifests)(columns, np.ones(3, np.float32), np.arange(3))
    found = {name: tensor.tolist() for name, tensor in tensors.items()}

    assert found["position_ids"] == [[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
    assert found["type_ids"] == [[0, 0, 0, 1, 1, 1]] * 2 + [[0] * 6]
    assert found["languages"] == [[3, 3, 3, 5, 5, 5]] * 2 + [[4] * 6]
    assert (found["label_index"], found["label_ids"]) == ([0, 7, 14], [4, 5, 6])


ATTENTION = list_column("attention", "uint8")


def lengths(count):
    return [3 + 5 * n % 7 for n in range(count)]


def masked_set(folder, previous):
    """Labels at position 1 and the last one, 100 and 200 above the ids; weight 1/2, divisor 7."""
    texts = [ids_of(uid, size) for uid, size in zip(range(1, 31), lengths(30), strict=True)]
    columns = {
        "input_ids": Ragged.from_lists(texts, np.uint16),
        "label_positions": Ragged.from_lists([[1, len(text) - 1] for text in texts], np.uint16),
        "label_ids": Ragged.from_lists([[100, 200]] * 30, np.uint16),
        "label_weight": Ragged.from_matrix(np.full((30, 1), 0.5, np.float32)),
        "label_count": Ragged.from_matrix(np.full((30, 1), 7, np.uint16)),
    }

    content = RowBatch(fixed(np.arange(1, 31, dtype=np.uint64)), columns)
    specs = [IDS_COLUMN, *map(list_column, ("label_positions", "label_ids", "label_count"))]
    specs.insert(3, list_column("label_weight", "float32"))
    return write_set(
        folder, [content], columns=specs, name="masked", objective=facts("masked", previous)
    )


def causal_set(folder):
    texts = [ids_of(uid, size) for uid, size in zip(range(1, 24), lengths(23), strict=True)]
    columns = {
        "input_ids": Ragged.from_lists(texts, np.uint16),
        "attention": Ragged.from_matrix(np.ones((23, 1), np.uint8)),
    }
    content = RowBatch(fixed(np.arange(1, 24, dtype=np.uint64)), columns)
    options = {
        "columns": [IDS_COLUMN, ATTENTION],
        "name": "causal",
        "objective": facts("causal", "previous"),
    }

    return write_set(folder, [content], **options)


@pytest.mark.parametrize("previous", ["same", "previous"])
def test_each_row_has_what_its_own_set_holds(tmp_path, previous):
    masked = masked_set(tmp_path / "m", previous)
    causal = causal_set(tmp_path / "c")
    phases = [
        phase_of((masked,), (), 16),
        phase_of((causal, masked), (2.0, 1.0), 80),
        phase_of((causal,)),
    ]

    seen = set()

    with open_stream(phases) as stream:
        for _ in range(16):
            for batch in stream.next_step():
                tensors = batch.tensors
                width = tensors["input_ids"].shape[1]
                labels = []

                for row, (source, block, place) in enumerate(batch.origin.tolist()):
                    if source < 0:
                        assert tensors["label_count"][row] == 0
                        continue

                    text = (
                        stream.sources[source]
                        .shards.read_block(block)
                        .columns["input_ids"][place]
                        .tolist()
                    )

                    seen.add(source)

                    assert tensors["objective"][row] == source
                    assert tensors["input_ids"][row, : len(text)].tolist() == text

                    if source == 0:
                        shift = previous == "previous"
                        labels += [
                            (row, 1 - shift, 100, 0.5),
                            (row, len(text) - 1 - shift, 200, 0.5),
                        ]
                    else:
                        labels += [(row, at, text[at + 1], 1.0) for at in range(len(text) - 1)]

                    assert tensors["label_count"][row] == (7 if source == 0 else len(text) - 1)

                    if "attention" in tensors:
                        assert (tensors["attention"][row], tensors["prefix_length"][row]) == (
                            source,
                            0,
                        )

                found = zip(
                    tensors["label_index"].tolist(),
                    tensors["label_ids"].tolist(),
                    tensors["label_weight"].tolist(),
                    strict=True,
                )

                assert [
                    (at // width, at % width, label, weight) for at, label, weight in found
                ] == labels

    assert seen == {0, 1}


def test_a_column_of_labels_is_aligned_with_those_of_other_objectives():
    """Causal rows and masked ones share a batch.

    Only the masked ones have a value for each label.
    """
    own = {"rarity": Role("label", "label_positions", head="mine", below=9)}
    masked = Collate(
        "encoder", roles_of(["input_ids", "label_positions", "label_ids"]) | own, SPECIAL
    )
    causal = Collate("encoder", roles_of(["input_ids", "attention"]), SPECIAL)
    merged = copy(masked)
    merged._use_roles({**masked.roles, **causal.roles})
    merged._parts = (masked, causal)
    lists = {
        "input_ids": [[5, 6, 7], [8, 9, 10], [11, MASK, MASK]],
        "label_positions": [[0], [], [1, 2]],
        "label_ids": [[6], [], [12, 13]],
        "rarity": [[3], [], [4, 2]],
        "attention": [[], [1], []],
    }

    found = merged(
        {name: column(rows) for name, rows in lists.items()},
        None,
        np.array([0, 1, 0]),
    )

    assert found["label_ids"].tolist() == [6, 9, 10, 12, 13]
    assert found["rarity"].tolist() == [3, -100, -100, 4, 2]

    with pytest.raises(
        IntegrityError, match="rarity: expected a value for each of the 2 labels of a row, got 1"
    ):
        merged(
            {name: column(rows) for name, rows in (lists | {"rarity": [[3], [], [4]]}).items()},
            None,
            np.zeros(3, int),
        )


@pytest.mark.parametrize("side", ["right", "left"])
def test_values_of_tokens_and_of_segments_are_padded(side):
    roles = roles_of(["input_ids", "segment_starts"])
    roles |= {
        "depth": Role("label", "input_ids", head="mine"),
        "kind": Role("label", "segment_starts", head="mine"),
        "part": STARTS,
    }

    lists = {
        "input_ids": [[5, 6, 7], [8, 9]],
        "segment_starts": [[0, 2], [0]],
        "depth": [[1, 2, 3], [4, 5]],
        "kind": [[7, 8], [9]],
        "part": [[0, 1], [0, 1]],
    }

    found = Collate("encoder", roles, SPECIAL, RowForm(padding_side=side))(
        {k: column(v) for k, v in lists.items()}, None
    )

    assert found["depth"].tolist() == [
        [1, 2, 3],
        [4, 5, -100] if side == "right" else [-100, 4, 5],
    ]
    assert found["part"].tolist() == [
        [0, 1, 1],
        [0, 1, 0] if side == "right" else [0, 0, 1],
    ]
    assert found["kind"].tolist() == [[7, 8], [9, -100]]


@pytest.mark.parametrize(
    ("further", "message"),
    [
        ({"lengths": ROW}, "column lengths: batches make a tensor of this name"),
        ({"label_ids": ROW}, r"column label_ids: expected the role label\(label_positions\)"),
        (
            {"view": IDS, "lengths_view": ROW},
            "column lengths_view: another column also makes the tensor lengths_view",
        ),
        (
            {"choice_starts": STARTS, "at": POSITIONS},
            "column at: expected one value or several values of a row",
        ),
    ],
)
def test_names_and_roles_that_batches_have_no_form_for_are_refused(further, message):
    with refused(message):
        Collate("encoder", {"input_ids": IDS, **further}, SPECIAL)
