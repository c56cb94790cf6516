"""Apply the methods of pruning to a training, also to weights under ZeRO."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from clozeline.extensions.compression.pruning import PruningContext
from clozeline.extensions.compression.pruning._masked_weights import MASK, MaskedWeights, MaskTarget
from clozeline.extensions.compression.registries import PruningComponent
from clozeline.extensions.compression.selection import choose_share
from clozeline.model.build import Model
from clozeline.train.hooks import Hook, HookContext, StepInfo, UnwrappedModel
from clozeline.train.optim.weights.flat_buffers import Segment


class PruningHook(Hook):
    """Calls a pruning method at each step."""

    priority = 3

    def __init__(self, chosen: PruningComponent) -> None:
        super().__init__(chosen)
        self._method = chosen.build()
        self.keys = self._method.keys

    def wrap(self, new: UnwrappedModel) -> Model:
        self.lines = [self._method.describe(new.model, new.config.schedule.options.steps)]
        return self._method.wrap(new.model)

    def attach(self, context: HookContext) -> None:
        device = context.world.device
        gathers = context.stage == 3
        self._method.attach(
            PruningContext(context.model, context.seed, context.horizon, device, gathers)
        )

    def resume(self, step: int) -> None:
        self._method.resume(step)

    def begin(self, step: StepInfo) -> None:
        self._method.begin(step.index, step.rate)

    def end(self, step: StepInfo, norm: float) -> Mapping[str, Any]:
        self._method.end(step.index)
        return {}

    @property
    def buffers(self) -> Mapping[str, Tensor]:
        return self._method.buffers

    @property
    def in_state(self) -> Mapping[str, Any]:
        return self._method.state_fields


class MaskingHook(PruningHook):
    """Stores the masks of a method next to the flat buffers, and keeps masked weights at 0."""

    separate_matrices = True
    _method: MaskedWeights

    def attach(self, context: HookContext) -> None:
        super().attach(context)
        self._context = context
        context.optimizer.register_step_pre_hook(partial(self._visit, self._method.before_update))
        context.optimizer.register_step_post_hook(partial(self._visit, self._after_update))

    @torch.no_grad()
    def start(self, fresh: Collection[str], *, initialized: bool) -> None:
        for flat, group in self._context.flats:
            new = self._method.new_states(flat.detach(), masked=group.startswith("matrix"))
            if self.of.get(flat, {}).keys() != new.keys():
                self.of[flat] = new
                # weights that are 0 in the model that the run starts from stay masked
                keeps_zeros = initialized and MASK in new and not self._method.can_unmask
                for piece in self._segments(flat) if keeps_zeros else ():
                    if piece.name not in fresh:
                        piece.of(new[MASK]).copy_(piece.of(flat) != 0)
        self._apply()

    @torch.no_grad()
    def end(self, step: StepInfo, norm: float) -> Mapping[str, Any]:
        if (target := self._method.mask_target(step.index)) is not None:
            for mask, masked in self._choose(target):
                if self._method.can_unmask:
                    mask.fill_(1.0)
                mask.masked_fill_(masked, 0.0)
            for flat, states in self.of.items():
                self._method.after_masking(flat, states, self._moments(flat))
            self._apply()
        return {}

    def _choose(self, target: MaskTarget) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the mask of each matrix on this rank, and True at weights to mask [n].

        A collective call.
        """
        # the importance of each weight
        layout = self._context.layout
        sizes = self._method.sizes
        pieces = {piece.name: piece for piece in self._segments(*self.of)}
        values = dict.fromkeys(sizes, torch.empty(0, device=self._context.world.device))
        for name, piece in pieces.items():
            states = {key: piece.of(state) for key, state in self.of[piece.flat].items()}
            values[name] = self._method.compared_values(piece.of(piece.flat), states)

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
        self._context.refresh_model()

    def _segments(self, *flats: Tensor) -> list[Segment]:
        return [
            piece
            for piece in self._context.layout.local_segments(*flats)
            if piece.name in self._method.sizes
        ]

    def _moments(self, flat: Tensor) -> list[Tensor]:
        states = self._context.optimizer.state.get(flat, {}).values()
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
        self._method.after_update(flat, states)
        self._clear(flat)
