"""Corrective language modelling: copy or correct every token of a row (arXiv 2102.08473)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads.masked_lm import MaskedLM
from clozeline.model.loss import original_ids, real_index, real_positions


class Corrective(MaskedLM):
    """The head of masked LM beside one score a place, from which the probability c of copying the input follows.

    The probability of the original token x at a place with the input z is [x = z] c + (1 - c) softmax(x), with no
    gradient into c. The loss of a place is -log of it, plus `copy_weight` x the binary cross entropy of c, whose label
    is x = z.
    """

    target: ClassVar = "corrective"
    unit: ClassVar = "token"
    left_padding: ClassVar = False
    settings: ClassVar = frozenset({"copy_weight"})
    needs: ClassVar = frozenset({"label_index", "label_ids", "lengths"})
    host_tensors: ClassVar = frozenset({"real_index"})

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config, tokens, vocab_size)
        self.copy = nn.Linear(config.dim, 1)
        self.copy_weight = config.heads["corrective"].copy_weight

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the summed loss over the tokens of labelled rows, the only places that reach the projection."""
        index = tensors["real_index"] if "real_index" in tensors else real_index(tensors)
        if not index.numel():
            return 0.0 * self._losses(hidden[:, 0], *(tensors["input_ids"][:, 0],) * 2).sum()
        inputs, originals = (ids.flatten()[index] for ids in (tensors["input_ids"], original_ids(tensors)))
        return self._losses(hidden.flatten(0, 1).index_select(0, index), inputs, originals).sum()

    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the number of tokens in labelled rows with weight."""
        return real_positions(tensors).sum()

    def figures(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tokens that are rightly copied or not copied, and those that are replaced."""
        same, real = original_ids(tensors) == tensors["input_ids"], real_positions(tensors)
        right = (self.copy(hidden).squeeze(-1) > 0) == same
        return {"accuracy": (right & real).sum(), "replaced": (~same & real).sum()}

    def _losses(self, states: Tensor, inputs: Tensor, originals: Tensor) -> Tensor:
        """Return the loss of each place, fp32 [N]: states [N, dim], input and original ids [N]."""
        same = inputs == originals
        score = self.copy(states).squeeze(-1).float()
        deciding = F.binary_cross_entropy_with_logits(score, same.float(), reduction="none")
        copied, corrected = F.logsigmoid(score.detach()), F.logsigmoid(-score.detach())
        corrected = corrected - F.cross_entropy(self.logits(states).float(), originals, reduction="none")
        return self.copy_weight * deciding - torch.where(same, torch.logaddexp(copied, corrected), corrected)
