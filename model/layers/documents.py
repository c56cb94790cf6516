"""Attention within packed documents, computed per document instead of by a mask over entire rows."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from clozeline.model.layers.masks import AttentionPlan, Documents, window_mask

_AMPERE = 8
"""Lowest compute capability of the flat kernel."""
_WIDEST_HEAD = 256
_flash = torch.ops.aten._flash_attention_forward


def batch_documents(
    tensors: Mapping[str, Tensor], side: Literal["", "decoder_"] = ""
) -> Documents | None:
    """Return the documents of a batch that must not see each other, or None; `decoder_`: those of the targets."""
    if f"{side}document_ids" not in tensors:
        return None
    numbers = tensors[f"{side}document_ids"]
    if f"{side}cu_seqlens" not in tensors:
        return Documents(numbers)
    longest = tensors[f"{side}max_seqlen"]
    # `add_host_shapes` stores the number as a shape, so that reading it does not wait for the
    # accelerator
    return Documents(
        numbers, tensors[f"{side}cu_seqlens"], len(longest) if longest.ndim else int(longest)
    )


def reads_documents(states: Tensor, head_dim: int, dropout: float, *, paired: bool = False) -> bool:
    """Return whether `attend` supports states of this device and type; if not, use a mask over entire rows.

    The flat kernel of an accelerator needs half precision, heads whose width is a multiple of 8,
    and Ampere or later. When a CPU graph is compiled, each document would have a shape of its own;
    with dropout, or with the short targets of a decoder that is `paired` with an encoder, a mask is
    as fast there.
    """
    if states.device.type != "cuda":
        return states.device.type == "cpu" and not (
            paired or dropout or torch.compiler.is_compiling()
        )
    half = (
        states.dtype in (torch.float16, torch.bfloat16)
        and head_dim <= _WIDEST_HEAD
        and head_dim % 8 == 0
    )
    return half and torch.cuda.get_device_properties(states.device).major >= _AMPERE


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    plan: AttentionPlan,
    scale: float,
    dropout: float = 0.0,
) -> Tensor:
    """Return the values that each position reads in its document, [B, heads, Tq, head_dim].

    Args:
        query: [B, heads, Tq, head_dim].
        key: [B, kv_heads, Tk, head_dim].
        value: like `key`.
        plan: the documents of queries and keys, the window, and whether later positions are hidden.
        scale: factor of the scores.
        dropout: probability with which a weight of the average becomes 0.
    """
    kernel = attend_one_by_one if query.device.type == "cpu" else attend_flat
    return kernel(query, key, value, plan, scale, dropout)


def attend_flat(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    plan: AttentionPlan,
    scale: float,
    dropout: float = 0.0,
) -> Tensor:
    """Compute `attend` by one call of the accelerator's variable-length kernel.

    torch's `varlen_attn` calls the same operator, with a dropout of 0.
    """
    own, other = _documents(plan)
    near = -1 if plan.window is None else plan.window
    # queries, keys and values end to end, [B * T, heads, head_dim]
    parts = (_end_to_end(query), _end_to_end(key), _end_to_end(value))
    bounds = (own.bounds, other.bounds, own.longest, other.longest)
    fully_causal = plan.causal and plan.window is None
    later = 0 if plan.causal else near
    mixed, *_ = _flash(
        *parts,
        *bounds,
        dropout,
        fully_causal,
        False,
        scale=scale,
        window_size_left=near,
        window_size_right=later,
    )
    assert isinstance(mixed, Tensor)
    return _in_rows(mixed, query)


def attend_one_by_one(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    plan: AttentionPlan,
    scale: float,
    dropout: float = 0.0,
) -> Tensor:
    """Compute `attend` by one call per document: on a CPU this is faster than scores that a mask discards."""
    own, other = _documents(plan)
    assert own.bounds is not None
    assert other.bounds is not None
    sizes = own.bounds.diff().tolist()
    other_sizes = other.bounds.diff().tolist()
    queries = torch.split(_end_to_end(query), sizes)
    keys, values = (torch.split(_end_to_end(states), other_sizes) for states in (key, value))
    mixed = []
    # each document: [1 .. T, heads, head_dim], with its own window mask where it is longer than the
    # window
    for index, size in enumerate(sizes):
        near = None
        if plan.window is not None and size > plan.window + 1:
            positions = torch.arange(size)[None]
            near = window_mask(positions, positions, plan.window)[0, 0]
            near = near.tril() if plan.causal else near
        states = F.scaled_dot_product_attention(
            queries[index].transpose(0, 1),
            keys[index].transpose(0, 1),
            values[index].transpose(0, 1),
            attn_mask=near,
            dropout_p=dropout,
            is_causal=plan.causal and near is None,
            scale=scale,
            enable_gqa=query.shape[1] != key.shape[1],
        )
        mixed.append(states.transpose(0, 1))
    return _in_rows(torch.cat(mixed), query)


def _documents(plan: AttentionPlan) -> tuple[Documents, Documents]:
    """Return the documents of queries and of keys."""
    assert plan.documents is not None
    return (
        plan.documents,
        plan.documents if plan.source_documents is None else plan.source_documents,
    )


def _end_to_end(states: Tensor) -> Tensor:
    return states.transpose(1, 2).flatten(
        0, 1
    )  # [B, heads, T, head_dim] to [B * T, heads, head_dim]


def _in_rows(mixed: Tensor, query: Tensor) -> Tensor:
    rows, _, columns, _ = query.shape
    return mixed.view(rows, columns, *mixed.shape[1:]).transpose(1, 2)  # [B, heads, T, head_dim]
