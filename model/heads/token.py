"""Replaced-token detection: classify every token as original or replaced (arXiv 2003.10555)."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.columns import LABEL_IDS, LABEL_INDEX, LENGTHS
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads import Head
from clozeline.model.layers.activation import ACTIVATIONS
from clozeline.model.loss import original_ids, real_positions


class TokenHead(Head):
    """A linear map, an activation and a linear map onto one score; above 0: replaced.

    The labels follow from the batch: 1 where the input is not the original id, 0 at all other
    tokens of the row.
    """

    target: ClassVar = "token"
    unit: ClassVar = "token"
    reads: ClassVar = (LABEL_INDEX, LABEL_IDS, LENGTHS)
    figures: ClassVar = {"accuracy": "higher", "replaced": None}

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config)
        self.dense = nn.Linear(config.dim, config.dim)
        self.classifier = nn.Linear(config.dim, 1)
        self.act = ACTIVATIONS[config.activation]

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        replaced = (original_ids(tensors) != tensors["input_ids"]).float()
        real = real_positions(tensors).float()
        scores = self.logits(hidden).squeeze(-1).float()
        return F.binary_cross_entropy_with_logits(scores, replaced, weight=real, reduction="sum")

    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return real_positions(tensors).sum()

    def metrics(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the number of correctly classified tokens, and of replaced tokens."""
        replaced = original_ids(tensors) != tensors["input_ids"]
        real = real_positions(tensors)
        correct = (self.logits(hidden).squeeze(-1) > 0) == replaced
        return {"accuracy": (correct & real).sum(), "replaced": (replaced & real).sum()}

    def logits(self, hidden: Tensor) -> Tensor:
        return self.classifier(self.act(self.dense(hidden)))
