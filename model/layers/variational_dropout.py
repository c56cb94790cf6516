"""Dropout with one mask for all tokens of a row (arXiv 1512.05287)."""

from torch import Tensor
from torch.nn import functional as F


def drop_features(x: Tensor, probability: float, training: bool) -> Tensor:
    """Drop features of x [B, T, width], in each row the same ones at all positions; the others are scaled up."""
    if not training or not probability:
        return x
    return x * F.dropout(x.new_ones(len(x), 1, x.shape[2]), probability)


def drop_words(vectors: Tensor, ids: Tensor, rows: int, probability: float, training: bool) -> Tensor:
    """Drop the vectors [B, T, width] of entire words, wherever they occur in `ids` [B, T]; scale up the others."""
    if not training or not probability:
        return vectors
    return vectors * F.dropout(vectors.new_ones(rows), probability)[ids][..., None]
