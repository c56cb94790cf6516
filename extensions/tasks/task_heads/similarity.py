"""Compare texts by the cosines of their vectors, and score cosines or retrieval."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.task_heads._metrics import NUMBER_METRICS, RETRIEVAL_METRICS
from clozeline.extensions.tasks.task_heads._numbers import NumberTaskHead
from clozeline.extensions.tasks.task_heads._task_head import (
    Judged,
    Metric,
    TaskModel,
    finite,
    iterate_batches,
)
from clozeline.model.configuration.head import HeadOptions
from clozeline.model.configuration.key_types import UNIT_RANGE
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads.similarity import SimilarityHead
from clozeline.model.scoring.batches import batch_tensors
from clozeline.pipeline.rows import Ragged, RowBatch

_SIDES: Final = ("input_ids", "input_ids_b")
_ROUNDING: Final = 1e-6
"""cosines closer than this are equal: the same text in two batches"""


class SimilarityTaskHead(NumberTaskHead):
    """Predicts the cosine of a pair, or in a retrieval task 1 or 0.

    It is 1 if no second text of the split is closer to the first text than its partner.
    """

    of_head = "similarity"
    unit = "pairs"
    layout = None

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return RETRIEVAL_METRICS if self._retrieves else NUMBER_METRICS

    def configure(self, model: ModelConfig, name: str, where: str) -> HeadOptions:
        """Return the head with the lowest score of a positive pair, and the range of the task."""
        head = model.heads[name]
        metadata = self.metadata
        if not isinstance(head, SimilarityHead.Options):
            return head
        if metadata.positive_threshold is None and head.negatives != "none":
            raise ConfigurationError(
                f"model.heads.{name}.negatives: {where} also has pairs with a low score, which are "
                "not positive: set it to none, or make the set again with "
                "tasks.similarity.positive, the lowest score of a positive pair"
            )

        unset = head.negatives == "none" and head.range == UNIT_RANGE
        return replace(
            head,
            positive_threshold=metadata.positive_threshold,
            range=(metadata.low, metadata.high) if unset else head.range,
        )

    @property
    def _retrieves(self) -> bool:
        return self.metadata.metrics == ("accuracy",)

    def predict(
        self, task: TaskModel, rows: RowBatch, rank: int = 0, size: int = 1
    ) -> dict[int, Any]:
        # in a retrieval task, encode the second texts of the entire split
        all_second = None

        if self._retrieves:
            parts = [
                _encode(task, rows.take(batch), "input_ids_b")
                for batch in iterate_batches(rows, 0, 1)
            ]
            all_second = torch.cat(parts)

        # compare the pairs of this process
        predictions: dict[int, object] = {}

        for batch in iterate_batches(rows, rank, size):
            first, second = (_encode(task, rows.take(batch), side) for side in _SIDES)
            values = finite((first * second).sum(-1))
            if all_second is not None:
                values = (values >= (first @ all_second.T).amax(1) - _ROUNDING).float()
            predictions |= dict(zip(batch.tolist(), values.tolist(), strict=True))

        return predictions

    def remarks(self, judged: Judged, names: Sequence[str]) -> dict[str, Any]:
        return {} if self._retrieves else super().remarks(judged, names)

    def baselines(
        self, task: TaskModel, train: RowBatch, rows: RowBatch
    ) -> dict[str, NDArray[np.generic]]:
        """Return `words`: predictions by the cosines of token counts."""
        first, second = (
            _token_counts(rows.columns[side], task.model.vocab_size) for side in _SIDES
        )
        cosines = np.asarray(first.multiply(second).sum(1))[:, 0]
        if self._retrieves:
            cosines = (cosines >= (first @ second.T).max(1).toarray()[:, 0] - _ROUNDING).astype(
                np.float64
            )
        return {"words": cosines}


def _token_counts(texts: Ragged, size: int) -> Any:
    """Return how often each token is in each text, as sparse rows of length one."""
    from scipy import sparse
    from sklearn.preprocessing import normalize

    counts = sparse.csr_matrix(
        (np.ones(len(texts.values)), texts.values, texts.offsets), (len(texts), size)
    )
    counts.sum_duplicates()  # a token that is repeated
    return normalize(counts)


def _encode(task: TaskModel, rows: RowBatch, side: str) -> Tensor:
    """Return the vectors of one side of some rows, [n, width] of length one."""
    ids = [rows.columns[side][row].tolist() for row in range(len(rows))]
    tensors = batch_tensors(ids, task.model.family.device)
    with torch.no_grad():
        return task.model.logits(tensors)[task.head].cpu()
