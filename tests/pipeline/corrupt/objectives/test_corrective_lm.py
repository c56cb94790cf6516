"""Corrective LM: the masked block and the crop, against plain loops and their laws."""

from fractions import Fraction
from math import floor

import pytest

from clozeline.seeding import CROPS
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, masked, wide
from tests.pipeline.corruption_cases import MASK, samples
from tests.pipeline.word_cases import drawn


@pytest.mark.parametrize("crop_rate", ["0", "0.1", "0.5", "1"])
@pytest.mark.parametrize("specials", [0.0, 0.1])
def test_equals_a_plain_loop(crop_rate, specials):
    objective = wide("corrective_lm", crop_rate=float(crop_rate))
    plain = wide("masked_lm", label="corrective_lm", mask_share=1, random_share=0)
    rows = samples([1 + (37 * row) % 90 for row in range(300)] + [510] * 5, specials=specials)
    others = keyed(plain, rows, variant=4, seed=6)
    for (key, sample, example), (_, _, other) in zip(keyed(objective, rows, variant=4, seed=6), others, strict=True):
        n = len(sample["ids"])
        out = min(n - 1, max(1, floor(Fraction(crop_rate) * n + Fraction(1, 2)))) if float(crop_rate) else 0
        assert example["crop_length"].tolist() == [n - out]
        assert example["crop_start"].tolist() == [((drawn(key, CROPS, 1)[0] >> 32) * (out + 1)) >> 32]
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
