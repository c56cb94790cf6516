import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.text.normal_form import normalize
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.pipeline.text.word_tokens import word_tokens

REPETITIVE = st.lists(st.sampled_from(["a", "b", "the", "cat...", ",", "x_y", "it's", "12"]), max_size=120).map(
    " ".join
)


def top_slow(tokens, n):
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    if not grams:
        return 0
    gram, count = Counter(grams).most_common(1)[0]
    return len(" ".join(gram)) * count


def duplicate_slow(tokens, n):
    seen, chars, at = set(), 0, 0
    while at <= len(tokens) - n:
        gram = tuple(tokens[at : at + n])
        if gram in seen:
            chars += sum(map(len, gram))
            at += n
        else:
            seen.add(gram)
            at += 1
    return chars


def check_ngrams(text):
    tokens, statistics = word_tokens(text), TextStatistics(text)
    for n in range(2, 11):
        expected = (top_slow(tokens, n), duplicate_slow(tokens, n))
        assert (statistics.top_ngram_chars(n), statistics.duplicate_ngram_chars(n)) == expected


@settings(max_examples=150)
@given(st.one_of(REPETITIVE, st.text(max_size=200)))
def test_ngrams_agree_with_plain_loops(text):
    check_ngrams(normalize(text))


def test_counts_by_hand():
    text = "It's 12 o'clock... _x ___ (so) \u2022\n\nIt's\n\nIt's\nso\nso"
    statistics = TextStatistics(text)
    assert " ".join(word_tokens(text)) == "It 's 12 o'clock ... _ x _ _ _ ( so ) \u2022 It 's It 's so so"
    assert statistics.words == 12
    assert statistics.tokens_with_letter == 11
    assert statistics.mean_word_length == pytest.approx((3 * (2 + 2) + 2 + 7 + 1 + 3 * 2) / 12)
    assert statistics.duplicate_paragraphs == (3, 0, 0)
    assert statistics.duplicate_lines == (5, 2, 6)


def test_the_empty_text():
    statistics = TextStatistics("")
    assert (statistics.words, statistics.mean_word_length, statistics.tokens_with_letter) == (0, 0.0, 0)
    assert statistics.duplicate_lines == (0, 0, 0)
    assert (statistics.top_ngram_chars(2), statistics.duplicate_ngram_chars(5)) == (0, 0)


SHAPES = {
    "one_word": lambda n: "x" * n,
    "one_repeated_word": lambda n: "spam " * n,
    "one_letter_lines": lambda n: "a\n" * n,
    "all_different": lambda n: " ".join(map(str, range(n))),
    "prose": lambda n: " ".join(random.Random(4).choices([f"w{i}" for i in range(500)], k=n)),
    "periodic": lambda n: "one two three four five six seven eight nine ten eleven. " * (n // 11),
    "punctuation": lambda n: ". , " * (n // 2),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_work_grows_linearly(shape):
    visited = []
    for size in (5_000, 10_000):
        statistics = TextStatistics(normalize(SHAPES[shape](size)))
        for n in range(2, 11):
            statistics.top_ngram_chars(n)
            statistics.duplicate_ngram_chars(n)
        visited.append(statistics.visited)
    assert visited[1] <= 2.1 * visited[0] + 50


def test_each_measure_is_computed_once():
    statistics = TextStatistics("one two " * 50)
    assert (statistics.words, statistics.top_ngram_chars(7)) == (100, 47 * 27)
    first = statistics.visited
    assert (statistics.words, statistics.top_ngram_chars(7)) == (100, 47 * 27)
    assert statistics.visited == first


@pytest.mark.parametrize("shape", ["prose", "periodic", "one_repeated_word"])
def test_long_texts_agree_with_plain_loops_too(shape):
    check_ngrams(normalize(SHAPES[shape](3_000)))
