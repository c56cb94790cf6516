"""Next-token prediction of recurrent models, with activation penalties (arXiv 1708.02182 §4)."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.configuration.config import config_class
from clozeline.model.configuration.head import LabelOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import LabelHead
from clozeline.model.layers.lstm import drop_features
from clozeline.model.layers.vocabulary import VocabularyProjection
from clozeline.model.loss import cross_entropy_sum, gather_labels


class RegularizedLmHead(LabelHead):
    """Dropout of features, then one linear map with bias onto the vocabulary.

    The map may be tied to the token embedding.

    In training, each label adds `activation_penalty` x the mean square of its state after dropout,
    and `change_penalty` x the mean square of the change from its state to the next. In evaluation,
    the loss is the cross entropy alone.
    """

    target: ClassVar = "lm"

    @config_class
    class Options(LabelOptions):
        """Keys of the head of recurrent models."""

        activation_penalty: Annotated[float, Field(ge=0)] = 2.0
        """Factor of the mean square of each state, added in training (arXiv 1708.02182)."""
        change_penalty: Annotated[float, Field(ge=0)] = 1.0
        """Factor of the mean square of the change to the next state, added in training."""

    options: Options

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config)
        self.projection = VocabularyProjection(
            config.dim, vocab_size, tokens, tied=config.tied, bias=True
        )
        self.dropout = config.dropout.output

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        dropped = drop_features(hidden, self.dropout, self.training)
        labels = gather_labels(dropped, tensors)
        total = cross_entropy_sum(self.projection(labels.states), labels.ids, labels.weights)
        if not self.training:
            return total
        # penalties of every position [B, T, 1]; the last position of a row has no next state
        changes = F.pad(hidden[:, 1:].float() - hidden[:, :-1].float(), (0, 0, 0, 1))
        squares = self.options.activation_penalty * dropped.float().square()
        squares = squares + self.options.change_penalty * changes.square()
        penalties = gather_labels(squares.mean(-1, keepdim=True), tensors).states[:, 0]
        return total + (penalties * labels.in_loss).sum()

    def logits(self, hidden: Tensor) -> Tensor:
        return self.projection(hidden)
