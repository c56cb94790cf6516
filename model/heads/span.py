"""Find the answer to a question in its text (SQuAD 1.1 and 2.0: arXiv 1606.05250, 1806.03822)."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from clozeline.columns import IGNORED, BatchField
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.head import ClassifierOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import Head, StoredColumns
from clozeline.model.layers.pooling import Classifier
from clozeline.model.loss import cross_entropy_sum


class SpanHead(Head):
    """Mean cross entropy of an answer's first and last position, among the allowed positions.

    `answer_start` and `answer_end` [B] are positions of the padded row, -100 in a row without
    label. `answer_places` [B, T] bool are the positions where an answer may start or end: the
    text, and [CLS] if the question may have no answer. A row whose question has none is labeled
    with [CLS] at both ends. `model.decoding.answers` decodes the scores.
    """

    target: ClassVar = "span"
    unit: ClassVar = "row"
    left_padding: ClassVar = True
    reads: ClassVar = (
        BatchField("answer_start", "row", filler=IGNORED, below="length"),
        BatchField("answer_end", "row", filler=IGNORED, below="length"),
        BatchField("answer_places", "token", "bool"),
    )
    columns: ClassVar = ("answer_span", "answer_places")
    Options: ClassVar = ClassifierOptions
    figures: ClassVar = {"exact": "higher"}
    class_ending: ClassVar = "ForQuestionAnswering"
    options: ClassifierOptions

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config)
        self.classifier = Classifier(config, self.options, 2)

    @classmethod
    def keys_of_class(
        cls, read_labels: Callable[[], tuple[str, ...]], problem: str | None
    ) -> dict[str, Any] | None:
        if (count := len(read_labels())) != 2:
            raise ConfigurationError(
                f"config.json: id2label: expected 2 labels, first and last position, got {count}"
            )
        return {}

    @staticmethod
    def tensors(batch: StoredColumns) -> dict[str, Tensor]:
        """Return `answer_start` and `answer_end` [B], -100 in rows without an answer.

        `answer_places` [B, T] is True at positions where an answer may start or end.
        """
        span_ends, rows = batch.flat("answer_span")
        bounds = np.full((len(batch.ids), 2), IGNORED, np.int64)
        bounds[rows[::2]] = span_ends.reshape(-1, 2)
        allowed = np.zeros(batch.ids.shape, np.bool_)
        positions, row = batch.flat("answer_places")
        allowed[row, positions] = True
        return {
            "answer_start": torch.from_numpy(bounds[:, 0].copy()),
            "answer_end": torch.from_numpy(bounds[:, 1].copy()),
            "answer_places": torch.from_numpy(allowed),
        }

    @property
    def flops_unit(self) -> str:
        return "token"

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        first_and_last = zip(self._mask_scores(hidden, tensors), _ends(tensors), strict=True)
        return (
            torch.stack(
                [cross_entropy_sum(scores, positions) for scores, positions in first_and_last]
            ).sum()
            / 2
        )

    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return (_ends(tensors)[0] != IGNORED).sum()

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the scores as first and as last position: [..., dim] to [..., 2]."""
        return self.classifier(hidden)

    def metrics(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the number of rows in which both ends have the highest scores."""
        first_and_last = zip(self._mask_scores(hidden, tensors), _ends(tensors), strict=True)
        first, last = (scores.argmax(-1) == positions for scores, positions in first_and_last)
        return {"exact": (first & last).sum()}

    def _mask_scores(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Return the scores of first and last positions [B, T], minimal where not allowed."""
        scores = self.logits(hidden).float()
        # not -inf, which would turn the gradient of a row without allowed positions into NaN
        return scores.masked_fill(
            ~tensors["answer_places"][..., None], torch.finfo(scores.dtype).min
        ).unbind(-1)


def _ends(tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return first and last positions [B], `IGNORED` in rows of weight 0 or without an answer."""
    first = tensors["answer_start"]
    last = tensors["answer_end"]
    ignored = (tensors["row_weight"] == 0) | (first == IGNORED) | (last == IGNORED)
    return first.masked_fill(ignored, IGNORED), last.masked_fill(ignored, IGNORED)
