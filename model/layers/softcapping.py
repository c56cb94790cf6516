"""Soft capping of scores (arXiv 2408.00118), and attention with it: fused kernels have no cap."""

import torch
from torch import Tensor
from torch.nn import functional as F

from clozeline.model.layers.masks import BLOCKED, AttentionPlan


def soft_cap(scores: Tensor, bound: float | None) -> Tensor:
    """Return bound x tanh(scores / bound), which lies between -bound and bound; None: the scores themselves.

    Example:
        >>> soft_cap(torch.tensor([0.1, 100.0]), 2.0)
        tensor([0.0999, 2.0000])
    """
    return scores if bound is None else bound * torch.tanh(scores / bound)


def attend_capped(
    query: Tensor, key: Tensor, value: Tensor, plan: AttentionPlan, scale: float, bound: float, dropout: float
) -> Tensor:
    """Return the values averaged by the softmax of the capped scores, [B, heads, Tq, head_dim].

    Args:
        query: [B, heads, Tq, head_dim].
        key: [B, kv_heads, Tk, head_dim].
        value: like `key`.
        plan: the mask, or whether later positions are hidden.
        scale: factor of the scores, before the cap.
        bound: of the scores; additive ones of a mask come after it.
        dropout: probability with which a weight becomes 0.
    """
    shared = query.shape[1] // key.shape[1]
    key, value = (part.repeat_interleave(shared, dim=1) for part in (key, value))
    # scores [B, heads, Tq, Tk] and their softmax are fp32 or fp64, whatever the type of the weights is
    scores = scale * (query @ key.mT)
    scores = soft_cap(scores if scores.dtype == torch.float64 else scores.float(), bound)
    if plan.causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, BLOCKED)
    if plan.mask is not None:
        boolean = plan.mask.dtype == torch.bool
        scores = scores.masked_fill(~plan.mask, BLOCKED) if boolean else scores + plan.mask
    return F.dropout(scores.softmax(-1), dropout).to(value.dtype) @ value
