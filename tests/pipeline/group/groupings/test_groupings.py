"""Groupings: nothing is lost, rows laid end to end are the documents again, and the cuts are those of a plain loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline import registry
from clozeline.pipeline.group.groupings import GroupingSpec, MinimumRow, build_grouping
from clozeline.seeding import sample_uid
from tests.pipeline.group.groupings.grouped_rows import WORDS, run
from tests.pipeline.token_rows import documents, many_documents


@pytest.mark.parametrize("name", registry.names("clozeline.pipeline.group.groupings"))
@settings(max_examples=60, deadline=None)
@given(
    rows=many_documents(), length=st.integers(2, 9), minimum=st.builds(MinimumRow, st.integers(1, 4), st.integers(1, 2))
)
def test_tokens_in_are_tokens_in_rows_or_dropped(name, rows, length, minimum):
    found, counts = run(rows, name, length, minimum)
    tokens, targets = rows.columns["token_ids"], rows.columns["target_ids"]
    pairs = "target_ids" in found.columns
    assert counts["tokens_in"] == len(tokens.values) + pairs * len(targets.values)
    assert counts["tokens_in"] == counts["tokens_in_samples"] + sum(counts["tokens_dropped"].values())
    empty = (tokens.lengths == 0) | (pairs & (targets.lengths == 0))
    assert counts["documents_dropped"]["empty"] == int(empty.sum())
    assert set(counts["tokens_dropped"]) <= {"too_short", "one_sentence", "no_partner", "empty", "cut"}
    uids = rows.fixed["document_uid"]
    for row in found:
        assert minimum.tokens <= len(row["ids"]) <= length
        starts = row["sentence_starts"]
        assert len(starts) >= minimum.sentences
        assert starts[0] == 0
        assert (np.diff(starts.astype(int)) > 0).all()
        assert starts[-1] < len(row["ids"])
        document = next(i for i, uid in enumerate(uids) if (uid == row.fixed["document_uid"]).all())
        offset = int(row.fixed["document_offset"])
        assert tokens[document][offset] == row["ids"][0]
        assert row.fixed["language"] == document % 3
        label = GroupingSpec(name, length).label
        assert int(row.fixed["uid"]) == sample_uid(uids[document].tobytes(), 0, offset, label)
        assert (row.fixed["copy"], row.fixed["part"], row.fixed["variant"]) == (0, 0, 0)
    assert list(found.columns) == [
        feature.name for feature in build_grouping(GroupingSpec(name, length), WORDS).columns
    ]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 25])
@pytest.mark.parametrize("name", ["packed", "document"])
def test_sizes_around_the_length(name, size):
    """0, 1, length - 1, length, length + 1, 3 * length + 1 tokens, minimum 2."""
    rows = documents([list(range(200, 200 + size))], [[0] if size else []])
    found, counts = run(rows, name, 8, MinimumRow(tokens=2))
    full, rest = divmod(size, 8)
    lengths = [8] * full + ([rest] if rest > 1 else [])
    assert found.columns["ids"].lengths.tolist() == lengths
    assert counts["tokens_dropped"] == ({"too_short": 1} if rest == 1 else {})


@pytest.mark.parametrize(("length", "dtype"), [(65_535, np.uint16), (65_536, np.uint32), (70_000, np.uint32)])
@pytest.mark.parametrize("name", registry.names("clozeline.pipeline.group.groupings"))
def test_places_have_32_bits_where_rows_need_them(name, length, dtype):
    ids = [200 + place % 300 for place in range(200_000)]
    starts = [*range(0, 200_000, 40), 199_999]
    rows = documents([ids, [*ids, 300]], [starts, starts], [[400], [400]])
    found, _ = run(rows, name, length)
    columns = {key: column for key, column in found.columns.items() if key.endswith("_starts")}
    assert {column.values.dtype.type for column in columns.values()} == {dtype}
    assert int(columns["sentence_starts"].values.max()) > length - 82
    whole = np.concatenate([row["sentence_starts"].astype(int) + int(row.fixed["document_offset"]) for row in found])
    assert set(starts) <= set(whole.tolist()) or {"document_starts", "target_ids"} & found.columns.keys()
