"""Attention masks: which positions see which, built once per forward pass."""

from collections.abc import Mapping
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from clozeline.model.layers.cache import Cache

# the lowest number of both bf16 and fp32; -inf would turn a fully masked row into NaN
BLOCKED = torch.finfo(torch.bfloat16).min


class RelativePositions(NamedTuple):
    """Inputs of disentangled attention, the same for all layers of a stack."""

    vectors: Tensor
    """[rows, dim], one for each relative position"""
    rows: Tensor
    """[B or 1, T, T] int64: the row of `vectors` for each query and key"""
    absolute: Tensor
    """[B or 1, T] int64: position ids"""


class PackedDocuments(NamedTuple):
    """Packed documents of all rows [B, T], concatenated; padding of a row counts as a document."""

    ids: Tensor
    """[B, T], document of each position in its row"""
    bounds: Tensor | None = None
    """int32 [documents + 1]: start of each document in B * T, and the end (`cu_seqlens`); None: use
    a mask. In an encoder-decoder, both sides have the same number, some of them empty"""
    longest: int = 0
    """positions of the longest document"""

    def mask(self, keys: Self | None = None) -> Tensor:
        """Return the equivalent mask, [B, 1, T, Tk] bool; keys None: the same documents."""
        return document_mask(self.ids, None if keys is None else keys.ids)


class AttentionPlan(NamedTuple):
    """Inputs of attention in addition to queries, keys and values; the same in all layers."""

    mask: Tensor | None = None
    """None = everything is visible; bool (True = attend) or additive scores, broadcastable to [B,
    heads, queries, keys]"""
    causal: bool = False
    """only positions up to the query's own are visible; never combined with a mask"""
    rotation: tuple[Tensor, Tensor] | None = None
    """cosines and sines [B, 1, T, rotated components] of rotary positions"""
    cache: Cache | None = None
    """key-value cache; None: nothing is stored"""
    relative: RelativePositions | None = None
    """relative positions, for disentangled attention"""
    documents: PackedDocuments | None = None
    """documents that attend only to themselves, without a mask; their bounds hide padding"""
    source_documents: PackedDocuments | None = None
    """documents of the keys in cross-attention, each read by the document of the same index in
    `documents`; None: the same documents"""
    window: int | None = None
    """largest distance between query and key in a document; only read with `documents`"""


def padding_mask(
    lengths: Tensor, columns: int, device: torch.device, left_padding: Tensor | None = None
) -> Tensor | None:
    """Return [B, 1, 1, columns] bool, True at tokens; None if no row is padded, which is faster.

    `lengths` is [B], or [] if `add_host_shapes` has found no padding; `left_padding` [B] comes
    before the tokens.
    """
    if lengths.ndim == 0:
        return None
    positions = torch.arange(columns, device=device).expand(len(lengths), -1)
    if left_padding is not None:
        positions = positions - left_padding.to(device)[:, None]
    return ((positions >= 0) & (positions < lengths.to(device)[:, None]))[:, None, None, :]


def batch_padding(tensors: Mapping[str, Tensor]) -> Tensor | None:
    """Return the padding mask of the rows of `input_ids`; None if no row is padded."""
    ids = tensors["input_ids"]
    return padding_mask(tensors["lengths"], ids.shape[1], ids.device, tensors.get("left_padding"))


