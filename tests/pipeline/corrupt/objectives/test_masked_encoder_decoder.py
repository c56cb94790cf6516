"""Masked LM of an encoder-decoder: the masked block, and what a batch makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, masked, variants_of, wide
from tests.pipeline.corruption_cases import MASK, WORDS, samples
from tests.pipeline.pair_cases import slow_masks


def test_equals_a_plain_loop() -> None:
    rows = samples([1, 2, 3, 17, 64, 300, 568] * 40)
    for key, sample, example in keyed(wide("masked_encoder_decoder"), rows):
        assert masked(example) == slow_masks([1, *sample["ids"].tolist(), 2], key, 150_000, WORDS)


def test_masks_are_those_of_masked_lm_under_the_same_label() -> None:
    rows = samples([40, 300], specials=0.1)
    ours = corrupt(wide("masked_encoder_decoder", WORDS, "same"), rows)
    encoder = corrupt(wide("masked_lm", WORDS, "same"), rows)
    assert all(np.array_equal(ours.columns[name].values, encoder.columns[name].values) for name in ours.columns)


@pytest.mark.parametrize("start", ["bos", "pad"])
def test_decoder_opens_with_the_token_asked_for(start: str) -> None:
    objective = build_objective({"name": "masked_encoder_decoder", "decoder_start": start}, WORDS)
    assert objective.frame.decoder_start == WORDS.specials[start]


def test_rate_1_hides_everything() -> None:
    blind = wide("masked_encoder_decoder", mask_rate=1.0, mask_share=1.0, random_share=0)
    (example,) = variants_of(blind, [300, 301, 302], count=1)
    assert example["input_ids"].tolist() == [1, MASK, MASK, MASK, 2]
    assert example["label_ids"].tolist() == [300, 301, 302]
