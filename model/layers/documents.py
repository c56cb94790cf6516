"""Packed documents that do not see each other, and attention of each to itself without a mask over whole rows."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.varlen import varlen_attn

from clozeline.model.layers.masks import Documents, window_mask

_AMPERE = 8
"""Compute capability from which the flat kernel runs."""
_WIDEST_HEAD = 256


def batch_documents(tensors: Mapping[str, Tensor]) -> Documents | None:
    """Return the documents of a batch that are kept apart; None: there are none."""
    if "document_ids" not in tensors:
        return None
    if "cu_seqlens" not in tensors:
        return Documents(tensors["document_ids"])
    longest = tensors["max_seqlen"]
    # `add_host_shapes` has written the number as a shape, so that no accelerator is waited for.
    return Documents(tensors["document_ids"], tensors["cu_seqlens"], len(longest) if longest.ndim else int(longest))


def reads_documents(states: Tensor, head_dim: int, dropout: float) -> bool:
    """Return whether `attend` runs on states of this device and type; if not, a mask over whole rows does the same.

    The flat kernel of an accelerator takes half precision and no dropout, on devices from Ampere on. A compiler of CPU
    code would meet as many shapes as there are documents.

    Args:
        states: of which queries, keys and values are projections.
        head_dim: width of a head.
        dropout: of the scores, in this forward.
    """
    if dropout:
        return False
    if states.device.type != "cuda":
        return states.device.type == "cpu" and not torch.compiler.is_compiling()
    half = states.dtype in (torch.float16, torch.bfloat16) and head_dim <= _WIDEST_HEAD
    return half and torch.cuda.get_device_properties(states.device).major >= _AMPERE


def attend(
    query: Tensor, key: Tensor, value: Tensor, documents: Documents, causal: bool, window: int | None, scale: float
) -> Tensor:
    """Return the values that each place reads in its document, [B, heads, T, head_dim].

    Args:
        query: [B, heads, T, head_dim].
        key: [B, kv_heads, T, head_dim].
        value: as keys.
        documents: of the rows.
        causal: a place reads none after it.
        window: most places between two that read each other; None: any number.
        scale: of the scores.
    """
    kernel = attend_one_by_one if query.device.type == "cpu" else attend_flat
    return kernel(query, key, value, documents, causal, window, scale)


def attend_flat(
    query: Tensor, key: Tensor, value: Tensor, documents: Documents, causal: bool, window: int | None, scale: float
) -> Tensor:
    """Do what `attend` says with one call of the accelerator's kernel for sequences laid end to end."""
    bounds, longest, near = documents.bounds, documents.longest, -1 if window is None else window
    assert bounds is not None
    mixed = varlen_attn(
        _end_to_end(query),
        _end_to_end(key),
        _end_to_end(value),
        bounds,
        bounds,
        longest,
        longest,
        scale=scale,
        window_size=(near, 0 if causal else near),
        enable_gqa=query.shape[1] != key.shape[1],
    )
    assert isinstance(mixed, Tensor)
    return _in_rows(mixed, query)


def attend_one_by_one(
    query: Tensor, key: Tensor, value: Tensor, documents: Documents, causal: bool, window: int | None, scale: float
) -> Tensor:
    """Do what `attend` says with one call a document: on a CPU, quicker than scores that a mask throws away."""
    assert documents.bounds is not None
    sizes = documents.bounds.diff().tolist()
    queries, keys, values = (torch.split(_end_to_end(states), sizes) for states in (query, key, value))
    mixed = []
    for own, size in enumerate(sizes):
        near = None
        if window is not None and size > window + 1:
            places = torch.arange(size)[None]
            near = window_mask(places, places, window)[0, 0]
            near = near.tril() if causal else near
        states = F.scaled_dot_product_attention(
            queries[own].transpose(0, 1),
            keys[own].transpose(0, 1),
            values[own].transpose(0, 1),
            attn_mask=near,
            is_causal=causal and near is None,
            scale=scale,
            enable_gqa=query.shape[1] != key.shape[1],
        )
        mixed.append(states.transpose(0, 1))
    return _in_rows(torch.cat(mixed), query)


def _end_to_end(states: Tensor) -> Tensor:
    """Return [B * T, heads, head_dim] from [B, heads, T, head_dim]."""
    return states.transpose(1, 2).flatten(0, 1)


def _in_rows(mixed: Tensor, query: Tensor) -> Tensor:
    """Return [B, heads, T, head_dim], as queries are, from [B * T, heads, head_dim]."""
    rows, _, columns, _ = query.shape
    return mixed.view(rows, columns, *mixed.shape[1:]).transpose(1, 2)
