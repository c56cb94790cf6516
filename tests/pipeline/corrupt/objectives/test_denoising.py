"""Denoising pairs: the frame around every noise, content only, and examples that contradict themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline import registry
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.corrupt.objectives._denoising import LOST, DenoisingPair, require_content_only
from clozeline.pipeline.kernels.ragged import IdSet
from clozeline.pipeline.rows import Example, Ragged
from tests.pipeline.corrupt.objectives.runner import corrupt
from tests.pipeline.corruption_cases import EOS, FIRST_CONTENT, WORDS, samples

NAMES = [
    name
    for name in registry.names("clozeline.pipeline.corrupt.objectives")
    if issubclass(registry.find("clozeline.pipeline.corrupt.objectives", name), DenoisingPair)
]
HEADS = {"none": [], "bos": [4], "cls": [1]}


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 12), max_size=6), max_size=6))
def test_the_first_reserved_token_is_named_with_its_row_and_place(rows: list[list[int]]) -> None:
    special = IdSet(np.arange(20) < 3)
    ids = Ragged.from_lists(rows, np.uint16)
    wrong = [(row, place, token) for row, one in enumerate(rows) for place, token in enumerate(one) if token < 3]
    if not wrong:
        require_content_only(ids, special, "toy")
        return
    row, place, token = wrong[0]
    with pytest.raises(ValueError, match=rf"^toy: row {row} holds the reserved id {token} at {place}; expected"):
        require_content_only(ids, special, "toy")


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", NAMES)
def test_frames_stand_around_the_noise_and_the_original(name: str, head: str) -> None:
    objective = build_objective({"name": name, "max_length": 64, "source_head": head, "decoder_start": "cls"}, WORDS)
    assert objective.frame.decoder_start == WORDS.specials["cls"]
    assert objective.content_length == 63 - len(HEADS[head])
    rows = samples([2, 3, 17, objective.content_length] * 20, sentences=2)
    for sample, example in zip(rows, corrupt(objective, rows), strict=True):
        row, target = example["input_ids"].tolist(), example["target_ids"].tolist()
        assert target == [*sample["ids"].tolist(), EOS]
        assert row[: len(HEADS[head])] == HEADS[head]
        assert row[-1] == EOS
        assert len(row) <= 64
        restored = objective.uncorrupt(example).tolist()
        assert restored == [*HEADS[head], *target]


@pytest.mark.parametrize("name", NAMES)
def test_another_target_contradicts_the_noise_wherever_the_noise_kept_a_token(name: str) -> None:
    """Undoing the noise says which tokens are known; each of them is compared, the lost ones cannot be."""
    objective = build_objective({"name": name, "max_length": 64}, WORDS)
    assert isinstance(objective, DenoisingPair)
    for example in corrupt(objective, samples([5, 12, 40], sentences=3)):
        target = example["target_ids"]
        noise = {feature.name: example[feature.name] for feature in objective.noise_features}
        restored = objective.undo(example["input_ids"][1:-1].astype(np.int64), noise, len(target) - 1)
        assert (restored != LOST).any()
        for place, known in enumerate((restored != LOST).tolist()):
            changed = target.copy()
            changed[place] = FIRST_CONTENT + (changed[place] + 1 - FIRST_CONTENT) % 400
            wrong = Example(example.fixed, {**example.columns, "target_ids": changed})
            if known:
                with pytest.raises(ValueError, match="contradict each other"):
                    objective.uncorrupt(wrong)
            else:
                assert objective.uncorrupt(wrong)[1 + place] == changed[place]
