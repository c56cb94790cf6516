"""Base of methods that mask single weights of matrices, by values that they compare.

It also applies to weights under ZeRO.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.pruning._pruning import Pruning
from clozeline.extensions.compression.selection import Scope, choose_share, find_matrices
from clozeline.model.build import Model
from clozeline.model.configuration.capabilities import (
    EVALUATED_WEIGHTS,
    EXACT_WEIGHTS,
    STATES_ON_DEVICE,
    TRAINED_BODY,
)
from clozeline.model.parameters.freezing import match_parameters
from clozeline.model.parameters.sharding import full_shape
from clozeline.train.hooks import HookContext, StepInfo
from clozeline.train.optim.weights.flat_buffers import Segment

MASK: Final = "mask"
"""State that is 1 at weights that stay, and 0 at pruned ones."""


class MaskTarget(NamedTuple):
    """Which weights to mask after a step: a share of the lowest values, or up to a threshold."""

    share: float = 0.0
    scope: Scope = "local"
    threshold: float | None = None
    """mask weights whose values are not above it"""


class MaskedWeights(Pruning):
    """A method that masks single weights: they, their gradients and optimizer states are 0.

    Biases, norms, embeddings and heads are never masked. Weights and states are 1-D tensors as the
    optimizer has them: parts of one or several parameters, on one rank.
    """

    separate_matrices = True
    keys = frozenset({MASK})
    needs: ClassVar = {EXACT_WEIGHTS, TRAINED_BODY, EVALUATED_WEIGHTS, STATES_ON_DEVICE}
    can_unmask: ClassVar[bool] = False
    """Whether a masked weight may return. If not, masks only grow, and zeros of `model.init_from`
    stay."""

    def describe(self, model: Model, horizon: int) -> str:
        sizes = self.sizes_of(model)
        return (
            f"prune      {sum(sizes.values()):,} weights in {len(sizes)} matrices, "
            f"{self.describe_plan(horizon)}"
        )

    @abstractmethod
    def describe_plan(self, horizon: int) -> str:
        """Return a description of when how many weights are pruned.

        Raises:
            ConfigurationError: the plan goes beyond the last step, `horizon`.
        """

    @abstractmethod
    def mask_target(self, step: int) -> MaskTarget | None:
        """Return which weights to mask after a step; None: the masks stay."""

    def compared_values(self, weights: Tensor, states: Mapping[str, Tensor]) -> Tensor:
        """Return the values that decide, from the weights of a matrix and their states."""
        return weights.abs()

    def attach(self, context: HookContext) -> None:
        self.context = context
        self.describe_plan(context.horizon)
        self.sizes = self.sizes_of(context.model)
        """number of weights of each matrix that is pruned"""
        context.optimizer.register_step_pre_hook(partial(self._visit, self.before_update))
        context.optimizer.register_step_post_hook(partial(self._visit, self._after_update))

    def new_states(self, weights: Tensor, *, masked: bool) -> dict[str, Tensor]:
        """Return the states of weights before the first step; `masked`: some can be masked."""
        return {MASK: weights.new_ones(weights.shape)} if masked else {}

    def before_update(self, weights: Tensor, states: Mapping[str, Tensor]) -> None:
        """Change weights or their gradient before the update."""
        weights.grad.mul_(states[MASK])  # type: ignore[union-attr]

    def after_update(self, weights: Tensor, states: Mapping[str, Tensor]) -> None:
        """Read weights after an update, before masked weights become 0 again."""

    def after_masking(
        self, weights: Tensor, states: Mapping[str, Tensor], moments: Iterable[Tensor]
    ) -> None:
        """Change weights and the optimizer's states, `moments`, after masks have changed."""

    def sizes_of(self, model: Model) -> dict[str, int]:
        """Return the number of weights of each trainable matrix that is pruned, in model order.

        Raises:
            ConfigurationError: there are none, or a pattern in the option `parameters` matches
                nothing.
        """
        named = dict(model.named_parameters())
        shapes = {name: full_shape(parameter) for name, parameter in named.items()}
        matrices = find_matrices(shapes, "prune", model.config.family)
        trainable = [name for name in matrices if named[name].requires_grad]
        if not trainable:
            raise ConfigurationError(
                "prune: nothing to prune: freeze leaves no linear map of a layer to train"
            )

        patterns = self.options.parameters
        chosen = {
            name
            for pattern in patterns
            for name in match_parameters("prune.parameters", pattern, trainable)
        }

        return {name: shapes[name].numel() for name in trainable if not patterns or name in chosen}

    @torch.no_grad()
    def start(self, fresh: Collection[str], *, initialized: bool) -> None:
        for flat, group in self.context.flats:
            new = self.new_states(flat.detach(), masked=group.startswith("matrix"))
            if self.of.get(flat, {}).keys() != new.keys():
                self.of[flat] = new
                # weights that are 0 in the model that the run starts from stay masked
                keeps_zeros = initialized and MASK in new and not self.can_unmask
                for piece in self._segments(flat) if keeps_zeros else ():
                    if piece.name not in fresh:
                        piece.of(new[MASK]).copy_(piece.of(flat) != 0)
        self._apply()

    @torch.no_grad()
    def end(self, step: StepInfo, norm: float) -> Mapping[str, Any]:
        if (target := self.mask_target(step.index)) is not None:
            for mask, masked in self._choose(target):
                if self.can_unmask:
                    mask.fill_(1.0)
                mask.masked_fill_(masked, 0.0)
            for flat, states in self.of.items():
                self.after_masking(flat, states, self._moments(flat))
            self._apply()
        return {}

    def _choose(self, target: MaskTarget) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the mask of each matrix on this rank, and True at weights to mask [n].

        A collective call.
        """
        # the importance of each weight
        layout = self.context.layout
        sizes = self.sizes
        pieces = {piece.name: piece for piece in self._segments(*self.of)}
        values = dict.fromkeys(sizes, torch.empty(0, device=self.context.world.device))
        for name, piece in pieces.items():
            states = {key: piece.of(state) for key, state in self.of[piece.flat].items()}
            values[name] = self.compared_values(piece.of(piece.flat), states)

        # choose by a threshold, or a share of all weights
        if target.threshold is not None:
            masked_weights = [
                ~(matrix_values > target.threshold) for matrix_values in values.values()
            ]
        else:
            ranks = (layout.rank, layout.size, layout.total)
            masked_weights = choose_share(
                values.values(), [*sizes.values()], target.share, target.scope, *ranks
            )

        for name, masked in zip(values, masked_weights, strict=True):
            if name in pieces:
                yield pieces[name].of(self.of[pieces[name].flat][MASK]), masked

    def _apply(self) -> None:
        """Set masked weights and their optimizer states to 0; a collective call."""
        for flat in self.of:
            self._clear(flat)
        self.context.refresh_model()

    def _segments(self, *flats: Tensor) -> list[Segment]:
        return [
            piece
            for piece in self.context.layout.local_segments(*flats)
            if piece.name in self.sizes
        ]

    def _moments(self, flat: Tensor) -> list[Tensor]:
        states = self.context.optimizer.state.get(flat, {}).values()
        return [state for state in states if isinstance(state, Tensor)]

    def _clear(self, flat: Tensor) -> None:
        if (mask := self.of[flat].get(MASK)) is not None:
            for tensor in (flat, *self._moments(flat)):
                if tensor.shape == flat.shape:
                    tensor.mul_(mask)

    @torch.no_grad()
    def _visit(
        self,
        call: Callable[[Tensor, Mapping[str, Tensor]], None],
        optimizer: torch.optim.Optimizer,
        *_: object,
    ) -> None:
        """Call a function for the masked buffers of an update; ZeRO updates one group at a time."""
        flats = [flat for group in optimizer.param_groups for flat in group["params"]]
        for flat in flats:
            if flat.grad is not None and MASK in (states := self.of.get(flat, {})):
                call(flat, states)

    def _after_update(self, flat: Tensor, states: Mapping[str, Tensor]) -> None:
        self.after_update(flat, states)
        self._clear(flat)
