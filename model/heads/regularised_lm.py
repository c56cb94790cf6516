"""Next-token prediction with penalties on the activations of a recurrent model (arXiv 1708.02182 §4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._label_head import LabelHead
from clozeline.model.layers.variational_dropout import drop_features
from clozeline.model.layers.vocabulary import VocabularyProjection
from clozeline.model.loss import IGNORED, cross_entropy_sum, gather_labels


class RegularisedLm(LabelHead):
    """Dropout of features, then one linear map with bias onto the vocabulary, tied to the token embedding or not.

    In training each label adds `activation_penalty` x the mean square of its state after dropout, and `change_penalty`
    x the mean square of the state's change to the next place. In evaluation the loss is the cross entropy alone.
    """

    target: ClassVar = "lm"
    settings: ClassVar = LabelHead.settings | {"activation_penalty", "change_penalty"}

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__()
        self.projection = VocabularyProjection(config.dim, vocab_size, tokens, tied=config.tied, bias=True)
        self.settings_of = config.heads["regularised_lm"]
        self.dropout = config.dropout.output

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the summed cross entropy at the labelled places, in training with the penalties."""
        dropped = drop_features(hidden, self.dropout, self.training)
        labels = gather_labels(dropped, tensors)
        total = cross_entropy_sum(self.projection(labels.states), labels.ids, labels.weights)
        if not self.training:
            return total
        penalties = gather_labels(self._penalties(hidden.float(), dropped.float()), tensors).states[:, 0]
        counted = (labels.ids != IGNORED).float()
        return total + (penalties * (counted if labels.weights is None else counted * labels.weights)).sum()

    def logits(self, hidden: Tensor) -> Tensor:
        """Return scores: [..., dim] to [..., vocab_size]."""
        scores: Tensor = self.projection(hidden)
        return scores

    def _penalties(self, hidden: Tensor, dropped: Tensor) -> Tensor:
        """Return the penalties of every place [B, T, 1]; the last one of a row has no change."""
        changes = F.pad(hidden[:, 1:] - hidden[:, :-1], (0, 0, 0, 1))
        given = self.settings_of
        squares = given.activation_penalty * dropped.square() + given.change_penalty * changes.square()
        return squares.mean(-1, keepdim=True)
