"""Sentence comparison: which two texts make a pair."""

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.seeding import LABELS, random_bits
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, wide
from tests.pipeline.corruption_cases import WORDS, one_sample, samples


@pytest.mark.parametrize("longest", [4, 12, 700])
def test_adjacent_equals_a_plain_loop(longest):
    objective = build_objective({"name": "sentence_comparison", "max_length": longest}, WORDS)
    rows = samples([2 + row % (2 * longest - 5) for row in range(1000)], sentences=4)
    for key, sample, example in keyed(objective, rows):
        sentences = np.split(sample["ids"], sample["sentence_starts"][1:])
        first = ((int(random_bits(np.array([key]), LABELS, 1)[0, 0]) >> 32) * (len(sentences) - 1)) >> 32
        for name, sentence in zip(("input_ids", "input_ids_b"), sentences[first : first + 2], strict=True):
            assert example[name].tolist() == [1, *sentence[: longest - 2].tolist(), 2]


def test_the_same_text_twice():
    objective = build_objective({"name": "sentence_comparison", "mode": "same"}, WORDS)
    assert (objective.content_length, objective.minimum.sentences) == (62, 1)
    for sample, example in zip(samples([1, 62]), corrupt(objective, samples([1, 62])), strict=True):
        assert example["input_ids"].tolist() == example["input_ids_b"].tolist() == [1, *sample["ids"].tolist(), 2]


def test_unused_tokens():
    objective = wide("sentence_comparison")
    rows = one_sample(range(200, 210), (0, 3, 5), WORDS, 20)
    examples = corrupt(objective, rows, np.arange(20))
    pairs = examples.columns["input_ids"].lengths + examples.columns["input_ids_b"].lengths - 4
    assert objective.count_unused_tokens(rows, examples) == int((10 - pairs).sum()) > 0
