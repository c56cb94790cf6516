"""Disentangled attention of DeBERTa (arXiv 2006.03654): contents and relative places have scores with each other."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import DisentangledConfig
from clozeline.model.layers.attention import Attention
from clozeline.model.layers.masks import BLOCKED, AttentionPlan, RelativePositions
from clozeline.model.layers.norm import build_norm


class RelativeTable(nn.Module):
    """A learnt vector for each relative place, read by all layers of a stack."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        chosen = config.position.disentangled or DisentangledConfig()
        self.table = nn.Embedding(chosen.rows, config.dim)
        self.norm = build_norm(config, config.dim) if chosen.norm else nn.Identity()
        self.max_distance, self.buckets = chosen.max_distance, chosen.buckets

    def forward(self, positions: Tensor) -> RelativePositions:
        """Return the vectors, and their rows for each two of the places [B, T]; places [1, T] are those of all rows."""
        every = torch.arange(self.table.num_embeddings, device=positions.device)
        distance = positions[:, :, None] - positions[:, None, :]
        rows = relative_row(distance, self.max_distance, self.buckets)
        return RelativePositions(self.norm(self.table(every)), rows, positions)


class DisentangledAttention(Attention):
    """Self-attention whose scores are sums: query with key, query with place's key, and key with place's query.

    Scores and softmax are fp32 whatever the weights are: in bf16 the sums lose too much.
    """

    def __init__(self, config: ModelConfig, depth: int = 0) -> None:
        super().__init__(config, depth)
        chosen = config.position.disentangled or DisentangledConfig()
        own = not chosen.shared_projections
        self.key_of_place = _like(self.key) if own and chosen.content_to_position else None
        self.query_of_place = _like(self.query) if own and chosen.position_to_content else None
        self.chosen = chosen
        self.position_dropout = nn.Dropout(config.dropout.hidden)

    def forward(self, x: Tensor, plan: AttentionPlan, source: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Map [B, T, dim] to the same shape; keys and values are those of `source` [B, T, dim], None: of `x`."""
        return super().forward(x, x if source is None else source, plan)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, plan: AttentionPlan) -> Tensor:
        """Return values [B, heads, T, head_dim], averaged with the softmax of the scores."""
        assert plan.relative is not None
        wide_query, wide_key = query.float(), key.float()
        scores = self.scale * self.position_scores(wide_query, wide_key, plan.relative)
        if plan.mask is not None:
            scores = scores.masked_fill(~plan.mask, BLOCKED)
        mixed = super().mix(wide_query, wide_key, value.float(), plan._replace(mask=scores))
        return mixed.to(value.dtype)

    def position_scores(self, query: Tensor, key: Tensor, relative: RelativePositions) -> Tensor:
        """Return the scores [B, heads, T, T] between contents [B, heads, T, head_dim] and relative places.

        Both kinds read the row of the distance query - key, as the published code does: for the queries of places, the
        paper's equation 4 has the opposite distance.
        """
        vectors = self.position_dropout(relative.vectors)
        shape = (*query.shape[:2], *relative.rows.shape[1:])
        rows = relative.rows[:, None].expand(shape)
        scores = query.new_zeros(())
        if self.chosen.content_to_position:
            place = self._split((self.key_of_place or self.key)(vectors)[None]).float()
            scores = scores + (query @ place.mT).gather(-1, rows)
        if self.chosen.position_to_content:
            place = self._split((self.query_of_place or self.query)(vectors)[None]).float()
            scores = scores + (key @ place.mT).gather(-1, rows.mT).mT
        return scores


def relative_row(distance: Tensor, max_distance: int, buckets: int | None) -> Tensor:
    """Return the row of the table for each distance query - key, int64 of any shape.

    Example (two rows for keys after the query, then two for its own place and those before it):
        >>> relative_row(torch.tensor([-9, -2, -1, 0, 1, 2]), max_distance=2, buckets=None).tolist()
        [0, 0, 1, 2, 3, 3]
    """
    half = buckets or max_distance
    place = log_bucket(distance, buckets, max_distance) if buckets else distance
    return (place + half).clamp(0, 2 * half - 1)


def log_bucket(distance: Tensor, buckets: int, max_distance: int) -> Tensor:
    """Return the bucket of each distance, with its sign: up to buckets / 2 itself, then the logarithm's next integer.

    Args:
        distance: int64, any shape.
        buckets: of one direction; the distance max_distance - 1 has the last, buckets - 1.
        max_distance: more than buckets / 2 + 1.

    Example:
        >>> log_bucket(torch.tensor([-511, -4, -3, -2, 0, 2, 3, 40, 511]), buckets=6, max_distance=512).tolist()
        [-5, -4, -3, -2, 0, 2, 3, 5, 5]
    """
    exact = buckets // 2
    # Both logarithms are fp32, so that their ratio is exactly 1 at the last distance.
    whole = torch.log(torch.tensor((max_distance - 1) / exact))
    ratio = torch.log(distance.abs().clamp(min=exact) / exact) / whole
    shared = torch.ceil(ratio * (exact - 1)).long() + exact
    return torch.where(distance.abs() <= exact, distance, shared * distance.sign())


def _like(linear: nn.Linear) -> nn.Linear:
    """Return a projection of the same shape, with weights of its own."""
    return nn.Linear(linear.in_features, linear.out_features, bias=linear.bias is not None)
