"""Attention within packed documents, computed per document instead of with a mask."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from clozeline.model.layers.masks import AttentionPlan, PackedDocuments, window_mask

_MIN_COMPUTE_CAPABILITY = 8
"""The variable-length kernel needs Ampere or later."""
_MAX_HEAD_WIDTH = 256
_flash = torch.ops.aten._flash_attention_forward


def batch_documents(
    tensors: Mapping[str, Tensor], side: Literal["", "decoder_"] = ""
) -> PackedDocuments | None:
    """Return the documents of a batch that must not see each other; None: there are none.

    `decoder_` selects the documents of the targets.
    """
    if f"{side}document_ids" not in tensors:
        return None
    document_ids = tensors[f"{side}document_ids"]
    if f"{side}cu_seqlens" not in tensors:
        return PackedDocuments(document_ids)
    longest = tensors[f"{side}max_seqlen"]
    # `add_host_shapes` stores the number as a shape, which can be read without waiting for the
    # accelerator
    return PackedDocuments(
        document_ids, tensors[f"{side}cu_seqlens"], len(longest) if longest.ndim else int(longest)
    )


def reads_documents(states: Tensor, head_dim: int, dropout: float, *, paired: bool = False) -> bool:
    """Return whether `attend` supports states of this device and dtype; if not, use a mask.

    The variable-length kernel of an accelerator needs half precision, a head width that is a
    multiple of 8, and Ampere or later. A compiled CPU graph would need a shape per document. With
    dropout, or with the short targets of a decoder that is `paired` with an encoder, a mask is as
    fast on a CPU.
    """
    if states.device.type != "cuda":
        is_slower = paired or dropout or torch.compiler.is_compiling()
        return states.device.type == "cpu" and not is_slower
    has_kernel = (
        states.dtype in (torch.float16, torch.bfloat16)
        and head_dim <= _MAX_HEAD_WIDTH
        and head_dim % 8 == 0
    )
    capability = torch.cuda.get_device_properties(states.device).major if has_kernel else 0
    return capability >= _MIN_COMPUTE_CAPABILITY


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
        value: same shape as `key`.
        plan: documents of queries and keys, window, and whether later positions are hidden.
        scale: factor of the scores.
        dropout: probability with which an attention weight becomes 0.
    """
    kernel = attend_per_document if query.device.type == "cpu" else attend_varlen
    return kernel(query, key, value, plan, scale, dropout)


def attend_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    plan: AttentionPlan,
    scale: float,
    dropout: float = 0.0,
) -> Tensor:
    """Compute `attend` with one call of the accelerator's variable-length kernel.

    torch's `varlen_attn` calls the same operator, with a dropout of 0.
    """
    documents, source = _documents(plan)
    window = -1 if plan.window is None else plan.window
    # queries, keys and values of all rows, concatenated: [B * T, heads, head_dim]
    parts = (_concatenate_rows(query), _concatenate_rows(key), _concatenate_rows(value))
    bounds = (documents.bounds, source.bounds, documents.longest, source.longest)
    fully_causal = plan.causal and plan.window is None
    later = 0 if plan.causal else window
    mixed, *_ = _flash(
        *parts,
        *bounds,
        dropout,
        fully_causal,
        False,
        scale=scale,
        window_size_left=window,
        window_size_right=later,
    )

    assert isinstance(mixed, Tensor)

    return _in_rows(mixed, query)


def attend_per_document(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    plan: AttentionPlan,
    scale: float,
    dropout: float = 0.0,
) -> Tensor:
    """Compute `attend` with one call per document, on a CPU faster than scores behind a mask."""
    documents, source = _documents(plan)

    assert documents.bounds is not None
    assert source.bounds is not None

    sizes = documents.bounds.diff().tolist()
    source_sizes = source.bounds.diff().tolist()
    queries = torch.split(_concatenate_rows(query), sizes)
    keys = torch.split(_concatenate_rows(key), source_sizes)
    values = torch.split(_concatenate_rows(value), source_sizes)
    mixed = []
    # each document is [1 .. T, heads, head_dim]; it needs a window mask if it exceeds the window
    for index, size in enumerate(sizes):
        mask = None

        if plan.window is not None and size > plan.window + 1:
            positions = torch.arange(size)[None]
            mask = window_mask(positions, positions, plan.window)[0, 0]
            mask = mask.tril() if plan.causal else mask

        states = F.scaled_dot_product_attention(
            queries[index].transpose(0, 1),
            keys[index].transpose(0, 1),
            values[index].transpose(0, 1),
            attn_mask=mask,
            dropout_p=dropout,
            is_causal=plan.causal and mask is None,
            scale=scale,
            enable_gqa=query.shape[1] != key.shape[1],
        )

        mixed.append(states.transpose(0, 1))

    return _in_rows(torch.cat(mixed), query)


def _documents(plan: AttentionPlan) -> tuple[PackedDocuments, PackedDocuments]:
    """Return the documents of queries and of keys."""
    assert plan.documents is not None
    source = plan.documents if plan.source_documents is None else plan.source_documents
    return plan.documents, source


def _concatenate_rows(states: Tensor) -> Tensor:
    # [B, heads, T, head_dim] to [B * T, heads, head_dim]
    return states.transpose(1, 2).flatten(0, 1)


def _in_rows(mixed: Tensor, query: Tensor) -> Tensor:
    rows, _, columns, _ = query.shape
    return mixed.view(rows, columns, *mixed.shape[1:]).transpose(1, 2)  # [B, heads, T, head_dim]
