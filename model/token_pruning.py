"""Token pruning: later layers read fewer and fewer tokens of a row, those that others attend to.

Rules are PoWER-BERT's schedule (arXiv 2001.08950) and LTP's thresholds (arXiv 2107.00910). Tokens leave between the
attention and the feed-forward block of a layer, as in PoWER-BERT. Heads read a state at every position: a dropped token
keeps its last one. `LearnedRetention` and `LearnedThresholds` find the numbers of a rule by training a soft form of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor, nn

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.flops import matrix_flops
from clozeline.model.layer_inputs import apply_final_norm, attention_flops, embedding_flops, find_body, record_layers
from clozeline.model.layers.attention import Attention
from clozeline.model.layers.layer import Layer
from clozeline.model.layers.masks import BLOCKED, AttentionPlan, real_tokens
from clozeline.model.layers.position import rotate
from clozeline.model.layers.stack import record_outputs
from clozeline.model.loss import Loss

_PURPOSE: Final = "token pruning"
_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class TopTokens:
    """Keep the most significant tokens, a share of each row (PoWER-BERT, arXiv 2001.08950).

    The significance of a token is the attention that it receives, summed over heads and queries. Of equal ones the
    first stays.

    Example (half of four tokens stay):
        >>> attention = torch.tensor([[torch.inf, 0.1, 0.3, 0.2]])
        >>> TopTokens((0.5,)).keep(0, attention, torch.tensor([4])).int().tolist()
        [[1, 0, 1, 0]]
    """

    shares: tuple[float, ...]
    """of the row's tokens that each layer keeps, rounded up, [CLS] included: (0, 1], never rising; 1 = all"""

    def check(self, layers: int) -> None:
        """Refuse a schedule that is not one for this number of layers."""
        if len(self.shares) != layers or not all(0 < share <= 1 for share in self.shares):
            _refuse("shares", f"{layers} numbers in (0, 1]", self.shares)
        if sorted(self.shares, reverse=True) != list(self.shares):
            _refuse("shares", "none above the one before it: dropped tokens do not come back", self.shares)

    def prunes(self, layer: int) -> bool:
        """Return whether tokens may leave in a layer, from 0."""
        return self.shares[layer] < (self.shares[layer - 1] if layer else 1.0)

    def keep(self, layer: int, attention: Tensor, lengths: Tensor) -> Tensor:
        """Return which of the tokens [B, K] stay, by the mean attention that each receives; rows have `lengths` [B].

        The attention is inf at [CLS], which stays, and -inf at padding and dropped tokens, which do not.
        """
        counts = (lengths * self.shares[layer] - _ROUNDING).ceil().clamp(min=1)
        ranks = attention.argsort(descending=True, stable=True).argsort()
        return (ranks < counts[:, None]) & (attention > -torch.inf)


@dataclass(frozen=True)
class Threshold:
    """Keep the tokens whose mean attention is above a threshold, so that longer rows lose more (LTP, arXiv 2107.00910).

    Example:
        >>> attention = torch.tensor([[torch.inf, 0.1, 0.3, 0.2]])
        >>> Threshold((0.15,)).keep(0, attention, torch.tensor([4])).int().tolist()
        [[1, 0, 1, 1]]
    """

    thresholds: tuple[float, ...]
    """of each layer, in [0, 1]; 0 = all tokens stay, 1 = [CLS] alone"""

    def check(self, layers: int) -> None:
        """Refuse thresholds that are not those of this number of layers."""
        if len(self.thresholds) != layers or not all(0 <= threshold <= 1 for threshold in self.thresholds):
            _refuse("thresholds", f"{layers} numbers in [0, 1]", self.thresholds)

    def prunes(self, layer: int) -> bool:
        """Return whether tokens may leave in a layer, from 0."""
        return self.thresholds[layer] > 0

    def keep(self, layer: int, attention: Tensor, lengths: Tensor) -> Tensor:
        """Return which of the tokens [B, K] stay, as that of `TopTokens`; `lengths` do not matter."""
        return attention > self.thresholds[layer]


class SoftRule(nn.Module, ABC):
    """A rule in training: no token leaves, and the states of each are multiplied by a mask in [0, 1].

    The model's losses then include `tokens`, a mean over tokens; its weight decides how many tokens the rule keeps.
    """

    after: bool
    """the mask multiplies the output of the feed-forward block, not its input"""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = layers

    def check(self, layers: int) -> None:
        """Refuse a model of another depth."""
        if self.layers != layers:
            raise ConfigurationError(f"token pruning: expected a rule for {layers} layers, got one for {self.layers}")

    def prunes(self, layer: int) -> bool:
        """Return whether a layer has a mask: each does."""
        return True

    @abstractmethod
    def mask(self, layer: int, attention: Tensor, lengths: Tensor) -> Tensor:
        """Return the mask of the tokens [B, T], from what `keep` of the other rules reads; 1 at [CLS]."""

    @abstractmethod
    def penalty(self, masks: Sequence[Tensor], weights: Tensor) -> Tensor:
        """Return the penalty, summed over the tokens that `weights` [B, T] count, from the mask of each layer."""

    @abstractmethod
    def harden(self) -> TopTokens | Threshold:
        """Return the rule that was learned."""


