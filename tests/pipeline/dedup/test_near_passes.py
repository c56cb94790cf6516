from __future__ import annotations

from collections import Counter

from clozeline.pipeline.dedup.near import MinHash
from tests.pipeline.dedup.dedup_documents import NEAR, document, edited, prose


def test_short_texts_are_compared_whole(run_dedup):
    rows = [
        document(0, "Two words"),
        document(1, "two WORDS!"),
        document(2, "two others"),
        document(3, "?!"),
        document(4, "…"),
    ]
    result = run_dedup([rows], NEAR)
    assert result.counts["rejected"] == {"near_duplicate": 1}
    assert {row.uid for row in result.documents()} >= {row.uid for row in rows[2:]}


def test_candidates_are_the_documents_that_share_a_band_key(run_dedup):
    base = [prose(seed, words=60) for seed in range(6)]
    rows = [document(n, edited(base[n % 6], *range(n))) for n in range(18)]
    counts = run_dedup([rows[:7], [], rows[7:]], {"exact": None, "near": {"verify": 0}}, shards=3).counts
    minhash = MinHash(seed=1)
    holders = Counter(key for row in rows for key in set(minhash.band_keys(minhash.signature(row.text)).tolist()))
    shared = {key for key, count in holders.items() if count > 1}
    assert counts["signatures"] == 18
    assert counts["near"]["candidates"] == sum(holders[key] for key in shared) > 0
    members = [row for row in rows if shared & set(minhash.band_keys(minhash.signature(row.text)).tolist())]
    assert counts["near"]["members"] == len(members) < 18


def test_both_sides_of_a_pair_are_signed(run_dedup):
    source, other = prose(7), prose(8)
    pairs = [document(n, source, target_text=other if n else prose(9)) for n in range(3)]
    assert run_dedup([pairs], NEAR).counts["rejected"] == {"near_duplicate": 1}
