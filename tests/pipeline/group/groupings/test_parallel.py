"""Parallel texts: one row a pair, cut as a plain loop cuts it, and every token accounted for."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.group.groupings import Context, GroupingSpec, MinimumRow, build_grouping
from clozeline.pipeline.rows import RowBatch
from clozeline.seeding import POSITIONS, kernel_keys, random_bits, sample_uid
from tests.pipeline.corruption_cases import vocabulary
from tests.pipeline.laws import within_sigmas
from tests.pipeline.token_rows import documents

WORDS = vocabulary(2000)


def run(rows, length, **options):
    one = GroupingSpec.of("parallel", {"length": length, "cut": "longer", **options})
    grouped = build_grouping(one, WORDS).group(
        rows, MinimumRow(), Context(one.label, 1, ("a", "b", "c"))
    )
    return grouped.rows, grouped.counts


def pairs(sizes, sources=None):
    texts = [list(range(200, 200 + first)) for first, _ in sizes]
    targets = [list(range(600, 600 + second)) for _, second in sizes]
    starts = [list(range(0, first, 4)) for first, _ in sizes]
    return documents(texts, starts, targets, sources=sources)


@settings(max_examples=100)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=8),
    length=st.integers(2, 25),
)
def test_the_longer_side_is_cut(sizes, length):
    found, counts = run(pairs(sizes), length)
    rows = iter(found)
    lost = {"empty": 0, "cut": 0}

    for first, second in sizes:
        if first == 0 or second == 0:
            lost["empty"] += first + second
            continue

        before = first + second
        while first + second > length:
            first, second = (first - 1, second) if first > second else (first, second - 1)
        lost["cut"] += before - first - second
        row = next(rows)

        assert row["ids"].tolist() == list(range(200, 200 + first))
        assert row["target_ids"].tolist() == list(range(600, 600 + second))
        assert row["sentence_starts"].tolist() == list(range(0, first, 4))
        assert row["target_language"].tolist() == [2]

    assert next(rows, None) is None
    assert counts["tokens_dropped"] == {reason: tokens for reason, tokens in lost.items() if tokens}
    assert counts["target_tokens"] == len(found.columns["target_ids"].values)


def test_a_source_is_cut_and_a_long_target_left_out():
    found, counts = run(
        pairs([(20, 5), (3, 6), (4, 1)]),
        10,
        cut="source",
        target_length=5,
    )
    assert found.columns["ids"].lengths.tolist() == [10, 4]
    assert found.columns["target_ids"].lengths.tolist() == [5, 1]
    assert counts["tokens_dropped"] == {"too_long": 9, "cut": 10}


def test_documents_of_a_set_without_pairs_are_empty():
    rows = pairs([(5, 3)])
    plain = RowBatch(
        rows.fixed, {name: rows.columns[name] for name in ("token_ids", "sentence_starts")}
    )
    found, counts = run(plain, 8)

    assert len(found) == 0
    assert counts["tokens_dropped"] == {"empty": 5}


def test_inputs_are_tasks_with_their_own_length_and_share():
    rows = pairs([(20, 5)] * 9000, [index % 3 for index in range(9000)])
    sources = [("c", 12, 1_000_000), ("a", 8, 250_000)]
    found, counts = run(rows, 12, cut="source", target_length=10, sources=sources)
    part = found.fixed["part"]
    lengths = found.columns["ids"].lengths

    assert set(zip(part.tolist(), lengths.tolist(), strict=True)) == {(0, 12), (1, 8)}
    assert int((part == 0).sum()) == 3000
    assert within_sigmas(int((part == 1).sum()), 3000, 0.25)

    label = GroupingSpec.of(
        "parallel", {"length": 12, "cut": "source", "target_length": 10, "sources": sources}
    ).label
    uids = [
        sample_uid(row.fixed["document_uid"].tobytes(), 0, 0, label)
        for row in rows
        if not row.fixed["source_group"]
    ]

    keys = kernel_keys(
        1,
        label,
        np.array(uids, np.uint64),
        np.zeros(3000, np.uint16),
    )
    drawn = [((int(word) >> 32) * 10**6) >> 32 for word in random_bits(keys, POSITIONS, 1)[:, 0]]
    wanted = [uid for uid, number in zip(uids, drawn, strict=True) if number < 250_000]

    assert found.fixed["uid"][part == 1].tolist() == wanted
    assert counts["tokens_dropped"]["other_source"] == 3000 * 25
    assert counts["tokens_in_samples"] + sum(counts["tokens_dropped"].values()) == 9000 * 25
