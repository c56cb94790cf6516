"""Recall by bins: the pairs have the similarity that they claim, and a signature that misses pairs is seen."""

import random

from benchmarks.dedup import recall_by_bins, write_pairs
from clozeline.pipeline.dedup.near import MinHash


def test_pairs_have_the_similarity_of_their_bin():
    texts, similarities = write_pairs(0.625, 0.675, 5, random.Random(3))
    minhash = MinHash()
    for index, similarity in enumerate(similarities):
        left, right = (set(minhash.shingles(text).tolist()) for text in texts[2 * index : 2 * index + 2])
        assert similarity == len(left & right) / len(left | right)
        assert 0.625 <= similarity < 0.675


def test_recall_is_compared_with_theory(monkeypatch):
    rows = recall_by_bins(30)
    assert [row["bin"] for row in rows][::8] == ["0.475 to 0.55", "0.925 to 0.975"]
    assert all(abs(row["ours"] - row["theory"]) <= 4 * row["error"] for row in rows)
    assert [row["theory"] for row in rows] == sorted(row["theory"] for row in rows)
    keys = MinHash.band_keys
    monkeypatch.setattr(MinHash, "band_keys", lambda self, signature: keys(self, signature)[:2])  # of 14 bands
    assert any(row["ours"] < row["theory"] - 3 * row["error"] for row in recall_by_bins(30))
