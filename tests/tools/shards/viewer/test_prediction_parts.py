"""The order of prediction that is shown, against the column of the row."""

from __future__ import annotations

import pytest

from clozeline.pipeline.corrupt.preview.view import Sheet
from tests.tools.shards.viewer.shown_rows import part, rows_and_views, text


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
