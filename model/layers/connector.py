"""The projection from encoder states to the states that a decoder, perhaps of another width, attends to."""

from torch import Tensor, nn

from clozeline.model.configuration.layer import ConnectorConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.activation import ACTIVATIONS
from clozeline.model.layers.norm import build_norm


class Connector(nn.Module):
    """One linear map, or two with an activation between them and a norm after them."""

    def __init__(self, config: ModelConfig, options: ConnectorConfig) -> None:
        super().__init__()
        width, inner = config.decoder.dim, options.hidden_dim
        self.enter = nn.Linear(config.dim, inner) if inner else None
        self.activation = ACTIVATIONS[config.activation]
        self.leave = nn.Linear(inner or config.dim, width)
        self.norm = build_norm(config, width) if inner else nn.Identity()

    def forward(self, states: Tensor) -> Tensor:
        """Map the encoder's states [B, S, dim] to [B, S, dim of the decoder]."""
        if self.enter is not None:
            states = self.activation(self.enter(states))
        return self.norm(self.leave(states))
