"""Token vectors concatenated with both neighbors' vectors (MobileBERT, arXiv 2004.02984)."""

import torch
from torch import Tensor
from torch.nn import functional as F


def neighbor_mask(padding: Tensor | None, document_ids: Tensor | None) -> Tensor | None:
    """Return [B, T - 1] bool, True where a position and the next are tokens of one document; None: all are.

    `padding` is [B, 1, 1, T] bool from `padding_mask`, `document_ids` [B, T] the document of each position.
    """
    joined = None
    if padding is not None:
        real = padding[:, 0, 0]
        joined = real[:, 1:] & real[:, :-1]
    if document_ids is not None:
        same = document_ids[:, 1:] == document_ids[:, :-1]
        joined = same if joined is None else joined & same
    return joined


def trigrams(vectors: Tensor, joined: Tensor | None) -> Tensor:
    """Return [B, T, 3 x width]: the vectors [B, T, width] of the next token, the token itself and the previous one.

    A neighbor outside the row or document, or in the padding, is zeros, as `neighbor_mask` says.

    Example:
        >>> trigrams(torch.tensor([[[1.0], [2.0], [3.0]]]), torch.tensor([[True, False]])).tolist()
        [[[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 3.0, 0.0]]]
    """
    following, before = vectors[:, 1:], vectors[:, :-1]
    if joined is not None:
        shown = joined[..., None]
        following, before = following * shown, before * shown
    return torch.cat((F.pad(following, (0, 0, 0, 1)), vectors, F.pad(before, (0, 0, 1, 0))), dim=-1)
