"""Record the distance of the weights from those of `model.init_from`."""

from collections.abc import Collection, Mapping
from typing import Any

import torch

from clozeline.report.recorded_series import RecordedSeries
from clozeline.train.hooks import Hook, HookContext, StepInfo
from clozeline.train.hooks.layer_statistics import module_of


class StartDistance(Hook):
    """Records the L2 distance of the trained weights from their initial values, also by layer.

    Each rank stores the initial values of the elements that it updates. New parameters do not
    count.
    """

    priority = 4
    charts = (
        RecordedSeries(
            name="Distance of the weights from model.init_from", keys=("start_distance",)
        ),
    )
    observes = True

    def __init__(self, *, by_layer: bool) -> None:
        super().__init__(None)
        self._by_layer = by_layer
        self._modules: list[str] = []

    def attach(self, context: HookContext) -> None:
        """Copy the initial values, before a checkpoint is loaded over them."""
        self._context = context
        self._initial = {flat: flat.detach().clone() for flat, _ in context.flats}

    def start(self, fresh: Collection[str], *, initialized: bool) -> None:
        flats = list(self._initial)
        layout = self._context.layout
        self._segments = [
            segment for segment in layout.local_segments(*flats) if segment.name not in fresh
        ]
        self._modules = list(
            dict.fromkeys(module_of(name) for name in layout.shapes(*flats) if name not in fresh)
        )
        indices = [self._modules.index(module_of(segment.name)) for segment in self._segments]
        self._indices = torch.tensor(indices, dtype=torch.int64, device=flats[0].device)
        self._initial = {segment.flat: self._initial[segment.flat] for segment in self._segments}

    def end(self, step: StepInfo, norm: float) -> Mapping[str, Any]:
        if not step.recorded or not self._modules:
            return {}

        # one parameter at a time, to save memory; wait for the device once
        norms = [
            torch.linalg.vector_norm(
                segment.of(segment.flat.detach()) - segment.of(self._initial[segment.flat])
            )
            for segment in self._segments
        ]

        squares = self._indices.new_zeros(len(self._modules), dtype=torch.float64)
        if norms:
            squares.index_add_(0, self._indices, torch.stack(norms).double().square())
        totals = squares.tolist()
        if self._context.layout.size > 1:
            totals = self._context.world.sum_over_ranks(totals)

        # by layer, and in total
        distances = {
            module: total**0.5 for module, total in zip(self._modules, totals, strict=True)
        }
        by_layer = {"layer_start_distances": distances} if self._by_layer else {}
        return {"start_distance": sum(totals) ** 0.5, **by_layer}
