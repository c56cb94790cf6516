"""The whole stage on documents in memory: what stays, what is said about the rest, and that order cannot matter."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from pipeline.config import validate
from pipeline.dedup.near_passes import NearCandidates
from pipeline.dedup.stage import DedupConfig
from pipeline.errors import ConfigurationError, IntegrityError
from pipeline.execution.unit_record import Output
from tests.pipeline.dedup.dedup_documents import document

EXACT = {"exact": {}, "near": None}
NEAR = {"exact": None, "near": {}}
WORDS = [f"{a}{b}{c}" for a, b, c in itertools.product("bdfgklmnprst", "aeiou", "bdfgklmnprst")]


def prose(seed, words=200):
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) for _ in range(words))


def edited(text, *places):
    """Other words of the same length, which no prose has, at the given places."""
    words = text.split()
    for place in places:
        words[place] = f"x{chr(97 + place % 26)}{chr(97 + place // 26)}"
    return " ".join(words)


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


@pytest.mark.parametrize(("keep", "winner"), [("longest", 1), ("newest", 2), ("first", None)])
def test_survivor_rules_of_equal_keys(run_dedup, keep, winner):
    texts = ["A  text", "A text with more, of 12", "a TEXT with more of 34"]
    rows = [
        document(0, texts[0], url="http://x.org/a", date=100),
        document(1, texts[1], url="https://X.org/a#top", date=None),
        document(2, texts[2], url="http://x.org:80/a", date=200),
    ]
    result = run_dedup([rows], {"exact": {"key": "url", "keep": keep}, "near": None})
    expected = min(rows, key=lambda row: row.uid) if winner is None else rows[winner]
    assert [row.uid for row in result.documents()] == [expected.uid]
    assert run_dedup([rows[:2]], {"exact": {"key": "text"}, "near": None}).counts["documents_out"] == 2
    assert run_dedup([rows[1:]], {"exact": {"key": "match"}, "near": None}).counts["documents_out"] == 1


def test_documents_without_a_url_are_no_copies_of_each_other(run_dedup):
    result = run_dedup([[document(n, "text") for n in range(3)]], {"exact": {"key": "url"}, "near": None})
    assert result.counts["documents_out"] == 3


def test_a_kept_document_is_unchanged_and_order_is_the_source_order(run_dedup):
    rows = [document(n, f"text {n % 7}", language="en", extra={"n": n}, url=f"http://h/{n}") for n in range(20)]
    result = run_dedup([rows[:9], [], rows[9:]], EXACT)
    stays = {row.uid for row in result.documents()}
    assert result.documents() == [row for row in rows if row.uid in stays]
    assert len(stays) == 7


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


def test_verify_breaks_a_chain_and_without_it_the_chain_goes_together(run_dedup):
    first = prose(3)
    middle = edited(first, *range(5, 25))
    last = edited(middle, *range(100, 120))
    # A ~ B and B ~ C share about 0.78 of their shingles, A and C about 0.6.
    a, b, c = (document(n, text) for n, text in enumerate((first + " longest of all", middle, last)))
    whole = run_dedup([[a, b, c]], {"exact": None, "near": {"verify": None, "bands": 40}})
    assert [row.uid for row in whole.documents()] == [a.uid]
    for order in itertools.permutations((a, b, c)):
        checked = run_dedup([order[:1], order[1:]], {"exact": None, "near": {"bands": 40}})
        assert {row.uid for row in checked.documents()} == {a.uid, c.uid}


def test_members_that_leave_a_cluster_are_compared_among_themselves(run_dedup):
    first = prose(4)
    far = edited(first, *range(20, 48))
    rows = [document(0, first + " longest"), document(1, far), document(2, far + " x"), document(3, edited(far, 199))]
    result = run_dedup([rows], {"exact": None, "near": {"bands": 60, "rows": 5}})
    assert {row.uid for row in result.documents()} == {rows[0].uid, rows[2].uid}


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


@pytest.mark.parametrize("config", [EXACT, NEAR, {}])
def test_ten_thousand_copies_leave_one(run_dedup, config):
    copies = [document(n, "the same short text in ten thousand places") for n in range(10_000)]
    result = run_dedup([copies[::2], copies[1::2]], config, shards=4)
    assert [row.uid for row in result.documents()] == [min(row.uid for row in copies)]
    assert sum(result.counts["rejected"].values()) == 9_999
    if config == NEAR:
        # Each band key lists each copy once: work grows with the copies, not with their pairs.
        assert result.counts["near"]["candidates"] == 14 * 10_000


def crawl():
    rows = [document(n, prose(n, words=40 + n)) for n in range(60)]
    rows += [replace(document(100 + n, rows[n].text), date=n) for n in range(0, 60, 5)]
    rows += [document(200 + n, edited(rows[n].text, 3, 4)) for n in range(30)]
    return rows


def test_no_order_of_documents_parts_or_ranges_changes_a_decision(run_dedup):
    rows = crawl()
    expected = None
    for trial in range(10):
        shuffled = random.Random(trial).sample(rows, len(rows))
        cut = sorted(random.Random(trial).sample(range(len(rows)), 3))
        parts = [shuffled[i:j] for i, j in itertools.pairwise([0, *cut, len(rows)])]
        result = run_dedup(parts, {}, shards=1 + trial % 4, reverse=bool(trial % 2))
        decided = {row.uid: (row.reason, row.detail) for row in result.rejections().values()}
        clusters = sorted(map(repr, result.clusters("exact") + result.clusters("near")))
        expected = expected or (decided, clusters)
        assert (decided, clusters) == expected
    assert {reason for reason, _ in expected[0].values()} == {"exact_duplicate", "near_duplicate"}


def test_units_in_any_order_give_the_same_bytes(run_dedup):
    rows = crawl()
    parts = [rows[:30], rows[30:], []]
    assert run_dedup(parts, {}, shards=3).tree() == run_dedup(parts, {}, shards=3, reverse=True).tree()


def test_sizes_of_clusters_add_up(run_dedup):
    result = run_dedup([crawl()], {})
    for kind in ("exact", "near"):
        rows = result.clusters(kind)
        names = {row["cluster"] for row in rows}
        assert all(min(row["uid"] for row in rows if row["cluster"] == name) == name for name in names)
        assert len(names) == sum(row["kept"] for row in rows) == result.counts[kind]["clusters"]
        assert len(rows) - len(names) == result.counts["rejected"][f"{kind}_duplicate"]


def test_a_copy_names_the_document_that_is_kept_in_the_end(run_dedup):
    base = prose(5)
    rows = [document(0, base), document(1, base), document(2, base + " and longer")]
    result = run_dedup([rows], {})
    assert {row.detail for row in result.rejections().values()} == {rows[2].uid.hex()}


def test_parallel_pairs_are_equal_only_with_both_sides(run_dedup):
    rows = [
        document(n, "the same", target_text=target)
        for n, target in enumerate(["das Gleiche", "anderes", "das Gleiche"])
    ]
    assert run_dedup([rows], EXACT).counts["documents_out"] == 2


def test_the_same_record_twice_is_an_error(run_dedup):
    with pytest.raises(IntegrityError, match="is there twice"):
        run_dedup([[document(1, "text")], [document(1, "text")]], EXACT)


def test_signatures_made_otherwise_are_refused(run_dedup):
    result = run_dedup([[document(1, prose(1))]], NEAR)
    parts, facts = _parts_and_facts(result)
    for change in ({"seed": 2}, {"bands": 7}, {"ngram": 4}):
        with pytest.raises(IntegrityError, match="made with"):
            NearCandidates(1, parts, replace(facts, **change)).run(0, Output(result.folder))


def _parts_and_facts(result):
    from pipeline.dedup.near_passes import SignatureFacts
    from pipeline.dedup.parts import Parts

    return Parts(result.folder.parent / "clean", result.folder, 1, 1), SignatureFacts(5, 14, 8, 1)


def test_nothing_to_do_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="leave the key"):
        validate(DedupConfig, {"exact": None, "near": None}, "test")
    with pytest.raises(ConfigurationError, match=r"did you mean .near\.verify"):
        validate(DedupConfig, {"near": {"verfy": 1}}, "test")
