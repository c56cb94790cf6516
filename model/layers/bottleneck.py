"""The layer of MobileBERT (arXiv 2004.02984): narrow inside, wide between layers.

Also its trigram input, which concatenates neighboring tokens.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.configuration.config import config_class
from clozeline.model.configuration.key_types import Depth, Width
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.attention import Attention
from clozeline.model.layers.layer import FeedForward
from clozeline.model.layers.masks import AttentionPlan
from clozeline.model.layers.norm import NoNorm, build_norm


@config_class
class BottleneckConfig(ModelConfig):
    """Configuration of a bottleneck stack; attention_heads and ffn_dim are those inside a layer."""

    bottleneck_dim: Width
    """Width inside a layer: of attention, and around its feed-forward blocks."""
    feed_forwards: Depth = 4
    """Number of feed-forward blocks in a layer."""
    wide_values: bool = True
    """Values are computed from the layer's wide input, queries and keys from a separate bottleneck;
    false: all of them from one bottleneck."""
    no_norm: bool = True
    """The norms of the body are a weight and a bias without statistics; false: the norm that `norm`
    names. Heads always use `norm`."""

    @property
    def head_width(self) -> int:
        return self.head_dim or self.bottleneck_dim // self.attention_heads

    def _attention_problems(self) -> Iterator[str]:
        heads = self.attention_heads
        dim = self.bottleneck_dim
        if self.head_dim is None and dim % heads:
            yield (
                f"attention_heads: bottleneck_dim {dim} is not a multiple of {heads} heads; change "
                "either, or set head_dim"
            )
        if heads % self.key_value_heads:
            yield f"kv_heads: expected a divisor of attention_heads {heads}, got {self.kv_heads}"


class BottleneckLayer(nn.Module):
    """Project down, attend, apply several feed-forward blocks, and project back up."""

    def __init__(self, config: BottleneckConfig) -> None:
        super().__init__()
        width = config.bottleneck_dim
        inner = replace(config, dim=width)
        self.enter = Entrance(config)
        self.enter_attention = Entrance(config) if config.wide_values else None
        self.attention = BottleneckAttention(inner, config.dim if config.wide_values else width)
        self.attention_norm = body_norm(config, width)
        self.feed_forwards = nn.ModuleList(FeedForward(inner) for _ in range(config.feed_forwards))
        self.feed_forward_norms = nn.ModuleList(
            body_norm(config, width) for _ in range(config.feed_forwards)
        )
        self.leave = nn.Linear(width, config.dim)
        self.dropout = nn.Dropout(config.dropout.hidden)
        self.norm = body_norm(config, config.dim)

    def forward(self, x: Tensor, plan: AttentionPlan) -> Tensor:
        # attend in the narrow width [B, T, bottleneck_dim]
        narrow = self.enter(x)
        inputs = (narrow, narrow) if self.enter_attention is None else (self.enter_attention(x), x)
        narrow = self.attention_norm(narrow + self.attention(*inputs, plan))
        # feed-forward blocks, each with a residual connection and a norm
        for feed_forward, norm in zip(self.feed_forwards, self.feed_forward_norms, strict=True):
            narrow = norm(narrow + feed_forward(narrow))
        # back to the width of the stack [B, T, dim]
        return self.norm(x + self.dropout(self.leave(narrow)))


class Entrance(nn.Module):
    """The projection from the width of the stack into a layer."""

    def __init__(self, config: BottleneckConfig) -> None:
        super().__init__()
        self.linear = nn.Linear(config.dim, config.bottleneck_dim)
        self.norm = body_norm(config, config.bottleneck_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, T, dim] to [B, T, bottleneck_dim]."""
        return self.norm(self.linear(x))


class BottleneckAttention(Attention):
    """Self-attention whose values are read from another input than queries and keys.

    That input is `value_width` wide.
    """

    def __init__(self, config: ModelConfig, value_width: int) -> None:
        super().__init__(config)
        self.value = nn.Linear(value_width, self.value.out_features, bias=config.bias.qkv)

    def forward(  # type: ignore[override]
        self, x: Tensor, values: Tensor, plan: AttentionPlan
    ) -> Tensor:
        """Map [B, T, dim] and [B, T, value_width] to [B, T, dim]."""
        query = self._split(self.query(x))
        key = self._split(self.key(x))
        value = self._split(self.value(values))
        return self.out(self.mix(query, key, value, plan).transpose(1, 2).flatten(2))


def body_norm(config: BottleneckConfig, width: int) -> nn.Module:
    """Build a norm of the body over `width` features."""
    return NoNorm(width) if config.no_norm else build_norm(config, width)


def neighbor_mask(padding: Tensor | None, document_ids: Tensor | None) -> Tensor | None:
    """Return [B, T - 1] bool, True where a position and the next belong to one document.

    None: all of them do.

    `padding` is [B, 1, 1, T] bool from `padding_mask`; `document_ids` [B, T] is the document of
    each position.
    """
    joined = None
    if padding is not None:
        real = padding[:, 0, 0]
        joined = real[:, 1:] & real[:, :-1]
    if document_ids is not None:
        same = document_ids[:, 1:] == document_ids[:, :-1]
        joined = same if joined is None else joined & same
    return joined


def trigrams(vectors: Tensor, joined: Tensor | None) -> Tensor:
    """Concatenate the vectors of the next, this and the previous token: [B, T, 3 x width].

    A neighbor outside the row or document, or in the padding, is zeros, as `neighbor_mask` says.

    Example:
        >>> trigrams(torch.tensor([[[1.0], [2.0], [3.0]]]), torch.tensor([[True, False]])).tolist()
        [[[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 3.0, 0.0]]]
    """
    following = vectors[:, 1:]
    before = vectors[:, :-1]
    if joined is not None:
        shown = joined[..., None]
        following = following * shown
        before = before * shown
    return torch.cat((F.pad(following, (0, 0, 0, 1)), vectors, F.pad(before, (0, 0, 1, 0))), dim=-1)
