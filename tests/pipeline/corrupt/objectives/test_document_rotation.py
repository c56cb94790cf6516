"""Document rotation: a rotation, never the identity, uniform."""

from __future__ import annotations

import numpy as np

from clozeline.seeding import ORDERS, random_bits
from tests.pipeline.corrupt.objectives.runner import keyed, variants_of, wide
from tests.pipeline.corruption_cases import samples
from tests.pipeline.laws import chi_square_is_plausible


def test_equals_a_plain_loop() -> None:
    rows = samples([2, 3, 17, 64, 300, 568] * 20)
    for key, sample, example in keyed(wide("document_rotation"), rows):
        ids = sample["ids"].tolist()
        word = int(random_bits(np.array([key]), ORDERS, 1)[0, 0]) >> 32
        rotation = 1 + ((word * (len(ids) - 1)) >> 32)
        assert example["rotation"].tolist() == [rotation]
        assert example["input_ids"].tolist() == [4, *ids[rotation:], *ids[:rotation], 5]


def test_rotation_is_uniform_on_1_to_n_minus_1() -> None:
    examples = variants_of(wide("document_rotation"), list(range(300, 321)), count=10_000)
    observed = np.bincount([int(example["rotation"][0]) for example in examples], minlength=21)
    assert observed[0] == 0
    assert len(observed) == 21
    assert chi_square_is_plausible(observed[1:], np.full(20, 500.0), 19)
