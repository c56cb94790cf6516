"""The rule of token pruning: a share of each row."""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError

_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class TopTokens:
    """Keep the most significant tokens, a share of each row (PoWER-BERT, arXiv 2001.08950).

    The significance of a token is the attention that it receives, summed over heads and queries. Of
    equal tokens, the first stays.

    Example (half of four tokens stay):
        >>> attention = torch.tensor([[torch.inf, 0.1, 0.3, 0.2]])
        >>> TopTokens((0.5,)).keep(0, attention, torch.tensor([4])).int().tolist()
        [[1, 0, 1, 0]]
    """

    shares: tuple[float, ...]
    """share of the row's tokens that each layer keeps, rounded up, including [CLS]: (0, 1], never
    rising; 1 = all"""

    def check(self, layers: int) -> None:
        """Raise ConfigurationError for a schedule of another depth, or an invalid one."""
        falls = sorted(self.shares, reverse=True) == list(self.shares)
        in_range = all(0 < share <= 1 for share in self.shares)
        if len(self.shares) != layers or not in_range or not falls:
            raise ConfigurationError(
                f"token pruning: shares: expected a number in (0, 1] per layer ({layers}), never "
                f"rising because dropped tokens do not return, got {list(self.shares)}"
            )

    def prunes(self, layer: int) -> bool:
        """Return whether tokens may leave in a layer, from 0."""
        return self.shares[layer] < (self.shares[layer - 1] if layer else 1.0)

    def keep(self, layer: int, attention: Tensor, lengths: Tensor) -> Tensor:
        """Return which tokens [B, K] stay, by the mean attention that each of them receives.

        Rows have `lengths` [B]. The attention is inf at [CLS], which stays, and -inf at padding and
        dropped tokens, which do not.
        """
        counts = (lengths * self.shares[layer] - _ROUNDING).ceil().clamp(min=1)
        ranks = attention.argsort(descending=True, stable=True).argsort()
        return (ranks < counts[:, None]) & (attention > -torch.inf)
