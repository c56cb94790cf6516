"""Rows with a target: a fragment beside its place, a continuation, shuffled tokens."""

from __future__ import annotations

import numpy as np
import pytest

from clozeline.pipeline.corrupt.preview.row_view import Pieces, row_parts
from clozeline.pipeline.rows import Row
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.shards.inspect_shard import view_of
from tests.shard_sets import roles_of
from tests.tools.shards.viewer.shown_rows import marked, part, row_of


@pytest.fixture(scope="module")
def pieces(shard_sets):
    return Pieces(load_tokenizer(shard_sets / "train_tokenizer" / "tokenizer"))


def parts_of(pieces, **columns):
    row = Row({}, {name: np.array(values) for name, values in columns.items()})
    return {part.title.split(" (")[0]: part for part in row_parts(pieces, row, roles_of(columns))}


def test_a_fragment_is_shown_as_labels_at_its_place(pieces):
    cls, sep, mask = (pieces.vocabulary.specials[name] for name in ("cls", "sep", "mask"))
    a, b, c, d = pieces.vocabulary.replaceable[200:204].tolist()
    parts = parts_of(pieces, input_ids=[cls, a, mask, c, d, sep], target_ids=[b, c, a], target_start=[2])
    assert [(cells[0], cells[-1]) for cells in parts["labels"].rows] == [
        ("2", "masked"),
        ("3", "kept"),
        ("4", "replaced"),
    ]
    restored = parts["original"].text.plain
    assert restored == "<cls>" + "".join(pieces.piece(token) for token in (a, b, c, a)) + "<sep>"


def test_a_continuation_is_not_taken_for_the_original(pieces):
    """No column says which token belongs to which."""
    a, b, c, d = pieces.vocabulary.replaceable[200:204].tolist()
    eos = pieces.vocabulary.specials["eos"]
    parts = parts_of(pieces, input_ids=[a, b, eos], target_ids=[c, d, eos])
    assert list(parts) == ["input_ids", "target_ids"]


def test_rows_without_corruption_show_boundaries(shard_sets):
    view = view_of(shard_sets / "encode")
    row = row_of(shard_sets / "encode", 0)
    shown = marked(part(view, "token_ids"))
    assert sum(role == "marker" for _, role in shown) == len(row["sentence_starts"])
    packed = next((shard_sets / "group").glob("packed-46-sep/train"))
    documents_seen = [part(view_of(packed, number), "ids").text.plain.count("▌") for number in range(20)]
    assert documents_seen == [len(row_of(packed, number)["document_starts"]) for number in range(20)]
