"""Token reordering: permutations, shares, never the identity; the kernel against a plain loop."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from clozeline.seeding import ORDERS, POSITIONS, random_bits
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, reasons, variants_of, wide
from tests.pipeline.corruption_cases import one_sample, samples
from tests.pipeline.laws import chi_square_is_plausible, within_sigmas

LENGTHS = [2, 3, 4, 5, 17, 64, 300, 568] * 40


def numbered(key: np.uint64, stream: int, count: int) -> list[int]:
    """Words with their index in the low 16 bits."""
    return [
        word >> 16 << 16 | index for index, word in enumerate(random_bits(np.array([key]), stream, count)[0].tolist())
    ]


def slow(n: int, key: np.uint64, percent: int) -> list[int]:
    """The order of one row."""
    moving = max(2, (n * percent + 50) // 100)
    drawn = numbered(key, POSITIONS, n)
    places = list(range(n)) if percent == 100 else sorted(sorted(range(n), key=drawn.__getitem__)[:moving])
    keys = numbered(key, ORDERS, moving)
    order = list(range(n))
    for place, source in zip(places, sorted(range(moving), key=keys.__getitem__), strict=True):
        order[place] = places[source]
    if order == list(range(n)):
        first, second = places[:2]
        order[first], order[second] = second, first
    return order


@pytest.mark.parametrize("percent", [100, 15, 50])
def test_equals_a_plain_loop(percent: int) -> None:
    objective = wide("token_reordering", noise_density=percent / 100)
    rows = samples(LENGTHS)
    for key, sample, example in keyed(objective, rows):
        ids = sample["ids"].tolist()
        order = slow(len(ids), key, percent)
        assert example["token_order"].tolist() == order
        assert example["input_ids"].tolist() == [4, *(ids[place] for place in order), 5]


@pytest.mark.parametrize("rate", [1.0, 0.2])
def test_orders_are_permutations_and_never_the_identity(rate: float) -> None:
    examples = corrupt(wide("token_reordering", noise_density=rate), samples(LENGTHS))
    for example in examples:
        order = example["token_order"].astype(int)
        n = len(order)
        moved = np.flatnonzero(order != np.arange(n))
        assert sorted(order.tolist()) == list(range(n))
        assert 2 <= len(moved) <= max(2, int(n * rate + 0.5))


def test_two_tokens_always_change_places() -> None:
    assert all(x["token_order"].tolist() == [1, 0] for x in variants_of(wide("token_reordering"), [300, 301]))


def test_orders_are_equally_likely_but_for_the_swap_that_takes_the_identitys_part() -> None:
    examples = variants_of(wide("token_reordering"), [300, 301, 302], count=12_000)
    found = Counter(tuple(example["token_order"].tolist()) for example in examples)
    assert len(found) == 5
    assert within_sigmas(found.pop((1, 0, 2)), 12_000, 2 / 6)
    assert chi_square_is_plausible(list(found.values()), np.full(4, 2000.0), 3)


def test_a_chosen_pair_is_uniform() -> None:
    examples = variants_of(wide("token_reordering", noise_density=0.2), list(range(300, 310)), count=9000)
    found = Counter(tuple(np.flatnonzero(x["token_order"] != np.arange(10)).tolist()) for x in examples)
    assert len(found) == 45
    assert chi_square_is_plausible(list(found.values()), np.full(45, 200.0), 44)


def test_one_token_is_too_short_alone_and_passes_in_a_composition() -> None:
    row = one_sample([300], [0])
    assert reasons(wide("token_reordering"), row) == ["too_short"]
    steps = [{"name": "token_reordering"}, {"name": "denoising_autoencoding"}]
    composed = wide("composition", steps=steps)
    assert composed.tally(corrupt(composed, row)) == {"passed_through": {"token_reordering": 1}}


def test_sentences_keep_their_places_in_a_composition() -> None:
    steps = [
        {"name": "sentence_reordering"},
        {"name": "token_reordering", "noise_density": 0.5},
        {"name": "text_infilling"},
    ]
    composed = wide("composition", steps=steps)
    rows = samples([40, 300, 9], sentences=5)
    for sample, example in zip(rows, corrupt(composed, rows), strict=True):
        assert np.array_equal(composed.uncorrupt(example), composed.add_special_tokens(sample["ids"]))
