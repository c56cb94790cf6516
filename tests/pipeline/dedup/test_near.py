"""Signatures against a slow reference, and recall against the theory of bands."""

import itertools
import os
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.pipeline.dedup.near import MinHash, estimate_similarities, find_components, resolve
from clozeline.pipeline.dedup.rows import smallest_uids, uid_column
from clozeline.pipeline.text.normal_form import match_words
from tests.pipeline.dedup.dedup_documents import NEAR, document, edited, prose

WORDS = [f"{a}{b}{c}{d}" for a, b, c, d in itertools.product("bdfgklmnprst", "aeiou", "bdfgklmnprst", "aeiou")]
BINS = [(0.475, 0.55), (0.55, 0.625), (0.625, 0.675), (0.675, 0.725), (0.725, 0.775), (0.775, 0.825), (0.825, 0.875),
        (0.875, 0.925), (0.925, 0.975)]  # fmt: skip


def shingle_set(text):
    words = match_words(text)
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


def jaccard(a, b):
    left, right = shingle_set(a), shingle_set(b)
    return len(left & right) / len(left | right)


def pair_of(rng, swapped):
    words = rng.choices(WORDS, k=250)
    other = list(words)
    for place in rng.sample(range(250), swapped):
        other[place] = rng.choice(WORDS)
    return " ".join(words), " ".join(other)


def mixed(x):
    mask = 2**64 - 1
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


@pytest.mark.parametrize("native", [True, False])
def test_signatures_and_band_keys_equal_a_slow_reference(native, monkeypatch):
    """Of several texts at once; each band has a seed of its own, in each text the same."""
    if not native:
        for name in ("shingles", "minima", "band_keys"):
            monkeypatch.setattr(f"clozeline.pipeline.dedup.near.minhash.{name}", lambda *_: None)
    minhash = MinHash(ngram=3, bands=3, rows=2, seed=7)
    raw = np.random.PCG64(7).random_raw(12).tolist()
    texts = ["One two three, two THREE one; two three one 42 times! " * 60, " ".join(WORDS[:700])]
    base = 0x9E3779B97F4A7C15
    expected, keys = [], []
    for text in texts:
        words = [xxhash.xxh3_64_intdigest(word.encode()) for word in match_words(text)]
        grams = zip(words, words[1:], words[2:], strict=False)
        shingles = {mixed((first * base**2 + second * base + third) % 2**64) for first, second, third in grams}
        minima = [min(((raw[f] | 1) * shingle + raw[6 + f]) % 2**64 for shingle in shingles) for f in range(6)]
        bands = [np.array(minima[2 * band : 2 * band + 2], np.uint64).tobytes() for band in range(3)]
        expected.append(minima)
        keys.append([xxhash.xxh3_64_intdigest(content, seed=band) for band, content in enumerate(bands)])
    signatures = np.stack([minhash.signature(text) for text in texts])
    assert signatures.tolist() == expected
    assert minhash.band_keys(signatures).tolist() == keys
    assert minhash.band_keys(signatures[1]).tolist() == keys[1]


@given(st.text(st.characters(codec="utf-8")) | st.text("aß1 \u0301\u2009\n漢ก’é.", max_size=60))
def test_words_of_a_text_are_those_of_its_tokens(text):
    words = match_words(text)
    shingles = [mixed(xxhash.xxh3_64_intdigest(word.encode())) for word in words]
    assert MinHash(ngram=1).shingles(text).tolist() == (shingles or [xxhash.xxh3_64_intdigest(text.encode())])


def test_signatures_do_not_depend_on_what_was_signed_before():
    texts = [pair_of(random.Random(n), 3)[0] for n in range(5)]
    used = MinHash()
    for text in texts * 2:
        np.testing.assert_array_equal(used.signature(text), MinHash().signature(text))


def test_case_marks_and_digits_do_not_matter_and_short_texts_are_one_shingle():
    minhash = MinHash()
    left, right = "Über 12 Brücken musst du gehn", "uber 345 BRUCKEN, musst du gehn!"
    np.testing.assert_array_equal(minhash.signature(left), minhash.signature(right))
    assert len(minhash.shingles("a b c d")) == len(minhash.shingles("")) == len(minhash.shingles("a b c d e")) == 1
    assert minhash.shingles("?!") != minhash.shingles("…")


