"""Compare texts by their vectors: cosine similarities of a model and of untrained baselines."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from clozeline.model.scoring.batches import batch_tensors
from clozeline.pipeline.rows import Rows
from clozeline.tools.runs.evaluation.baselines import parts_of, shared_words, texts_of
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
    """Return each row's cosine, or whether its texts retrieve each other, for untrained baselines.

    `untrained`: means of random token vectors, which compare the tokens that texts share; `centred`: minus the mean of
    all texts (the two STS-B baselines that a trained encoder must beat); `overlap`: Jaccard similarity of the words,
    for tasks with numbers.
    """
    is_retrieval = opened.facts.metrics == ("accuracy",)
    cosines = _random_vector_cosines(opened, [_token_rows(rows, side) for side in _SIDES], is_retrieval=is_retrieval)
    if is_retrieval:
        return cosines
    tokenizer = opened.trained.tokenizer
    texts = (texts_of(Rows({}, {"input_ids": rows.columns[side]}), tokenizer) for side in _SIDES)
    pairs = [(*first, *second) for first, second in zip(*texts, strict=True)]
    return {**cosines, "overlap": shared_words(pairs)[:, 0]}


def row_baselines(opened: TaskRun, rows: Rows) -> dict[str, NDArray[np.float64]]:
    """Return the same cosines for rows that hold both texts, each text taken without special tokens.

    A text of only special tokens has cosine 0 with every other.
    """
    parts = parts_of(rows, opened.trained.tokenizer)
    sides = [[texts_of_row[index] if index < len(texts_of_row) else [] for texts_of_row in parts] for index in (0, 1)]
    return _random_vector_cosines(opened, sides, is_retrieval=False)


def _random_vector_cosines(
    opened: TaskRun, sides: Sequence[Sequence[Sequence[int]]], *, is_retrieval: bool
) -> dict[str, NDArray[np.float64]]:
    """Return `_compare` of means of random vectors, one per token, and of those minus their mean."""
    trained = opened.trained
    size = trained.model.vocab_size, trained.model.config.embedding_width
    # one random vector per token; a text is their mean
    table = torch.randn(size, generator=torch.Generator().manual_seed(opened.seed))
    plain = [torch.stack([table[list(ids)].sum(0) / max(1, len(ids)) for ids in side]) for side in sides]
    middle = torch.cat(plain).mean(0)
    cosines = {}
    for name, pair in {"untrained": plain, "centred": [side - middle for side in plain]}.items():
        first, second = (F.normalize(side, dim=-1) for side in pair)
        cosines[name] = _compare(first, second, second if is_retrieval else None).numpy().astype(np.float64)
    return cosines


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
