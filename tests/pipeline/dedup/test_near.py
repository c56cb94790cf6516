"""Signatures against a slow reference, and recall against the theory of bands."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.dedup.near import MinHash, estimate_similarities
from clozeline.pipeline.text.normal_form import match_words
from tests.pipeline.dedup.dedup_documents import document

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


def test_signature_equals_a_slow_reference():
    minhash = MinHash(ngram=3, bands=2, rows=2, seed=7)
    raw = np.random.PCG64(7).random_raw(8).tolist()
    text = "One two three, two THREE one; two three one 42 times! " * 60
    words = [xxhash.xxh3_64_intdigest(word.encode()) for word in match_words(text)]
    base = 0x9E3779B97F4A7C15
    shingles = {mixed((words[i] * base**2 + words[i + 1] * base + words[i + 2]) % 2**64) for i in range(len(words) - 2)}
    expected = [min(((raw[f] | 1) * shingle + raw[4 + f]) % 2**64 for shingle in shingles) for f in range(4)]
    assert minhash.signature(text).tolist() == expected
    keys = [
        xxhash.xxh3_64_intdigest(np.array(expected[2 * band : 2 * band + 2], np.uint64).tobytes(), seed=band)
        for band in range(2)
    ]
    assert minhash.band_keys(minhash.signature(text)).tolist() == keys


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


def test_recall_is_within_three_standard_errors_of_theory():
    for low, found, expected, error in recall_per_bin(60, seed=1):
        assert abs(found - expected) <= 3 * error, (
            f"bin from {low}: {found} found, {expected:.1f} ± {error:.1f} expected"
        )


@pytest.mark.slow
def test_recall_with_a_thousand_pairs_a_bin():
    for low, found, expected, error in recall_per_bin(1000, seed=2):
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


def test_unrelated_documents_share_no_band():
    minhash = MinHash()
    rng = random.Random(6)
    keys = np.concatenate([minhash.band_keys(minhash.signature(pair_of(rng, 1)[0])) for _ in range(1000)])
    assert len(np.unique(keys)) == len(keys)


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
