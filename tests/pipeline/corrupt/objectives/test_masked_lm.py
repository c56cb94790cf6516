"""Masked LM: counts, positions, roles, and the kernel against a plain loop."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import ceil, comb, floor

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.seeding import LABELS, RATES, kernel_keys, random_bits
from tests.pipeline.corrupt.objectives.runner import (
    at_labels,
    corrupt,
    keyed,
    masked,
    roles_are_plausible,
    shared_by_two_variants,
    variants_of,
    wide,
)
from tests.pipeline.corruption_cases import FIRST_CONTENT, MASK, SEP, WORDS, samples
from tests.pipeline.laws import chi_square_is_plausible, within_sigmas
from tests.pipeline.pair_cases import slow_masks

COUNTED = replace(WORDS, token_counts=(np.arange(WORDS.size) * 7919 % 1009).astype(np.uint64))
UNIFORM = {"uniform": [0.0, 1.0]}


@pytest.mark.parametrize("specials", [0.0, 0.1])
def test_equals_a_plain_loop(specials: float) -> None:
    rows = samples([1 + (37 * row) % 90 for row in range(500)] + [510] * 20, specials=specials)
    for key, sample, example in keyed(wide("masked_lm"), rows, variant=4, seed=6):
        assert masked(example) == slow_masks([1, *sample["ids"].tolist(), 2], key, 150_000, WORDS)


@pytest.mark.parametrize("specials", [0.0, 0.1])
def test_labels_by_frequency_equal_a_plain_loop(specials: float) -> None:
    objective = wide("masked_lm", COUNTED, frequency_exponent=0.5)
    rows = samples([1 + (37 * row) % 90 for row in range(100)] + [510] * 5, specials=specials)
    for key, sample, example in keyed(objective, rows, variant=4, seed=6):
        assert masked(example) == slow_masks([1, *sample["ids"].tolist(), 2], key, 150_000, COUNTED, exponent=0.5)


def test_a_rare_token_is_a_label_as_often_as_its_count_says() -> None:
    """One label of two tokens: weights of 1 and 1 / 3 for the counts 1 and 9."""
    counts = np.full(WORDS.size, 9, np.uint64)
    counts[200] = 1
    objective = wide("masked_lm", replace(WORDS, token_counts=counts), frequency_exponent=0.5)
    rare = sum(int(example["label_ids"][0]) == 200 for example in variants_of(objective, [201, 200]))
    assert within_sigmas(rare, 4000, 3 / 4)


def test_labels_by_frequency_need_counts() -> None:
    objective = wide("masked_lm", frequency_exponent=0.5)
    with pytest.raises(ConfigurationError, match=r"frequency_exponent needs encode/token_counts\.arrow"):
        corrupt(objective, samples([10]))


@pytest.mark.parametrize("rate", [0.01, 0.15, 0.5, 1.0])
def test_counts_labels_and_untouched_tokens(rate: float) -> None:
    objective = wide("masked_lm", mask_rate=rate)
    rows = samples([1, 2, 3, 10, 30, 190, 510], specials=0.05, seed=3)
    for sample, example in zip(rows, corrupt(objective, rows), strict=True):
        maskable = int((sample["ids"] != SEP).sum())
        k = max(1, floor(Fraction(str(rate)) * maskable + Fraction(1, 2)))
        framed = objective.add_special_tokens(sample["ids"])
        positions = example["label_positions"].astype(int)
        assert len(positions) == k
        assert (np.diff(positions) > 0).all()
        assert not WORDS.special[framed[positions]].any()
        assert (example["label_ids"] == framed[positions]).all()
        others = np.delete(np.arange(len(framed)), positions)
        assert (example["input_ids"][others] == framed[others]).all()
        written = example["input_ids"][positions]
        assert ((written == MASK) | (written >= FIRST_CONTENT)).all()


def test_most_labels() -> None:
    objective = wide("masked_lm", max_labels=20)
    rows = samples([10, 510])
    assert corrupt(objective, rows).columns["label_ids"].lengths.tolist() == [2, 20]


def test_shares_of_the_three_roles() -> None:
    written, original = at_labels(corrupt(wide("masked_lm"), samples([510] * 1500)))
    assert len(written) >= 100_000
    assert roles_are_plausible(written, original)


def test_positions_are_uniform() -> None:
    examples = corrupt(wide("masked_lm"), samples([60] * 4000))
    observed = np.bincount(examples.columns["label_positions"].values, minlength=62)[1:61]
    assert observed.sum() == 4000 * 9
    assert chi_square_is_plausible(observed, np.full(60, 600.0), 59, scale=1 - 9 / 60)


def test_two_variants_are_independent() -> None:
    assert within_sigmas(shared_by_two_variants(wide("masked_lm"), "label_positions"), 36_000, 9 / 60)


def slow_number(uid: int, variant: int, m: int, lowest: Fraction, highest: Fraction) -> int:
    """k of one row, from its own word shifted by the van der Corput sequence."""
    key = kernel_keys(1, "masked_lm", np.array([uid], np.uint64), np.zeros(1, np.uint16))
    word = int(random_bits(key, RATES, 1)[0, 0]) >> 32
    word = (word + (int(f"{variant:016b}"[::-1], 2) << 16)) % 2**32
    first, last = max(1, ceil(lowest * m)), max(1, ceil(lowest * m), floor(highest * m))
    return first + (word * (last - first + 1) >> 32)


@pytest.mark.parametrize(("lowest", "highest"), [("0", "1"), ("0.2", "0.6"), ("0.15", "0.150001")])
def test_uniform_rates_equal_a_plain_loop(lowest: str, highest: str) -> None:
    objective = wide("masked_lm", mask_rate={"uniform": [float(lowest), float(highest)]})
    rows = samples([1, 2, 3, 10, 64, 510] * 30, specials=0.1, seed=5)
    for variant in (0, 1, 5, 65_535):
        examples, skips = objective.corrupt(rows, np.full(len(rows), variant, np.uint16), 1)
        for sample, example, skip in zip(rows, examples, skips, strict=True):
            if skip:
                continue
            m = int((sample["ids"] != SEP).sum())
            k = slow_number(int(sample.fixed["uid"]), variant, m, Fraction(lowest), Fraction(highest))
            assert len(example["label_positions"]) == k
            assert example["label_weight"].tolist() == [np.float32(m / k)]
            assert example["label_count"].tolist() == [m]


def test_numbers_of_labels_are_uniform() -> None:
    objective, rows = wide("masked_lm", mask_rate=UNIFORM), samples([10] * 20_000)
    for variant in (0, 3):
        observed = np.bincount(corrupt(objective, rows, variant).columns["label_ids"].lengths, minlength=11)
        assert observed[0] == 0
        assert chi_square_is_plausible(observed[1:], np.full(10, 2000.0), 9)


@pytest.mark.parametrize("length", [64, 160])
def test_variants_have_each_part_of_the_rates_once(length: int) -> None:
    """16 variants of a row, from a multiple of 16 on: each sixteenth of 1..m holds one of them."""
    objective, rows = wide("masked_lm", mask_rate=UNIFORM), samples([length] * 50)
    for first in (0, 48):
        numbers = [corrupt(objective, rows, first + v).columns["label_ids"].lengths for v in range(16)]
        parts = np.sort((np.stack(numbers) - 1) * 16 // length, axis=0)
        assert (parts == np.arange(16)[:, None]).all()


def test_the_bound_of_uniform_rates_is_the_entropy() -> None:
    """A chain of 3 states and 5 places: with exact conditionals the weighted loss is the entropy of the chain.

    A number rounded from a uniform rate t, weighted by 1 / t as Bernoulli masks are, is not.
    """
    step = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])
    texts = np.array(list(product(range(3), repeat=5)))
    law = np.array([0.5 * 0.4 ** x[0] for x in texts])
    law = np.array([p * np.prod([step[a, b] for a, b in pairwise(x)]) for p, x in zip(law, texts, strict=True)])
    law /= law.sum()
    entropy = -float((law * np.log(law)).sum())

    def loss(hidden: tuple[int, ...]) -> float:
        """The expected sum of -log p(x_i | what is not hidden) over the hidden places i."""
        seen = [place for place in range(5) if place not in hidden]
        key, total = texts[:, seen] @ 3 ** np.arange(len(seen)) if seen else np.zeros(len(texts), int), 0.0
        for place in hidden:
            both = key * 3 + texts[:, place]
            joint, given = np.bincount(both, law, 3**6), np.bincount(key, law, 3**5)
            total -= float((law * np.log(joint[both] / given[key])).sum())
        return total

    mean = {k: float(np.mean([loss(hidden) for hidden in combinations(range(5), k)])) for k in range(1, 6)}
    examples = variants_of(wide("masked_lm", mask_rate=UNIFORM), list(range(200, 205)), count=64)
    weight = {len(example["label_ids"]): float(example["label_weight"][0]) for example in examples}
    bound = sum(weight[k] * mean[k] for k in range(1, 6)) / 5
    assert bound == pytest.approx(entropy, abs=1e-6)
    rates = (np.arange(100_000) + 0.5) / 100_000
    exact = np.stack([comb(5, k) * rates**k * (1 - rates) ** (5 - k) for k in range(1, 6)])
    bernoulli = float((exact / rates * np.array([[mean[k]] for k in range(1, 6)])).sum(axis=0).mean())
    assert bernoulli == pytest.approx(entropy, abs=1e-4)
    rounded = np.maximum(1, np.floor(5 * rates + 0.5).astype(int))
    assert float(np.mean([mean[k] / t for k, t in zip(rounded, rates, strict=True)])) > 1.3 * entropy


def test_labels_predicted_from_the_previous_place() -> None:
    objective = wide("masked_lm", predict_from="previous")
    assert objective.frame.predict_from == "previous"
    assert wide("masked_lm").frame.predict_from == "same"


ATTENTIONS = ("bidirectional", "left_to_right", "right_to_left", "prefix")


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_labels_do_not_depend_on_attention(attention: str) -> None:
    plain, restricted = wide("masked_lm"), wide("masked_lm", attention=attention)
    rows = samples([2, 3, 40, 510], specials=0.05, seed=8)
    first, second = corrupt(plain, rows), corrupt(restricted, rows)
    for name, column in first.columns.items():
        assert (column.values == second.columns[name].values).all()
    modes = second.columns.get("attention")
    assert (modes is None) == (attention == "bidirectional")
    assert modes is None or set(modes.values.tolist()) == {ATTENTIONS.index(attention)}


def test_prefixes_end_anywhere_with_content_on_both_sides() -> None:
    objective = wide("masked_lm", attention="prefix")
    examples = variants_of(objective, list(range(200, 211)))
    cuts = np.array([int(example["prefix_length"][0]) for example in examples])
    assert chi_square_is_plausible(np.bincount(cuts, minlength=12)[2:], np.full(10, 400.0), 9)
    assert cuts.min() == 2  # [CLS] and one token
    assert cuts.max() == 11  # all but the last token and [SEP]
    key = kernel_keys(1, "masked_lm", np.array([12345], np.uint64), np.zeros(1, np.uint16))
    assert cuts[0] == 2 + (((int(random_bits(key, LABELS, 1)[0, 0]) >> 32) * 10) >> 32)


@pytest.mark.parametrize("attention", ["left_to_right", "right_to_left"])
def test_other_modes_have_no_prefix(attention: str) -> None:
    examples = corrupt(wide("masked_lm", attention=attention), samples([1, 9]))
    assert [example["prefix_length"].tolist() for example in examples] == [[0], [0]]