def real_tokens(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return which positions [B, T] of `input_ids` hold tokens of rows with a weight, as fp32."""
    ids = tensors["input_ids"]
    weight = tensors["row_weight"]
    if (choices := tensors.get("choices")) is not None:
        weight = weight.repeat_interleave(choices.to(weight.device), output_size=len(ids))
    weighted = (weight != 0)[:, None].expand(ids.shape)
    padding = batch_padding(tensors)
    return (weighted if padding is None else weighted & padding[:, 0, 0]).float()


def document_mask(queries: Tensor, keys: Tensor | None = None) -> Tensor:
    """Return [B, 1, Tq, Tk] bool, True within a document; document ids are [B, Tq] and [B, Tk].

    keys None: the same as `queries`.
    """
    return (queries[:, :, None] == (queries if keys is None else keys)[:, None, :])[:, None]


def mode_mask(attention: Tensor, prefix_length: Tensor, columns: int) -> Tensor:
    """Return what each position may read, [B, 1, T, T] bool, by the UniLM mode of each row.

    See arXiv 1905.03197.

    Args:
        attention: [B]; position i reads every position j in mode 0, j <= i in mode 1, j >= i in
            mode 2, and j <= i or j < prefix in mode 3.
        prefix_length: [B], length of the prefix; only read in mode 3.
        columns: T.
    """
    positions = torch.arange(columns, device=attention.device)
    earlier = positions <= positions[:, None]
    mode = attention[:, None, None]
    prefix = (mode == 3) & (positions < prefix_length[:, None, None])
    forward = ((mode == 1) | (mode == 3)) & earlier
    backward = (mode == 2) & earlier.T
    return ((mode == 0) | forward | backward | prefix)[:, None]


def pair_mask(tensors: Mapping[str, Tensor]) -> Tensor | None:
    """Return which positions may read which, [B, 1, T, T] bool; None: all.

    Documents and UniLM modes of a batch decide.
    """
    pairs = document_mask(tensors["document_ids"]) if "document_ids" in tensors else None
    if "attention" not in tensors:
        return pairs
    ids = tensors["input_ids"]
    mode, prefix = (tensors[name].to(ids.device) for name in ("attention", "prefix_length"))
    modes = mode_mask(mode, prefix, ids.shape[1])
    return modes if pairs is None else modes & pairs


def rank_mask(rank: Tensor, predicted: int) -> Tensor:
    """Return what the two streams of XLNet read (arXiv 1906.08237), [B, 1, T + predicted, T] bool.

    A position of the content stream reads positions of its own and of lower ranks. The query of
    rank r, in row T + r - 1 of the mask, reads positions of ranks below r.

    Example:
        >>> rank_mask(torch.tensor([[0, 2, 1]]), 2)[0, 0].int().tolist()
        [[1, 0, 0], [1, 1, 1], [1, 0, 1], [1, 0, 0], [1, 0, 1]]
    """
    # highest rank that each state may read: its own in the content stream, r - 1 for the query of r
    highest = torch.cat(
        (rank, torch.arange(predicted, device=rank.device).expand(len(rank), -1)), dim=1
    )
    return (rank[:, None, :] <= highest[:, :, None])[:, None]


def prefix_mask(prefix_length: Tensor, columns: int) -> Tensor:
    """Return [B, 1, 1, columns] bool, True for the first `prefix_length` [B] positions."""
    return (torch.arange(columns, device=prefix_length.device) < prefix_length[:, None])[
        :, None, None, :
    ]


def window_mask(queries: Tensor, keys: Tensor, window: int) -> Tensor:
    """Return [B or 1, 1, Tq, Tk] bool, True where two positions are at most `window` apart."""
    return ((queries[:, :, None] - keys[:, None, :]).abs() <= window)[:, None]


def plan_attention(
    bias: Tensor | None,
    padding: Tensor | None,
    causal: bool,
    rotation: tuple[Tensor, Tensor] | None = None,
    pairs: Tensor | None = None,
    prefix: Tensor | None = None,
) -> AttentionPlan:
    """Merge score bias, padding and causality into the form that is cheapest for the kernel.

    Args:
        bias: additive scores [B or 1, heads, T, T], or None.
        padding: from `padding_mask`, or None.
        causal: no position sees a later one. This alone hides padding on the right, so a causal
            stack only needs padding on the left.
        rotation: stored in the plan.
        pairs: [B or 1, 1, T, T] bool, the combination of `document_mask`, `mode_mask` and
            `window_mask`, or None.
        prefix: from `prefix_mask`, if a causal stack reads the start of a row in both directions.
    """
    if pairs is not None or prefix is not None or (causal and padding is not None):
        visible = _visible(pairs, prefix, padding, causal)
        return AttentionPlan(
            visible if bias is None else bias.masked_fill(~visible, BLOCKED), False, rotation
        )

    if bias is None:
        return AttentionPlan(padding, causal, rotation)
    if causal:
        visible = torch.ones(bias.shape[-2:], dtype=torch.bool, device=bias.device).tril()
        return AttentionPlan(bias.masked_fill(~visible, BLOCKED), False, rotation)

    return AttentionPlan(
        bias if padding is None else bias.masked_fill(~padding, BLOCKED), False, rotation
    )


def plan_continuation(
    bias: Tensor | None,
    rotation: tuple[Tensor, Tensor] | None,
    positions: Tensor,
    columns: Tensor,
    prefix: Tensor | None,
    cache: Cache,
    pairs: Tensor | None = None,
) -> AttentionPlan:
    """Return the plan of tokens that continue a cache: each reads the positions up to its own.

    Args:
        bias: additive scores [B or 1, heads, n, columns], or None.
        rotation: stored in the plan.
        positions: [B, n], of the new tokens.
        columns: [1, columns], positions in the cache, including the new ones.
        prefix: from `prefix_mask`, if rows start with a part that is read in both directions.
        cache: stored in the plan.
        pairs: from `window_mask`, for local layers.
    """
    visible = (columns[:, None, :] <= positions[:, :, None])[:, None]
    if prefix is not None:
        visible = visible | prefix
    if pairs is not None:
        visible = visible & pairs
    return AttentionPlan(
        visible if bias is None else bias.masked_fill(~visible, BLOCKED), False, rotation, cache
    )


def plan_source(
    source: Tensor,
    padding: Tensor | None,
    documents: PackedDocuments | None,
    source_documents: PackedDocuments | None,
    cache: Cache | None,
    *,
    flat: bool,
) -> AttentionPlan:
    """Return the plan of cross-attention, in which each document reads its part of the source.

    Without documents, any position reads the entire source.

    Args:
        source: the encoder's states [B, S, dim], which start with those of a prompt adapter.
        padding: of the encoder's rows, from `padding_mask`.
        documents: of the queries.
        source_documents: of the encoder's rows.
        cache: stored in the plan.
        flat: read documents by their bounds if they have some, instead of a mask.
    """
    if documents is not None and source_documents is not None:
        prompted = source.shape[1] > source_documents.ids.shape[1]
        if flat and source_documents.bounds is not None and cache is None and not prompted:
            return AttentionPlan(documents=documents, source_documents=source_documents)
        same_document = documents.mask(source_documents)
        padding = same_document if padding is None else same_document & padding
    if padding is not None:
        padding = F.pad(padding, (source.shape[1] - padding.shape[-1], 0), value=True)
    return AttentionPlan(padding, cache=cache)


def _visible(
    pairs: Tensor | None, prefix: Tensor | None, padding: Tensor | None, causal: bool
) -> Tensor:
    """Return [B, 1, T, T] bool: what each position sees, from all restrictions."""
    first = next(mask for mask in (pairs, prefix, padding) if mask is not None)
    columns = first.shape[-1]
    visible = torch.ones(columns, columns, dtype=torch.bool, device=first.device)
    # later positions are only visible inside the prefix
    if causal:
        visible = visible.tril()
    if prefix is not None:
        visible = visible | prefix
    for mask in (pairs, padding):
        visible = visible if mask is None else visible & mask
    if padding is not None:
        # every position sees itself: padding that sees nothing would become NaN
        visible = visible | torch.eye(columns, dtype=torch.bool, device=first.device)

    return visible
