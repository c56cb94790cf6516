"""Text infilling: spans of Poisson lengths in gaps of their own, against a plain loop, and what follows for a row."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import poisson

from clozeline.pipeline.kernels.distributions import poisson_thresholds
from clozeline.seeding import LENGTHS, ORDERS, SLOTS
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, wide
from tests.pipeline.corruption_cases import MASK, samples
from tests.pipeline.laws import within_sigmas
from tests.pipeline.word_cases import drawn, smallest


def fitted(lengths, most):
    """At most `most` lengths: zero ones go, last first; then the last two are merged."""
    while len(lengths) > most and 0 in lengths:
        del lengths[len(lengths) - 1 - lengths[::-1].index(0)]
    while len(lengths) > most:
        lengths[-2:] = [sum(lengths[-2:])]
    return lengths


def slow(units, key, ppm, table):
    """Start and length of each span, in units."""
    k = min(max(1, units - 1), max(1, (units * ppm + 500_000) // 1_000_000))
    lengths = []
    for word in drawn(key, LENGTHS, 2000):
        if sum(lengths) >= k:
            break
        lengths.append(min(sum((word >> 32) >= bound for bound in table), k - sum(lengths)))
    lengths = fitted(lengths, min(units - k + 1, k))
    order = smallest(key, ORDERS, len(lengths), len(lengths))
    chosen = sorted(smallest(key, SLOTS, units - k + 1, len(lengths)))
    before, found = 0, []
    for gap, place in zip(chosen, order, strict=True):
        found.append((gap + before, lengths[place]))
        before += lengths[place]
    return found


def infilled(ids, spans):
    place, out = 0, [4]
    for start, length in spans:
        out += [*ids[place:start], MASK]
        place = start + length
    return [*out, *ids[place:], 5]


@pytest.mark.parametrize(
    ("rate", "mean", "unit"),
    [(0.3, 3.0, "token"), (0.05, 3.0, "token"), (1.0, 3.0, "token"), (0.3, 1.25, "token"), (0.3, 3.0, "word")],
)
def test_equals_a_plain_loop(rate, mean, unit):
    objective = wide("text_infilling", noise_density=rate, poisson_lambda=mean, unit=unit)
    table = poisson_thresholds(int(1000 * mean)).tolist()
    rows = samples([1 + (41 * row) % 120 for row in range(300)] + [510] * 3)
    for key, sample, example in keyed(objective, rows):
        ids = sample["ids"].tolist()
        starts = [place for place, token in enumerate(ids) if unit == "token" or place == 0 or token % 3 == 0]
        starts.append(len(ids))
        drawn_spans = slow(len(starts) - 1, key, int(rate * 1_000_000), table)
        spans = [(starts[first], starts[first + length] - starts[first]) for first, length in drawn_spans]
        assert list(zip(example["span_starts"].tolist(), example["span_lengths"].tolist(), strict=True)) == spans
        assert example["input_ids"].tolist() == infilled(ids, spans)
        assert example["target_ids"].tolist() == [*ids, 5]
        assert objective.uncorrupt(example).tolist() == [4, *ids, 5]
        assert all(length + start < after for (start, length), (after, _) in pairwise(spans)), "each has its own gap"
        assert len(example["input_ids"]) <= len(ids) + 2


@pytest.mark.parametrize(("mean", "entries"), [(3.0, 15), (1.25, 10)])
def test_lengths_of_spans_follow_poissons_law(mean, entries):
    """As scipy has it; the last length takes what is left."""
    table = poisson_thresholds(int(1000 * mean))
    assert len(table) == entries
    np.testing.assert_allclose(table / 2**32, poisson.cdf(np.arange(entries), mean), atol=1e-9)


def test_random_ids_stand_for_some_spans():
    examples = corrupt(wide("text_infilling", random_share=0.1), samples([510] * 200))
    spans, ids = len(examples.columns["span_starts"].values), examples.columns["input_ids"].values
    assert within_sigmas(int((ids == MASK).sum()), spans, 0.9)
    assert int(ids.min()) >= MASK
