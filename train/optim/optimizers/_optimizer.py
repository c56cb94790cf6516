"""Optimizers, one per file: each builds a torch optimizer from named parameter groups.

ZeRO stages 1 to 3 hand the optimizer flat pieces of many parameters. An optimizer of
`statistics = "element"` updates these. Any other one gets entire parameters, which are gathered on
every rank, unless it is a `WholeParameterOptimizer`: that finds the parameters in the pieces by its
`layout`. The engine writes the learning rate of a step into the groups.
"""

import inspect
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import prod
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

import torch
from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.model.configuration.capabilities import (
    EVALUATIONS,
    OWN_HISTORY,
    Declared,
    Part,
)
from clozeline.train.optim.weights.flat_buffers import Layout, Segment, local_layout
from clozeline.train.optim.weights.parameter_groups import DECAYING

Kinds: TypeAlias = tuple[Literal["matrices", "tables", "head", "norms", "biases"], ...]


@config_class
class OptimizerOptions:
    """Options that every optimizer has."""

    learning_rate: Annotated[float, Field(gt=0.0)] | Literal["auto"] = Field(
        default=1e-3,
        description="peak rate, > 0; the schedule multiplies it. auto: for a fine-tuning by adamw, "
        "from the model's width: 3e-5 at 768, more for narrower ones",
    )
    weight_decay: float = Field(
        default=0.01,
        ge=0.0,
        description="decoupled decay, ≥ 0, times the rate of the step. Composer does not multiply "
        "by the peak rate: divide its value by that, and 1e-5 at 5e-4 is 0.02 here",
    )
    decays: Kinds = Field(
        default=DECAYING,
        description="parameters that decay: matrices of the body, tables of embeddings (also tied "
        "ones), head (matrices above the body), norms, biases",
    )
    layer_decay: float | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="rate of a layer relative to the layer above, > 0, ≤ 1; heads have the full "
        "rate, embeddings the lowest; null: one rate",
    )

    @property
    def peak_rate(self) -> float:
        """`learning_rate` as a number; a start replaces `auto`."""
        assert self.learning_rate != "auto", "check_start has resolved it"
        return self.learning_rate


class OptimizerBuilder(Declared, ABC):
    """Builds a torch optimizer."""

    statistics: ClassVar[Literal["element", "parameter"]] = "parameter"
    """What the update of an element depends on: its history alone, or other elements of its
    parameter, such as a norm. If `element`, the optimizer gets flat vectors of many parameters."""
    bit_exact: ClassVar[bool] = True
    """An element gets the same bits at any index of any tensor: all ZeRO stages and world sizes
    agree exactly. False: its kernel rounds by the element's index, and they agree up to
    rounding."""
    has_rates_of_adam: ClassVar[bool] = False
    """Learning rates have the scale of Adam: `auto` can choose one."""
    states: ClassVar[int] = 0
    """fp32 numbers of state per element, for the memory estimate."""
    separate_matrices: ClassVar[bool] = False
    """Matrices of layers form separate groups, named `matrix`."""
    needs_heldout_losses: ClassVar[bool] = False
    """Losses on the first held-out set change the update; checkpoints then store them."""

    def __init__(self, options: OptimizerOptions) -> None:
        self.options = options

    @classmethod
    def part(cls, key: str) -> Part:
        """Return the part of a run that it is, by what its update depends on."""
        part = super().part(key)
        needs = (EVALUATIONS,) if cls.needs_heldout_losses else ()
        prevents = () if cls.statistics == "element" else (OWN_HISTORY,)
        return replace(part, needs=(*part.needs, *needs), prevents=(*part.prevents, *prevents))

    @abstractmethod
    def build(self, groups: Sequence[dict[str, object]]) -> torch.optim.Optimizer:
        """Return the optimizer over groups with `params`, `name` and `weight_decay`."""

    def create(self, groups: Sequence[dict[str, object]]) -> torch.optim.Optimizer:
        """Return the optimizer of `build`, which gets entire parameters if it needs them."""
        _skip_dynamo()
        built = self.build(groups)
        if self.statistics == "element" or isinstance(built, WholeParameterOptimizer):
            return built
        return _GatheringOptimizer(built)

    def observe_eval_losses(
        self, optimizer: torch.optim.Optimizer, losses: Sequence[float]
    ) -> bool:
        """Pass all held-out losses, oldest first; return whether the update changes now.

        Also called at every start: the same losses must give the same optimizer.
        """
        return False


