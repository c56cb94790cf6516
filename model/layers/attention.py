"""Multi-head attention (arXiv 1706.03762) with grouped key and value heads (arXiv 2305.13245)."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.activation import soft_cap
from clozeline.model.layers.documents import attend
from clozeline.model.layers.masks import BLOCKED, AttentionPlan
from clozeline.model.layers.norm import build_norm
from clozeline.model.layers.position import rotate
from clozeline.model.parameters.flops import matrix_flops

Before: TypeAlias = Callable[
    [Tensor, Tensor, int, AttentionPlan], tuple[Tensor, Tensor, AttentionPlan]
]
"""Prepend keys and values: (keys, values, number of queries, plan) to (keys, values, plan)."""


class Attention(nn.Module):
    """Attention of queries from `x` to keys and values from `source`.

    `depth` is the layer index, from 0.
    """

    def __init__(self, config: ModelConfig, depth: int = 0) -> None:
        super().__init__()
        query_width = config.attention_heads * config.head_width
        key_width = config.key_value_heads * config.head_width
        self.query = nn.Linear(config.dim, query_width, bias=config.bias.qkv)
        self.key = nn.Linear(config.dim, key_width, bias=config.bias.qkv and config.bias.key)
        self.value = nn.Linear(config.dim, key_width, bias=config.bias.qkv)
        self.out = nn.Linear(query_width, config.dim, bias=config.bias.out)
        self.head_dim = config.head_width
        # qk_norm: over the components of each head, or over the entire projection
        self.norms_heads = config.qk_norm == "head"
        widths = (self.head_dim, self.head_dim) if self.norms_heads else (query_width, key_width)
        self.query_norm, self.key_norm = (
            nn.Identity() if config.qk_norm is None else build_norm(config, width)
            for width in widths
        )

        self.grouped = config.key_value_heads != config.attention_heads
        self.scale = config.qk_scale or (config.head_width * config.position.terms) ** -0.5
        self.scale /= depth + 1 if config.scale_by_depth else 1
        self.softcap = config.attn_logit_softcapping
        self.dropout = config.dropout.attention
        self.prefix: Before | None = None  # of an active prefix adapter

    def forward(self, x: Tensor, source: Tensor | None, plan: AttentionPlan) -> Tensor:
        """Map [B, Tq, dim] and [B, Tk, dim] to [B, Tq, dim]; the source None means x."""
        query = self.query(x)
        key, value = self.keys_and_values(x if source is None else source, plan)
        query = self.split_heads(query, self.query_norm, plan)
        return self.out(self.mix(query, key, value, plan).transpose(1, 2).flatten(2))

    def mix(self, query: Tensor, key: Tensor, value: Tensor, plan: AttentionPlan) -> Tensor:
        """Return the values [B, heads, Tq, head_dim], averaged with the softmax of the scores."""
        dropout = self.dropout if self.training else 0.0
        if plan.documents is not None:
            return attend(query, key, value, plan, self.scale, dropout)
        if self.prefix is not None:
            key, value, plan = self.prefix(key, value, query.shape[2], plan)
        if self.softcap is not None:
            return attend_capped(query, key, value, plan, self.scale, self.softcap, dropout)
        # additive scores take the dtype of the queries; a bool mask stays bool
        mask = plan.mask
        if mask is not None and mask.is_floating_point():
            mask = mask.to(query.dtype)
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=dropout,
            is_causal=plan.causal,
            scale=self.scale,
            enable_gqa=self.grouped,
        )

    def keys_and_values(self, source: Tensor, plan: AttentionPlan) -> tuple[Tensor, Tensor]:
        """Return keys and values [B, kv_heads, Tk, head_dim] of a source, once per cache."""
        project = partial(self.project, source, plan)
        return project() if plan.cache is None else plan.cache.once(self, project)

    def project(self, source: Tensor, plan: AttentionPlan) -> tuple[Tensor, Tensor]:
        """Return keys (rotated if the plan says so) and values [B, kv_heads, Tk, head_dim]."""
        return self.split_heads(self.key(source), self.key_norm, plan), self._split(
            self.value(source)
        )

    def split_heads(self, projected: Tensor, norm: nn.Module, plan: AttentionPlan) -> Tensor:
        """Return projected queries or keys as [B, heads, T, head_dim], normalized, then rotated."""
        heads = norm(self._split(projected)) if self.norms_heads else self._split(norm(projected))
        return heads if plan.rotation is None else rotate(heads, plan.rotation)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_dim).transpose(1, 2)

    def flops(self, queries: float, keys: float, visible: float) -> float:
        """Return the forward FLOPs of a row, in which each query reads `visible` keys."""
        projections = queries * matrix_flops(self.query, self.out)
        projections += keys * matrix_flops(self.key, self.value)
        return projections + self.score_flops(queries, visible)

    def score_flops(self, queries: float, visible: float) -> float:
        """Return the FLOPs of scores and averages alone."""
        return 4 * self.query.out_features * queries * visible


def attend_capped(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    plan: AttentionPlan,
    scale: float,
    bound: float,
    dropout: float,
) -> Tensor:
    """Return the values averaged with the softmax of capped scores, [B, heads, Tq, head_dim].

    Fused kernels have no cap, so all scores are in memory.

    Args:
        query: [B, heads, Tq, head_dim].
        key: [B, kv_heads, Tk, head_dim].
        value: same shape as `key`.
        plan: the mask, or whether later positions are hidden.
        scale: factor of the scores, before the cap.
        bound: bound of the scores; additive scores of the mask are added afterwards.
        dropout: probability with which a weight becomes 0.
    """
    value = value.repeat_interleave(query.shape[1] // value.shape[1], dim=1)
    probabilities = attention_scores(query, key, plan, scale, bound).softmax(-1)
    return F.dropout(probabilities, dropout).to(value.dtype) @ value


def attention_scores(
    query: Tensor, key: Tensor, plan: AttentionPlan, scale: float, bound: float | None
) -> Tensor:
    """Return the masked scores [B, heads, Tq, Tk], at least in fp32."""
    scores = scale * (query @ key.repeat_interleave(query.shape[1] // key.shape[1], dim=1).mT)
    scores = soft_cap(scores if scores.dtype == torch.float64 else scores.float(), bound)
    if plan.causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, BLOCKED)
    if plan.mask is not None:
        boolean = plan.mask.dtype == torch.bool
        scores = scores.masked_fill(~plan.mask, BLOCKED) if boolean else scores + plan.mask
    return scores
