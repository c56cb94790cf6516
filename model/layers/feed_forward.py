"""The position-wise feed-forward block, plain or gated (arXiv 2002.05202)."""

from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.activation import ACTIVATIONS
from clozeline.model.layers.joint_products import apply_jointly


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
        if self.gate is None:
            return self.down(self.dropout(self.act(self.up(x))))
        gate, up = apply_jointly((self.gate, self.up), x)
        inner = self.act(gate) * up
        return self.down(self.dropout(inner))
