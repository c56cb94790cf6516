"""Signatures, clusters and the stage against slow references: sets of shingles, and all pairs
compared."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.dedup import representatives
from clozeline.pipeline.dedup.near import Sketch
from clozeline.pipeline.dedup.parts import COMPARED_PRIORITY, uid_column
from clozeline.pipeline.dedup.representatives import choose_representatives
from clozeline.pipeline.execution import shuffle
from tests.pipeline.dedup.dedup_documents import NEAR, document, edited, prose
from tests.pipeline.dedup.slow_clusters import likeness, list_clusters, slow_clusters


def test_signatures_estimate_the_similarity_of_sets_of_words_in_a_row():
    """Documents share a band key if and only if they share all minima of a band."""
    sketch = Sketch(ngram=3, bands=200, rows=2)
    for share in (0, 3, 10, 30):
        text = prose(1)
        other = edited(text, *range(5, 5 + 2 * share, 2))
        runs = [
            {*zip(words, words[1:], words[2:], strict=False)}
            for words in (text.split(), other.split())
        ]
        left, right = sketch.signatures([text, other])
        similarity = len(runs[0] & runs[1]) / len(runs[0] | runs[1])
        equal = (left == right).reshape(200, 2)

        assert abs(equal.mean() - similarity) < 0.1
        np.testing.assert_array_equal(
            sketch.band_keys(left) == sketch.band_keys(right), equal.all(axis=1)
        )


def test_short_texts_are_one_shingle():
    texts = ["a b c d", "a b c d e", "?!", "…"]
    assert len({Sketch().shingles(text).item() for text in texts}) == 4


def test_both_sides_of_a_pair_are_signed(run_dedup):
    source = prose(7)
    other = prose(8)
    pairs = [document(n, source, target_text=other if n else prose(9)) for n in range(3)]
    assert run_dedup([pairs], NEAR).counts["rejected"] == {"near_duplicate": 1}


@settings(max_examples=120)
@given(
    st.data(),
    st.integers(1, 16),
    st.sampled_from([0, 0.5, 0.75, 1.0]),
)
def test_clusters_equal_a_slow_rule_over_sets(data, count, verify):
    groups = data.draw(st.lists(st.sets(st.integers(0, count - 1), min_size=1), max_size=12))
    merits = st.sampled_from([0, 1, COMPARED_PRIORITY])
    each = st.tuples(merits, st.tuples(*[st.integers(0, 1)] * 4))
    merit, sketches = zip(*data.draw(st.lists(each, min_size=count, max_size=count)), strict=True)
    uids = [bytes([97 * row % 251]) * 16 for row in range(count)]
    keys = data.draw(st.permutations(list(enumerate(groups))))
    pairs = [
        (key, row) for key, members in keys for row in data.draw(st.permutations(sorted(members)))
    ]
    rounds = data.draw(st.sampled_from([1, 2, 32]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(representatives, "MOST_ROUNDS", rounds)
        kept, similarity = choose_representatives(
            np.array([key for key, _ in pairs], np.uint64),
            np.array([row for _, row in pairs], np.int64),
            uid_column(uids),
            np.array(merit, np.int64),
            np.array(sketches, np.uint16),
            verify,
        )

    assert kept.tolist() == slow_clusters(groups, uids, merit, sketches, verify, rounds)
    assert similarity.tolist() == [
        likeness(sketches[row], sketches[best]) for row, best in enumerate(kept.tolist())
    ]


def slow_dedup(rows):
    """Return the uids that stay, what the others go for, rows of clusters, and the documents of
    each shared key: all pairs compared, in sets of them."""
    texts = {}
    for row in sorted(rows, key=lambda row: row.uid):
        texts.setdefault(row.text, row.uid)
    sketch = Sketch()
    uids = list(texts.values())
    signatures = sketch.signatures(list(texts))
    bands = signatures.reshape(len(uids), sketch.bands, sketch.rows)
    groups = []
    for band in range(sketch.bands):
        equal = [(bands[:, band] == bands[row, band]).all(axis=1) for row in range(len(uids))]
        groups += {frozenset(np.flatnonzero(found).tolist()) for found in equal if found.sum() > 1}

    low = (signatures % 2**16).tolist()
    kept = slow_clusters(groups, uids, [len(text) for text in texts], low, 0.7)
    final = {uid: uids[best] for uid, best in zip(uids, kept, strict=True)}
    goes = {
        row.uid: final[texts[row.text]].hex() for row in rows if final[texts[row.text]] != row.uid
    }
    return {row.uid for row in rows} - goes.keys(), goes, list_clusters(kept, uids, low), groups


def planted(draw, texts):
    """Return texts with exact copies, near copies of all similarities, and chains of near
    copies."""
    copies = [*draw.sample(texts, len(texts) // 4)]

    for text in draw.sample(texts, len(texts) // 2):
        for _ in range(draw.randrange(1, 4)):
            words = text.split(" ")
            for _ in range(max(1, round(draw.choice([0.004, 0.01, 0.02, 0.03]) * len(words)))):
                words[draw.randrange(len(words))] = f"new{draw.randrange(1000)}"
            text = " ".join(words)
            copies.append(text)

    return draw.sample([*texts, *copies], len(texts) + len(copies))


@pytest.mark.parametrize(("seed", "shards"), [(1, 1), (2, 5)])
def test_the_stage_keeps_what_a_comparison_of_all_pairs_keeps(run_dedup, monkeypatch, seed, shards):
    """Also if the files of a shuffle are bundled, and units run backwards."""
    if shards > 1:
        monkeypatch.setattr(shuffle, "_BUNDLE_FILES", 2)
        monkeypatch.setattr(shuffle, "_BUNDLED_OPENS", 4)
    draw = random.Random(seed)
    texts = planted(draw, [prose(100 * seed + n, 150) for n in range(60)])
    rows = [document(number, text, extra={"n": 1}) for number, text in enumerate(texts)]
    stays, goes, clusters, groups = slow_dedup(rows)
    result = run_dedup([rows[:50], [], rows[50:]], {}, shards=shards, reverse=shards > 1)
    found = result.clusters("near")
    times = Counter(texts)
    first = {row.text: row.uid for row in sorted(rows, key=lambda row: row.uid, reverse=True)}
    copies = [
        (first[row.text], row.uid, row.uid == first[row.text], 1.0)
        for row in rows
        if times[row.text] > 1
    ]

    assert result.documents() == [row for row in rows if row.uid in stays]
    assert {uid: row.detail for uid, row in result.rejections().items()} == goes
    assert {"exact_duplicate", "near_duplicate"} == result.counts["rejected"].keys()
    assert [tuple(row.values()) for row in found] == clusters
    assert sorted(tuple(row.values()) for row in result.clusters("exact")) == sorted(copies)
    assert len(found) > 20
    assert result.counts["near"] == {
        "candidates": sum(map(len, groups)),
        "members": len(set().union(*groups)),
        "clusters": len({row["cluster"] for row in found}),
    }
    assert len(list((result.folder / "clusters/near").iterdir())) == shards
