"""Interface of pruning methods, and those that hold masks of matrices: masked weights and their states stay 0."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from math import prod
from typing import Annotated, Any, ClassVar, Final

import torch
from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.compression.methods._method import split_name
from clozeline.model.compression.methods._selection import Scope, choose_lowest
from clozeline.model.parameters.sharding import full_shape
from clozeline.train.hooks import Hook, Trained
from clozeline.train.optim.weights.flat_buffers import Segment
from clozeline.train.optim.weights.freezing import fitting

MASK: Final = "mask"
"""State that is 1 at weights that stay, 0 at pruned ones."""

CONFLICTS: Final = {
    "model.quantization": "masks and rounding of one training were never tried together",
    "model.adapter": "the weights under an adapter are frozen",
    "hooks.average": "an average over steps is not 0 where the weights are",
    "optimizer.averages": "its average over steps is not 0 where the weights are",
    "zero.offload": "masks are applied on the device of the weights",
}


@config_class
class CubicOptions:
    """Steps of the cubic schedule of gradual pruning (arXiv 1710.01878, 1902.09574), and the pruned matrices."""

    start: Annotated[int, Field(ge=0)] = 0
    """step t0 at which the schedule starts"""
    end: Annotated[int, Field(ge=1)] | None = None
    """step at which the final value is reached; at most schedule.steps; null: two thirds of schedule.steps. With end =
    start, the final value is reached at once"""
    every: Annotated[int, Field(ge=1)] = 10
    """steps between two updates of the masks"""
    parameters: tuple[str, ...] = ()
    """regular expressions for full names of the matrices to prune; default: the linear maps of all layers"""

    def __post_init__(self) -> None:
        if self.end is not None and self.end < self.start:
            raise ValueError(f"end: expected start {self.start} or a later step, got {self.end}")

    def last_step(self, horizon: int) -> int:
        """Return the step of the final value; raise a ConfigurationError if it is after the last step, `horizon`."""
        last = max(self.start, 2 * horizon // 3, 1) if self.end is None else self.end
        if last > horizon:
            key = "end" if self.end is not None else "start"
            raise ConfigurationError(
                f"prune.{key}: expected at most {horizon}, the last step of the schedule (schedule.steps, by default "
                f"steps), got {last}: the model would never be pruned completely"
            )
        return last

    def is_due(self, step: int, last: int) -> bool:
        """Return whether the masks change after a step of the schedule."""
        return self.start <= step <= last and ((step - self.start) % self.every == 0 or step == last)

    def progress(self, step: int, last: int) -> float:
        """Return the share of the way from the initial to the final value, 1 - (1 - (t - t0) / (nΔt))³.

        Example:
            >>> [round(0.9 * CubicOptions(end=100).progress(step, 100), 4) for step in (0, 25, 50, 75, 100)]
            [0.0, 0.5203, 0.7875, 0.8859, 0.9]
        """
        if step >= last:
            return 1.0
        return 1.0 - (1.0 - max(step - self.start, 0) / (last - self.start)) ** 3


class Pruning(Hook):
    """A way to remove parts of a model while it is trained."""

    turn: ClassVar = 3
    claim: ClassVar[str]
    """Result that the paper reports, with its arXiv id; `clozeline compress --compare` prints it."""
    unread: ClassVar[frozenset[str]] = frozenset()
    """Tensors of a batch that this method does not work with."""

    @abstractmethod
    def describe(self, model: Model, horizon: int) -> str:
        """Return the line that a start prints.

        Raises:
            ConfigurationError: the model has nothing to prune, or the schedule of the pruning is beyond `horizon`.
        """


class MaskedWeights(Pruning):
    """A method that masks single weights.

    Masked weights are 0 after each step, with their gradients and optimizer states. Biases, norms, embeddings and heads
    are never masked.
    """

    matrices_apart = True
    keys: ClassVar = frozenset({MASK})
    conflicts = CONFLICTS
    _trained: Trained

    def describe(self, model: Model, horizon: int) -> str:
        names = matrices_to_prune(model, self.options.parameters)
        sizes = {name: full_shape(own).numel() for name, own in model.named_parameters()}
        total = sum(sizes[name] for name in names)
        return f"prune      {total:,} weights in {len(names)} matrices, {self.describe_plan(horizon)}"

    @abstractmethod
    def describe_plan(self, horizon: int) -> str:
        """Return when how many weights are pruned, for people; refuse a plan beyond the last step, `horizon`."""

    def attach(self, trained: Trained) -> None:
        self._trained = trained
        self.describe_plan(trained.horizon)
        shapes = {name: prod(full_shape(own)) for name, own in trained.model.named_parameters()}
        self._sizes = {name: shapes[name] for name in matrices_to_prune(trained.model, self.options.parameters)}
        trained.optimizer.register_step_pre_hook(partial(self._visit, self.before_update))
        trained.optimizer.register_step_post_hook(partial(self._visit, self.after_update))

    @torch.no_grad()
    def start(self, fresh: Collection[str], *, initialized: bool) -> None:
        for flat, group in self._trained.flats:
            new = self.new_states(flat, masked=group.startswith("matrix"))
            if self.of.get(flat, {}).keys() != new.keys():
                self.of[flat] = new
                # zeros of the model that the run starts from stay
                for piece in self._own_segments([flat]) if initialized and self.keeps_zeros and MASK in new else ():
                    if piece.name not in fresh:
                        piece.of(new[MASK]).copy_(piece.of(flat) != 0)
        self.apply()

    keeps_zeros: ClassVar[bool] = True
    """Weights that are 0 in the model of `model.init_from` stay 0."""

    def new_states(self, flat: Tensor, *, masked: bool) -> dict[str, Tensor]:
        """Return the states of an optimizer tensor before the first step; some of its parameters are `masked`."""
        return {MASK: torch.ones_like(flat, requires_grad=False)} if masked else {}

    def mask_lowest(
        self, values: Callable[[Segment], Tensor], share: float, scope: Scope
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the mask of each matrix on this rank, to be changed, and True at its lowest values [n]; collective.

        Args:
            values: of the elements of a segment, [n].
            share: of the values that are chosen, in [0, 1].
            scope: local: this share of each matrix; global: of all together.
        """
        layout, pieces = self._trained.layout, {piece.name: piece for piece in self._own_segments()}
        sizes = list(self._sizes.values())
        groups = list(range(len(sizes))) if scope == "local" else [0] * len(sizes)
        counts = [round(share * size) for size in (sizes if scope == "local" else [sum(sizes)])]
        device = next(iter(self.of)).device
        own = [values(pieces[name]) if name in pieces else torch.empty(0, device=device) for name in self._sizes]
        chosen = choose_lowest(own, groups, counts, layout.rank, layout.size, layout.total)
        for name, lowest in zip(self._sizes, chosen, strict=True):
            if name in pieces:
                yield pieces[name].of(self.of[pieces[name].flat][MASK]), lowest

    @torch.no_grad()
    def mask_smallest(self, share: float, scope: Scope) -> None:
        """Mask the weights of smallest magnitude, in addition to masked ones; collective."""
        for mask, lowest in self.mask_lowest(lambda piece: piece.of(piece.flat).abs(), share, scope):
            mask.masked_fill_(lowest, 0.0)

    def apply(self) -> None:
        """Set masked weights and their states to 0, in the optimizer and in the model; a collective call."""
        for flat in self.of:
            self._clear(flat)
        self._trained.refresh_model()

    def _own_segments(self, flats: Sequence[Tensor] | None = None) -> Iterator[Segment]:
        for flat in self.of if flats is None else flats:
            yield from (piece for piece in self._trained.layout.own(flat) if piece.name in self._sizes)

    def _clear(self, flat: Tensor) -> None:
        if (mask := self.of[flat].get(MASK)) is not None:
            flat.mul_(mask)
            for state in self._trained.optimizer.state.get(flat, {}).values():
                if isinstance(state, Tensor) and state.shape == flat.shape:
                    state.mul_(mask)

    @torch.no_grad()
    def _visit(self, call: Callable[[Tensor], None], optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Call a function for the tensors with masks that an update changes: ZeRO updates one group at a time."""
        for flat in (flat for group in optimizer.param_groups for flat in group["params"]):
            if flat.grad is not None and MASK in self.of.get(flat, {}):
                call(flat)

    def before_update(self, flat: Tensor) -> None:
        """Change an optimizer tensor or its gradient before the update."""
        flat.grad.mul_(self.of[flat][MASK])  # type: ignore[union-attr]

    def after_update(self, flat: Tensor) -> None:
        """Change an optimizer tensor after the update."""
        self._clear(flat)


def matrices_to_prune(model: Model, patterns: Sequence[str]) -> list[str]:
    """Return the trainable weights of linear maps in layers, in the order of the model.

    Raises:
        ConfigurationError: there are none, or a pattern matches none.
    """
    named = {
        name: parameter
        for name, parameter in model.named_parameters()
        if len(full_shape(parameter)) == 2 and name.endswith(".weight") and split_name(name) is not None
    }
    if not named:
        raise ConfigurationError(
            f"prune: nothing to prune: expected a family with layers of linear maps, got {model.config.family}"
        )
    trainable = [name for name, parameter in named.items() if parameter.requires_grad]
    if not trainable:
        raise ConfigurationError("prune: nothing to prune: freeze leaves no linear map of a layer to train")
    chosen = {name for pattern in patterns for name in fitting("prune.parameters", pattern, trainable)}
    return [name for name in trainable if not patterns or name in chosen]
