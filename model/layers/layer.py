"""A Transformer layer: residual blocks around attention and the feed-forward block."""

from typing import Any

from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.activation import ACTIVATIONS
from clozeline.model.layers.attention import Attention
from clozeline.model.layers.masks import AttentionPlan
from clozeline.model.layers.norm import build_norm
from clozeline.model.layers.position import Position
from clozeline.model.parameters.flops import matrix_flops


class Residual(nn.Module):
    """A residual block with norms where `norm_place` says.

    `normed=False` omits the first norm, `inner` the last one, which the body has inside.
    """

    body: Any

    def __init__(
        self, config: ModelConfig, body: nn.Module, *, normed: bool = True, inner: bool = False
    ) -> None:
        super().__init__()
        place = config.norm_place
        self.body = body
        self.dim = config.dim
        self.norm = (
            build_norm(config, config.dim) if normed and place != "branch" else nn.Identity()
        )
        self.branch_norm = (
            build_norm(config, config.dim)
            if place in ("both", "branch") and not inner
            else nn.Identity()
        )
        self.dropout = nn.Dropout(config.dropout.hidden)
        self.before = place != "post"

    def forward(self, x: Tensor, *rest: object) -> Tensor:
        """Map [B, T, dim] to the same shape; `rest` are further arguments of the body."""
        if self.before:
            return x + self.branch(self.norm(x), *rest)
        return self.norm(x + self.dropout(self.body(x, *rest)))

    def branch(self, states: Tensor, *rest: object) -> Tensor:
        """Return what the block adds to its input, from the input after the norm."""
        return self.dropout(self.branch_norm(self.body(states, *rest)))


class FeedForward(nn.Module):
    """down(activation(up(x))), or down(activation(gate(x)) * up(x)) (arXiv 2002.05202).

    With `ffn_norm`, a norm precedes down.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        enters = config.bias.ffn is True
        self.gate = nn.Linear(config.dim, config.ffn_dim, bias=enters) if config.gated else None
        self.up = nn.Linear(config.dim, config.ffn_dim, bias=enters)
        self.norm = build_norm(config, config.ffn_dim) if config.ffn_norm else nn.Identity()
        self.down = nn.Linear(config.ffn_dim, config.dim, bias=bool(config.bias.ffn))
        self.act = ACTIVATIONS[config.activation]
        self.dropout = nn.Dropout(config.dropout.activation)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            return self.down(self.dropout(self.norm(self.act(self.up(x)))))
        return self.down(self.dropout(self.norm(self.act(self.gate(x)) * self.up(x))))


class SelfAttention(Attention):
    """Attention of a sequence to itself, as a class whose input is normalized only once."""

    def forward(self, x: Tensor, plan: AttentionPlan) -> Tensor:  # type: ignore[override]
        return super().forward(x, None, plan)

    def keys_and_values(self, source: Tensor, plan: AttentionPlan) -> tuple[Tensor, Tensor]:
        """Return keys and values of the entire sequence, including earlier tokens of a cache."""
        key, value = self.project(source, plan)
        return (key, value) if plan.cache is None else plan.cache.append(self, key, value)


class Layer(nn.Module):
    """Two or three residual blocks, sequential or parallel.

    `depth` is the layer index in its stack, from 0.
    """

    def __init__(
        self,
        config: ModelConfig,
        cross: bool,
        depth: int = 0,
        attention: type[Attention] = SelfAttention,
    ) -> None:
        super().__init__()
        normed = depth > 0 or config.first_norm
        self.attention = Residual(config, attention(config, depth), normed=normed)
        self.cross = Residual(config, Attention(config, depth)) if cross else None
        self.parallel = config.parallel
        self.feed_forward = Residual(
            config,
            FeedForward(config),
            normed=config.parallel != "one_norm",
            inner=config.ffn_norm,
        )
        self.position: Position | None = None
        """score bias of this layer, which its stack adds to the plan; None: the stack's bias"""

    def forward(
        self, x: Tensor, plan: AttentionPlan, source: Tensor | None, source_plan: AttentionPlan
    ) -> Tensor:
        """Map x [B, T, dim] to the same shape; cross-attention reads encoder states [B, S, dim]."""
        if self.parallel is not None:
            states = self.attention.norm(x)
            other = states if self.parallel == "one_norm" else self.feed_forward.norm(x)
            return x + self.attention.branch(states, plan) + self.feed_forward.branch(other)
        x = self.attention(x, plan)
        if self.cross is not None:
            x = self.cross(x, source, source_plan)
        return self.feed_forward(x)

    def flops(self, tokens: float, visible: float, source: float = 0) -> float:
        """Return the forward FLOPs of a row, in which a token reads `visible` tokens.

        `source` is the length of the encoder's row, for cross-attention.
        """
        total: float = self.attention.body.flops(tokens, tokens, visible)
        if self.cross is not None:
            total += self.cross.body.flops(tokens, source, source)
        return total + tokens * matrix_flops(self.feed_forward.body)
