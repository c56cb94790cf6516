"""Tensors that single heads read, and choices as rows, against loops over rows."""

import numpy as np
import pytest
import torch

from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.head_features import rows_of_choices
from tests.pipeline.task_files import make_choice_sets, make_sets, open_split
from tests.refusals import refused
from tests.shard_sets import IDS, list_column, objective, roles_of, write_set
from tests.train.data.stream.test_collate import MASK, PAD, SPECIAL, collated, column


def test_views_of_both_kinds_in_one_batch():
    """Two crops of the rows before masking, a stored view, none, and filler."""
    rows = {
        "input_ids": [[1, 11, MASK, 13, MASK, 2], [1, MASK, 22, 2], [1, 31, 2], [1, 41, 2], []],
        "label_positions": [[2, 4], [1], [], [], []],
        "label_ids": [[12, 14], [21], [], [], []],
        "crop_start": [[1], [0], [], [], []],
        "crop_length": [[3], [1], [], [], []],
        "input_ids_b": [[], [], [7, 8, 9], [], []],
    }
    found = collated("encoder", rows, [1, 1, 1, 1, 0])

    assert found["input_ids_b"] == [
        [1, 12, 13, 14, 2],
        [1, 21, 2, PAD, PAD],
        [7, 8, 9, PAD, PAD],
        [PAD] * 5,
        [PAD] * 5,
    ]
    assert found["position_ids_b"] == [[0, 1, 2, 3, 4]] * 5
    assert found["lengths_b"] == [5, 3, 3, 0, 0]


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
def test_tags_are_the_labels_of_their_places(architecture):
    """In rows of a decoder too: no token is then a label. A row may have none, as filler."""
    lists = {
        "input_ids": [[1, 3, 7, 2], [1, 3, 2], []],
        "tag_positions": [[1, 2], [], []],
        "tags": [[4, 0], [], []],
    }

    found = collated(architecture, lists, [1, 1, 0])

    assert found["label_index"] == [1, 2]
    assert found["label_ids"] == [4, 0]


def test_tags_beside_labels_that_are_tokens(tmp_path):
    lists = {
        "input_ids": [[1, 3]],
        "tag_positions": [[1]],
        "tags": [[4]],
        "label_positions": [[1]],
        "label_ids": [[9]],
    }

    with refused("a head would confuse them; train on them in two runs"):
        Collate("encoder", roles_of(lists), SPECIAL)

    masked = [IDS, *(list_column(name) for name in ("label_positions", "label_ids"))]
    tagged = [IDS, *(list_column(name) for name in ("tag_positions", "tags"))]
    sets = [
        write_set(
            tmp_path / name, [], columns=columns, objective={**objective("encoder"), "label": name}
        ).manifest
        for name, columns in (("masked", masked), ("tagged", tagged))
    ]
    with refused("train on them in two runs"):
        Collate.from_manifests(sets)


def test_answers_and_the_places_where_they_may_be():
    """A filler row has neither."""
    lists = {
        "input_ids": [[1, 3, 2, 7], [1, 2], []],
        "answer_span": [[2, 3], [0, 0], []],
        "answer_places": [[0, 2, 3], [0], []],
    }

    columns = {name: column(values) for name, values in lists.items()}
    collate = Collate("encoder", roles_of(columns), SPECIAL)
    tensors = collate(
        {name: columns[name] for name in collate.columns}, np.array([1, 1, 0], np.float32)
    )

    assert tensors["answer_start"].tolist() == [2, 0, -100]
    assert tensors["answer_end"].tolist() == [3, 0, -100]
    assert tensors["answer_places"].dtype == torch.bool
    assert tensors["answer_places"].int().tolist() == [[1, 0, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]]


def test_rows_are_those_of_a_loop():
    """Random examples of 2 to 5 choices of 1 to 6 tokens in one or two segments, one in eight
    filler."""
    draws = np.random.default_rng(5)
    examples = []
    rows = []

    for number in range(200):
        parts = (
            []
            if number % 8 == 3
            else [draws.integers(9, 99, draws.integers(1, 7)) for _ in range(2 + number % 4)]
        )

        starts = np.cumsum([0, *map(len, parts)])[:-1].tolist()
        segments = [[0, 1] if len(part) > 1 else [0] for part in parts]
        rows += [(part.tolist(), own) for part, own in zip(parts, segments, strict=True)] or [
            ([], [])
        ]
        flat = [start + at for start, own in zip(starts, segments, strict=False) for at in own]
        ids = [token for part in parts for token in part]
        right = [number % 2] if parts else []
        given = {
            "input_ids": ids,
            "choice_starts": starts[: len(parts)],
            "segment_starts": flat,
            "choice": right,
        }

        examples.append(given)

    columns = {
        name: Ragged.from_lists([one[name] for one in examples], np.int64) for name in examples[0]
    }
    found, chosen = rows_of_choices(columns, roles_of(columns))

    assert [row.tolist() for row in found["input_ids"]] == [ids for ids, _ in rows]
    assert [row.tolist() for row in found["segment_starts"]] == [segments for _, segments in rows]
    assert chosen["choices"].tolist() == [max(1, len(one["choice_starts"])) for one in examples]
    assert chosen["label"].tolist() == [
        one["choice"][0] if one["choice"] else -100 for one in examples
    ]


def test_a_batch_of_filler_alone():
    empty = Ragged(np.zeros(0, np.int64), np.zeros(3, np.int64))
    found, chosen = rows_of_choices({"input_ids": empty}, {})
    assert [len(row) for row in found["input_ids"]] == [0, 0]
    assert (chosen["choices"].tolist(), chosen["label"].tolist()) == ([1, 1], [-100, -100])


def test_other_rows_beside_choices_are_refused(tmp_path):
    sets = [
        open_split(make_choice_sets(tmp_path / "a"), "train"),
        open_split(make_sets(tmp_path / "b"), "train"),
    ]
    with refused("encoder with choices and encoder"):
        Collate.from_manifests([shards.manifest for shards in sets])
