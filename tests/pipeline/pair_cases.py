"""Masked pairs by plain loops."""

from fractions import Fraction
from math import floor, log

import numpy as np

from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.seeding import POSITIONS
from tests.pipeline.corruption_cases import SEP, fixed_columns
from tests.pipeline.word_cases import drawn, masked_by_hand, smallest

CLS = 1


def frame(first, second):
    return [CLS, *first, SEP, *second, SEP]


def slow_masks(row, key, ppm, vocabulary, exponent=0):
    """The row with masks, the places of its labels, and their ids."""
    places = [place for place, token in enumerate(row) if not vocabulary.special[token]]
    k = max(1, floor(Fraction(len(places) * ppm, 10**6) + Fraction(1, 2)))

    if exponent:
        tokens = [row[place] for place in places]
        positions = sorted(
            places[index] for index in earliest(key, tokens, vocabulary, exponent)[:k]
        )
        return masked_by_hand(key, row, positions, vocabulary)

    positions = sorted(places[index] for index in smallest(key, POSITIONS, len(places), k))
    return masked_by_hand(key, row, positions, vocabulary)


def earliest(key, tokens, vocabulary, exponent):
    """The tokens' indices by exponential times whose means are powers of the tokens' counts."""
    uniform = [((roll >> 16) + 0.5) / 2**48 for roll in drawn(key, POSITIONS, len(tokens))]
    counts = [max(1, int(vocabulary.corpus.counts[token])) for token in tokens]
    times = [-log(u) * count**exponent for u, count in zip(uniform, counts, strict=True)]
    return sorted(range(len(tokens)), key=times.__getitem__)


def unmasked(example):
    row = example["input_ids"].copy()
    row[example["label_positions"]] = example["label_ids"]
    return row.tolist()


def window(sentences, vocabulary, copies=1, *, partner=(), target=(), **fixed):
    """The same window `copies` times, with all columns that pairs read."""
    ids = [token for sentence in sentences for token in sentence]
    starts = np.cumsum(
        [
            0,
            *(len(sentence) for sentence in sentences[:-1]),
        ]
    )
    columns = {
        "ids": (ids, vocabulary.id_dtype),
        "sentence_starts": (starts, np.uint16),
        "partner_ids": (partner, vocabulary.id_dtype),
        "target_ids": (target, vocabulary.id_dtype),
        "target_language": ([1], np.uint8),
    }

    found = {
        name: Ragged.from_lists([values] * copies, dtype)
        for name, (values, dtype) in columns.items()
    }
    base = fixed_columns(np.full(copies, 12345, np.uint64))
    return RowBatch(
        {**base, **{name: np.full(copies, value, np.uint8) for name, value in fixed.items()}}, found
    )
