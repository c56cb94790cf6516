"""Attention by content, distance and segment (arXiv 1901.02860; XLNet, arXiv 1906.08237)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.layer import FeedForward, Residual
from clozeline.model.layers.masks import BLOCKED
from clozeline.model.layers.position import frequencies
from clozeline.model.parameters.flops import matrix_flops
from clozeline.model.parameters.initial_values import Draw
from clozeline.model.parameters.sharding import full_shape


class RelativePlan(NamedTuple):
    """Inputs of relative attention other than the states; the same for all layers of a stack."""

    waves: Tensor
    """[1, 2T - 1, dim], from `distance_waves`"""
    wave_ids: Tensor
    """[B or 1, 1, Tq, T], from `wave_index`"""
    in_other_segment: Tensor
    """[B, 1, Tq, T] bool, True where query and key are in different segments"""
    visible: Tensor
    """[B, 1, Tq, T] bool, True where a query reads a key"""


class RelativeAttention(nn.Module):
    """Scores ((q + u) k + (q + v) r + (q + w) s) * scale with learned u, v, w per head.

    r is a projection of the wave of the distance between query and key; s is one of two vectors:
    for the same segment, and for different ones.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        heads = config.attention_heads
        width = config.head_width
        # projections of the states, and of the waves of distances
        self.query = nn.Linear(config.dim, heads * width, bias=False)
        self.key = nn.Linear(config.dim, heads * width, bias=False)
        self.value = nn.Linear(config.dim, heads * width, bias=False)
        self.position = nn.Linear(config.dim, heads * width, bias=False)
        self.out = nn.Linear(heads * width, config.dim, bias=False)
        # flat, like the biases of a linear map, so that they get no weight decay
        self.content_bias = nn.Parameter(torch.zeros(heads * width))
        self.position_bias = nn.Parameter(torch.zeros(heads * width))
        self.segment_bias = nn.Parameter(torch.zeros(heads * width))
        self.segments = nn.Parameter(torch.zeros(2, heads * width))
        self.head_dim = width
        self.scale = config.qk_scale or width**-0.5
        self.dropout = config.dropout.attention

    def forward(self, x: Tensor, plan: RelativePlan) -> Tensor:
        """Map [B, Tq, dim] to the same shape; the first T states are also keys and values."""
        source = x[:, : plan.wave_ids.shape[-1]]
        query = self._split(self.query(x))
        key = self._split(self.key(source))
        value = self._split(self.value(source))

        # distance scores: each query times the wave of every distance, then those of its pairs
        waves = self._split(self.position(plan.waves.to(query.dtype)))
        by_wave = self._add_bias(query, self.position_bias) @ waves.transpose(2, 3)
        by_distance = by_wave.gather(3, plan.wave_ids.expand(*query.shape[:3], -1))

        # segment scores; both kinds enter as an additive mask [B, heads, Tq, T]
        segments = self._split(self.segments.to(query.dtype)[None])
        by_segment = self._add_bias(query, self.segment_bias) @ segments.transpose(2, 3)
        same_segment = by_segment[..., :1]
        other_segment = by_segment[..., 1:]
        bias = by_distance + torch.where(plan.in_other_segment, other_segment, same_segment)
        mixed = F.scaled_dot_product_attention(
            self._add_bias(query, self.content_bias),
            key,
            value,
            attn_mask=(bias * self.scale).masked_fill(~plan.visible, BLOCKED),
            dropout_p=self.dropout if self.training else 0.0,
            scale=self.scale,
        )
        # a query that reads nothing has the mean of all values
        mixed = mixed * plan.visible.any(dim=-1, keepdim=True)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return dict.fromkeys(("content_bias", "position_bias", "segment_bias", "segments"), usual)

    def _add_bias(self, query: Tensor, bias: Tensor) -> Tensor:
        return query + bias.to(query.dtype).view(-1, 1, self.head_dim)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_dim).transpose(1, 2)

    def flops(self, queries: float, tokens: float) -> float:
        """Return the forward FLOPs of some queries that read a row, whose keys are there."""
        columns = 2 * tokens + (2 * tokens - 1) + full_shape(self.segments)[0]
        products = matrix_flops(self.query, self.out) + 2 * self.query.out_features * columns
        return queries * products

    def key_flops(self, tokens: float) -> float:
        """Return the FLOPs of the keys and values of a row, and of the waves of distances."""
        waves = (2 * tokens - 1) * matrix_flops(self.position)
        return tokens * matrix_flops(self.key, self.value) + waves


class RelativeLayer(nn.Module):
    """Relative attention and the feed-forward block, each in a residual connection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = Residual(config, RelativeAttention(config))
        self.feed_forward = Residual(config, FeedForward(config))

    def forward(self, x: Tensor, plan: RelativePlan) -> Tensor:
        return self.feed_forward(self.attention(x, plan))

    def flops(self, queries: float, tokens: float) -> float:
        """Return the forward FLOPs of some queries that read a row, whose keys are there."""
        attention: float = self.attention.body.flops(queries, tokens)
        return attention + queries * matrix_flops(self.feed_forward.body)


def distance_waves(columns: int, width: int, device: torch.device) -> Tensor:
    """Return sines, then cosines, of the distances columns - 1 to 1 - columns.

    fp32 [1, 2 * columns - 1, width].
    """
    distances = torch.arange(columns - 1, -columns, -1, device=device)
    angles = distances.float()[:, None] * frequencies(width, 10000.0, device)
    return torch.cat((angles.sin(), angles.cos()), dim=-1)[None]


def wave_index(positions: Tensor, columns: int) -> Tensor:
    """Return the row of `distance_waves` for each pair, [B, 1, Tq, columns].

    `positions` [B, Tq] are those of the queries.

    Example:
        >>> wave_index(torch.tensor([[0, 2]]), 3).tolist()  # distances 0, -1, -2 and 2, 1, 0
        [[[[2, 3, 4], [0, 1, 2]]]]
    """
    return (columns - 1 - positions[:, :, None] + torch.arange(columns, device=positions.device))[
        :, None
    ]
