"""Numbers for a generator's draws: one a label, the same however rows are spread over batches."""

from __future__ import annotations

import numpy as np
import torch

from clozeline.train.data.stream.labels import sample_words
from tests.train.synthetic import LENGTH, random_rows

ORIGIN = np.array([[0, 2, 5], [0, 2, 6], [1, 2, 5], [0, 6, 2], [0, 0, 0], [-1, -1, -1]])


def words(rows: slice = slice(0, 6), seed: int = 1, step: int = 3) -> list[list[int]]:
    """The words of each row of a batch."""
    tensors = random_rows(4, rows.stop - rows.start, rows.start, 6)
    found = sample_words(seed, step, ORIGIN[rows], tensors)
    counts = torch.bincount(tensors["label_index"] // LENGTH, minlength=rows.stop - rows.start)
    return [part.tolist() for part in found.split(counts.tolist())]


def test_they_depend_on_seed_step_and_row_alone() -> None:
    whole = words()
    assert [*words(slice(0, 1)), *words(slice(1, 4)), *words(slice(4, 6))] == whole
    every = [word for found in (whole, words(seed=2), words(step=4)) for row in found for word in row]
    assert len(set(every)) == len(every) == 3 * sum(map(len, whole))
    assert all(0 <= word < 1 << 32 for word in every)


def test_a_further_label_changes_none_before_it() -> None:
    tensors = random_rows(4, 6, 0, 6)
    inside = tensors["label_index"] // LENGTH != 2
    fewer = sample_words(1, 3, ORIGIN, {**tensors, "label_index": tensors["label_index"][inside]})
    whole = words()
    assert fewer.tolist() == [word for row, found in enumerate(whole) if row != 2 for word in found]
    assert sample_words(1, 3, ORIGIN, {**tensors, "label_index": tensors["label_index"][:0]}).shape == (0,)


def test_they_are_evenly_spread() -> None:
    """Means of 20,000 words and of their upper and lower bits, within five standard errors."""
    tensors = {"input_ids": torch.zeros(2000, 10), "label_index": torch.arange(20_000)}
    origin = np.stack((np.zeros(2000, np.int64), np.arange(2000) // 60, np.arange(2000) % 60), axis=1)
    found = sample_words(0, 1, origin, tensors).double()
    for part, size in ((found, 2**32), (found // 2**16, 2**16), (found % 2**16, 2**16)):
        assert abs((part / size).mean() - 0.5) < 5 * (1 / 12 / 20_000) ** 0.5