def recall_per_bin(pairs_per_bin, seed):
    """Found pairs against the expected number and its standard error, for each bin of true similarity."""
    rng = random.Random(seed)
    minhash = MinHash()
    rows = []
    for low, high in BINS:
        expected, found, variance, count = 0.0, 0, 0.0, 0
        while count < pairs_per_bin:
            # k swaps among n words leave about (1 - s) / (1 + s) of the shingles.
            middle = rng.uniform(low, high)
            a, b = pair_of(rng, max(1, round(250 * (1 - (2 * middle / (1 + middle)) ** 0.2))))
            true = jaccard(a, b)
            if not low <= true < high:
                continue
            theory = 1 - (1 - true**8) ** 14
            keys = [minhash.band_keys(minhash.signature(text)) for text in (a, b)]
            count, found = count + 1, found + bool((keys[0] == keys[1]).any())
            expected, variance = expected + theory, variance + theory * (1 - theory)
        rows.append((low, found, expected, max(variance, 1 / 9) ** 0.5))
    return rows


@pytest.mark.parametrize(("pairs", "seed"), [(60, 1), pytest.param(1000, 2, marks=pytest.mark.slow)])
def test_recall_is_within_three_standard_errors_of_theory(pairs, seed):
    for low, found, expected, error in recall_per_bin(pairs, seed):
        assert abs(found - expected) <= 3 * error, (
            f"bin from {low}: {found} found, {expected:.1f} ± {error:.1f} expected"
        )


def test_estimated_similarity_is_unbiased():
    rng = random.Random(5)
    minhash = MinHash()
    differences = []
    for _ in range(60):
        a, b = pair_of(rng, rng.randrange(2, 30))
        sketches = np.stack([minhash.signature(text).astype(np.uint16) for text in (a, b)])
        estimate = estimate_similarities(sketches, np.array([0]), np.array([1]))
        differences.append(float(estimate[0]) - jaccard(a, b))
    assert abs(np.mean(differences)) < 3 * 0.045 / 60**0.5
    assert np.std(differences) < 0.06


@pytest.mark.data
def test_planted_near_duplicates_are_found(run_dedup):
    """News articles with planted near-duplicates: each planted pair loses one member, nothing else is lost."""
    folder = os.environ.get("CLOZELINE_DATA")
    if not folder:
        pytest.skip("CLOZELINE_DATA names no folder")
    import zstandard

    with (Path(folder) / "neardup" / "articles_1000.train.zst").open("rb") as file:
        lines = zstandard.ZstdDecompressor().stream_reader(file).read().decode().splitlines()
    truth = (Path(folder) / "neardup" / "articles_1000.truth").read_text().splitlines()
    articles = dict(line.split(" ", 1) for line in lines)
    rows = {name: document(number, text) for number, (name, text) in enumerate(articles.items())}
    listed = list(rows.values())
    result = run_dedup([listed[:400], listed[400:]], {}, shards=3)
    stays = {row.uid for row in result.documents()}
    planted = set()
    for line in truth:
        a, b = line.split()
        planted |= {a, b}
        assert (rows[a].uid in stays) + (rows[b].uid in stays) == 1, f"{a} and {b}: {jaccard(articles[a], articles[b])}"
    lost = {name for name, row in rows.items() if row.uid not in stays}
    assert lost <= planted


