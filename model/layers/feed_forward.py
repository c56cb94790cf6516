"""The position-wise feed-forward block, plain or gated (arXiv 2002.05202)."""

from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.activation import ACTIVATIONS


class FeedForward(nn.Module):
    """down(activation(up(x))), or down(activation(gate(x)) * up(x))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.dim, config.ffn_dim, bias=config.bias.ffn) if config.gated else None
        self.up = nn.Linear(config.dim, config.ffn_dim, bias=config.bias.ffn)
        self.down = nn.Linear(config.ffn_dim, config.dim, bias=config.bias.ffn)
        self.act = ACTIVATIONS[config.activation]
        self.dropout = nn.Dropout(config.dropout.activation)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.act(self.up(x)) if self.gate is None else self.act(self.gate(x)) * self.up(x)
        return self.down(self.dropout(inner))
