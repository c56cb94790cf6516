"""Pooling: one vector per sequence from the states of its tokens; padding is ignored."""

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from clozeline.errors import BatchError

PAIR_FEATURES: Final = 4
"""Vectors that the pool `pair` concatenates."""


def pool(kind: str, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return one vector per row: [B, T, dim] to [B, dim], or to [B, 4 x dim] for `pair`.

    A row without tokens is read as one token.

    Args:
        kind: cls, the first token (arXiv 1810.04805); mean or max over all tokens (arXiv 1908.10084); last, the last
            token, the only one that has seen the entire row in a causal stack; decoder_last, the decoder's state at the
            position of the encoder's last token, as the decoder reads the same row shifted by one (arXiv 1910.13461);
            pair, the means a and b of the two segments as a, b, abs(a - b), a x b (arXiv 1705.02364), each with its
            special tokens.
        hidden: states of the rows; decoder_last: of the decoder's rows, padded on the right.
        tensors: `lengths` [B], or [] where no row is padded; optionally `left_padding` [B]; pair: `type_ids` [B, T].

    Raises:
        BatchError: decoder_last: a decoder's row is shorter than the encoder's. pair: rows have no segments.

    Example (two rows of two tokens and of one, the second with one padded position):
        >>> hidden = torch.tensor([[[1.0], [3.0]], [[5.0], [9.0]]])
        >>> batch = {"lengths": torch.tensor([2, 1])}
        >>> [pool(kind, hidden, batch).flatten().tolist() for kind in ("cls", "mean", "max", "last")]
        [[1.0, 5.0], [2.0, 5.0], [3.0, 5.0], [3.0, 5.0]]
    """
    rows, columns = hidden.shape[:2]
    lengths = tensors["lengths"].to(hidden.device).expand(rows).clamp(min=1)
    first = tensors["left_padding"].to(hidden.device) if "left_padding" in tensors else torch.zeros_like(lengths)
    if kind == "decoder_last":
        if columns < tensors["input_ids"].shape[1]:
            raise BatchError(
                f"decoder_input_ids: expected the row of the encoder, {tensors['input_ids'].shape[1]} positions, got "
                f"{columns}: the pool decoder_last reads the state at the row's last token"
            )
        first = torch.zeros_like(lengths)
    # pools over all tokens: `inside` [B, T] is True at tokens
    if kind in ("mean", "max", "pair"):
        positions = torch.arange(columns, device=hidden.device) - first[:, None]
        inside = (positions >= 0) & (positions < lengths[:, None])
        if kind == "max":
            return hidden.masked_fill(~inside[..., None], -torch.inf).amax(1)
        if kind == "mean":
            return _mean(hidden, inside)
        if "type_ids" not in tensors:
            raise BatchError("the pool pair reads two segments, and these rows have none: choose another pool")
        segments = tensors.get("segment_ids", tensors["type_ids"]).to(hidden.device)
        a, b = (_mean(hidden, inside & (segments == number)) for number in (0, 1))
        return torch.cat((a, b, (a - b).abs(), a * b), dim=-1)
    # pools of one token
    position = first if kind == "cls" else first + lengths - 1
    return hidden[torch.arange(rows, device=hidden.device), position]


def _mean(hidden: Tensor, chosen: Tensor) -> Tensor:
    """Return the mean state of the chosen positions [B, T] of each row, 0 where there are none."""
    return hidden.masked_fill(~chosen[..., None], 0.0).sum(1) / chosen.sum(1, keepdim=True).clamp(min=1)
