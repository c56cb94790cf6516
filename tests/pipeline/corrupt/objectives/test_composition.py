"""Composition: steps draw as they would alone, and are undone backwards."""

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import Draws
from clozeline.pipeline.corrupt.objectives._denoising import TokenRows
from tests.pipeline.corrupt.objectives.runner import corrupt, wide
from tests.pipeline.corruption_cases import MASK, samples

STEPS = ["sentence_reordering", "document_rotation", "token_deletion", "denoising_autoencoding", "text_infilling"]
THREE = [{"name": "sentence_reordering"}, {"name": "document_rotation"}, {"name": "text_infilling"}]


def steps_of(objective):
    return objective.steps


@pytest.mark.parametrize(
    "steps",
    [THREE, THREE[:2], THREE[1:], THREE[2:], [THREE[1], THREE[0], THREE[2]], [{"name": name} for name in STEPS]],
)
def test_equals_its_steps_one_by_one(steps):
    objective = wide("composition", steps=steps)
    rows = samples([1, 2, 5, 17, 64, 300, 568] * 10)
    examples = corrupt(objective, rows)
    draws = Draws(1, rows.fixed["uid"], np.zeros(len(rows), np.uint16))
    text = TokenRows(rows.columns["ids"], rows.columns["sentence_starts"])
    for step in steps_of(objective):
        ids, noise = wide(step.name).noise(text, draws)
        for name, column in noise.items():
            assert (column.values == examples.columns[f"{step.name}_{name}"].values).all()
        text = TokenRows(ids, step.starts_after(text, noise))
    for row, example in enumerate(examples):
        assert example["input_ids"].tolist() == [4, *text.ids[row].tolist(), 5]
        assert np.array_equal(objective.uncorrupt(example), objective.add_special_tokens(rows.row(row)["ids"]))


@pytest.mark.parametrize("name", ["sentence_reordering", "document_rotation", "token_deletion", "text_infilling"])
def test_sentence_starts_follow_their_tokens(name):
    """Every token of the corrupted row that began a sentence, and is still alone, begins one."""
    step = wide(name)
    rows = samples([1, 2, 9, 40, 120] * 30)
    text = TokenRows(rows.columns["ids"], rows.columns["sentence_starts"])
    numbered = TokenRows(type(text.ids)(np.arange(len(text.ids.values)) + 1000, text.ids.offsets), text.sentence_starts)
    ids, noise = step.noise(numbered, Draws(1, rows.fixed["uid"], np.zeros(len(rows), np.uint16)))
    after = step.starts_after(numbered, noise)
    for row in range(len(rows)):
        found, old = ids[row].tolist(), numbered.ids[row]
        starts = after[row].tolist()
        assert starts[0] == 0
        assert (np.diff(after[row].astype(int)) > 0).all()
        assert starts[-1] < len(found)
        begins = set(old[numbered.sentence_starts[row]].tolist())
        marked = {found[start] for start in starts[1:]}
        for token in begins & set(found[1:]):
            assert token in marked or name == "text_infilling"
        if name == "text_infilling":
            _starts_between_marks(found, starts, old, begins)


def _starts_between_marks(found, starts, old, begins):
    """A kept start is a start, or a mark of length 0 is before it and begins the sentence."""
    for place, token in enumerate(found[1:], 1):
        if token in begins:
            assert place in starts or found[place - 1] == MASK
    for start in starts[1:]:
        assert found[start] in begins or MASK in (found[start], found[start - 1])


def test_rows_that_passed_are_counted():
    objective = wide("composition", steps=THREE)
    rows = samples([1, 1, 5, 40, 0], sentences=1)
    examples, _ = objective.corrupt(rows, np.zeros(5, np.uint16), 1)
    assert objective.tally(examples) == {"passed_through": {"sentence_reordering": 4, "document_rotation": 2}}
