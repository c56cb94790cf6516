"""Whole-word masking: words stay whole, budgets are kept, and the kernel equals a plain loop."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from tests.pipeline.corrupt.objectives.runner import at_labels, corrupt, keyed, masked, variants_of, wide
from tests.pipeline.corruption_cases import FIRST_CONTENT, MASK, WORDS, one_sample, samples
from tests.pipeline.laws import chi_square_is_plausible, within_sigmas
from tests.pipeline.word_cases import leaders_of, masked_by_hand, slow_take, slow_words

OPEN, INSIDE = 201, 202  # ids that open a word, and that do not


def budget(ids: np.ndarray, rate: str) -> int:
    maskable = int((~WORDS.special[ids]).sum())
    return max(1, floor(Fraction(rate) * maskable + Fraction(1, 2)))


@pytest.mark.parametrize("specials", [0.0, 0.1])
@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("rate", [0.15, 0.5])
def test_equals_a_plain_loop(specials: float, unit: str, rate: float) -> None:
    objective = wide("whole_word_masking", role_unit=unit, mask_rate=rate)
    lengths = [1 + (37 * row) % 90 for row in range(250)] + [510] * 5
    rows = samples(lengths, specials=specials)
    for key, sample, example in keyed(objective, rows, variant=4, seed=6):
        ids = sample["ids"].tolist()
        row = slow_words(ids, WORDS)
        taken = sorted(slow_take(key, row, budget(sample["ids"], str(rate))))
        places = [place for word in taken for place in range(row[word].start, row[word].start + row[word].length)]
        sizes = [row[word].length for word in taken]
        leaders = leaders_of(sizes) if unit == "word" else None
        assert masked(example) == masked_by_hand(key, [1, *ids, 2], [place + 1 for place in places], WORDS, leaders)


@pytest.mark.parametrize("rate", [0.05, 0.15, 0.8])
def test_words_are_whole_and_no_other_would_fit(rate: float) -> None:
    objective = wide("whole_word_masking", mask_rate=rate)
    rows = samples([1, 2, 3, 5, 9, 17, 64, 510] * 30, specials=0.05, seed=3)
    examples, skips = objective.corrupt(rows, np.zeros(len(rows), np.uint16), 1)
    for row in np.flatnonzero(skips == 0):
        sample, example = rows.row(int(row)), examples.row(int(row))
        positions = set(example["label_positions"].tolist())
        inside = [
            [place + 1 in positions for place in range(word.start, word.start + word.length)]
            for word in slow_words(sample["ids"], WORDS)
        ]
        assert all(len(set(word)) == 1 for word in inside)
        left = budget(sample["ids"], str(rate)) - len(positions)
        untaken = [len(word) for word in inside if not word[0]]
        if left < 0:  # the one excess: a single word, where every word is longer than the budget
            assert sum(word[0] for word in inside) == 1
            assert min(len(word) for word in inside) > left + len(positions)
        else:
            assert min(untaken, default=left + 1) > left
        assert (example["input_ids"][sorted(positions)] >= MASK).all()
        written = example["input_ids"][sorted(positions)]
        assert ((written == MASK) | (written >= FIRST_CONTENT)).all()


def test_words_of_equal_length_are_equally_likely() -> None:
    ids = [OPEN, INSIDE] * 20
    examples = variants_of(wide("whole_word_masking", mask_rate=0.2), ids)
    starts = np.array([example["label_positions"][::2] for example in examples])
    assert starts.shape == (4000, 4)
    observed = np.bincount((starts.ravel() - 1) // 2, minlength=20)
    assert chi_square_is_plausible(observed, np.full(20, 800.0), 19, scale=1 - 4 / 20)


def test_shares_of_roles_that_words_draw() -> None:
    """Of words of two tokens, 8 of 10 are two masks, 1 of 10 is kept, 1 of 10 has two random ids of their own."""
    rows = one_sample([OPEN, INSIDE] * 100, [0], WORDS, 1500)
    objective = wide("whole_word_masking", role_unit="word", mask_rate=0.3)
    examples = corrupt(objective, rows, np.arange(1500))
    written = at_labels(examples)[0].reshape(-1, 2)
    masked = written == MASK
    assert (masked[:, 0] == masked[:, 1]).all()
    kept = (written == [OPEN, INSIDE]).all(axis=1)
    assert within_sigmas(int(masked[:, 0].sum()), len(written), 0.8)
    assert within_sigmas(int(kept.sum()), len(written), 0.1)
    random = written[~masked[:, 0] & ~kept]
    assert (random[:, 0] != random[:, 1]).mean() > 0.9


def test_a_row_of_one_word_is_masked_completely_and_counted() -> None:
    """The only word is longer than the budget. Where most tokens are asked for, nothing is counted."""
    inside = WORDS.word_start.copy()
    inside[300:304] = False
    words = replace(WORDS, word_start=inside)
    rows = one_sample([300, 301, 302, 303], [0], words, 200)
    for rate, counted in ((0.15, {"overmasked": 200}), (0.5, {"overmasked": 200}), (0.9, {})):
        objective = wide("whole_word_masking", words, mask_rate=rate)
        examples, _ = objective.corrupt(rows, np.arange(200, dtype=np.uint16), 1)
        assert set(examples.columns["label_positions"].lengths.tolist()) == {4}
        assert objective.tally(examples) == counted
    objective = wide("masked_lm", words, mask_rate=0.5)
    examples, _ = objective.corrupt(rows, np.arange(200, dtype=np.uint16), 1)
    assert objective.tally(examples) == {}, "half of the row is as many as were asked for"
