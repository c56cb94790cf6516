"""DeBERTa's special first and last layers: the convolution and the enhanced mask decoder (arXiv 2006.03654)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.activation import ACTIVATIONS
from clozeline.model.layers.layer import Layer
from clozeline.model.layers.masks import AttentionPlan
from clozeline.model.layers.norm import build_norm
from clozeline.model.parameters.initial_values import Draw


class Convolution(nn.Module):
    """A convolution over the tokens around each position; tokens that the position may not see count as zeros."""

    def __init__(self, dim: int, tokens: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim, dim, tokens))
        self.bias = nn.Parameter(torch.zeros(dim))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {"weight": usual}

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Map x [B, T, dim] to the same shape; `mask` [B, 1, T or 1, T] is True where a position sees another."""
        tokens = self.weight.shape[-1]
        half = tokens // 2
        around = F.pad(x, (0, 0, half, half)).unfold(1, tokens, 1)  # [B, T, dim, tokens]
        if mask is not None:
            # which of the tokens around each position it sees, [B, T, tokens]
            columns = mask.shape[-1]
            sees = F.pad(mask[:, 0].expand(-1, columns, -1), (half, half))
            index = torch.arange(columns, device=mask.device)[:, None] + torch.arange(tokens, device=mask.device)
            around = around * sees.gather(2, index.expand(len(sees), -1, -1))[:, :, None]
        return F.linear(around.flatten(2), self.weight.flatten(1), self.bias)


class ConvolutionLayer(Layer):
    """A layer and a convolution in parallel: norm(layer(x) + activation(dropout(convolution(x))))."""

    def __init__(self, config: ModelConfig, tokens: int) -> None:
        super().__init__(config, cross=False)
        self.convolution = Convolution(config.dim, tokens)
        self.norm = build_norm(config, config.dim)
        self.dropout = nn.Dropout(config.dropout.hidden)
        self.act = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor, plan: AttentionPlan, source: Tensor | None, source_plan: AttentionPlan) -> Tensor:
        convolved = self.act(self.dropout(self.convolution(x, plan.mask)))
        return self.norm(super().forward(x, plan, source, source_plan) + convolved)


class MaskDecoder(Layer):
    """The enhanced mask decoder (§3.2): absolute positions enter only where masked tokens are decoded.

    The layer is applied several times. Keys and values always come from the states x of the layer before it; queries
    are x plus the position vectors at first, then the layer's own last output.
    """

    def __init__(self, config: ModelConfig, steps: int) -> None:
        super().__init__(config, cross=False)
        self.places = nn.Embedding(config.position.maximum, config.dim)
        self.steps = steps

    def forward(self, x: Tensor, plan: AttentionPlan, source: Tensor | None, source_plan: AttentionPlan) -> Tensor:
        assert plan.relative is not None
        query: Tensor = x + self.places(plan.relative.absolute)
        for _ in range(self.steps):
            query = self.feed_forward(self.attention(query, plan, x))
        return query


def build_layers(config: ModelConfig, layers: int, cross: bool) -> list[Layer]:
    """Build the layers of a stack, with DeBERTa's first and last layer where the configuration has them."""
    layers_of_stack = [Layer(config, cross, number) for number in range(layers)]
    chosen = config.position.disentangled
    if chosen is not None and chosen.mask_decoder is not None:
        layers_of_stack[-1] = MaskDecoder(config, chosen.mask_decoder)
    if chosen is not None and chosen.convolution is not None:
        layers_of_stack[0] = ConvolutionLayer(config, chosen.convolution)
    return layers_of_stack
