"""Distributions that sum to one, and values by hand."""

import math

import pytest

from clozeline.tools.runs.evaluation.ngrams import WordModel

TEXTS = ["the cat saw the dog .", "the dog ran", "a cat ran ."]
KINDS = ["the", "cat", "saw", "dog", ".", "ran", "a"]


def test_shares_of_words_and_of_pairs_sum_to_one() -> None:
    model = WordModel(TEXTS)
    assert model.words == 13
    unseen = math.exp(model.unigram("zebra"))
    assert unseen == pytest.approx(1 / 21)
    assert sum(math.exp(model.unigram(word)) for word in KINDS) + unseen == pytest.approx(1)
    for before in ("the", "cat", "zebra", ""):
        first = model.bigram(before)
        seen = sum(math.exp(model.bigram(f"{before} {word}") - first) for word in [*KINDS, "zebra"])
        assert seen == pytest.approx(1)


def test_values_by_hand() -> None:
    model = WordModel(TEXTS)
    share = {"the": 4 / 21, "dog": 3 / 21, "cat": 3 / 21}
    assert model.unigram("the dog") == pytest.approx(math.log(share["the"] * share["dog"]))
    first = (2 - 0.75 + 0.75 * 2 * share["the"]) / 3  # two of three texts begin so; they begin in two ways
    second = (2 - 0.75 + 0.75 * 2 * share["dog"]) / 3  # "the dog" twice, "the cat" once
    assert model.bigram("the dog") == pytest.approx(math.log(first * second))
    assert model.bigram("dog the") == pytest.approx(
        math.log((0 + 0.75 * 2 * share["dog"]) / 3) + math.log(0.75 * 2 * share["the"] / 2)
    )
    assert WordModel([]).bigram("word") == 0.0
