"""Replaced-token detection and corrective LM: what takes the place of tokens, and the crop, against
plain loops."""

from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from clozeline.pipeline.vocabulary import Corpus
from clozeline.seeding import CROPS, ORDERS, ROLES
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, masked, wide
from tests.pipeline.corruption_cases import MASK, SEP, one_sample, samples, vocabulary
from tests.pipeline.word_cases import drawn
from tests.refusals import refused

NAME = "replaced_token_detection"
PLAIN = vocabulary(400)
COUNTS = np.where(
    np.arange(400) % 5 == 0,
    0,
    (np.arange(400) * 7919) % 1000,
).astype(np.uint64)
WORDS = replace(PLAIN, corpus=Corpus(COUNTS))
FREQUENCIES = [max(1, int(count)) for count in COUNTS[WORDS.replaceable]]


def slow_uniform(key, label):
    low = drawn(key, ROLES, label + 1)[label] & 0xFFFFFFFF
    return int(WORDS.replaceable[(low * len(WORDS.replaceable)) >> 32])


def slow_shuffled(key, labels):
    if len(labels) == 1:
        return [slow_uniform(key, 0)]
    k = len(labels)
    rolls = drawn(key, ORDERS, 64 * k)

    for attempt in range(64):
        block = rolls[attempt * k : (attempt + 1) * k]
        order = sorted(range(k), key=lambda number, block=block: (block[number] >> 16, number))
        if order != list(range(k)):
            return [labels[number] for number in order]

    return [labels[1], labels[0], *labels[2:]]


@pytest.mark.parametrize("replacement", ["generator", "uniform", "unigram", "shuffle"])
@pytest.mark.parametrize("specials", [0.0, 0.1])
def test_equals_a_plain_loop(replacement, specials):
    """Labels are those of masked LM with this label.

    The token there follows from the row's key alone.
    """
    objective = wide(NAME, WORDS, replacement=replacement)
    plain = wide("masked_lm", WORDS, label=NAME)
    lengths = [1 + (37 * row) % 90 for row in range(200)] + [510] * 3
    rows = samples(lengths, WORDS, specials=specials)
    shares = [
        Fraction(sum(FREQUENCIES[: upto + 1]), sum(FREQUENCIES))
        for upto in range(len(FREQUENCIES) - 1)
    ]
    table = [floor(share * 2**32) for share in shares]
    others = keyed(plain, rows, variant=4, seed=6)
    for (key, _, example), (_, _, other) in zip(
        keyed(objective, rows, variant=4, seed=6), others, strict=True
    ):
        labels = example["label_ids"].tolist()

        assert masked(example)[1:] == masked(other)[1:]

        written = {
            "generator": [MASK] * len(labels),
            "uniform": [slow_uniform(key, label) for label in range(len(labels))],
            "unigram": [
                int(WORDS.replaceable[sum(bound <= roll >> 32 for bound in table)])
                for roll in drawn(key, ROLES, len(labels))
            ],
            "shuffle": slow_shuffled(key, labels),
        }[replacement]

        original = objective.restore(example)
        original[example["label_positions"]] = written

        assert example["input_ids"].tolist() == original.tolist()


def test_heads_follow_from_the_replacement():
    assert wide(NAME, WORDS).heads == ("masked_lm", "token")
    assert wide(NAME, WORDS, replacement="uniform").heads == ("token",)


def test_unigram_without_counts_draws_nothing_and_still_undoes():
    example = corrupt(
        wide(NAME, WORDS, replacement="unigram"), one_sample([200, 201], [0], WORDS)
    ).row(0)
    objective = wide(NAME, PLAIN, replacement="unigram")

    assert objective.restore(example).tolist() == [1, 200, 201, SEP]

    with refused(r"token_counts\.arrow"):
        objective.corrupt(
            one_sample([200, 201], [0], PLAIN),
            np.zeros(1, np.uint16),
            1,
        )


# Corrective LM
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crop_rate", ["0", "0.1", "0.5", "1"])
@pytest.mark.parametrize("specials", [0.0, 0.1])
def test_crops_equal_a_plain_loop(crop_rate, specials):
    objective = wide("corrective_lm", crop_rate=float(crop_rate))
    plain = wide("masked_lm", label="corrective_lm", mask_share=1, random_share=0)
    rows = samples([1 + (37 * row) % 90 for row in range(300)] + [510] * 5, specials=specials)
    others = keyed(plain, rows, variant=4, seed=6)
    for (key, sample, example), (_, _, other) in zip(
        keyed(objective, rows, variant=4, seed=6), others, strict=True
    ):
        n = len(sample["ids"])
        out = (
            min(n - 1, max(1, floor(Fraction(crop_rate) * n + Fraction(1, 2))))
            if float(crop_rate)
            else 0
        )

        assert example["crop_length"].tolist() == [n - out]
        assert example["crop_start"].tolist() == [
            ((drawn(key, CROPS, 1)[0] >> 32) * (out + 1)) >> 32
        ]
        assert masked(example) == masked(other)
        assert (example["input_ids"][example["label_positions"]] == MASK).all()


@pytest.mark.parametrize("replacement", ["uniform", "shuffle"])
def test_without_a_generator_tokens_are_those_of_replaced_token_detection(replacement):
    """The same label gives the same draws; masked LM, the generator's objective, is not served."""
    ours = wide("corrective_lm", replacement=replacement)
    theirs = wide("replaced_token_detection", label="corrective_lm", replacement=replacement)
    rows = samples([1 + (37 * row) % 90 for row in range(50)])
    for mine, other in zip(corrupt(ours, rows), corrupt(theirs, rows), strict=True):
        assert masked(mine) == masked(other)

    assert ours.heads == ("corrective", "similarity")
    assert wide("corrective_lm").heads == ("masked_lm", "corrective", "similarity")
