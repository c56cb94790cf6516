from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.dedup.columns import uid_column
from clozeline.pipeline.dedup.keep_rules import choose_kept, merits


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.binary(min_size=16, max_size=16)), max_size=40))
def test_choose_kept_equals_a_slow_rule(rows):
    groups, merit = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    kept = choose_kept(groups, merit, uid_column([row[2] for row in rows]))
    for number, row in enumerate(rows):
        best = min((r for r in rows if r[0] == row[0]), key=lambda r: (-r[1], r[2]))
        assert rows[kept[number]] == best


def test_merits_of_each_rule():
    batch = pa.record_batch(
        {
            "n_chars": pa.array([3, 40, 0], pa.uint32()),
            "date": pa.array([None, -5, 1_700_000_000], pa.timestamp("s", "UTC")),
        }
    )
    assert merits(batch, "longest").tolist() == [3, 40, 0]
    assert merits(batch, "first").tolist() == [0, 0, 0]
    newest = merits(batch, "newest")
    assert newest[0] < newest[1] < newest[2], "a document without a date is older than one of before 1970"
