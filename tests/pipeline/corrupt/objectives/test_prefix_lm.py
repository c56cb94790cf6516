"""Prefix LM: admissible cuts equally likely, both forms of a row, UL2's suffix law, the kernel against a loop."""

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.seeding import LABELS, random_bits
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, variants_of, wide
from tests.pipeline.corruption_cases import EOS, WORDS, samples

TWO_SIDES = {"architecture": "encoder_decoder"}
LENGTHS = [2, 3, 4, 17, 64, 300, 568] * 30


def slow(ids, key, suffix):
    """Content tokens before the cut; `suffix` in percent."""
    n, most = len(ids), len(ids) - 1
    if suffix is not None:
        most = min(most, max(1, 2 * max(1, (n * suffix + 50) // 100) - 1))
    word = int(random_bits(np.array([key]), LABELS, 1)[0, 0]) >> 32
    return n - most + ((word * most) >> 32)


@pytest.mark.parametrize("suffix", [None, 25])
def test_equals_a_plain_loop(suffix):
    options = {"suffix_rate": suffix / 100} if suffix else {}
    decoder, sides = wide("prefix_lm", **options), wide("prefix_lm", **options, **TWO_SIDES)
    rows = samples([n for n in LENGTHS if n >= 2])
    for (key, sample, whole), parts in zip(keyed(decoder, rows), corrupt(sides, rows), strict=True):
        ids = sample["ids"].tolist()
        cut = slow(ids, key, suffix)
        assert 1 <= cut <= len(ids) - 1
        assert whole["input_ids"].tolist() == [*ids, EOS]
        assert whole["prefix_length"].tolist() == [cut]
        assert parts["input_ids"].tolist() == [*ids[:cut], EOS]
        assert parts["target_ids"].tolist() == [*ids[cut:], EOS]


@pytest.mark.parametrize(
    ("options", "longest"),
    [
        ({}, 511),
        ({"mode": "S"}, 510),
        (TWO_SIDES, 512),
        ({**TWO_SIDES, "mode": "S"}, 511),
        ({**TWO_SIDES, "mode": "S", "suffix_rate": 0.25}, 511),
        ({**TWO_SIDES, "suffix_rate": 0.75}, 512),
    ],
)
def test_both_sides_of_a_full_row_fit_whatever_the_cut(options, longest):
    objective = build_objective({"name": "prefix_lm", **options}, WORDS)
    assert objective.content_length == longest
    examples = corrupt(objective, samples([longest] * 2000))
    for name in set(examples.columns) - {"prefix_length"}:
        assert int(examples.columns[name].lengths.max()) <= 512, name


def test_mode_token_stands_in_front_and_belongs_to_the_prefix():
    mode, text = WORDS.modes["S"], list(range(200, 208))
    for options in ({}, TWO_SIDES):
        (plain,) = variants_of(wide("prefix_lm", **options), text, count=1)
        (moded,) = variants_of(wide("prefix_lm", mode="S", **options), text, count=1)
        assert moded["input_ids"].tolist() == [mode, *plain["input_ids"].tolist()]
        if options:
            assert moded["target_ids"].tolist() == plain["target_ids"].tolist()
        else:
            assert moded["prefix_length"].tolist() == [plain["prefix_length"][0] + 1]
