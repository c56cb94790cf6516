"""The order of prediction that is shown, against the column of the row."""

from __future__ import annotations

import pytest

from clozeline.pipeline.corrupt.preview.view import Sheet
from tests.tools.shards.viewer.shown_rows import marked, part, rows_and_views


@pytest.mark.parametrize("label", ["permuted_lm", "xlnet"])
def test_tokens_come_in_the_order_of_prediction(shard_sets, label):
    for row, view in rows_and_views(shard_sets, label):
        order = part(view, "order of prediction")
        assert isinstance(order, Sheet)
        assert [int(cells[1]) for cells in order.rows] == row["prediction_order"].tolist()
        assert sum(role == "predicted" for _, role in marked(part(view, "input"))) > 0
