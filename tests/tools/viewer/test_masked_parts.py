"""What is shown beside a masked block, against the columns of the row."""

from __future__ import annotations

import pytest

from pipeline.shards import open_shards
from tests.tools.small_run import example_sets
from tools.inspect_shard import view_of
from tools.viewer.view import Sheet

LAST = 40


def rows_and_views(shard_sets, label):
    manifest, _ = example_sets(shard_sets)[label]
    shards = open_shards(manifest)
    for number in range(0, LAST, 5):
        block, place = shards.locate(number)
        yield shards.read_block(block).row(place), view_of(manifest, number)


def part(view, title):
    return next(found for found in view.parts if found.title.startswith(title))


def text(cell):
    return cell if isinstance(cell, str) else "".join(token.text for token in cell)


def test_the_prefix_is_marked_and_explained(shard_sets):
    for row, view in rows_and_views(shard_sets, "unilm"):
        facts = dict(part(view, "attention").rows)
        prefix = int(row["prefix_length"][0])
        assert facts["the prefix ends behind"] == f"place {prefix - 1}"
        assert "the prefix" in facts["a place reads"]
        roles = [token.role for token in part(view, "input").tokens]
        first_plain = roles.index("plain") if "plain" in roles else len(roles)
        assert "prefix" not in roles[first_plain:]


def test_spans_stand_between_their_boundaries(shard_sets):
    for row, view in rows_and_views(shard_sets, "span_boundary"):
        spans = part(view, "spans")
        assert [int(cells[0]) for cells in spans.rows] == row["span_starts"].tolist()
        originals = [text(cells[1]) for cells in part(view, "labels").rows]
        assert len(originals) == sum(row["span_lengths"].tolist())
        if row["span_starts"][0] == 1:
            assert text(spans.rows[0][1]) == "<cls>"


@pytest.mark.parametrize("label", ["permuted_lm", "xlnet"])
def test_tokens_come_in_the_order_of_prediction(shard_sets, label):
    for row, view in rows_and_views(shard_sets, label):
        order = part(view, "order of prediction")
        assert isinstance(order, Sheet)
        assert [int(cells[1]) for cells in order.rows] == row["prediction_order"].tolist()
        hidden = sum(text(cell).count("▁") for cells in order.rows[-1:] for cell in (cells[2], cells[4]))
        assert hidden == 0  # the last one reads all others
        marked = [token for token in part(view, "input").tokens if token.role == "predicted"]
        assert len(marked) == len(order.rows)


def test_the_second_view_is_the_crop_in_its_frame(shard_sets):
    for row, view in rows_and_views(shard_sets, "corrective_lm"):
        shown = part(view, "second view")
        assert shown.title.endswith(f"({int(row['crop_length'][0]) + 2:,} tokens)")
        tokens = [token.text for token in shown.tokens]
        assert (tokens[0], tokens[-1]) == ("<cls>", "<sep>")
        assert "<mask>" not in tokens


def test_rows_of_a_mixture_show_what_their_own_part_has(shard_sets):
    found = set()
    for row, view in rows_and_views(shard_sets, "unilm_mixture"):
        restricted = len(row["attention"]) == 1
        assert any(part.title == "attention" for part in view.parts) == restricted
        found.add(restricted)
    assert found == {True, False}
