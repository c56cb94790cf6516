"""Run an objective over sample rows: the objective, its examples, the keys of its draws, and why rows are skipped."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.config import to_plain
from pipeline.objectives import Objective, Skip, build_objective
from pipeline.registry import find
from pipeline.rows import Example, Row, Rows
from pipeline.seeding import kernel_keys
from pipeline.vocabulary import Vocabulary
from tests.pipeline.corruption_cases import WORDS, one_sample


def wide(name: str, words: Vocabulary = WORDS, label: str | None = None, **options: Any) -> Objective:
    """Return an objective whose rows may have 600 content tokens."""
    fields = {field.name for field in dataclasses.fields(find("pipeline.objectives", name).Options)}
    lengths = {key: 700 for key in ("max_length", "input_length") if key in fields}
    return build_objective({"name": name, **lengths, **options}, words, label)


def variants_of(
    objective: Objective, ids: Sequence[int], sentence_starts: Sequence[int] = (0,), count: int = 4000
) -> list[Example]:
    """Return the examples of one sample under variants 0 .. count - 1."""
    rows = one_sample(ids, sentence_starts, objective.vocabulary, count)
    examples, skips = objective.corrupt(rows, np.arange(count, dtype=np.uint16), seed=1)
    assert not skips.any()
    return list(examples)


def reachable(examples: Sequence[Example], **wanted: Sequence[int]) -> bool:
    """Return whether some variant has these features."""
    return any(all(example[name].tolist() == list(value) for name, value in wanted.items()) for example in examples)


def corrupt(objective: Objective, rows: Rows, variant: int | NDArray[Any] = 0, seed: int = 1) -> Rows:
    """Return examples of rows that all can be corrupted, under one variant or one of each row."""
    examples, skips = objective.corrupt(rows, np.full(len(rows), variant, np.uint16), seed)
    assert not skips.any(), skips
    return examples


def reasons(objective: Objective, rows: Rows) -> list[str]:
    """Return why each row is skipped; "none" for those that are not."""
    return [Skip(skip).reason for skip in objective.corrupt(rows, np.zeros(len(rows), np.uint16), 1)[1]]


def example_of(**features: Sequence[int]) -> Example:
    """Return an example with these features alone."""
    return Example({}, {name: np.array(values, np.uint16) for name, values in features.items()})


def keyed(objective: Objective, rows: Rows, variant: int = 0, seed: int = 1) -> Iterator[tuple[Any, Row, Example]]:
    """Corrupt rows; yield the key of a row's draws, its sample and its example. Rows of specials only are skipped."""
    variants = np.full(len(rows), variant, np.uint16)
    examples, skips = objective.corrupt(rows, variants, seed)
    keys = kernel_keys(seed, objective.label, rows.fixed["uid"], variants)
    for key, skip, sample, example in zip(keys, skips, rows, examples, strict=True):
        if skip:
            assert objective.vocabulary.special[sample["ids"]].all()
        else:
            yield key, sample, example


def plain_options(objective: Objective) -> dict[str, Any]:
    """Return resolved options."""
    plain: dict[str, Any] = to_plain(objective.options)
    return plain
