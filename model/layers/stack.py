"""A stack of layers between embeddings and an optional final norm."""

from __future__ import annotations

from typing import Self

from torch import Tensor, nn

from model.cache import Cache
from model.config import ModelConfig
from model.layers.embeddings import Embeddings
from model.layers.layer import Layer
from model.layers.norm import build_norm
from model.layers.position import build_position
from model.masks import AttentionPlan, plan_attention, plan_continuation, prefix_mask

__all__ = ["Stack", "shared_layers"]


class Stack(nn.Module):
    """Encoder (neither flag), decoder (causal), or decoder beside an encoder (causal and cross)."""

    def __init__(self, config: ModelConfig, layers: int, *, causal: bool = False, cross: bool = False) -> None:
        super().__init__()
        self.position = build_position(config, causal)
        self.embeddings = Embeddings(config)
        self.order = shared_layers(layers, config.share.groups, config.share.group_layers)
        self.layers = nn.ModuleList(Layer(config, cross) for _ in range(max(self.order) + 1))
        self.norm = build_norm(config, config.dim) if config.final_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout.output)
        self.causal = causal

    def forward(
        self,
        vectors: Tensor,
        positions: Tensor,
        types: Tensor | None,
        padding: Tensor | None,
        source: Tensor | None = None,
        source_padding: Tensor | None = None,
        pairs: Tensor | None = None,
        prefix_length: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Return hidden states [B, T, dim].

        Args:
            vectors: token vectors [B, T, emb_dim].
            positions: place ids [B, T].
            types: segment-type ids [B, T], or None for all 0.
            padding: of this stack's rows, from `padding_mask`.
            source: the encoder's states [B, S, dim].
            source_padding: of the encoder's rows.
            pairs: from `document_mask`, `mode_mask` or both, where rows restrict which places see which.
            prefix_length: [B], where a causal stack reads the beginning of a row in both directions.
            cache: of the tokens before, where a causal stack continues rows; positions are places in the row then.
        """
        x = self.embeddings(vectors, self.position, positions, types)
        columns = positions if cache is None else cache.extend(positions)
        bias, rotation = self.position.bias(positions, columns), self.position.rotation(positions)
        prefix = None if prefix_length is None else prefix_mask(prefix_length, columns.shape[1])
        if cache is None:
            plan = plan_attention(bias, padding, self.causal, rotation, pairs, prefix)
        else:
            plan = plan_continuation(bias, rotation, positions, columns, prefix, cache)
        source_plan = AttentionPlan(source_padding, cache=cache)
        for number in self.order:
            x = self.layers[number](x, plan, source, source_plan)
        out: Tensor = self.dropout(self.norm(x))
        return out

    def share(self, other: Self) -> None:
        """Use the weights of another stack, except for positions and cross-attention, which are of one stack only."""
        self.embeddings, self.norm = other.embeddings, other.norm
        for layer, source in zip(self.layers, other.layers, strict=True):
            layer.attention, layer.feed_forward = source.attention, source.feed_forward


def shared_layers(layers: int, groups: int | None, group_layers: int) -> list[int]:
    """Return the number of the weights that each layer uses (ALBERT, arXiv 1909.11942).

    Groups of `group_layers` layers follow each other; of n such places, place i uses group floor(i / (n / groups)).

    Args:
        layers: of the stack.
        groups: sets of weights; None: as many as places, so that nothing is shared.
        group_layers: layers of a group.

    Example:
        >>> shared_layers(6, 2, 1), shared_layers(6, 1, 2)
        ([0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1])
    """
    places = layers // group_layers
    # Divided in this order, in floating point: the published code's rounding where groups do not divide the places.
    numbers = [int(place / (places / (groups or places))) for place in range(places)]
    return [number * group_layers + inner for number in numbers for inner in range(group_layers)]
