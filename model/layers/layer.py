"""A Transformer layer: self-attention, optional cross-attention, feed-forward."""

from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.attention import Attention
from clozeline.model.layers.disentangled_attention import DisentangledAttention
from clozeline.model.layers.feed_forward import FeedForward
from clozeline.model.layers.masks import AttentionPlan
from clozeline.model.layers.position import Position
from clozeline.model.layers.residual import Residual


class SelfAttention(Attention):
    """Attention of a sequence to itself; a separate class, so that the norm is applied to `x` once."""

    def forward(self, x: Tensor, plan: AttentionPlan) -> Tensor:  # type: ignore[override]
        return super().forward(x, None, plan)

    def keys_and_values(self, source: Tensor, plan: AttentionPlan) -> tuple[Tensor, Tensor]:
        """Return keys and values of the entire sequence: a cache prepends the earlier tokens'."""
        key, value = self.project(source, plan)
        return (key, value) if plan.cache is None else plan.cache.append(self, key, value)


class Layer(nn.Module):
    """Two or three residual blocks, sequential or parallel. `depth` is the layer index in its stack, from 0."""

    def __init__(self, config: ModelConfig, cross: bool, depth: int = 0) -> None:
        super().__init__()
        normed = depth > 0 or config.first_norm
        own = SelfAttention if config.position.disentangled is None else DisentangledAttention
        self.attention = Residual(config, own(config, depth), normed=normed)
        self.cross = Residual(config, Attention(config, depth)) if cross else None
        self.parallel = config.parallel
        self.feed_forward = Residual(config, FeedForward(config), normed=config.parallel != "one_norm")
        self.position: Position | None = None
        """this layer's own bias of the scores, which its stack adds to the plan; None: that of the stack"""

    def forward(self, x: Tensor, plan: AttentionPlan, source: Tensor | None, source_plan: AttentionPlan) -> Tensor:
        """Map x [B, T, dim] to the same shape; cross-attention reads `source`, the encoder's states [B, S, dim]."""
        if self.parallel is not None:
            states = self.attention.norm(x)
            other = states if self.parallel == "one_norm" else self.feed_forward.norm(x)
            return x + self.attention.branch(states, plan) + self.feed_forward.branch(other)
        x = self.attention(x, plan)
        if self.cross is not None:
            x = self.cross(x, source, source_plan)
        return self.feed_forward(x)
