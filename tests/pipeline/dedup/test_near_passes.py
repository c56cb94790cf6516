from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.dedup.cluster_passes import NearMembers
from clozeline.pipeline.dedup.near import MinHash
from clozeline.pipeline.execution.unit_record import Output
from tests.pipeline.dedup.dedup_documents import NEAR, document, edited, prose


def test_near_duplicates_keep_the_longest_and_tell_the_similarity(run_dedup):
    base = prose(1)
    rows = [
        document(0, base),
        document(1, edited(base, 50)),
        document(2, base + " and one longer end"),
        document(3, prose(2)),
    ]
    result = run_dedup([rows[:2], rows[2:]], NEAR, shards=2)
    assert {row.uid for row in result.documents()} == {rows[2].uid, rows[3].uid}
    assert {row.reason for row in result.rejections().values()} == {"near_duplicate"}
    clusters = {row["uid"]: row for row in result.clusters("near")}
    assert set(clusters) == {row.uid for row in rows[:3]}
    assert {row["cluster"] for row in clusters.values()} == {min(row.uid for row in rows[:3])}
    assert clusters[rows[2].uid]["similarity"] == 1.0
    assert 0.7 <= clusters[rows[1].uid]["similarity"] < 1.0


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


def test_signatures_made_otherwise_are_refused(run_dedup):
    result = run_dedup([[document(1, prose(1)), document(2, prose(1))]], NEAR)
    parts, parameters = _parts_and_parameters(result)
    for change in ({"seed": 2}, {"bands": 7}, {"ngram": 4}):
        with pytest.raises(IntegrityError, match="made with"):
            NearMembers(1, parts, replace(parameters, **change)).run(0, Output(result.folder))


def _parts_and_parameters(result):
    from clozeline.pipeline.dedup.near_passes import SignatureParameters
    from clozeline.pipeline.dedup.parts import Parts

    return Parts(result.folder.parent / "clean", result.folder, 1, 1), SignatureParameters(5, 14, 8, 1)


def test_candidates_are_the_documents_that_share_a_band_key(run_dedup):
    base = [prose(seed, words=60) for seed in range(6)]
    rows = [document(n, edited(base[n % 6], *range(n))) for n in range(18)]
    counts = run_dedup([rows[:7], [], rows[7:]], {"exact": None, "near": {"verify": None}}, shards=3).counts
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
