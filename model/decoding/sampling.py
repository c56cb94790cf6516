"""Sample the next token with temperature, top-k and nucleus sampling, from keyed randomness."""

import hashlib
import struct
from collections.abc import Sequence

import torch
from torch import Tensor


def probabilities(
    scores: Tensor, temperature: float, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """Return the distribution to sample from, fp64 [B, vocabulary].

    Args:
        scores: logits [B, vocabulary]; the temperature divides them first.
        temperature: above 0.
        top_k: number of most probable tokens to keep (arXiv 1805.04833); ties keep the lower ids.
            None: all.
        top_p: mass of the nucleus (arXiv 1904.09751): of the tokens after `top_k`, keep the fewest
            most probable ones whose sum reaches it. None: all.

    Example:
        >>> scores = torch.tensor([[4.0, 1.0, 2.0, 1.0]]).log()
        >>> probabilities(scores, 1.0, top_k=3, top_p=0.8).round(decimals=4).tolist()
        [[0.6667, 0.0, 0.3333, 0.0]]
    """
    # sort by probability, cut the tail off, and put what remains back at its token ids
    ordered, tokens = (scores.double() / temperature).sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        ordered[:, top_k:] = -torch.inf
    masses = ordered.softmax(-1)
    if top_p is not None:
        mass_before = masses.cumsum(-1) - masses
        masses = masses.masked_fill(mass_before >= top_p, 0.0)
    masses = masses / masses.sum(-1, keepdim=True)
    return torch.zeros_like(masses).scatter_(1, tokens, masses)


def draw(distribution: Tensor, numbers: Sequence[float] | Tensor) -> Tensor:
    """Sample a token [B] from each row of a distribution [B, vocabulary] by inversion.

    `numbers` are uniform in [0, 1).

    Example:
        >>> draw(torch.tensor([[0.5, 0.0, 0.5]] * 3), [0.0, 0.49, 0.5]).tolist()
        [0, 0, 2]
    """
    sums = distribution.cumsum(-1)
    points = torch.as_tensor(numbers, dtype=sums.dtype, device=sums.device)[:, None] * sums[:, -1:]
    return torch.searchsorted(sums, points, right=True)[:, 0]


def uniform(seed: int, row: int, step: int) -> float:
    """Return a number in [0, 1), a multiple of 2^-48, which depends only on the three integers."""
    key = struct.pack("<3Q", *(part % 2**64 for part in (seed, row, step)))
    return (
        int.from_bytes(hashlib.blake2b(key, digest_size=6, person=b"generate").digest(), "little")
        / 2.0**48
    )
