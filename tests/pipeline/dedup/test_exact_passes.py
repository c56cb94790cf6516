from __future__ import annotations

import pytest

from clozeline.errors import IntegrityError
from tests.pipeline.dedup.dedup_documents import EXACT, document


def test_the_smallest_uid_of_equal_texts_stays_and_rejections_name_it(run_dedup):
    copies = [document(n, "one and the same text") for n in range(5)]
    other = document(9, "another text")
    result = run_dedup([[copies[3], other], copies[:3], copies[4:]], EXACT, shards=3)
    kept = min(copies, key=lambda copy: copy.uid)
    assert {row.uid for row in result.documents()} == {kept.uid, other.uid}
    rejections = result.rejections()
    assert set(rejections) == {copy.uid for copy in copies} - {kept.uid}
    assert {(row.stage, row.reason, row.detail) for row in rejections.values()} == {
        ("dedup", "exact_duplicate", kept.uid.hex())
    }
    assert result.counts["documents_in"] == 6
    assert result.counts["documents_out"] == 2
    assert result.counts["rejected"] == {"exact_duplicate": 4}
    clusters = result.clusters("exact")
    assert {row["cluster"] for row in clusters} == {kept.uid}
    assert {row["uid"] for row in clusters} == {copy.uid for copy in copies}
    assert [row["uid"] for row in clusters if row["kept"]] == [kept.uid]


def test_the_longest_text_of_equal_keys_stays(run_dedup):
    texts = ["A  text", "A text with more, of 12", "a TEXT with more of 34"]
    rows = [
        document(0, texts[0], url="http://x.org/a", date=100),
        document(1, texts[1], url="https://X.org/a#top", date=None),
        document(2, texts[2], url="http://x.org:80/a", date=200),
    ]
    result = run_dedup([rows], {"exact": {"key": "url"}, "near": None})
    assert [row.uid for row in result.documents()] == [rows[1].uid]
    assert run_dedup([rows[:2]], {"exact": {"key": "text"}, "near": None}).counts["documents_out"] == 2
    assert run_dedup([rows[1:]], {"exact": {"key": "match"}, "near": None}).counts["documents_out"] == 1


def test_documents_without_a_url_are_no_copies_of_each_other(run_dedup):
    result = run_dedup([[document(n, "text") for n in range(3)]], {"exact": {"key": "url"}, "near": None})
    assert result.counts["documents_out"] == 3


def test_parallel_pairs_are_equal_only_with_both_sides(run_dedup):
    rows = [
        document(n, "the same", target_text=target)
        for n, target in enumerate(["das Gleiche", "anderes", "das Gleiche"])
    ]
    assert run_dedup([rows], EXACT).counts["documents_out"] == 2


def test_the_same_record_twice_is_an_error(run_dedup):
    with pytest.raises(IntegrityError, match="is there twice"):
        run_dedup([[document(1, "text")], [document(1, "text")]], EXACT)
