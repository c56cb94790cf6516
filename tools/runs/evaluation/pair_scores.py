"""Texts that are compared by their vectors: cosines of a model, and of what has learnt nothing."""

from __future__ import annotations

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
from clozeline.tools.runs.evaluation.predictions import dealt
from clozeline.tools.runs.evaluation.task_run import TaskRun

_SIDES: Final = ("input_ids", "input_ids_b")
_ROUNDING: Final = 1e-6
"""Cosines nearer to each other are equal: those of one text in two batches."""


def pair_share(opened: TaskRun, rows: Rows, rank: int, size: int) -> dict[int, float]:
    """Return the cosine of the two texts of each row of one process's share, by the number of the row.

    Of a task without numbers, such as translations, it is 1 where no other second text of the split is nearer to the
    first one than its own, else 0.

    Args:
        opened: run and split.
        rows: of the split.
        rank: of this process.
        size: number of processes.
    """
    retrieved = opened.facts.metrics == ("accuracy",)
    offered = (
        torch.cat([_vectors(opened, rows, "input_ids_b", batch) for batch in dealt(rows, 0, 1)]) if retrieved else None
    )
    found: dict[int, float] = {}
    for batch in dealt(rows, rank, size):
        first, second = (_vectors(opened, rows, side, batch) for side in _SIDES)
        found |= dict(zip(batch.tolist(), _compared(first, second, offered).tolist(), strict=True))
    return found


def pair_baselines(opened: TaskRun, rows: Rows) -> dict[str, NDArray[np.float64]]:
    """Return the cosine of each row, or whether its texts find each other, by models that have learnt nothing.

    `untrained`: means of random vectors of the tokens, which compare the tokens that texts share; `centred`: less the
    mean of all texts (the two rows of STS-B that a trained encoder must be above); `overlap`: shared words, by all
    words of both (Jaccard), of tasks with numbers.

    Args:
        opened: run and split.
        rows: of the split.
    """
    retrieved = opened.facts.metrics == ("accuracy",)
    cosines = _untrained(opened, [_rows(rows, side) for side in _SIDES], retrieved=retrieved)
    if retrieved:
        return cosines
    tokenizer = opened.trained.tokenizer
    texts = (texts_of(Rows({}, {"input_ids": rows.columns[side]}), tokenizer) for side in _SIDES)
    pairs = [(*first, *second) for first, second in zip(*texts, strict=True)]
    return {**cosines, "overlap": shared_words(pairs)[:, 0]}


def row_baselines(opened: TaskRun, rows: Rows) -> dict[str, NDArray[np.float64]]:
    """Return the same cosines of rows that hold both texts, each text read apart and without its frame.

    A text of nothing but special tokens is like no other: its cosine is 0.

    Args:
        opened: run and split.
        rows: of the split.
    """
    parts = parts_of(rows, opened.trained.tokenizer)
    sides = [[of[place] if place < len(of) else [] for of in parts] for place in (0, 1)]
    return _untrained(opened, sides, retrieved=False)


def _untrained(
    opened: TaskRun, sides: Sequence[Sequence[Sequence[int]]], *, retrieved: bool
) -> dict[str, NDArray[np.float64]]:
    """Return what `_compared` does of means of random vectors, one for each token, and of those less their mean."""
    trained = opened.trained
    size = trained.model.vocab_size, trained.model.config.embedding_width
    table = torch.randn(size, generator=torch.Generator().manual_seed(opened.seed))
    plain = [torch.stack([table[list(ids)].sum(0) / max(1, len(ids)) for ids in side]) for side in sides]
    middle = torch.cat(plain).mean(0)
    cosines = {}
    for name, pair in {"untrained": plain, "centred": [side - middle for side in plain]}.items():
        first, second = (F.normalize(side, dim=-1) for side in pair)
        cosines[name] = _compared(first, second, second if retrieved else None).numpy().astype(np.float64)
    return cosines


def _compared(first: Tensor, second: Tensor, offered: Tensor | None) -> Tensor:
    """Return the cosine of each pair [n], or 1 where none of the offered vectors is nearer to the first, else 0."""
    cosines = (first * second).sum(-1)
    return cosines if offered is None else (cosines >= (first @ offered.T).amax(1) - _ROUNDING).float()


def _vectors(opened: TaskRun, rows: Rows, side: str, batch: NDArray[Any]) -> Tensor:
    """Return the vectors of one text of some rows, [n, dim]."""
    model = opened.trained.model
    tensors = batch_tensors(_rows(rows.take(batch), side), model.family.tokens.weight.device)
    with torch.no_grad():
        return model.logits(tensors)[opened.head].cpu()


def _rows(rows: Rows, side: str) -> Sequence[list[int]]:
    return [rows.columns[side][row].tolist() for row in range(len(rows))]
