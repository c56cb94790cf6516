"""Sentence reordering: valid orders, never the identity, uniform among the others."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np

from tests.pipeline.corrupt.objectives.runner import corrupt, variants_of, wide
from tests.pipeline.corruption_cases import samples
from tests.pipeline.laws import chi_square_is_plausible


def test_input_is_the_sentences_in_that_order() -> None:
    rows = samples([2, 3, 17, 64, 300, 568] * 30, sentences=12)
    for sample, example in zip(rows, corrupt(wide("sentence_reordering"), rows), strict=True):
        bounds = [*sample["sentence_starts"].tolist(), len(sample["ids"])]
        sentences = [sample["ids"][a:b].tolist() for a, b in pairwise(bounds)]
        order = example["sentence_order"].tolist()
        assert sorted(order) == list(range(len(sentences)))
        assert order != sorted(order)
        assert example["input_ids"].tolist() == [4, *(token for one in order for token in sentences[one]), 5]
        assert example["target_ids"].tolist() == [*sample["ids"].tolist(), 5]
        assert example["sentence_starts"].tolist() == bounds[:-1]


def test_two_sentences_always_swap() -> None:
    examples = variants_of(wide("sentence_reordering"), [300, 301, 302], [0, 1], count=300)
    assert {tuple(example["sentence_order"].tolist()) for example in examples} == {(1, 0)}


def test_five_orders_of_three_are_equally_likely() -> None:
    examples = variants_of(wide("sentence_reordering"), [300, 301, 302], [0, 1, 2], count=5000)
    orders = [tuple(example["sentence_order"].tolist()) for example in examples]
    every = list(permutations(range(3)))[1:]
    assert chi_square_is_plausible([orders.count(order) for order in every], np.full(5, 1000.0), 4)


def test_a_share_of_the_sentences() -> None:
    objective = wide("sentence_reordering", noise_density=0.25)
    rows = samples([300] * 100, sentences=20)
    for sample, example in zip(rows, corrupt(objective, rows), strict=True):
        moved = int((example["sentence_order"] != np.arange(20)).sum())
        assert 2 <= moved <= 5
        assert np.array_equal(objective.uncorrupt(example), objective.add_special_tokens(sample["ids"]))


def test_at_least_two_sentences_move() -> None:
    rows = samples([300] * 20, sentences=20)
    for example in corrupt(wide("sentence_reordering", noise_density=0.01), rows):
        assert int((example["sentence_order"] != np.arange(20)).sum()) == 2