def test_candidates_are_the_documents_that_share_a_band_key(run_dedup, monkeypatch):
    base = [prose(seed, words=60) for seed in range(6)]
    rows = [document(n, edited(base[n % 6], *range(n))) for n in range(18)]
    parts = [rows[:7], [], rows[7:]]
    counts = run_dedup(parts, {"exact": None, "near": {"verify": 0}}, shards=3).counts
    minhash = MinHash(seed=1)
    holders = Counter(key for row in rows for key in set(minhash.band_keys(minhash.signature(row.text)).tolist()))
    shared = {key for key, count in holders.items() if count > 1}
    assert counts["signatures"] == 18
    assert counts["near"]["candidates"] == sum(holders[key] for key in shared) > 0
    members = [row for row in rows if shared & set(minhash.band_keys(minhash.signature(row.text)).tolist())]
    assert counts["near"]["members"] == len(members) < 18
    monkeypatch.setattr("clozeline.pipeline.dedup.near.MOST_CANDIDATES", counts["near"]["candidates"] - 1)
    with pytest.raises(ConfigurationError, match=r"(?s)expected at most .* raise near\.rows"):
        run_dedup(parts, {"exact": None, "near": {"verify": 0}}, shards=3)


def test_both_sides_of_a_pair_are_signed(run_dedup):
    source, other = prose(7), prose(8)
    pairs = [document(n, source, target_text=other if n else prose(9)) for n in range(3)]
    assert run_dedup([pairs], NEAR).counts["rejected"] == {"near_duplicate": 1}


def test_a_long_path_needs_few_rounds():
    count = 100_000
    order = np.random.PCG64(1).random_raw(count).argsort()
    labels = find_components(count, order[:-1], order[1:])
    assert not labels.any()


def slow_clusters(groups, uids, merit, sketches, verify):
    """For each document the one kept in its place: sets of documents joined one shared key at a time."""
    kept, pending = list(range(len(uids))), set(range(len(uids)))
    while True:
        shared = [set(members) & pending for members in groups]
        joined = []
        for members in shared:
            if len(members) > 1:
                touching = [one for one in joined if one & members]
                joined = [one for one in joined if not one & members] + [members.union(*touching)]
        if not joined:
            return kept
        pending = set()
        for members in joined:
            best = min(members, key=lambda row: (-merit[row], uids[row]))
            for row in members:
                if likeness(sketches[row], sketches[best]) >= verify:
                    kept[row] = best
                else:
                    pending.add(row)


def likeness(left, right):
    return sum(a == b for a, b in zip(left, right, strict=True)) / len(left)


@settings(max_examples=120)
@given(st.data(), st.integers(1, 16), st.sampled_from([0, 0.5, 0.75, 1.0]))
def test_clusters_equal_a_slow_rule_over_sets(data, count, verify):
    groups = data.draw(st.lists(st.sets(st.integers(0, count - 1), min_size=1), max_size=12))
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


def slow_dedup(rows, verify=0.7):
    """Return the uids that stay, what the others go for, and rows of clusters: all pairs compared, in sets of them."""
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
    clusters = set()
    for best in {best for row, best in enumerate(kept) if row != best}:
        members = [row for row in range(len(uids)) if kept[row] == best]
        name = min(uids[row] for row in members)
        clusters |= {(name, uids[row], row == best, np.float32(likeness(low[row], low[best]))) for row in members}
    return {row.uid for row in rows} - goes.keys(), goes, clusters


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


@pytest.mark.parametrize(("seed", "shards"), [(1, 1), (2, 5)])
def test_the_stage_keeps_what_a_comparison_of_all_pairs_keeps(run_dedup, seed, shards):
    draw = random.Random(seed)
    texts = planted(draw, [prose(100 * seed + n, 150) for n in range(60)])
    rows = [document(number, text) for number, text in enumerate(texts)]
    thirds = [rows[: len(rows) // 3], [], rows[len(rows) // 3 :]]
    stays, goes, clusters = slow_dedup(rows)
    result = run_dedup(thirds, {}, shards=shards)
    assert {row.uid for row in result.documents()} == stays
    assert {uid: row.detail for uid, row in result.rejections().items()} == goes
    assert {"exact_duplicate", "near_duplicate"} == result.counts["rejected"].keys()
    found = result.clusters("near")
    assert {tuple(row.values()) for row in found} == clusters
    assert len(found) == len(clusters) > 20
    assert result.counts["near"]["clusters"] == len({row["cluster"] for row in found})
    files = sorted((result.folder / "clusters/near").iterdir())
    assert len(files) == shards