def _skip_dynamo() -> None:
    """Call methods of optimizers directly, which no run compiles.

    torch would import its compiler to leave them out of it: a second and 75 MB at every start.
    """
    for name in ("add_param_group", "state_dict", "load_state_dict", "zero_grad"):
        method = inspect.unwrap(getattr(torch.optim.Optimizer, name))
        vars(method).setdefault("__dynamo_disable", method)


STACKED_BYTES: Final = 1 << 26
"""Most bytes of matrices that are computed together; an iteration needs a few times as much
memory."""


def map_matrices(
    layout: Layout,
    flats: Sequence[Tensor],
    values: Sequence[Tensor],
    function: Callable[[Tensor], Tensor],
) -> list[Tensor]:
    """Apply a function to every matrix in flat buffers.

    Slices of a split matrix are sent to the rank that computes it and back, by two exchanges. A
    matrix on one rank stays there.

    Args:
        layout: the segments in the flat buffers.
        flats: the flat buffers.
        values: contiguous vectors as long as the flats.
        function: maps stacks [matrices, rows, columns] of equal shape, of at most `STACKED_BYTES`
            or a single matrix, to contiguous results of the same shape and dtype.

    Returns:
        the results of this rank's segments, as vectors in the order of `Layout.local_segments`.
    """
    # choose the rank that computes each matrix, and the slices to exchange
    me = layout.rank
    by_rank = [
        [s for flat in flats for s in layout.by_rank(flat)[rank]] for rank in range(layout.size)
    ]
    owner = owners(by_rank)
    pieces = dict(
        zip(((s.name, s.start) for s in by_rank[me]), layout.pieces(flats, values), strict=True)
    )
    others = [rank for rank in range(layout.size) if rank != me]
    travels = any(owner[s.name] != rank for rank, segments in enumerate(by_rank) for s in segments)
    lent = [
        [s for s in by_rank[me] if owner[s.name] == rank and rank != me]
        for rank in range(layout.size)
    ]
    taken = [
        [s for s in by_rank[rank] if owner[s.name] == me and rank != me]
        for rank in range(layout.size)
    ]

    # collect the slices of the matrices that this rank computes
    slices: dict[str, list[tuple[int, Tensor]]] = defaultdict(list)
    for s in by_rank[me]:
        if owner[s.name] == me:
            slices[s.name].append((s.start, pieces[s.name, s.start]))

    if travels:
        outgoing = [_join((pieces[s.name, s.start] for s in of), values[0]) for of in lent]
        arrived = layout.exchange(outgoing, _sizes(taken))
        for rank in others:
            for s, part in zip(taken[rank], _split(arrived[rank], taken[rank]), strict=True):
                slices[s.name].append((s.start, part))

    # compute them, matrices of equal shape together
    shapes = layout.shapes(*flats)
    results: dict[str, Tensor] = {}
    by_shape: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for name in slices:
        by_shape[shapes[name]].append(name)
    for shape, names in by_shape.items():
        count = max(1, STACKED_BYTES // (values[0].element_size() * prod(shape)))
        for first in range(0, len(names), count):
            some = names[first : first + count]
            stack = torch.stack([_join_slices(slices[name], shape) for name in some])
            computed = function(stack)
            results.update(zip(some, computed.view(len(some), -1).unbind(), strict=True))

    # take this rank's slices, and send each other slice to the rank that holds it
    mapped = {
        (s.name, s.start): s.within(results[s.name]) for s in by_rank[me] if owner[s.name] == me
    }

    if travels:
        outgoing = [_join((s.within(results[s.name]) for s in of), values[0]) for of in taken]
        arrived = layout.exchange(outgoing, _sizes(lent))
        for rank in others:
            keys = [(s.name, s.start) for s in lent[rank]]
            mapped.update(zip(keys, _split(arrived[rank], lent[rank]), strict=True))

    return [mapped[s.name, s.start] for s in by_rank[me]]


def owners(by_rank: Sequence[Sequence[Segment]]) -> dict[str, int]:
    """Return the rank that computes each matrix: one with most of it, of these the least loaded."""
    elements: dict[str, list[int]] = {}
    for rank, segments in enumerate(by_rank):
        for s in segments:
            elements.setdefault(s.name, [0] * len(by_rank))[rank] += s.count

    load = [0] * len(by_rank)
    owner = {}
    # unsplit matrices first: they are not moved
    for name in sorted(elements, key=lambda name: (sum(map(bool, elements[name])) > 1, name)):
        most = max(elements[name])
        owner[name] = min(
            (rank for rank, n in enumerate(elements[name]) if n == most), key=load.__getitem__
        )
        load[owner[name]] += sum(elements[name])

    return owner


def _join_slices(slices: list[tuple[int, Tensor]], shape: tuple[int, ...]) -> Tensor:
    parts = [part for _, part in sorted(slices, key=lambda piece: piece[0])]
    return (parts[0] if len(parts) == 1 else torch.cat(parts)).view(shape)


def _sizes(segments: Sequence[Sequence[Segment]]) -> list[int]:
    return [sum(s.count for s in of_rank) for of_rank in segments]


def _join(parts: Iterable[Tensor], like: Tensor) -> Tensor:
    return torch.cat([like.new_empty(0), *parts])


def _split(joined: Tensor, segments: Sequence[Segment]) -> Sequence[Tensor]:
    return torch.split(joined, [s.count for s in segments])


_BUNDLED_ELEMENTS: Final = 1 << 26
"""Most elements of parameters that are updated together (at least one parameter), to limit
temporary memory."""
_CACHED_ELEMENTS: Final = 1 << 17
"""The same on a CPU, where launches cost nothing and the cache is small."""


class WholeParameterOptimizer(torch.optim.Optimizer, ABC):
    """Updates many flat buffers together: kernels are not launched for each parameter."""

    def __init__(self, groups: Iterable[dict[str, object]], rate: float) -> None:
        super().__init__(list(groups), {"lr": rate})
        self.layout = local_layout(self.param_groups)
        """Segments of the flats; until the engine sets it, each parameter is one flat."""
        self.whole: dict[str, Tensor] = {}
        """Unsliced states, fp32 and the same on every rank: `KEY/PARAMETER` → tensor."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every flat that has a gradient, the same ones on all ranks."""
        for group in self.param_groups:
            # flats with the same number of updates, in bundles of bounded size
            by_age: dict[float, list[Tensor]] = defaultdict(list)
            for flat in group["params"]:
                if flat.grad is not None:
                    by_age[float(self.state[flat].get("step", 0.0))].append(flat)
            of_equal_age = [bundles(flats) for flats in by_age.values()]
            for flats in chain.from_iterable(of_equal_age):
                gradients = [flat.grad.contiguous() for flat in flats if flat.grad is not None]
                self.update(group, flats, gradients)

    @abstractmethod
    def update(self, group: dict[str, Any], flats: list[Tensor], gradients: list[Tensor]) -> None:
        """Update flats with the same number of updates, and their states.

        All ranks make the same exchanges in the same order.
        """

    @staticmethod
    def subtract(
        weights: list[Tensor], updates: list[Tensor], factors: Tensor, rate: float = 1.0
    ) -> None:
        """Subtract updates, each multiplied by its factor and by the rate; they are overwritten."""
        if updates:
            torch._foreach_mul_(updates, factors.float().unbind())
            steps = [part.view_as(weight) for part, weight in zip(updates, weights, strict=True)]
            torch._foreach_sub_(weights, steps, alpha=rate)

    def states_of(self, flats: Sequence[Tensor], *keys: str) -> list[list[Tensor]]:
        """Return the numbers of updates, and the states of each key; states are 0 at first."""
        for flat in flats:
            if not self.state[flat]:
                zeros = {key: torch.zeros_like(flat, requires_grad=False) for key in keys}
                self.state[flat] |= {"step": torch.tensor(0.0), **zeros}
        return [[self.state[flat][key] for flat in flats] for key in ("step", *keys)]


class WholeParameterAdam(WholeParameterOptimizer, ABC):
    """The base of optimizers that scale the update of Adam by norms of entire parameters."""

    def __init__(
        self,
        groups: Iterable[dict[str, object]],
        rate: float,
        betas: tuple[float, float],
        eps: float,
    ) -> None:
        super().__init__(groups, rate)
        self.betas = betas
        self.eps = eps

    def adam_updates(self, flats: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        """Return the update of Adam of each flat, without bias; the moments are updated."""
        steps, means, squares = self.states_of(flats, "exp_avg", "exp_avg_sq")
        torch._foreach_add_(steps, 1)
        first, second = self.betas
        torch._foreach_lerp_(means, gradients, 1.0 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, gradients, gradients, 1.0 - second)
        step = float(steps[0])
        roots = torch._foreach_div(squares, 1.0 - second**step)
        torch._foreach_sqrt_(roots)
        torch._foreach_add_(roots, self.eps)
        updates = torch._foreach_div(means, 1.0 - first**step)
        torch._foreach_div_(updates, roots)
        return list(updates)


class _GatheringOptimizer(WholeParameterOptimizer):
    """Lets an optimizer update entire parameters; every rank gathers all, and has all states."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self._inner = inner
        super().__init__(inner.param_groups, 0.0)

    def update(self, group: dict[str, Any], flats: list[Tensor], gradients: list[Tensor]) -> None:
        # gather parameters and gradients, and find the states of each
        segments = self.layout.local_segments(*flats)
        pairs = {
            name: flats[0].new_zeros((2, *shape))
            for name, shape in self.layout.shapes(*flats).items()
        }
        for s in segments:
            for part, entire in zip((s.flat, s.flat.grad), pairs[s.name], strict=True):
                s.within(entire).copy_(s.of(part))  # type: ignore[arg-type]
        weights: dict[str, Tensor] = {}
        for name, pair in pairs.items():
            weights[name], weights[name].grad = self.layout.total(pair)
        for path, value in self.whole.items():
            key, _, name = path.partition("/")
            if name in weights:
                self._inner.state[weights[name]][key] = value

        # step; the group is the same object, as an optimizer may keep numbers in it
        self._inner.param_groups = [group]
        everything = group["params"]
        group["params"] = [*weights.values()]
        self._inner.step()
        group["params"] = everything

        # keep this rank's elements, and all states
        for s in segments:
            s.of(s.flat).copy_(s.within(weights[s.name]))
        for name, weight in weights.items():
            for key, value in self._inner.state.pop(weight, {}).items():
                self.whole[f"{key}/{name}"] = torch.as_tensor(value, dtype=torch.float32)


def bundles(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield groups of tensors to update together."""
    bundle: list[Tensor] = []
    elements = 0

    for tensor in tensors:
        elements += tensor.numel()
        most = _CACHED_ELEMENTS if tensor.device.type == "cpu" else _BUNDLED_ELEMENTS
        if bundle and elements > most:
            yield bundle
            bundle = []
            elements = tensor.numel()
        bundle.append(tensor)

    if bundle:
        yield bundle


def square_sums(tensors: Sequence[Tensor], device: torch.device) -> Tensor:
    """Return the sum of squares of each tensor, in float64 on their device."""
    if not tensors:
        return torch.zeros(0, dtype=torch.float64, device=device)
    if device.type != "cpu":  # one launch
        return torch.stack(torch._foreach_norm(list(tensors), 2, dtype=torch.float64)).square_()
    # on a CPU, torch's kernel takes twenty times as long
    sums = []
    for tensor in tensors:
        parts = torch.split(tensor.reshape(-1), _CACHED_ELEMENTS)
        sums.append(sum(map(_square_sum, parts)))
    return torch.tensor(sums, dtype=torch.float64)


def _square_sum(tensor: Tensor) -> float:
    wide = tensor.double()
    return float(wide.dot(wide))
