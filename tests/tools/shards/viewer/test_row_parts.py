"""What the viewer shows of a row, against the row's columns."""

from __future__ import annotations

import numpy as np
import pytest

from clozeline.pipeline.corrupt.preview.row_view import Pieces, row_parts
from clozeline.pipeline.corrupt.preview.view import Sheet
from clozeline.pipeline.rows import Row
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.shards.inspect_shard import view_of
from tests.shard_sets import roles_of
from tests.tools.shards.viewer.shown_rows import flat, marked, part, row_of, rows_and_views, sample_text, text
from tests.tools.small_run import example_sets


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


def test_the_prefix_is_marked(shard_sets, tokenizer):
    for row, view in rows_and_views(shard_sets, "unilm"):
        prefix = int(row["prefix_length"][0])
        labels = set(row["label_positions"].tolist())
        expected = [token for at, token in enumerate(row["input_ids"][:prefix].tolist()) if at not in labels]
        found = "".join(shown for shown, role in marked(part(view, "input")) if role == "prefix")
        assert flat(found) == tokenizer.decode_part(expected)


def test_masked_rows_show_labels_beside_what_stands_in_their_place(shard_sets, tokenizer):
    manifest, _ = example_sets(shard_sets)["masked_lm"]
    kinds = set()
    for number in range(60):
        row, view = row_of(manifest, number), view_of(manifest, number)
        labels = part(view, "labels")
        assert [int(cells[0]) for cells in labels.rows] == row["label_positions"].tolist()
        for (_, original, shown, what), label, place in zip(
            labels.rows, row["label_ids"].tolist(), row["label_positions"].tolist(), strict=True
        ):
            token = int(row["input_ids"][place])
            decoded = tokenizer.decode_part([label]).replace("\n", "⏎")
            expected = decoded if decoded.strip() else "␣" * len(decoded)
            assert text(original) == expected or "\ufffd" in decoded
            assert what == {3: "masked", label: "kept"}.get(token, "replaced")
            assert (text(shown) == "<mask>") == (what == "masked")
            assert [span.style for span in shown.spans] == [what]
            kinds.add(what)
        original = flat(part(view, "original").text.plain).replace("▌", "").replace("|", "")
        assert original == f"<cls>{sample_text(shard_sets, 'masked_lm', number, tokenizer)}<sep>"
        masks = sum(found.count("<mask>") for found, role in marked(part(view, "input")) if role == "masked")
        assert masks == row["input_ids"].tolist().count(3)
    assert kinds == {"masked", "replaced", "kept"}


def test_long_rows_are_cut(shard_sets):
    shown = part(view_of(shard_sets / "encode", 0, limit=10), "token_ids").text.plain
    assert "more tokens" in shown
    assert len(shown) < 120


@pytest.mark.parametrize("label", ["permuted_lm", "xlnet"])
def test_tokens_come_in_the_order_of_prediction(shard_sets, label):
    for row, view in rows_and_views(shard_sets, label):
        order = part(view, "order of prediction")
        assert isinstance(order, Sheet)
        assert [int(cells[1]) for cells in order.rows] == row["prediction_order"].tolist()
        assert sum(role == "predicted" for _, role in marked(part(view, "input"))) > 0
