"""Permuted LM: counts, the laws of spans and orders, the masks that follow, and the kernel against
a plain loop."""

from fractions import Fraction
from math import floor

import pytest

from clozeline.pipeline.corrupt.objectives.permuted_lm import prediction_ranks
from clozeline.seeding import LENGTHS, ORDERS, POSITIONS, SLOTS
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, wide
from tests.pipeline.corruption_cases import SEP, samples
from tests.pipeline.word_cases import drawn, smallest

THRESHOLDS = [
    floor(sum(Fraction(1, length) for length in range(1, upto)) * 2**32 / Fraction(137, 60))
    for upto in range(1, 6)
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

    for gap, length in zip(
        sorted(smallest(key, SLOTS, total - k + 1, len(lengths))), lengths, strict=True
    ):
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
        chosen = (
            slow_spans(key, len(text), k)
            if unit == "span"
            else sorted(smallest(key, POSITIONS, len(text), k))
        )

        order = smallest(key, ORDERS, k, k)

        assert example["input_ids"].tolist() == [1, *sample["ids"].tolist(), 2]
        assert example["prediction_order"].tolist() == [text[chosen[number]] for number in order]


def slow_masks(example):
    """Return which place reads which in content and query rows: the context, then those predicted
    before."""
    length = len(example["input_ids"])
    order = example["prediction_order"].tolist()
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
    examples = corrupt(
        wide("permuted_lm", prediction_rate=0.4),
        samples([1, 2, 5, 17, 40] * 4, specials=0.1, seed=2),
    )
    for example in examples:
        ranks = prediction_ranks(example["prediction_order"], len(example["input_ids"]))
        content, query = slow_masks(example)
        assert (ranks[None, :] <= ranks[:, None]).tolist() == content
        assert (ranks[None, :] < ranks[:, None]).tolist() == query
        assert not any(row[place] for place, row in enumerate(query))


def test_frame_of_xlnet():
    """The same draws, one place earlier: x [SEP] [CLS], padded on the left."""
    bert, xlnet = (wide("permuted_lm", frame=frame) for frame in ("bert", "xlnet"))

    assert [each.form.padding_side for each in (bert, xlnet)] == ["right", "left"]

    rows = samples([1, 9, 64, 3], specials=0.1, seed=7)
    for sample, one, other in zip(
        rows,
        corrupt(bert, rows),
        corrupt(xlnet, rows),
        strict=True,
    ):
        assert other["input_ids"].tolist() == [*sample["ids"].tolist(), 2, 1]
        assert (other["prediction_order"] + 1).tolist() == one["prediction_order"].tolist()
        assert xlnet.restore(other).tolist() == xlnet.add_special_tokens(sample["ids"]).tolist()
