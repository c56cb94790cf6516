"""Corrective language modeling: copy or correct every token of a row (arXiv 2102.08473)."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.columns import LABEL_IDS, LABEL_INDEX, LENGTHS
from clozeline.configuration.config import config_class
from clozeline.model.configuration.head import HeadOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import VocabularyHead
from clozeline.model.loss import original_ids, real_index, real_positions


class CorrectiveHead(VocabularyHead):
    """The masked LM head, and a score per position for the probability c of copying the input.

    The probability of the original token x at a position with the input z is [x = z] c + (1 - c)
    softmax(x), with no gradient into c. The loss of a position is -log of it, plus `copy_weight` x
    the binary cross entropy of c, whose label is x = z.
    """

    target: ClassVar = "corrective"
    unit: ClassVar = "token"
    left_padding: ClassVar = False
    reads: ClassVar = (LABEL_INDEX, LABEL_IDS, LENGTHS)
    host_tensors: ClassVar = frozenset({"real_index"})
    figures: ClassVar = {"accuracy": "higher", "replaced": None}

    @config_class
    class Options(HeadOptions):
        """Keys of the corrective head."""

        copy_weight: Annotated[float, Field(ge=0)] = 50.0
        """Factor of the copy loss, relative to the loss of the tokens (arXiv 2102.08473)."""

    options: Options

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config, tokens, vocab_size)
        self.copy = nn.Linear(config.dim, 1)

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        index = tensors["real_index"] if "real_index" in tensors else real_index(tensors)
        if not index.numel():  # no labeled row: 0, with a gradient path
            return 0.0 * self._losses(hidden[:, 0], *(tensors["input_ids"][:, 0],) * 2).sum()
        # only the tokens of labeled rows [N, dim] reach the projection
        inputs, originals = (
            ids.flatten()[index] for ids in (tensors["input_ids"], original_ids(tensors))
        )
        return self._losses(hidden.flatten(0, 1).index_select(0, index), inputs, originals).sum()

    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return real_positions(tensors).sum()

    def metrics(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the number of correct copy decisions, and of replaced tokens."""
        same = original_ids(tensors) == tensors["input_ids"]
        real = real_positions(tensors)
        correct = (self.copy(hidden).squeeze(-1) > 0) == same
        return {"accuracy": (correct & real).sum(), "replaced": (~same & real).sum()}

    def _losses(self, states: Tensor, inputs: Tensor, originals: Tensor) -> Tensor:
        """Return the loss [N] of each position in fp32, from states [N, dim] and ids [N]."""
        same = inputs == originals
        # the decision to copy
        score = self.copy(states).squeeze(-1).float()
        copy_loss = F.binary_cross_entropy_with_logits(score, same.float(), reduction="none")
        # log-likelihood of the original token: copied or corrected, or only corrected
        copied = F.logsigmoid(score.detach())
        corrected = F.logsigmoid(-score.detach())
        corrected = corrected - F.cross_entropy(
            self.logits(states).float(), originals, reduction="none"
        )
        return self.options.copy_weight * copy_loss - torch.where(
            same, torch.logaddexp(copied, corrected), corrected
        )