class LearnedThresholds(SoftRule):
    """Train a threshold of each layer: mask σ((attention - threshold) / temperature), penalty mean mask (LTP).

    Args:
        layers: of the model.
        last: first value of the last layer's threshold; those before rise to it linearly.
        temperature: the lower, the harder the mask; 2e-3 in the paper's range.
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
    """Train the mask of each layer and rank, by the attention received; penalty Σ layer · Σ mask (PoWER-BERT).

    A row of n tokens reads entry rank · positions / n, rounded down, so that rows of all lengths share the entries. The
    first entry is 1, and the others count within [0, 1]: call `clip` after each update of the optimizer.

    Args:
        layers: of the model.
        positions: entries of a layer, 2 or more, such as the longest row.
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
        """Set entries below 0 to 0 and those above 1 to 1."""
        self.retention.clamp_(0, 1)

    def harden(self) -> TopTokens:
        """Return the sum of each layer's entries, rounded up, as a share that never rises."""
        sums = 1 + self.retention.detach().double().clamp(0, 1).sum(1)
        return TopTokens(tuple(((sums - _ROUNDING).ceil().cummin(0).values / self.positions).tolist()))


Rule: TypeAlias = TopTokens | Threshold | SoftRule


class Pruned(NamedTuple):
    """The results of a batch."""

    hidden: Tensor
    """[B, T, dim], at dropped tokens their last states"""
    kept: Tensor
    """int64 [B, L], tokens that each layer keeps"""
    flops: Tensor
    """float64 [B]: of the layers for the tokens that they read, and of finding those that stay; without heads"""
    masks: Sequence[Tensor] = ()
    """[B, T] of each layer, under a rule in training"""


