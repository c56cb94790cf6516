"""Text infilling: exact budget, the Poisson table, spans in gaps of their own, and a plain loop."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from clozeline.pipeline.kernels.distributions import poisson_thresholds
from clozeline.pipeline.kernels.spans import limit_spans
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import LENGTHS, ORDERS, SLOTS
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, variants_of, wide
from tests.pipeline.corruption_cases import FIRST_CONTENT, MASK, samples
from tests.pipeline.laws import chi_square_is_plausible, within_sigmas
from tests.pipeline.word_cases import drawn, smallest

TABLE = poisson_thresholds(3000).tolist()


def fitted(lengths: list[int], most: int) -> list[int]:
    """At most `most` lengths: zero ones go, last first; then the last two are merged."""
    lengths = list(lengths)
    while len(lengths) > most and 0 in lengths:
        del lengths[len(lengths) - 1 - lengths[::-1].index(0)]
    while len(lengths) > most:
        lengths[-2:] = [sum(lengths[-2:])]
    return lengths


def slow(units: int, key: np.uint64, ppm: int) -> list[tuple[int, int]]:
    """Start and length of each span, in units."""
    k = min(max(1, units - 1), max(1, (units * ppm + 500_000) // 1_000_000))
    lengths: list[int] = []
    for word in drawn(key, LENGTHS, 2000):
        if sum(lengths) >= k:
            break
        lengths.append(min(sum((word >> 32) >= bound for bound in TABLE), k - sum(lengths)))
    lengths = fitted(lengths, min(units - k + 1, k))
    order = smallest(key, ORDERS, len(lengths), len(lengths))
    chosen = sorted(smallest(key, SLOTS, units - k + 1, len(lengths)))
    before, found = 0, []
    for gap, place in zip(chosen, order, strict=True):
        found.append((gap + before, lengths[place]))
        before += lengths[place]
    return found


def infilled(ids: list[int], spans: list[tuple[int, int]]) -> list[int]:
    place, out = 0, [4]
    for start, length in spans:
        out += [*ids[place:start], MASK]
        place = start + length
    return [*out, *ids[place:], 5]


@pytest.mark.parametrize("rate", [0.3, 0.05, 1.0])
def test_equals_a_plain_loop(rate: float) -> None:
    objective = wide("text_infilling", noise_density=rate)
    rows = samples([1 + (41 * row) % 120 for row in range(300)] + [510] * 3)
    for key, sample, example in keyed(objective, rows):
        spans = slow(len(sample["ids"]), key, int(rate * 1_000_000))
        assert list(zip(example["span_starts"].tolist(), example["span_lengths"].tolist(), strict=True)) == spans
        assert example["input_ids"].tolist() == infilled(sample["ids"].tolist(), spans)


def test_words_as_units_equal_a_plain_loop() -> None:
    objective = wide("text_infilling", unit="word")
    rows = samples([1 + (41 * row) % 120 for row in range(200)], seed=5)
    for key, sample, example in keyed(objective, rows):
        ids = sample["ids"].tolist()
        starts = [place for place, token in enumerate(ids) if place == 0 or token % 3 == 0] + [len(ids)]
        spans = [(starts[a], starts[a + n] - starts[a]) for a, n in slow(len(starts) - 1, key, 300_000)]
        assert example["input_ids"].tolist() == infilled(ids, spans)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.5, 1.0])
def test_budget_gaps_and_length(rate: float) -> None:
    for example in corrupt(wide("text_infilling", noise_density=rate), samples([1, 2, 3, 5, 17, 64, 510] * 40)):
        n = len(example["target_ids"]) - 1
        k = min(max(1, n - 1), max(1, math.floor(Fraction(str(rate)) * n + Fraction(1, 2))))
        starts, lengths = example["span_starts"].astype(int), example["span_lengths"].astype(int)
        assert lengths.sum() == k
        assert (np.diff(starts - (np.cumsum(lengths) - lengths)) >= 1).all(), "each span has a gap to itself"
        masks = np.flatnonzero(example["input_ids"] == MASK)
        assert len(masks) == len(starts)
        assert (np.diff(masks) > 1).all()
        assert len(example["input_ids"]) == n - k + len(starts) + 2 <= n + 2


def test_fit_equals_the_loop() -> None:
    random = np.random.RandomState(0)
    lists = [random.randint(0, 3, random.randint(1, 9)).tolist() for _ in range(500)]
    lists = [one for one in lists if sum(one)]
    most = np.array([1 + random.randint(0, sum(one)) for one in lists])
    found = limit_spans(Ragged.from_lists(lists, np.int64), most)
    assert [found[row].tolist() for row in range(len(lists))] == [
        fitted(one, int(bound)) for one, bound in zip(lists, most, strict=True)
    ]


def test_poisson_table_equals_exact_probabilities() -> None:
    assert len(TABLE) == 15, "16 lengths: 0 to 15"
    exact = np.cumsum([math.exp(-3) * 3**j / math.factorial(j) for j in range(15)])
    assert np.abs(np.array(TABLE) / 2**32 - exact).max() < 1e-9
    values = np.searchsorted(TABLE, [word >> 32 for word in drawn(np.uint64(5), LENGTHS, 200_000)], side="right")
    observed = np.bincount(values, minlength=16)
    probabilities = np.diff(np.concatenate(([0], exact, [1])))
    observed = np.append(observed[:10], observed[10:].sum())
    probabilities = np.append(probabilities[:10], probabilities[10:].sum())
    assert chi_square_is_plausible(observed, 200_000 * probabilities, 10)


def test_share_of_empty_spans() -> None:
    lengths = corrupt(wide("text_infilling"), samples([510] * 400)).columns["span_lengths"]
    assert 0.035 < float((lengths.values == 0).mean()) < 0.055
    assert 50 < len(lengths.values) / 400 < 55


def test_random_ids_for_some_spans() -> None:
    examples = corrupt(wide("text_infilling", random_share=0.1), samples([510] * 200))
    spans = len(examples.columns["span_starts"].values)
    masks = int((examples.columns["input_ids"].values == MASK).sum())
    assert within_sigmas(masks, spans, 0.9)
    assert int(examples.columns["input_ids"].values.min()) >= MASK
    assert FIRST_CONTENT > MASK


def test_one_token_is_masked() -> None:
    examples = variants_of(wide("text_infilling"), [300], count=20)
    assert all(example["input_ids"].tolist() == [4, MASK, 5] for example in examples)
