"""The classifier on top of a body that task heads share."""

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor, nn

from clozeline.model.configuration.head import HeadConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.activation import ACTIVATIONS
from clozeline.model.layers.norm import build_norm


class Classifier(nn.Module):
    """Dropout and a linear map; if `hidden` is set, dropout, a linear map and an activation come before them.

    With `hidden: tanh` this is BERT's pooler and classifier (arXiv 1810.04805); with `input_dropout` as well,
    RoBERTa's.
    """

    settings: ClassVar = frozenset(
        {"scalar_mix", "input_dropout", "hidden", "hidden_dim", "hidden_norm", "dropout", "bias"}
    )
    """Keys of the head's configuration that it reads."""

    def __init__(self, config: ModelConfig, options: HeadConfig, classes: int, inputs: int | None = None) -> None:
        super().__init__()
        inputs = inputs or config.dim
        self.input_dropout = nn.Dropout(options.input_dropout)
        width = options.hidden_dim or (config.dim if options.hidden else inputs)
        self.dense = nn.Linear(inputs, width, bias=config.bias.head) if options.hidden else nn.Identity()
        self.act: Callable[[Tensor], Tensor] = ACTIVATIONS[options.hidden] if options.hidden else nn.Identity()
        self.norm = build_norm(config, width) if options.hidden and options.hidden_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout.hidden if options.dropout is None else options.dropout)
        self.out = nn.Linear(width, classes, bias=options.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Return scores: [..., dim] to [..., classes]."""
        return self.out(self.dropout(self.norm(self.act(self.dense(self.input_dropout(states))))))
