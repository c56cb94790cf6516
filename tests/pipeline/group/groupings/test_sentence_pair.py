"""Sentence pairs: windows and partners are those of a plain loop, and partners are never from the
own document."""

import numpy as np
import pytest

from clozeline.pipeline.group.groupings import Context, GroupingSpec, MinimumRow, build_grouping
from clozeline.seeding import LABELS, LENGTHS, kernel_keys, random_bits, sample_uid
from tests.pipeline.corruption_cases import vocabulary
from tests.pipeline.token_rows import documents, random_documents

WORDS = vocabulary(1000)


def spec(length, **options):
    return GroupingSpec.of(
        "sentence_pair", {"length": length, "short_rate": 0.1, "partner": True, **options}
    )


def run(rows, length, seed=1, **options):
    one = spec(length, **options)
    grouped = build_grouping(one, WORDS).group(rows, MinimumRow(2, 2), Context(one.label, seed))
    return grouped.rows, grouped.counts


def drawn(uid, label, stream, index):
    """The high half of a word."""
    key = kernel_keys(
        1,
        label,
        np.array([uid], np.uint64),
        np.zeros(1, np.uint16),
    )
    return int(random_bits(key, stream, index + 1)[0, index]) >> 32


def slow_windows(rows, length, short_ppm, label):
    """(document, offset, tokens, uid) of every window."""
    found = []

    for number, document in enumerate(rows):
        offset = 0
        n = len(document["token_ids"])
        while offset < n:
            uid = sample_uid(
                document.fixed["document_uid"].tobytes(), int(document.fixed["copy"]), offset, label
            )
            wanted = length
            if (drawn(uid, label, LENGTHS, 0) * 10**6) >> 32 < short_ppm:
                wanted = 2 + ((drawn(uid, label, LENGTHS, 1) * (length - 1)) >> 32)
            found.append((number, offset, min(wanted, n - offset), uid))
            offset += wanted

    return found


def slow_partner(rows, own, need, uid, label):
    lists = [row["token_ids"] for row in rows]
    uids = [row.fixed["document_uid"].tobytes() for row in rows]
    others = [(own + step) % len(rows) for step in range(1, len(rows))]
    others = [other for other in others if uids[other] != uids[own] and len(lists[other])][:16]
    for other in others:
        starts = [
            start
            for start in rows.row(other)["sentence_starts"].tolist()
            if len(lists[other]) - start >= need
        ]
        if starts:
            return other, starts[(drawn(uid, label, LABELS, 0) * len(starts)) >> 32]

    return max(others, key=lambda other: len(lists[other])), 0


@pytest.mark.parametrize(
    ("length", "rate"), [(12, 0.1), (40, 0.5), (2, 0.0), (300, 0.1), (25, 1.0)]
)
def test_equals_a_plain_loop(length, rate):
    rows = random_documents(60, 90, seed=length)
    label = spec(length, short_rate=rate).label
    found, counts = run(rows, length, short_rate=rate)
    cursor = 0
    dropped = {"too_short": 0, "one_sentence": 0}

    for number, offset, size, uid in slow_windows(rows, length, round(rate * 10**6), label):
        document = rows.row(number)
        starts = [0] + [
            s - offset for s in document["sentence_starts"].tolist() if offset < s < offset + size
        ]
        if size < 2 or len(starts) < 2:
            dropped["too_short" if size < 2 else "one_sentence"] += size
            continue

        row = found.row(cursor)
        cursor += 1

        assert int(row.fixed["uid"]) == uid
        assert row["ids"].tolist() == document["token_ids"][offset : offset + size].tolist()
        assert row["sentence_starts"].tolist() == starts

        other, begin = slow_partner(rows, number, size - 1, uid, label)
        partner = rows.row(other)

        assert (
            row["partner_ids"].tolist() == partner["token_ids"][begin : begin + size - 1].tolist()
        )
        assert row["partner_document_uid"].tobytes() == partner.fixed["document_uid"].tobytes()
        assert row["partner_offset"].tolist() == [begin]

    assert cursor == len(found)
    assert counts["tokens_dropped"] == {
        reason: tokens for reason, tokens in dropped.items() if tokens
    }
    assert counts["tokens_in_samples"] == len(found.columns["ids"].values)


def test_a_document_and_its_copies_are_no_partners():
    rows = documents(
        [list(range(200, 220))] * 3,
        [[0, 5, 10]] * 3,
        texts=[0, 0, 0],
    )
    found, counts = run(rows, 30)

    assert len(found) == 0
    assert counts["tokens_dropped"] == {"no_partner": 60}
    assert len(run(rows, 30, partner=False)[0]) == 3
    assert list(run(rows, 30, partner=False)[0].columns) == ["ids", "sentence_starts"]


def test_at_most_sixteen_others_are_looked_at():
    """The long one is the 17th other of the first, so the longest of those before it must do."""
    lists = [
        list(range(200, 220)),
        *([[300, 301]] * 15),
        [302, 303, 304],
        list(range(400, 450)),
    ]
    rows = documents(lists, [[0, 10], *([[0]] * 17)])
    found, _ = run(rows, 30, short_rate=0.0)
    assert found.row(0)["partner_ids"].tolist() == [302, 303, 304]
