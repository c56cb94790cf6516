"""Denoising autoencoding: exact counts, uniform positions, the plain loop."""

from __future__ import annotations

import numpy as np

from clozeline.seeding import POSITIONS
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, wide
from tests.pipeline.corruption_cases import MASK, samples
from tests.pipeline.laws import chi_square_is_plausible
from tests.pipeline.word_cases import smallest


def test_equals_a_plain_loop() -> None:
    rows = samples([1 + (37 * row) % 90 for row in range(300)])
    for key, sample, example in keyed(wide("denoising_autoencoding"), rows):
        ids = sample["ids"].tolist()
        k = max(1, (len(ids) * 150_000 + 500_000) // 1_000_000)
        noise = sorted(smallest(key, POSITIONS, len(ids), k))
        assert example["noise_positions"].tolist() == noise
        assert example["input_ids"].tolist() == [4, *(MASK if i in noise else t for i, t in enumerate(ids)), 5]
        assert example["target_ids"].tolist() == [*ids, 5]


def test_positions_are_uniform() -> None:
    examples = corrupt(wide("denoising_autoencoding"), samples([60] * 4000))
    observed = np.bincount(examples.columns["noise_positions"].values, minlength=60)
    assert chi_square_is_plausible(observed, np.full(60, 600.0), 59, scale=1 - 9 / 60)


def test_everything_masked() -> None:
    example = corrupt(wide("denoising_autoencoding", mask_rate=1.0), samples([5])).row(0)
    assert example["input_ids"].tolist() == [4, *[MASK] * 5, 5]
