"""Predict the next token from the left and the previous one from the right (arXiv 1802.05365)."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeline.columns import IGNORED
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import LabelHead
from clozeline.model.layers.vocabulary import VocabularyProjection
from clozeline.model.loss import cross_entropy_sum, gather_labels


class BidirectionalLmHead(LabelHead):
    """One linear map with bias for both halves of a state.

    The first half has read the left context, the second half the right context.

    A label at position i is the token after it. The left half at i predicts that token, and the
    right half at i + 1 predicts the token at i, so each label counts twice.

    Example:
        `<s> a b </s>` has the labels a, b, </s>: from the left a, b, </s>, from the right <s>, a,
        b.
    """

    target: ClassVar = "lm"

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config)
        self.projection = VocabularyProjection(
            config.dim // 2, vocab_size, tokens, tied=config.tied, bias=True
        )

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        left, right = hidden.chunk(2, dim=-1)
        total = hidden.new_zeros((), dtype=torch.float32)
        for half, batch in ((left, tensors), (right, _label_backward(tensors))):
            labels = gather_labels(half, batch)
            total = total + cross_entropy_sum(
                self.projection(labels.states), labels.ids, labels.weights
            )
        return total

    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return 2 * super().divisor(tensors)

    def labels(self, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the tokens predicted from the left, then those predicted from the right."""
        sides = super().labels(tensors), super().labels(_label_backward(tensors))
        ids, weights = zip(*sides, strict=True)
        return torch.cat(ids), torch.cat(weights)

    def logits(self, hidden: Tensor) -> Tensor:
        return self.projection(hidden.chunk(2, dim=-1)[0])  # the next token, from the left context

    def flops(self) -> float:
        return 2 * super().flops()


def _label_backward(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the batch with the labels of the right half: at each position, the previous token."""
    index = tensors["label_index"]
    ids = tensors["input_ids"].flatten().index_select(0, index)
    ids = ids.masked_fill(tensors["label_ids"] == IGNORED, IGNORED)
    return {**tensors, "label_index": index + 1, "label_ids": ids}
