"""Metrics of drawn units against seqeval and sacrebleu on the same units, each as often as it was drawn."""

from __future__ import annotations

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2

from clozeline.tools.runs.evaluation.unit_sums import corpus_metric, corpus_units, entity_units, mean_units, value_of

TAGS = ("O", "B-X", "I-X", "B-Y", "I-Y")
WORDS = ("a", "small", "cat", "dog", "sees", "the", "house")


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_entities_of_sentences(strict: bool) -> None:
    draws = np.random.default_rng(3)
    lengths = draws.integers(1, 9, 60)
    gold, found = ([[TAGS[tag] for tag in draws.integers(0, 5, length)] for length in lengths] for _ in range(2))
    found = [one if number % 3 else other for number, (one, other) in enumerate(zip(found, gold, strict=True))]
    units = np.array(entity_units(gold, found, strict=strict))
    way = {"mode": "strict", "scheme": IOB2} if strict else {}
    for rows in (np.arange(60), draws.integers(0, 60, 60)):
        wanted = f1_score([gold[row] for row in rows], [found[row] for row in rows], zero_division=0, **way)
        assert value_of("entity_f1", units[rows].sum(axis=0)) == pytest.approx(wanted)


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_statistics_of_texts(metric: str) -> None:
    """Two references of most texts, one of the others."""
    draws = np.random.default_rng(4)
    texts, first, second = (
        [" ".join(WORDS[at] for at in draws.integers(0, 7, 9)) for _ in range(30)] for _ in range(3)
    )
    given: list[str | None] = [text if number % 4 else None for number, text in enumerate(second)]
    units = np.array(corpus_units(corpus_metric(metric), texts, [first, given]))
    scorer = {"bleu": BLEU, "chrf": CHRF}[metric]()
    for rows in (np.arange(30), draws.integers(0, 30, 30)):
        references = [[side[row] for row in rows] for side in (first, given)]
        wanted = scorer.corpus_score([texts[row] for row in rows], references).score / 100
        assert 0.05 < wanted < 0.9
        assert value_of(metric, units[rows].sum(axis=0)) == pytest.approx(wanted)


def test_means_of_some_units() -> None:
    units = np.array(mean_units([1.0, 0.5, 0.0], [1.0, 0.0, 1.0]))
    assert value_of("answerable_f1", units.sum(axis=0)) == 0.5
    assert value_of("answerable_f1", units[1:2].sum(axis=0)) == 0.0
