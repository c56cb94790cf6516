"""AdaLoRA (arXiv 2303.10512): a budget of ranks for the updates of an adapter, which important maps share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final

import torch
from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.adapters.adalora import Adalora as AdaloraAdapter
from clozeline.model.build import Model
from clozeline.model.loss import Loss
from clozeline.model.parameters.sharding import full_shape
from clozeline.train.compression.pruning._cubic_schedule import CubicSteps
from clozeline.train.compression.pruning._pruning import Pruning, Trained
from clozeline.train.optim.weights.flat_buffers import Segment, iterate_flats, refresh_model

ORTHOGONALITY: Final = "orthogonality"
"""Name of the penalty among the losses."""
_MASK, _SENSITIVITY, _UNCERTAINTY = "mask", "sensitivity", "uncertainty"
_MEAN: Final = 0.85
"""Decay of both moving averages, β1 and β2."""


class Adalora(Pruning):
    """Set singular values of the adapter `adalora` to 0, so that those that matter most stay, of all maps together.

    A triplet is a singular value λ with its row of Q and its column of P. Its score is s(λ) + mean s(Q) + mean s(P).
    The score s = Ī Ū of a parameter w multiplies moving averages over steps: of its sensitivity I = |w ∂L/∂w|, and of
    the uncertainty |I - Ī|. Every few steps the values of the lowest scores become 0. Until step `end` they train on,
    so that they may come back; from then on they stay 0.

    The loss also has `orthogonality` times the mean over all P and Q of |P'P - I| and |QQ' - I|. These are norms, as in
    the code of the paper; its equation 4 squares them.
    """

    options: Options
    claim: ClassVar = (
        "1.2 % higher F1 than other methods on SQuAD 2.0 with less than 0.1 % of the parameters trained (2303.10512)"
    )
    conflicts: ClassVar = {
        "average": "an average over steps is not 0 where the singular values are",
        "optimizer.averages": "its average over steps is not 0 where the singular values are",
        "zero.offload": "masks are applied on the device of the weights",
    }

    @config_class
    class Options(CubicSteps):
        """The final budget, and its schedule."""

        rank: Annotated[int, Field(ge=1)] = 8
        """singular values that stay in the end, as a mean over the linear maps; less than the rank of the adapter"""
        orthogonality: Annotated[float, Field(ge=0.0)] = 0.5
        """weight of the penalty in the loss, ≥ 0; the paper uses 0.1 to 0.5"""

    def wrap(self, model: Model) -> Model:
        return _Orthogonal(model, self.options.orthogonality)

    def describe(self, model: Model, horizon: int) -> str:
        options, last = self.options, self.options.last_step(horizon)
        ranks = _ranks_of(model)
        total, final = sum(ranks.values()), options.rank * len(ranks)
        if final >= total:
            raise ConfigurationError(
                f"prune.rank: expected less than the mean rank of the adapter, {total / len(ranks):g}, got "
                f"{options.rank}: nothing would be pruned; raise model.adapter.rank"
            )
        steps = f"from step {options.start} to {last}, every {options.every} steps"
        return f"prune      {final:,} of {total:,} singular values of {len(ranks)} linear maps stay, {steps}"

    def attach(self, trained: Trained) -> None:
        self._trained, self._last = trained, self.options.last_step(trained.horizon)
        ranks = _ranks_of(trained.model)
        firsts = torch.tensor([0, *ranks.values()]).cumsum(0).tolist()
        self._total, self._final = firsts[-1], self.options.rank * len(ranks)
        self._first = dict(zip(ranks, firsts, strict=False))  # index of the first triplet of each map
        trained.optimizer.register_step_pre_hook(self._measure)
        trained.optimizer.register_step_post_hook(self._keep_zeros)

    @torch.no_grad()
    def start(self, fresh: Collection[str], *, initialized: bool) -> None:
        for flat, group in iterate_flats(self._trained.deepspeed):
            if group.startswith("matrix") and flat not in self.of:
                zeros = {name: torch.zeros_like(flat, requires_grad=False) for name in (_SENSITIVITY, _UNCERTAINTY)}
                self.of[flat] = {_MASK: torch.ones_like(flat, requires_grad=False), **zeros}

    def begin(self, step: int, rate: float) -> None:
        self._step = step

    @torch.no_grad()
    def end(self, step: int) -> None:
        if not self.options.is_due(step, self._last):
            return
        scores = self._triplet_scores()
        kept = torch.zeros_like(scores)
        kept[scores.argsort(descending=True, stable=True)[: self.budget(step)]] = 1.0
        for piece, own, triplets in self._pieces():
            if piece.name.endswith(".values"):
                piece.of(own[_MASK]).copy_(kept[triplets])
        for flat, own in self.of.items():
            flat.mul_(own[_MASK])
        refresh_model(self._trained.deepspeed)

    def budget(self, step: int) -> int:
        """Return the singular values that stay after a step."""
        more = (self._total - self._final) * (1.0 - self.options.progress(step, self._last))
        return self._final + round(more)

    def _triplet_scores(self) -> Tensor:
        """Return the score of each triplet, float64 [triplets of all maps]; a collective call."""
        scores = torch.zeros(self._total, dtype=torch.float64, device=next(iter(self.of)).device)
        for piece, own, triplets in self._pieces():
            of_weights = piece.of(own[_SENSITIVITY]).double() * piece.of(own[_UNCERTAINTY]).double()
            rank = piece.shape[1] if piece.name.endswith(".b") else piece.shape[0]
            numbers = piece.shape[0] * piece.shape[1] // rank  # of each triplet: a mean over them
            scores.index_add_(0, triplets, of_weights / numbers)
        return self._trained.layout.total(scores)

    def _pieces(self) -> Iterator[tuple[Segment, dict[str, Tensor], Tensor]]:
        """Yield this rank's segments of the adapter, the states of their flats, and the triplet of each element [n]."""
        for flat, own in self.of.items():
            for piece in self._trained.layout.own(flat):
                path = piece.name.rpartition(".")[0]
                if path in self._first:
                    elements = torch.arange(piece.start, piece.start + piece.count, device=flat.device)
                    columns = piece.shape[1]  # P has a column for each triplet, Q and Λ have a row
                    triplets = elements % columns if piece.name.endswith(".b") else elements // columns
                    yield piece, own, self._first[path] + triplets

    @torch.no_grad()
    def _measure(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Average sensitivity and uncertainty, before the update; ZeRO updates one group at a time."""
        if self._step > self._last:
            return
        for flat in (flat for group in optimizer.param_groups for flat in group["params"]):
            if flat.grad is not None and (own := self.of.get(flat)) is not None:
                now = (flat * flat.grad).abs_()
                own[_SENSITIVITY].mul_(_MEAN).add_(now, alpha=1 - _MEAN)
                own[_UNCERTAINTY].mul_(_MEAN).add_((now - own[_SENSITIVITY]).abs_(), alpha=1 - _MEAN)

    @torch.no_grad()
    def _keep_zeros(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Keep the chosen values at 0 once the budget is final."""
        if self._step > self._last:
            for flat in (flat for group in optimizer.param_groups for flat in group["params"]):
                if flat in self.of:
                    flat.mul_(self.of[flat][_MASK])


class _Orthogonal(Model):
    """A model with the penalty of its adapter as another loss, under the same names."""

    def __init__(self, model: Model, weight: float) -> None:
        self.use_parts(model)
        self.train(model.training)
        self.weight = weight

    @property
    def counted(self) -> Mapping[str, Any]:
        return {**super().counted, ORTHOGONALITY: _Once()}

    @property
    def loss_weights(self) -> dict[str, float]:
        return {**super().loss_weights, ORTHOGONALITY: self.weight}

    def forward(self, tensors: Mapping[str, Tensor]) -> dict[str, Loss]:
        losses = super().forward(tensors)
        updates = [*_adapter_of(self).parts.values()]
        penalty = torch.stack([update() for update in updates]).sum() / (2 * len(updates))
        return {**losses, ORTHOGONALITY: Loss(penalty, torch.ones((), dtype=torch.long, device=penalty.device))}


class _Once:
    """The divisor of the penalty: micro-batches, each of which computes it."""

    def count(self, tensors: Mapping[str, Tensor]) -> int:
        return 1


def _adapter_of(model: Model) -> AdaloraAdapter:
    adapter = None if model.adapter_in_use is None else model.adapters[model.adapter_in_use]
    if not isinstance(adapter, AdaloraAdapter):
        got = "no adapter" if adapter is None else f"the adapter {model.adapter_in_use}"
        raise ConfigurationError(
            f"prune: adalora prunes singular values of the adapter adalora: expected "
            f"model.adapter={{name: adalora, rank: 12}}, got {got}"
        )
    return adapter


def _ranks_of(model: Model) -> dict[str, int]:
    """Return the rank of each update, by the name of the update."""
    parts = _adapter_of(model).parts
    prefix = f"adapters.{model.adapter_in_use}."
    return {f"{prefix}{path}": full_shape(own.get_parameter("values"))[0] for path, own in parts.items()}
