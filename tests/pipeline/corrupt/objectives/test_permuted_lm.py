"""Permuted LM: counts, the laws of spans and orders, the masks that follow, and the kernel against a plain loop."""

from collections import Counter
from fractions import Fraction
from math import floor

import pytest

from clozeline.pipeline.corrupt.objectives import Frame
from clozeline.pipeline.corrupt.objectives.permuted_lm import prediction_ranks
from clozeline.seeding import LENGTHS, ORDERS, POSITIONS, SLOTS
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, variants_of, wide
from tests.pipeline.corruption_cases import SEP, samples
from tests.pipeline.laws import chi_square_is_plausible
from tests.pipeline.word_cases import drawn, smallest

KITTEN = list(range(200, 207))
THRESHOLDS = [
    floor(sum(Fraction(1, length) for length in range(1, upto)) * 2**32 / Fraction(137, 60)) for upto in range(1, 6)
]


def slow_spans(key, total, k):
    """Places of spans among `total` tokens."""
    lengths = []
    for roll in drawn(key, LENGTHS, k):
        if sum(lengths) < k:
            lengths.append(min(k - sum(lengths), sum(bound <= roll >> 32 for bound in THRESHOLDS)))
    while len(lengths) > total - k + 1:
        lengths[-2:] = [sum(lengths[-2:])]
    places = []
    for gap, length in zip(sorted(smallest(key, SLOTS, total - k + 1, len(lengths))), lengths, strict=True):
        places += range(gap + len(places), gap + len(places) + length)
    return places


@pytest.mark.parametrize("specials", [0.0, 0.1])
@pytest.mark.parametrize("unit", ["span", "token"])
@pytest.mark.parametrize("rate", ["0.166667", "0.7", "1"])
def test_equals_a_plain_loop(specials, unit, rate):
    objective = wide("permuted_lm", unit=unit, prediction_rate=float(rate))
    lengths = [1 + (37 * row) % 90 for row in range(150)] + [510] * 3
    rows = samples(lengths, specials=specials)
    for key, sample, example in keyed(objective, rows, variant=4, seed=6):
        text = [place + 1 for place, token in enumerate(sample["ids"]) if token != SEP]
        k = max(1, floor(Fraction(rate) * len(text) + Fraction(1, 2)))
        chosen = slow_spans(key, len(text), k) if unit == "span" else sorted(smallest(key, POSITIONS, len(text), k))
        order = smallest(key, ORDERS, k, k)
        assert example["input_ids"].tolist() == [1, *sample["ids"].tolist(), 2]
        assert example["prediction_order"].tolist() == [text[chosen[number]] for number in order]


def slow_masks(example):
    """Return which place reads which in content and query rows: the context, then those predicted before."""
    length, order = len(example["input_ids"]), example["prediction_order"].tolist()
    context = [place for place in range(length) if place not in order]
    content, query = ([[False] * length for _ in range(length)] for _ in range(2))
    for reader in range(length):
        before = order[: order.index(reader)] if reader in order else []
        for place in context + before:
            content[reader][place] = True
            query[reader][place] = reader in order
        content[reader][reader] = True
    return content, query


def test_masks_follow_from_the_order_alone():
    examples = corrupt(wide("permuted_lm", prediction_rate=0.4), samples([1, 2, 5, 17, 40] * 4, specials=0.1, seed=2))
    for example in examples:
        ranks = prediction_ranks(example["prediction_order"], len(example["input_ids"]))
        content, query = slow_masks(example)
        assert (ranks[None, :] <= ranks[:, None]).tolist() == content
        assert (ranks[None, :] < ranks[:, None]).tolist() == query
        assert not any(row[place] for place, row in enumerate(query))


def test_spans_of_a_small_case_are_equally_likely_in_their_gaps():
    """7 tokens, 3 predicted: each set is as likely as its lengths are drawn, divided by the gaps they may take."""
    examples = variants_of(wide("permuted_lm", prediction_rate=0.428571), KITTEN)
    found = Counter(tuple(sorted(example["prediction_order"].tolist())) for example in examples)
    total = Fraction(137, 60)
    share = {length: Fraction(1, length) / total for length in range(1, 6)}
    last = {1: Fraction(1), 2: 1 - share[1]}  # the law of the last span, cut at what is left
    laws = {(3,): 1 - share[1] - share[2], (2, 1): share[2], (1, 2): share[1] * last[2], (1, 1, 1): share[1] ** 2}
    expected = Counter()
    for lengths, law in laws.items():
        gaps = [(a,) for a in range(5)]
        while len(gaps[0]) < len(lengths):
            gaps = [(*some, gap) for some in gaps for gap in range(some[-1] + 1, 5)]
        for some in gaps:
            starts = [gap + sum(lengths[:number]) + 1 for number, gap in enumerate(some)]
            places = [start + step for start, length in zip(starts, lengths, strict=True) for step in range(length)]
            expected[tuple(places)] += law / len(gaps) * 4000
    assert found.keys() == expected.keys()
    counts = [(found[key], float(expected[key])) for key in sorted(expected)]
    assert chi_square_is_plausible(*zip(*counts, strict=True), degrees=len(counts) - 1)


def test_frame_of_xlnet():
    """The same draws, one place earlier: x [SEP] [CLS], padded on the left."""
    bert, xlnet = (wide("permuted_lm", frame=frame) for frame in ("bert", "xlnet"))
    assert (bert.frame, xlnet.frame) == (Frame("right"), Frame("left"))
    rows = samples([1, 9, 64, 3], specials=0.1, seed=7)
    for sample, one, other in zip(rows, corrupt(bert, rows), corrupt(xlnet, rows), strict=True):
        assert other["input_ids"].tolist() == [*sample["ids"].tolist(), 2, 1]
        assert (other["prediction_order"] + 1).tolist() == one["prediction_order"].tolist()
        assert xlnet.uncorrupt(other).tolist() == xlnet.add_special_tokens(sample["ids"]).tolist()
