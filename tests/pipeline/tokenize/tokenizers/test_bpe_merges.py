"""Merges against a slow reading of the textbook, which counts all pairs again for each merge."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from clozeline.pipeline.tokenize.tokenizers._bpe_merges import count_words, learn_merges


def slow_merges(words: dict[str, int], limit: int, banned: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    corpus = [(list(word), count) for word, count in words.items()]
    merges: list[tuple[str, str]] = []
    while len(merges) < limit:
        totals: dict[tuple[str, str], int] = {}  # in the order in which pairs are met
        for word, count in corpus:
            for pair in pairwise(word):
                totals[pair] = totals.get(pair, 0) + count
        allowed = {pair: total for pair, total in totals.items() if "".join(pair) not in banned and total > 1}
        if not allowed:
            break
        best = max(allowed, key=allowed.__getitem__)  # the first of the largest
        merges.append(best)
        for place, (word, count) in enumerate(corpus):
            merged: list[str] = []
            rest = word
            while rest:
                size = 2 if tuple(rest[:2]) == best else 1
                merged.append("".join(rest[:size]))
                rest = rest[size:]
            corpus[place] = (merged, count)
    return merges


@pytest.mark.parametrize("low", [4, 5])
def test_the_lectures_corpus_gives_its_printed_merges(low):
    words = {"low_": low, "lowest_": 2, "newer_": 6, "wider_": 3, "new_": 2}
    merges = ["".join(pair) for pair in learn_merges(words, list, 8)]
    assert merges == ["er", "er_", "ne", "new", "lo", "low", "newer_", "low_"]


@pytest.mark.parametrize("seed", range(150))
def test_merges_are_those_of_the_slow_learner(seed):
    draw = random.Random(seed)
    letters = "abcd"[: draw.randint(1, 4)]
    words = count_words("".join(draw.choices(letters, k=draw.randint(1, 9))) for _ in range(draw.randint(1, 40)))
    banned = ("ab", "aa") if seed % 3 == 0 else ()
    assert learn_merges(words, list, 60, banned=banned) == slow_merges(words, 60, banned)


def test_words_are_counted_in_order_of_appearance():
    assert list(count_words(["b", "a", "b", "c"]).items()) == [("b", 2), ("a", 1), ("c", 1)]
