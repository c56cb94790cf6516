"""Rules of token pruning: a share of each row, a threshold, and trainable forms of both."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import torch
from torch import Tensor, nn

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
        if len(self.shares) != layers or not all(0 < share <= 1 for share in self.shares):
            _refuse("shares", f"{layers} numbers in (0, 1]", self.shares)
        if sorted(self.shares, reverse=True) != list(self.shares):
            _refuse(
                "shares",
                "never rising: dropped tokens do not return",
                self.shares,
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


@dataclass(frozen=True)
class Threshold:
    """Keep the tokens whose mean attention is above a threshold (LTP, arXiv 2107.00910).

    Longer rows lose more tokens.

    Example:
        >>> attention = torch.tensor([[torch.inf, 0.1, 0.3, 0.2]])
        >>> Threshold((0.15,)).keep(0, attention, torch.tensor([4])).int().tolist()
        [[1, 0, 1, 1]]
    """

    thresholds: tuple[float, ...]
    """threshold of each layer, in [0, 1]; 0 = all tokens stay, 1 = only [CLS] does"""

    def check(self, layers: int) -> None:
        """Raise ConfigurationError for thresholds of another number of layers, or out of range."""
        if len(self.thresholds) != layers or not all(
            0 <= threshold <= 1 for threshold in self.thresholds
        ):
            _refuse("thresholds", f"{layers} numbers in [0, 1]", self.thresholds)

    def prunes(self, layer: int) -> bool:
        """Return whether tokens may leave in a layer, from 0."""
        return self.thresholds[layer] > 0

    def keep(self, layer: int, attention: Tensor, lengths: Tensor) -> Tensor:
        """Return which tokens [B, K] stay, as in `TopTokens`; `lengths` do not matter."""
        return attention > self.thresholds[layer]


class SoftRule(nn.Module, ABC):
    """A rule in training: no token leaves, and each state is multiplied by a mask in [0, 1].

    Its penalty is the loss `tokens`, averaged over tokens; its weight decides how many tokens the
    rule keeps.
    """

    after: bool
    """whether the mask multiplies the output of the feed-forward block, not its input"""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = layers

    def check(self, layers: int) -> None:
        """Raise ConfigurationError for a model of another depth."""
        if self.layers != layers:
            raise ConfigurationError(
                f"token pruning: expected a rule for {layers} layers, got one for {self.layers}"
            )

    def prunes(self, layer: int) -> bool:
        """Return whether a layer has a mask: every layer does."""
        return True

    @abstractmethod
    def mask(self, layer: int, attention: Tensor, lengths: Tensor) -> Tensor:
        """Return the mask of the tokens [B, T], from the arguments of `keep`; 1 at [CLS]."""

    @abstractmethod
    def penalty(self, masks: Sequence[Tensor], weights: Tensor) -> Tensor:
        """Return the penalty of the masks, summed over the tokens that `weights` [B, T] count."""

    def clip(self) -> None:
        """Clip values to their range, after an update."""

    @abstractmethod
    def harden(self) -> TopTokens | Threshold:
        """Return the rule that was learned."""


class LearnedThresholds(SoftRule):
    """Train a threshold per layer: mask σ((attention - threshold) / temperature) (LTP).

    The penalty is the mean mask.

    Args:
        layers: number of layers of the model.
        last: initial threshold of the last layer; earlier ones rise to it linearly.
        temperature: the lower, the harder the mask; 2e-3 is in the paper's range.
    """

    after = True

    def __init__(self, layers: int, last: float = 0.01, temperature: float = 2e-3) -> None:
        super().__init__(layers)
        self.temperature = temperature
        self.thresholds = nn.Parameter(last * torch.arange(1, layers + 1) / layers)

    def mask(self, layer: int, attention: Tensor, lengths: Tensor) -> Tensor:
        return ((attention - self.thresholds[layer]) / self.temperature).sigmoid()

    def penalty(self, masks: Sequence[Tensor], weights: Tensor) -> Tensor:
        return (torch.stack([*masks]).mean(0) * weights).sum()

    def harden(self) -> Threshold:
        """Return the thresholds, within [0, 1]."""
        return Threshold(tuple(self.thresholds.detach().clamp(0, 1).tolist()))


class LearnedRetention(SoftRule):
    """Train the mask of each layer and rank, by the attention received (PoWER-BERT).

    The penalty is Σ layer · Σ mask.

    A row of n tokens reads entry rank · positions / n, rounded down, so that rows of all lengths
    share the entries. The first entry is 1, and the others count within [0, 1]: call `clip` after
    each update of the optimizer.

    Args:
        layers: number of layers of the model.
        positions: entries of a layer, 2 or more, such as the length of the longest row.
    """

    after = False

    def __init__(self, layers: int, positions: int) -> None:
        super().__init__(layers)
        self.positions = positions
        self.retention = nn.Parameter(torch.ones(layers, positions - 1))

    def mask(self, layer: int, attention: Tensor, lengths: Tensor) -> Tensor:
        ranks = attention.argsort(descending=True, stable=True).argsort()
        entries = (ranks * self.positions // lengths[:, None]).clamp(max=self.positions - 1)
        return torch.cat((self.retention.new_ones(1), self.retention[layer]))[entries]

    def penalty(self, masks: Sequence[Tensor], weights: Tensor) -> Tensor:
        layers = torch.arange(1, self.layers + 1, device=weights.device)
        return (layers * (1 + self.retention.sum(1))).sum() * weights.sum()

    @torch.no_grad()
    def clip(self) -> None:
        """Clip entries to [0, 1]."""
        self.retention.clamp_(0, 1)

    def harden(self) -> TopTokens:
        """Return the sum of each layer's entries, rounded up, as a share that never rises."""
        sums = 1 + self.retention.detach().double().clamp(0, 1).sum(1)
        return TopTokens(
            tuple(((sums - _ROUNDING).ceil().cummin(0).values / self.positions).tolist())
        )


TokenRule: TypeAlias = TopTokens | Threshold | SoftRule


RuleRecord: TypeAlias = dict[Literal["shares", "thresholds"], tuple[float, ...]]
"""A rule in the state of a checkpoint, a number per layer; empty: no token is dropped."""


def write_rule(rule: TokenRule) -> RuleRecord:
    """Return the record of a rule; empty for a rule in training."""
    if isinstance(rule, TopTokens):
        return {"shares": rule.shares}
    return {"thresholds": rule.thresholds} if isinstance(rule, Threshold) else {}


def read_rule(record: RuleRecord) -> TopTokens | Threshold | None:
    """Return the rule of a record; None: the record is empty."""
    if "shares" in record:
        return TopTokens(tuple(record["shares"]))
    return Threshold(tuple(record["thresholds"])) if record else None


def _refuse(key: str, expected: str, got: tuple[float, ...]) -> None:
    raise ConfigurationError(
        f"token pruning: {key}: expected a number per layer, {expected}, got {list(got)}"
    )
