"""Token deletion: exact counts, uniform positions, the plain loop."""

from __future__ import annotations

import numpy as np
import pytest

from clozeline.seeding import POSITIONS
from tests.pipeline.corrupt.objectives.runner import corrupt, example_of, keyed, wide
from tests.pipeline.corruption_cases import samples
from tests.pipeline.laws import chi_square_is_plausible
from tests.pipeline.word_cases import smallest


@pytest.mark.parametrize(("rate", "ppm"), [(0.15, 150_000), (1.0, 1_000_000)])
def test_equals_a_plain_loop(rate: float, ppm: int) -> None:
    rows = samples([2 + (37 * row) % 90 for row in range(300)])
    for key, sample, example in keyed(wide("token_deletion", noise_density=rate), rows):
        ids = sample["ids"].tolist()
        k = min(len(ids) - 1, max(1, (len(ids) * ppm + 500_000) // 1_000_000))
        kept = sorted(smallest(key, POSITIONS, len(ids), len(ids))[k:])
        assert example["kept_positions"].tolist() == kept
        assert example["input_ids"].tolist() == [4, *(ids[i] for i in kept), 5]
        assert example["target_ids"].tolist() == [*ids, 5]


def test_positions_are_uniform() -> None:
    examples = corrupt(wide("token_deletion"), samples([60] * 4000))
    gone = 4000 - np.bincount(examples.columns["kept_positions"].values, minlength=60)
    assert chi_square_is_plausible(gone, np.full(60, 600.0), 59, scale=1 - 9 / 60)


@pytest.mark.parametrize("kept", [[0, 1], [0, 9, 2]])
def test_a_contradicting_example_is_an_error(kept: list[int]) -> None:
    example = example_of(input_ids=[4, 300, 301, 302, 5], target_ids=[300, 301, 302, 303, 5], kept_positions=kept)
    with pytest.raises((ValueError, IndexError)):
        wide("token_deletion").uncorrupt(example)
