"""Kneser-Ney n-grams against a slow reading of the formulas."""

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.tools.runs.evaluation.ngrams import TokenNgrams, WordNgrams

V = 5


class SlowKneserNey:
    """Dictionaries of tuples, one probability at a time."""

    def __init__(self, documents, order):
        self.order = order
        raw = defaultdict(int)
        left = defaultdict(set)
        opens = defaultdict(int)
        for document in documents:
            for end in range(1, len(document)):  # the last token of an n-gram is never the first of the document
                for n in range(1, min(order, end + 1) + 1):
                    gram = tuple(document[end - n + 1 : end + 1])
                    raw[gram] += 1
                    if end - n >= 0:
                        left[gram].add(document[end - n])
                    else:
                        opens[gram] += 1
        self.counts = {gram: raw[gram] if len(gram) == order else len(left[gram]) + opens[gram] for gram in raw}
        self.discounts = {}
        for n in range(1, order + 1):
            of = [count for gram, count in self.counts.items() if len(gram) == n]
            once, twice = of.count(1), of.count(2)
            self.discounts[n] = once / (once + 2 * twice) if once and twice else 0.5

    def probability(self, history, token):
        lower = self.probability(history[1:], token) if history else 1 / V
        n = len(history) + 1
        after = {gram: count for gram, count in self.counts.items() if gram[:-1] == history and len(gram) == n}
        total = sum(after.values())
        if not total:
            return lower
        discount = self.discounts[n]
        return (max(after.get((*history, token), 0) - discount, 0) + discount * len(after) * lower) / total


DOCUMENTS = st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=12), min_size=1, max_size=6).filter(
    lambda documents: any(len(document) > 1 for document in documents)
)


@settings(max_examples=60, deadline=None)
@given(DOCUMENTS, st.lists(st.integers(0, V - 1), min_size=2, max_size=8), st.integers(1, 4))
def test_probabilities_are_those_of_the_formulas(documents, text, order):
    slow, found = SlowKneserNey(documents, order), TokenNgrams(documents, order, V).log_probabilities(text)
    expected = [
        math.log(slow.probability(tuple(text[max(0, at - order + 1) : at]), text[at])) for at in range(1, len(text))
    ]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(DOCUMENTS, st.lists(st.integers(0, V - 1), min_size=1, max_size=5), st.integers(1, 4))
def test_probabilities_after_a_history_sum_to_one(documents, history, order):
    model = TokenNgrams(documents, order, V)
    assert sum(math.exp(model.log_probabilities([*history, token])[-1]) for token in range(V)) == pytest.approx(1)


def test_longer_histories_predict_a_repeated_text_better():
    documents = [[0, *np.random.default_rng(1).integers(1, V, 40).tolist()] for _ in range(30)]
    documents += [[0, 1, 2, 3, 4, 4, 3, 2, 1]] * 20
    nats = [-TokenNgrams(documents, order, V).log_probabilities(documents[-1]).mean() for order in (1, 2, 3)]
    assert nats[0] > nats[1] > nats[2]


def test_words_are_counted_as_tokens_and_unknown_ones_share_an_id():
    model = WordNgrams(["the cat saw the dog .", "the dog ran"])
    ids = {"": 0, "the": 1, "cat": 2, "saw": 3, "dog": 4, ".": 5, "ran": 6, "zebra": 7}
    documents = [[0, 1, 2, 3, 1, 4, 5], [0, 1, 4, 6]]
    assert model.words == 9
    for text in ("the dog", "zebra ran.", "unicorn ran ."):
        row = [0, *(ids.get(word, 7) for word in text.replace(".", " .").split())]
        for order in (1, 2):
            expected = TokenNgrams(documents, order, 8).log_probabilities(row).sum()
            assert model.log_probability(text, order) == pytest.approx(expected)


def test_nothing_to_count_is_refused():
    with pytest.raises(ConfigurationError, match="expected texts with tokens to count"):
        TokenNgrams([[1], []], 2, V)
