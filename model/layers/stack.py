"""A stack of layers between embeddings and an optional final norm."""

from __future__ import annotations

from torch import Tensor, nn

from model.cache import Cache
from model.config import ModelConfig
from model.layers.embeddings import Embeddings
from model.layers.layer import Layer
from model.layers.norm import build_norm
from model.layers.position import build_position
from model.masks import AttentionPlan, plan_attention, plan_continuation, prefix_mask

__all__ = ["Stack"]


class Stack(nn.Module):
    """Encoder (neither flag), decoder (causal), or decoder beside an encoder (causal and cross)."""

    def __init__(self, config: ModelConfig, layers: int, *, causal: bool = False, cross: bool = False) -> None:
        super().__init__()
        self.position = build_position(config, causal)
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(Layer(config, cross) for _ in range(layers))
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
        for layer in self.layers:
            x = layer(x, plan, source, source_plan)
        out: Tensor = self.dropout(self.norm(x))
        return out
