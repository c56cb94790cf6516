"""Compare texts by their vectors: cosine similarities of a model, and of the tokens that texts share."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import normalize
from torch import Tensor

from clozeline.model.scoring.batches import batch_tensors
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.tools.runs.evaluation.predictions import iterate_batches
from clozeline.tools.runs.evaluation.task_run import TaskRun

_SIDES: Final = ("input_ids", "input_ids_b")
_ROUNDING: Final = 1e-6
"""cosines closer than this are equal: the same text in two batches"""


def pair_share(opened: TaskRun, rows: Rows, rank: int, size: int) -> dict[int, float]:
    """Return the cosine of the two texts of each row in one process's share, by row index.

    For a task without numbers, such as translation retrieval: 1 if no other second text of the split is closer to the
    first text than its own, else 0.
    """
    all_second = None
    if opened.facts.metrics == ("accuracy",):
        parts = [_encode_side(opened, rows, "input_ids_b", batch) for batch in iterate_batches(rows, 0, 1)]
        all_second = torch.cat(parts)
    cosines: dict[int, float] = {}
    for batch in iterate_batches(rows, rank, size):
        first, second = (_encode_side(opened, rows, side, batch) for side in _SIDES)
        cosines |= dict(zip(batch.tolist(), _compare(first, second, all_second).tolist(), strict=True))
    return cosines


def pair_baselines(opened: TaskRun, rows: Rows) -> dict[str, NDArray[np.float64]]:
    """Return each row's cosine of the counts of tokens, or whether its texts retrieve each other by it, as `words`."""
    first, second = (_token_counts(rows.columns[side], opened.trained.model.vocab_size) for side in _SIDES)
    cosines = np.asarray(first.multiply(second).sum(1))[:, 0]
    if opened.facts.metrics == ("accuracy",):
        cosines = (cosines >= (first @ second.T).max(1).toarray()[:, 0] - _ROUNDING).astype(np.float64)
    return {"words": cosines}


def _token_counts(texts: Ragged, size: int) -> sparse.csr_matrix:
    """Return how often each token is in each text, as rows of length one."""
    counts = sparse.csr_matrix((np.ones(len(texts.values)), texts.values, texts.offsets), (len(texts), size))
    counts.sum_duplicates()  # a token that is repeated
    return normalize(counts)


def _compare(first: Tensor, second: Tensor, all_second: Tensor | None) -> Tensor:
    """Return the cosine of each pair [n], or 1 if no vector in `all_second` is closer, else 0."""
    cosines = (first * second).sum(-1)
    return cosines if all_second is None else (cosines >= (first @ all_second.T).amax(1) - _ROUNDING).float()


def _encode_side(opened: TaskRun, rows: Rows, side: str, batch: NDArray[Any]) -> Tensor:
    model = opened.trained.model
    tensors = batch_tensors(_token_rows(rows.take(batch), side), model.family.device)
    with torch.no_grad():
        return model.logits(tensors)[opened.head].cpu()


def _token_rows(rows: Rows, side: str) -> Sequence[list[int]]:
    return [rows.columns[side][row].tolist() for row in range(len(rows))]
