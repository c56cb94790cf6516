"""Rows with a target: a fragment beside its place, a continuation, shuffled tokens."""

from __future__ import annotations

import numpy as np
import pytest

from clozeline.pipeline.corrupt.preview.pieces import Pieces
from clozeline.pipeline.corrupt.preview.row_parts import row_parts
from clozeline.pipeline.rows import Row
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.shards.inspect_shard import view_of
from tests.tools.shards.viewer.shown_rows import part, row_of, text


@pytest.fixture(scope="module")
def pieces(shard_sets):
    return Pieces(load_tokenizer(shard_sets / "train_tokenizer" / "tokenizer"))


def parts_of(pieces, **columns):
    row = Row({}, {name: np.array(values) for name, values in columns.items()})
    return {part.title.split(" (")[0]: part for part in row_parts(pieces, row)}


def test_a_fragment_is_shown_as_labels_at_its_place(pieces):
    cls, sep, mask = (pieces.vocabulary.specials[name] for name in ("cls", "sep", "mask"))
    a, b, c, d = pieces.vocabulary.replaceable[200:204].tolist()
    parts = parts_of(pieces, input_ids=[cls, a, mask, c, d, sep], target_ids=[b, c, a], target_start=[2])
    assert [(cells[0], cells[-1]) for cells in parts["labels"].rows] == [
        ("2", "masked"),
        ("3", "kept"),
        ("4", "replaced"),
    ]
    restored = "".join(token.text for token in parts["original"].tokens)
    assert restored == "<cls>" + "".join(pieces.piece(token) for token in (a, b, c, a)) + "<sep>"


def test_a_continuation_is_not_taken_for_the_original(pieces):
    """Input and target are as long as those of a denoising pair, but no column records noise."""
    a, b, c, d = pieces.vocabulary.replaceable[200:204].tolist()
    eos = pieces.vocabulary.specials["eos"]
    parts = parts_of(pieces, input_ids=[a, b, eos], target_ids=[c, d, eos])
    assert list(parts) == ["input", "target"]


def test_shuffled_tokens_say_where_they_were(pieces):
    a, b, c = pieces.vocabulary.replaceable[200:203].tolist()
    bos, eos = (pieces.vocabulary.specials[name] for name in ("bos", "eos"))
    parts = parts_of(pieces, input_ids=[bos, c, b, a, eos], target_ids=[a, b, c, eos], token_order=[2, 1, 0])
    roles = [token.role for token in parts["input"].tokens]
    assert roles == ["special", "moved", "plain", "moved", "special"]
    assert "position 2 in the original" in parts["input"].tokens[1].note


def test_rows_without_corruption_show_boundaries(shard_sets):
    view = view_of(shard_sets / "encode")
    row = row_of(shard_sets / "encode", 0)
    shown = part(view, "token_ids").tokens
    assert sum(token.role == "marker" for token in shown) == len(row["sentence_starts"])
    packed = next((shard_sets / "group").glob("packed-46-sep/train"))
    documents_seen = [text(part(view_of(packed, number), "ids").tokens).count("▌") for number in range(20)]
    assert documents_seen == [len(row_of(packed, number)["document_starts"]) for number in range(20)]


def test_what_a_row_without_labels_may_read_is_said(pieces):
    parts = parts_of(pieces, input_ids=[1, 300, 301, 2], attention=[1], label_weight=[0.25], label_count=[3])
    assert list(parts) == ["input_ids", "attention", "what the row says"]
    numbers = (("weight of each label", "0.25"), ("added to the divisor of the loss", "3"))
    assert parts["what the row says"].rows == numbers
    assert parts["attention"].rows == (("a position reads", "itself and the positions before it"),)