class TokenPruning(nn.Module):
    """A model that drops tokens. The results of a row do not depend on the other rows, except for rounding.

    Calling it returns losses, so that a model can be trained further with its schedule: gradients go through the tokens
    that stay, not through the choice. A `SoftRule` is trained together with the model.

    Args:
        model: of the family encoder, with layers of the usual form.
        rule: choice of tokens.

    Raises:
        ConfigurationError: the model has other layers, an adapter with a prefix, or a head that reads a mix of all
            layers or two views of a row; or the rule does not fit the model's depth.
    """

    def __init__(self, model: Model, rule: Rule) -> None:
        super().__init__()
        body = find_body(model, _PURPOSE)
        usual = model.family.architecture == "encoder" and all(type(layer) is Layer for layer in body.layers)
        prefix = any(isinstance(module, Attention) and module.prefix is not None for module in body.modules())
        if not usual or prefix or model.config.position.disentangled is not None:
            raise ConfigurationError(
                "token pruning: expected an encoder of attention and feed-forward blocks, without disentangled "
                f"attention or an active prefix adapter, got the family {model.config.family}"
            )
        for name, head in model.heads.items():
            if head.mix is not None or "input_ids_b" in head.needs:
                raise ConfigurationError(
                    f"token pruning: expected heads that read the last states of one row, got {name}, which reads all "
                    "layers (scalar_mix) or a second view"
                )
        rule.check(model.config.layers)
        self.model, self.rule = model, rule

    def forward(self, tensors: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Return the loss of each head, and of a rule in training its penalty `tokens`."""
        pruned = self.prune(tensors)
        losses = {name: head.loss(pruned.hidden, tensors) for name, head in self.model.heads.items()}
        if isinstance(self.rule, SoftRule):
            weights = real_tokens(tensors)
            losses["tokens"] = Loss(self.rule.penalty(pruned.masks, weights), weights.sum().long())
        return losses

    def logits(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the scores of each head: [B, T, classes], or [B, classes] for rows."""
        hidden = self.prune(tensors).hidden
        return {name: head.scores(hidden, tensors) for name, head in self.model.heads.items()}

    def prune(self, tensors: Mapping[str, Tensor]) -> Pruned:
        """Return the states of a batch, the tokens that were kept, and the FLOPs.

        Raises:
            BatchError: packed documents or padding on the left, or a position id is beyond the table.
        """
        x, calls, _, lengths = record_layers(self.model, tensors, _PURPOSE)
        # K slots hold the tokens that are left: columns [B, K] are their positions, alive [B, K] is False at padding
        columns = torch.arange(x.shape[1], device=x.device).expand(len(x), -1)
        alive = columns < lengths[:, None]
        every: Tensor | None = None  # last states [B, T, dim] of all positions, once tokens have been dropped
        tokens, kept, flops = lengths, [], embedding_flops(self.model, lengths)
        soft, masks = self.rule if isinstance(self.rule, SoftRule) else None, list[Tensor]()
        for number, call in enumerate(calls):
            layer, mixing = cast("Layer", call.layer), attention_flops(self.model, number, tokens)
            body = cast("Attention", layer.attention.body)
            plan = call.plan if every is None else select_tokens(call.plan, columns, alive)
            flops = flops + tokens * matrix_flops(layer.attention) + mixing
            with record_outputs(body.query) as queries, record_outputs(body.key) as keys:
                x = layer.attention(x, plan)
            stays = alive
            if self.rule.prunes(number):
                flops = flops + mixing / 2  # the scores, a second time
                heads = queries[0].shape[-1] // body.head_dim
                with torch.set_grad_enabled(soft is not None and torch.is_grad_enabled()):
                    received = sum_attention(body, queries[0], keys[0], plan, alive) / (heads * tokens[:, None])
                received = received.masked_fill(columns == 0, torch.inf).masked_fill(~alive, -torch.inf)
                if isinstance(self.rule, SoftRule):
                    masks.append(self.rule.mask(number, received, lengths))
                else:
                    stays = self.rule.keep(number, received, lengths)
            if not torch.equal(stays, alive):
                every = _store(every, x, columns, alive)
                # move the tokens that stay to the first slots, in the order of the row
                tokens = stays.sum(1)
                slots = (~stays).int().argsort(dim=1, stable=True)[:, : int(tokens.max())]
                x = x.gather(1, slots[..., None].expand(-1, -1, x.shape[-1]))
                columns, alive = columns.gather(1, slots), stays.gather(1, slots)
            if soft is not None and not soft.after:
                x = x * masks[-1][..., None].to(x.dtype)
            x = layer.feed_forward(x)
            if soft is not None and soft.after:
                x = x * masks[-1][..., None].to(x.dtype)
            kept.append(tokens)
            flops = flops + tokens * matrix_flops(layer.feed_forward)
        hidden = x if every is None else _store(every, x, columns, alive)
        return Pruned(apply_final_norm(self.model, hidden), torch.stack(kept, dim=1), flops, masks)


def sum_attention(body: Attention, query: Tensor, key: Tensor, plan: AttentionPlan, alive: Tensor) -> Tensor:
    """Return the attention that each token receives, summed over heads and queries, fp32 or fp64 [B, K].

    Args:
        body: the attention, for its scale and the width of a head.
        query: [B, K, heads x head_dim], before rotation.
        key: [B, K, kv_heads x head_dim].
        plan: that of the attention.
        alive: [B, K] bool; padding neither reads nor is read.
    """
    queries, keys = (part.view(*part.shape[:2], -1, body.head_dim).transpose(1, 2) for part in (query, key))
    if plan.rotation is not None:
        queries, keys = rotate(queries, plan.rotation), rotate(keys, plan.rotation)
    keys = keys.repeat_interleave(queries.shape[1] // keys.shape[1], dim=1)
    scores = body.scale * (queries @ keys.mT)  # [B, heads, K, K]
    scores = scores if scores.dtype == torch.float64 else scores.float()
    if plan.mask is not None:
        boolean = plan.mask.dtype == torch.bool
        scores = scores.masked_fill(~plan.mask, BLOCKED) if boolean else scores + plan.mask
    probabilities = scores.softmax(-1) * alive[:, None, :, None]
    return probabilities.sum((1, 2))


def select_tokens(plan: AttentionPlan, columns: Tensor, alive: Tensor) -> AttentionPlan:
    """Return the plan of some positions [B, K] of each row, where slots that are not alive are hidden."""

    def select(part: Tensor, dim: int) -> Tensor:
        """Take the columns along a dimension of [B or 1, n, T or 1, m]."""
        index = columns.unflatten(1, (1, *(-1 if at == dim else 1 for at in (2, 3))))  # type: ignore[no-untyped-call]
        part = part.expand(len(columns), -1, -1, -1)
        return part.gather(dim, index.expand(*(index.shape[at] if at == dim else part.shape[at] for at in range(4))))

    mask, rotation, seen = plan.mask, plan.rotation, alive[:, None, None]
    if mask is not None:
        mask = select(mask, 3)
        mask = select(mask, 2) if mask.shape[2] > 1 else mask
    if mask is not None and mask.is_floating_point():
        mask = mask.masked_fill(~seen, BLOCKED)
    elif not bool(alive.all()) or mask is not None:
        # every slot sees itself: one that sees nothing would become NaN
        itself = torch.eye(alive.shape[1], dtype=torch.bool, device=alive.device)
        mask = (seen if mask is None else mask & seen) | itself
    if rotation is not None:
        rotation = (select(rotation[0], 2), select(rotation[1], 2))
    return plan._replace(mask=mask, rotation=rotation)


def _store(every: Tensor | None, x: Tensor, columns: Tensor, alive: Tensor) -> Tensor:
    """Return the last states [B, T, dim] of all positions, with those of living slots written to their columns."""
    if every is None:
        return x
    index = columns[..., None].expand(-1, -1, x.shape[-1])
    return every.scatter(1, index, torch.where(alive[..., None], x, every.gather(1, index)))


def _refuse(key: str, expected: str, got: tuple[float, ...]) -> None:
    raise ConfigurationError(f"token pruning: {key}: expected one a layer, {expected}, got {list(got)}")
