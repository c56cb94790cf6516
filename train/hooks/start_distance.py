"""Record how far the weights have moved from those that the run started from."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import torch

from clozeline.report.recorded_series import RecordedSeries
from clozeline.train.hooks import Hook, HookContext, StepInfo
from clozeline.train.hooks.layer_statistics import module_of

_START: Final = "start"


class StartDistance(Hook):
    """Records the L2 distance of the trained weights from their values at the start, by layer, too.

    Each rank keeps the first values of the elements that it updates, and checkpoints have them. In
    a run with `model.init_from`, parameters that are new there do not count.
    """

    priority = 4
    charts = (
        RecordedSeries(name="Distance of the weights from their start", keys=("start_distance",)),
    )
    observes = True
    keys = frozenset({_START})
    numbers = 1

    def attach(self, context: HookContext) -> None:
        self._context = context

    @torch.no_grad()
    def start(self, fresh: Collection[str], *, initialized: bool) -> None:
        layout = self._context.layout
        for flat, _ in self._context.flats:
            if flat not in self.of:
                self.of[flat] = {_START: flat.detach().clone()}
                for piece in layout.local_segments(flat):
                    if initialized and piece.name in fresh:
                        piece.of(self.of[flat][_START]).fill_(torch.nan)
        self._pieces = [
            piece
            for piece in layout.local_segments(*self.of)
            if not piece.of(self.of[piece.flat][_START]).isnan().any()
        ]
        self._modules = list(dict.fromkeys(map(module_of, layout.shapes(*self.of))))

    def end(self, step: StepInfo, norm: float) -> Mapping[str, Any]:
        if not step.recorded:
            return {}

        # one parameter at a time, to save memory; wait for the device once
        norms = [
            torch.linalg.vector_norm(
                piece.of(piece.flat.detach()) - piece.of(self.of[piece.flat][_START])
            )
            for piece in self._pieces
        ]

        squares = dict.fromkeys(self._modules, 0.0)
        values = torch.stack(norms).tolist() if norms else []
        for piece, distance in zip(self._pieces, values, strict=True):
            squares[module_of(piece.name)] += distance**2
        totals = list(squares.values())
        if self._context.layout.size > 1:
            totals = self._context.world.sum_over_ranks(totals)

        moved = {name: total**0.5 for name, total in zip(squares, totals, strict=True) if total}
        return {"start_distance": sum(totals) ** 0.5, "layer_start_distances": moved}
