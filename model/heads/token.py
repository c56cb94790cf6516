"""Replaced-token detection: tell at every place whether its token is the original one (arXiv 2003.10555)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads import Head
from clozeline.model.layers.activation import ACTIVATIONS
from clozeline.model.loss import original_ids, real_positions


class Token(Head):
    """Linear, activation and a linear map onto one score; above 0: the token is replaced.

    The label of a place follows from the batch: 1 where the input is not the original id, 0 at all other tokens of the
    row. An input that equals the original counts as original.
    """

    target: ClassVar = "token"
    unit: ClassVar = "token"
    needs: ClassVar = frozenset({"label_index", "label_ids", "lengths"})

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(config.dim, config.dim)
        self.classifier = nn.Linear(config.dim, 1)
        self.act = ACTIVATIONS[config.activation]

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the summed binary cross entropy over the tokens of labelled rows."""
        replaced = _replaced(tensors).float()
        real = real_positions(tensors).float()
        scores = self.logits(hidden).squeeze(-1).float()
        return F.binary_cross_entropy_with_logits(scores, replaced, weight=real, reduction="sum")

    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the number of tokens in labelled rows with weight."""
        return real_positions(tensors).sum()

    def figures(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tokens that are judged rightly, and those that are replaced."""
        replaced, real = _replaced(tensors), real_positions(tensors)
        right = (self.logits(hidden).squeeze(-1) > 0) == replaced
        return {"accuracy": (right & real).sum(), "replaced": (replaced & real).sum()}

    def logits(self, hidden: Tensor) -> Tensor:
        """Return scores: [..., dim] to [..., 1]."""
        scores: Tensor = self.classifier(self.act(self.dense(hidden)))
        return scores


def _replaced(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return which places [B, T] hold another token than the original one."""
    return original_ids(tensors) != tensors["input_ids"]
