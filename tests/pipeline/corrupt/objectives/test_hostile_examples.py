"""`uncorrupt` of examples that nothing wrote: the error that it promises, or tokens, and never another error."""

import random

import numpy as np
import pytest

from clozeline import registry
from clozeline.pipeline.rows import Example
from tests.pipeline.corrupt.objectives.runner import VARIETIES, wide
from tests.pipeline.corruption_cases import samples, vocabulary

CASES = [
    (name, options)
    for name in registry.names("clozeline.pipeline.corrupt.objectives")
    for options in ({}, *VARIETIES.get(name, ()))
]


def examples_of(objective):
    rows = samples([5, 17, 40, 64] * 2, objective.vocabulary, seed=3, sentences=4)
    examples, skips = objective.corrupt(rows, np.arange(len(rows), dtype=np.uint16) % 2, seed=5)
    return [example for example, skip in zip(examples, skips, strict=True) if not skip]


def changed(column, choice):
    """Yield wrong columns of the same type: shorter, longer, in another order, out of range, of another length."""
    limit = np.iinfo(column.dtype).max if column.dtype.kind == "u" else 1e9
    yield column[:0]
    yield column[:-1]
    yield column[1:]
    yield np.append(column, column[-1:] if len(column) else limit).astype(column.dtype)
    yield column[::-1]
    yield np.full_like(column, limit)
    yield np.zeros_like(column)
    yield np.full(choice.randrange(1, 3 * len(column) + 3), limit, column.dtype)
    for _ in range(8):
        one = column.copy()
        if len(one):
            one[choice.randrange(len(one))] = min(limit, choice.choice([0, 1, 2, len(one), 7, 300, limit]))
        yield one


def hostile(example, choice):
    columns = dict(example.columns)
    for name, column in columns.items():
        yield Example(example.fixed, {other: columns[other] for other in columns if other != name})
        for one in changed(column, choice):
            yield Example(example.fixed, {**columns, name: one})
            other = choice.choice(list(columns))
            yield Example(example.fixed, {**columns, name: one, other: next(changed(columns[other], choice))})
        for other in columns:
            yield Example(example.fixed, {**columns, name: columns[other], other: column})
    yield Example(example.fixed, {})
    yield Example({**example.fixed, "part": np.uint8(255)}, columns)
    yield Example({}, columns)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_wrong_example_is_refused_as_promised(name, options):
    """ValueError that begins with the objective's label, or a flat array of ids."""
    objective, choice, tried = wide(name, vocabulary(1000), **options), random.Random(name), 0
    refused = []
    for example in examples_of(objective):
        for wrong in hostile(example, choice):
            tried += 1
            try:
                found = objective.uncorrupt(wrong)
            except ValueError as error:
                refused.append(str(error))
            else:
                assert (found.ndim, found.dtype.kind) in ((1, "u"), (1, "i"))
    assert tried > 200
    assert [message for message in refused if not message.startswith("objective '")] == []


@pytest.mark.parametrize(
    "name", ["masked_lm", "next_sentence_prediction", "sentence_order_prediction", "translation_lm"]
)
def test_labels_that_do_not_fit_their_places_are_never_spread(name):
    """One label at several places would be written to all of them."""
    objective = wide(name, vocabulary(1000))
    (example, *_) = [one for one in examples_of(objective) if len(one["label_ids"]) > 1]
    for wrong in ({"label_ids": example["label_ids"][:1]}, {"label_positions": example["label_positions"][::-1]}):
        with pytest.raises(ValueError, match="label_positions"):
            objective.uncorrupt(Example(example.fixed, {**example.columns, **wrong}))
