"""Maps from the states of an encoder to those that a decoder of perhaps another width attends to."""

from __future__ import annotations

from torch import Tensor, nn

from model.config import ModelConfig
from model.configuration.connector import ConnectorConfig
from model.layers.activation import ACTIVATIONS
from model.layers.norm import build_norm

__all__ = ["Connector"]


class Connector(nn.Module):
    """One linear map, or two with the activation between them and a norm after them.

    Args:
        config: of an encoder-decoder.
        options: its `connector`.
    """

    def __init__(self, config: ModelConfig, options: ConnectorConfig) -> None:
        super().__init__()
        width, inner = config.decoder.dim, options.hidden_dim
        self.enter = nn.Linear(config.dim, inner or width)
        self.leave = nn.Linear(inner, width) if inner else None
        self.norm = build_norm(config, width) if inner else None
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, states: Tensor) -> Tensor:
        """Map the encoder's states [B, S, dim] to [B, S, dim of the decoder]."""
        x: Tensor = self.enter(states)
        return x if self.leave is None or self.norm is None else self.norm(self.leave(self.activation(x)))
