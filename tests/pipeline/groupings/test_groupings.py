"""Groupings: nothing is lost, rows laid end to end are the documents again, and the cuts are those of a plain loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import registry
from pipeline.errors import ConfigurationError
from pipeline.groupings import Context, GroupingSpec, MinimumRow, build_grouping
from pipeline.rows import Rows
from pipeline.seeding import sample_uid
from tests.pipeline.corruption_cases import EOS, SEP, vocabulary
from tests.pipeline.token_rows import documents, many_documents

WORDS = vocabulary(1000)


def run(
    rows: Rows, name: str, length: int, minimum: MinimumRow | None = None, separator: str = "none"
) -> tuple[Rows, Any]:
    spec = GroupingSpec(name, length, separator)
    grouped = build_grouping(spec, WORDS).group(rows, minimum or MinimumRow(), Context(spec.label))
    return grouped.rows, grouped.counts


@pytest.mark.parametrize("name", registry.names("pipeline.groupings"))
@settings(max_examples=60, deadline=None)
@given(
    rows=many_documents(), length=st.integers(2, 9), minimum=st.builds(MinimumRow, st.integers(1, 4), st.integers(1, 2))
)
def test_tokens_in_are_tokens_in_rows_or_dropped(name: str, rows: Rows, length: int, minimum: MinimumRow) -> None:
    found, counts = run(rows, name, length, minimum)
    tokens, targets = rows.columns["token_ids"], rows.columns["target_ids"]
    pairs = name == "parallel"
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


@settings(max_examples=60, deadline=None)
@given(
    rows=many_documents(), length=st.integers(1, 9), minimum=st.builds(MinimumRow, st.integers(1, 4), st.integers(1, 2))
)
def test_separators_are_counted_apart(rows: Rows, length: int, minimum: MinimumRow) -> None:
    found, counts = run(rows, "packed", length, minimum, separator="sep")
    assert counts["separators"] == int((found.columns["ids"].values == SEP).sum())
    assert counts["tokens_in_samples"] == len(found.columns["ids"].values) - counts["separators"]
    assert counts["tokens_in"] == counts["tokens_in_samples"] + sum(counts["tokens_dropped"].values())


@settings(max_examples=60, deadline=None)
@given(rows=many_documents(), length=st.integers(1, 9), separator=st.sampled_from(["none", "sep", "eos"]))
def test_packed_rows_laid_end_to_end_are_the_stream(rows: Rows, length: int, separator: str) -> None:
    found, counts = run(rows, "packed", length, separator=separator)
    extra = {"none": [], "sep": [SEP], "eos": [EOS]}[separator]
    stream, begins, sentences = [], [], []
    for document in rows:
        if len(document["token_ids"]):
            begins.append(len(stream))
            sentences += [len(stream) + start for start in document["sentence_starts"].tolist()]
            stream += [*document["token_ids"].tolist(), *extra]
    ids = found.columns["ids"]
    assert ids.values.tolist() == stream
    assert set(ids.lengths.tolist()[:-1]) <= {length}
    assert counts["separators"] == len(begins) * len(extra)
    for row in range(len(found)):
        first, last = row * length, min(len(stream), (row + 1) * length)
        for name, places in (("document_starts", begins), ("sentence_starts", sentences)):
            inside = [place - first for place in places if first < place < last]
            assert found.columns[name][row].tolist() == [0, *inside]


def slow_windows(n: int, starts: list[int], length: int) -> list[int]:
    """Where the windows of a document begin."""
    found, place = [], 0
    while place < n:
        found.append(place)
        if n - place <= length:
            break
        whole = [start for start in starts if place < start <= place + length]
        place = whole[-1] if whole else place + length
    return found


@settings(max_examples=100, deadline=None)
@given(rows=many_documents(), length=st.integers(1, 9))
def test_document_windows_equal_a_plain_loop(rows: Rows, length: int) -> None:
    found, _ = run(rows, "document", length)
    cursor = 0
    for document in rows:
        ids, starts = document["token_ids"].tolist(), document["sentence_starts"].tolist()
        windows = slow_windows(len(ids), starts, length)
        for first, last in zip(windows, [*windows[1:], len(ids)], strict=False):
            row = found.row(cursor)
            assert row["ids"].tolist() == ids[first:last]
            assert row["sentence_starts"].tolist() == [0, *(s - first for s in starts if first < s < last)]
            cursor += 1
    assert cursor == len(found)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 25])
@pytest.mark.parametrize("name", ["packed", "document"])
def test_sizes_around_the_length(name: str, size: int) -> None:
    """0, 1, length - 1, length, length + 1, 3 * length + 1 tokens, minimum 2."""
    rows = documents([list(range(200, 200 + size))], [[0] if size else []])
    found, counts = run(rows, name, 8, MinimumRow(tokens=2))
    full, rest = divmod(size, 8)
    lengths = [8] * full + ([rest] if rest > 1 else [])
    assert found.columns["ids"].lengths.tolist() == lengths
    assert counts["tokens_dropped"] == ({"too_short": 1} if rest == 1 else {})


def test_example_of_packed() -> None:
    a, b, c, d, e, f, g, h = range(200, 208)
    rows = documents([[a, b, c], [d, e, f, g, h]], [[0], [0]])
    found, _ = run(rows, "packed", 4, separator="eos")
    assert [row["ids"].tolist() for row in found] == [[a, b, c, EOS], [d, e, f, g], [h, EOS]]
    assert [row["document_starts"].tolist() for row in found] == [[0], [0], [0]]
    assert found.fixed["document_offset"].tolist() == [0, 0, 4]
    assert [uid[0] for uid in found.fixed["document_uid"]] == [0, 16, 16]


def test_a_separator_may_open_a_row() -> None:
    rows = documents([[200, 201], [202, 203]], [[0], [0]])
    found, counts = run(rows, "packed", 2, separator="sep")
    assert [row["ids"].tolist() for row in found] == [[200, 201], [SEP, 202], [203, SEP]]
    assert found.columns["document_starts"][1].tolist() == found.columns["sentence_starts"][1].tolist() == [0, 1]
    assert found.fixed["document_offset"].tolist() == [0, 2, 1]
    assert (counts["tokens_in_samples"], counts["separators"]) == (4, 2)


def test_example_of_document() -> None:
    rows = documents([list(range(200, 210))], [[0, 2, 5]])
    found, _ = run(rows, "document", 4)
    assert [row["ids"].tolist() for row in found] == [[200, 201], [202, 203, 204], [205, 206, 207, 208], [209]]


def test_labels_are_canonical_and_fit_a_path() -> None:
    assert GroupingSpec("packed", 510, "sep").label == "packed-510-sep"
    spec = GroupingSpec("sentence_pair", 509, options=(("partner", True), ("short_rate", 0.1)))
    assert spec.label == "sentence_pair-509-none-partner=True-short_rate=0.1"
    assert GroupingSpec("x", 1, options=(("path", "../a b"),)).label == "x-1-none-path=.._a_b"
    assert GroupingSpec.of("packed", {"length": 4, "separator": "eos"}) == GroupingSpec("packed", 4, "eos")


@pytest.mark.parametrize(("length", "dtype"), [(65_535, np.uint16), (65_536, np.uint32), (70_000, np.uint32)])
@pytest.mark.parametrize("name", registry.names("pipeline.groupings"))
def test_places_have_32_bits_where_rows_need_them(name: str, length: int, dtype: type) -> None:
    ids = [200 + place % 300 for place in range(200_000)]
    starts = [*range(0, 200_000, 40), 199_999]
    rows = documents([ids, [*ids, 300]], [starts, starts], [[400], [400]])
    found, _ = run(rows, name, length)
    columns = {key: column for key, column in found.columns.items() if key.endswith("_starts")}
    assert {column.values.dtype.type for column in columns.values()} == {dtype}
    assert int(columns["sentence_starts"].values.max()) > length - 82
    whole = np.concatenate([row["sentence_starts"].astype(int) + int(row.fixed["document_offset"]) for row in found])
    assert set(starts) <= set(whole.tolist()) or name in ("packed", "parallel")


def test_wrong_options() -> None:
    with pytest.raises(ConfigurationError, match="separator"):
        build_grouping(GroupingSpec("packed", 10, "dash"), WORDS)
    words = vocabulary()
    del words.specials["sep"]
    with pytest.raises(ConfigurationError, match="needs the special token 'sep'"):
        build_grouping(GroupingSpec("packed", 10, "sep"), words)
