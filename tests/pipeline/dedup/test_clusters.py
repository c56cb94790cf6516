"""Clusters of near-duplicates against slow rules: sets of documents, joined one shared key at a time."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.pipeline.dedup import near
from clozeline.pipeline.dedup.near import MinHash, find_components, resolve, star_edges
from clozeline.pipeline.dedup.rows import choose_kept, smallest_uids, uid_column
from clozeline.pipeline.execution import shuffle
from tests.pipeline.dedup.candidate_graphs import Candidates, OverRanges, graphs, likeness, slow_clusters, slow_files
from tests.pipeline.dedup.dedup_documents import NEAR, document, edited, prose

NODES = 40
EDGES = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=80)


def slow_labels(edges):
    """Union-find by hand: every node carries its complete set."""
    sets = [{node} for node in range(NODES)]
    for a, b in edges:
        if sets[a] is not sets[b]:
            sets[a] |= sets[b]
            for node in sets[b]:
                sets[node] = sets[a]
    return [min(found) for found in sets]


@given(EDGES, st.randoms(use_true_random=False))
def test_components_equal_union_find_in_any_order_of_edges(edges, rng):
    expected = slow_labels(edges)
    for _ in range(3):
        shuffled = [edge if rng.random() < 0.5 else edge[::-1] for edge in rng.sample(edges, len(edges))]
        left, right = (np.array([edge[side] for edge in shuffled], dtype=np.int64) for side in (0, 1))
        assert find_components(NODES, left, right).tolist() == expected


def test_a_long_path_needs_few_rounds():
    count = 100_000
    order = np.random.PCG64(1).random_raw(count).argsort()
    labels = find_components(count, order[:-1], order[1:])
    assert not labels.any()


def test_star_edges_count_members_not_pairs():
    groups = np.repeat(np.arange(3), [1, 4, 10_000])
    left, others = star_edges(groups, np.arange(10_005))
    assert len(left) == len(others) == 3 + 9_999
    assert set(left.tolist()) == {1, 5}
    assert [edge.tolist() for edge in star_edges(np.array([7, 7, 7, 9]), np.array([3, 1, 5, 4]))] == [[3, 3], [1, 5]]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.binary(min_size=16, max_size=16)), max_size=40))
def test_choose_kept_equals_a_slow_rule(rows):
    groups, merit = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    kept = choose_kept(groups, merit, uid_column([row[2] for row in rows]))
    for number, row in enumerate(rows):
        best = min((r for r in rows if r[0] == row[0]), key=lambda r: (-r[1], r[2]))
        assert rows[kept[number]] == best


@settings(max_examples=60)
@given(st.data(), st.integers(1, 12), st.sampled_from([0, 0.5, 0.75, 1.0]))
def test_clusters_equal_a_slow_rule_over_sets(data, count, verify):
    groups = data.draw(st.lists(st.sets(st.integers(0, count - 1), min_size=1), max_size=8))
    merit = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    sketches = data.draw(st.lists(st.tuples(*[st.integers(0, 1)] * 4), min_size=count, max_size=count))
    uids = [bytes([97 * row % 251]) * 16 for row in range(count)]
    keys = data.draw(st.permutations(list(enumerate(groups))))
    pairs = [(key, row) for key, members in keys for row in data.draw(st.permutations(sorted(members)))]
    kept, similarity = resolve(
        np.array([key for key, _ in pairs], np.uint64),
        np.array([row for _, row in pairs], np.int64),
        uid_column(uids),
        np.array(merit, np.int64),
        np.array(sketches, np.uint16),
        verify,
    )
    assert kept.tolist() == slow_clusters(groups, uids, merit, sketches, verify)
    assert similarity.tolist() == [likeness(sketches[row], sketches[best]) for row, best in enumerate(kept.tolist())]
    smallest = [min((r for r in range(count) if kept[r] == each), key=lambda r: uids[r]) for each in kept]
    assert smallest_uids(kept, uid_column(uids)).tolist() == smallest


def compare(tmp_path, groups, size, parts, ranges, verify, reverse=False):
    candidates = Candidates(groups, size, parts, random.Random(size + parts))
    run = OverRanges(tmp_path / "run", candidates, ranges, verify)
    counts = run.run(reverse)
    files, drops, amounts = slow_files(candidates, ranges, verify)
    assert counts == amounts
    assert run.drops() == drops
    assert run.clusters() == files
    return run


@pytest.mark.parametrize("verify", [0, 0.5])
@pytest.mark.parametrize("shape", sorted(graphs(random.Random(0), 20)))
def test_files_of_all_parts_and_ranges_are_those_of_slow_rules(tmp_path, shape, verify):
    for ranges, parts in ((1, 1), (1, 3), (2, 2), (3, 1), (7, 5)):
        groups = graphs(random.Random(ranges), 60)[shape]
        compare(tmp_path / f"{ranges}-{parts}", groups, 60, parts, ranges, verify, reverse=ranges == 3)


@pytest.mark.slow
@pytest.mark.parametrize("verify", [0, 0.4, 0.75])
@pytest.mark.parametrize("shape", sorted(graphs(random.Random(0), 20)))
def test_files_of_many_ranges_are_those_of_slow_rules(tmp_path, shape, verify):
    for ranges in (2, 5, 65):
        for parts in (1, 7):
            groups = graphs(random.Random(31 * ranges + parts), 400)[shape]
            compare(tmp_path / f"{ranges}-{parts}", groups, 400, parts, ranges, verify, reverse=parts == 1)


def test_bundles_between_the_passes_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(shuffle, "_GROUP", 2)
    monkeypatch.setattr(shuffle, "_FEWEST", 4)
    run = compare(tmp_path, graphs(random.Random(5), 80)["tree"], 80, parts=6, ranges=5, verify=0.5)
    bundled = {path.name for path in (run.parts.folder / "tmp").glob("*-bundles")}
    assert bundled == {"near-keys-bundles", "near-candidates-bundles", "near-drops-bundles"}


def test_more_candidates_than_a_process_takes_in_are_refused(tmp_path, monkeypatch):
    candidates = Candidates(graphs(random.Random(1), 40)["path"], 40, 3, random.Random(2))
    run = OverRanges(tmp_path, candidates, 3, 0.7)
    monkeypatch.setattr(near, "MOST_CANDIDATES", 77)
    with pytest.raises(ConfigurationError, match=r"(?s)expected at most 77 .* raise near\.rows"):
        run.run()
    monkeypatch.setattr(near, "MOST_CANDIDATES", 78)
    assert run.run()["near"]["candidates"] == 78


def slow_dedup(rows, verify=0.7):
    """Return the uids that stay and what the others go for: all pairs of texts compared, clusters by sets of them."""
    texts: dict[str, bytes] = {}
    for row in sorted(rows, key=lambda row: row.uid):
        texts.setdefault(row.text, row.uid)
    minhash, uids = MinHash(), list(texts.values())
    signatures = np.stack([minhash.signature(text) for text in texts])
    bands = signatures.reshape(len(uids), minhash.bands, minhash.rows)
    groups = []
    for band in range(minhash.bands):
        equal = [(bands[:, band] == bands[row, band]).all(axis=1) for row in range(len(uids))]
        groups += {frozenset(np.flatnonzero(found).tolist()) for found in equal if found.sum() > 1}
    lengths, low = [len(text) for text in texts], (signatures % 2**16).tolist()
    kept = slow_clusters(groups, uids, lengths, low, verify)
    final = {uid: uids[best] for uid, best in zip(uids, kept, strict=True)}
    goes = {row.uid: final[texts[row.text]].hex() for row in rows if final[texts[row.text]] != row.uid}
    return {row.uid for row in rows} - goes.keys(), goes


def planted(draw: random.Random, texts: list[str]) -> list[str]:
    """Return texts with exact copies, near copies of all similarities, and chains of near copies."""
    copies = [*draw.sample(texts, len(texts) // 4)]
    for text in draw.sample(texts, len(texts) // 2):
        for _ in range(draw.randrange(1, 4)):
            words = text.split(" ")
            for _ in range(max(1, round(draw.choice([0.004, 0.01, 0.02, 0.03]) * len(words)))):
                words[draw.randrange(len(words))] = f"new{draw.randrange(1000)}"
            text = " ".join(words)
            copies.append(text)
    return draw.sample([*texts, *copies], len(texts) + len(copies))


def check_against_all_pairs(run_dedup, texts, shards):
    rows = [document(number, text) for number, text in enumerate(texts)]
    thirds = [rows[: len(rows) // 3], [], rows[len(rows) // 3 :]]
    stays, goes = slow_dedup(rows)
    result = run_dedup(thirds, {}, shards=shards)
    assert {row.uid for row in result.documents()} == stays
    assert {uid: row.detail for uid, row in result.rejections().items()} == goes
    assert {"exact_duplicate", "near_duplicate"} == result.counts["rejected"].keys()


@pytest.mark.parametrize("seed", [1, 2])
def test_the_stage_keeps_what_a_comparison_of_all_pairs_keeps(run_dedup, seed):
    draw = random.Random(seed)
    check_against_all_pairs(run_dedup, planted(draw, [prose(100 * seed + n, 150) for n in range(60)]), shards=3)


@pytest.mark.data
def test_the_stage_keeps_what_a_comparison_of_all_pairs_of_news_keeps(run_dedup):
    folder = os.environ.get("CLOZELINE_DATA")
    if not folder:
        pytest.skip("CLOZELINE_DATA names no folder")
    import zstandard

    with (Path(folder) / "neardup" / "articles_1000.train.zst").open("rb") as file:
        lines = zstandard.ZstdDecompressor().stream_reader(file).read().decode().splitlines()
    check_against_all_pairs(run_dedup, planted(random.Random(3), [line.split(" ", 1)[1] for line in lines]), shards=5)


def test_verify_breaks_a_chain_and_without_it_the_chain_goes_together(run_dedup):
    first = prose(3)
    middle = edited(first, *range(5, 25))
    last = edited(middle, *range(100, 120))
    # A ~ B and B ~ C share about 0.78 of their shingles, A and C about 0.6.
    a, b, c = (document(n, text) for n, text in enumerate((first + " longest of all", middle, last)))
    joined = run_dedup([[a, b, c]], {"exact": None, "near": {"verify": 0, "bands": 40}})
    assert [row.uid for row in joined.documents()] == [a.uid]
    for order in itertools.permutations((a, b, c)):
        checked = run_dedup([order[:1], order[1:]], {"exact": None, "near": {"bands": 40}})
        assert {row.uid for row in checked.documents()} == {a.uid, c.uid}


def test_members_that_leave_a_cluster_are_compared_among_themselves(run_dedup):
    first = prose(4)
    far = edited(first, *range(20, 48))
    rows = [document(0, first + " longest"), document(1, far), document(2, far + " x"), document(3, edited(far, 199))]
    result = run_dedup([rows], {"exact": None, "near": {"bands": 60, "rows": 5}})
    assert {row.uid for row in result.documents()} == {rows[0].uid, rows[2].uid}


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


def test_a_copy_in_another_part_names_the_document_that_is_kept_in_the_end(run_dedup):
    rows, copies = [], []
    for number in range(12):
        base = prose(number)
        close = document(100 + number, edited(base, 3, 4) + " and longer")
        rows += [document(number, base), close]
        copies += [document(200 + number, base), document(300 + number, base)]
    parts = [rows, copies[::2], copies[1::2], []]
    for shards in (1, 5):
        result = run_dedup(parts, {}, shards=shards, reverse=shards == 5)
        kept = {row.text: row.uid for row in result.documents()}
        details = {uid: row.detail for uid, row in result.rejections().items()}
        assert len(kept) == 12
        for number, close in enumerate(rows[1::2]):
            uids = [rows[2 * number].uid, *(row.uid for row in copies[2 * number : 2 * number + 2])]
            assert {details[uid] for uid in uids} == {kept[close.text].hex()}
