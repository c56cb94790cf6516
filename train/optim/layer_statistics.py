"""Observe where a step becomes large: gradient norms by layer, and the largest logits by head."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clozeline.train.optim.weights.flat_buffers import Layout
from clozeline.train.optim.weights.parameter_groups import LAYER


@dataclass(frozen=True)
class LayerFigures:
    """Figures of one step on this rank."""

    squares: dict[str, float] = field(default_factory=dict)
    """module → this rank's part of the squared norm of its gradient before clipping; empty: the step was skipped"""
    logits: dict[str, float] = field(default_factory=dict)
    """head → largest absolute logit over this rank's rows"""


class LayerStatistics:
    """Observes gradients as the optimizer reads them: in this rank's partitions, averaged over ranks, and clipped."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, layout: Layout, world_size: int) -> None:
        """Hook into the optimizer's steps and the projections of the heads."""
        self._layout = layout
        self._copies = world_size if layout.size == 1 else 1  # at stage 0 every rank holds the entire gradient
        self._active = False
        self._squares: dict[str, Tensor | float] = {}
        self._modules = dict.fromkeys(module_of(name) for name, p in model.named_parameters() if p.requires_grad)
        self._logits: dict[str, Tensor] = {}
        optimizer.register_step_pre_hook(self._add_squares)
        heads: Any = model.heads
        for name, head in heads.items():
            for child, module in head.named_children():
                if child in ("projection", "classifier"):
                    module.register_forward_hook(partial(self._compare_logits, name))

    def begin(self, active: bool) -> None:
        """Start a step; if not `active`, it is not observed."""
        self._active = active
        self._squares, self._logits = dict.fromkeys(self._modules, 0.0), {}

    def take(self, norm: float, clipping: float) -> LayerFigures:
        """Return the figures of a step with this gradient norm before clipping; `clipping` 0: none."""
        self._active = False
        logits = {name: float(largest) for name, largest in self._logits.items()}
        if not norm < float("inf"):
            return LayerFigures({}, logits)
        scale = max(1.0, (norm + 1e-6) / clipping) if clipping else 1.0  # as in torch and DeepSpeed
        return LayerFigures({k: float(square) * scale**2 / self._copies for k, square in self._squares.items()}, logits)

    def _add_squares(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if not self._active:
            return
        for flat in (flat for group in optimizer.param_groups for flat in group["params"] if flat.grad is not None):
            segments = self._layout.own(flat)
            if not segments:
                continue
            # at stage 0 a flat is one parameter, whose gradient may not be contiguous
            alone = segments[0].count == flat.numel()
            parts = [flat.grad] if alone else [segment.of(flat.grad) for segment in segments]
            for segment, norm in zip(segments, torch._foreach_norm(parts, dtype=torch.float32), strict=True):
                module = module_of(segment.name)
                self._squares[module] = self._squares[module] + norm.double().square()

    def _compare_logits(self, head: str, module: nn.Module, inputs: Any, scores: Tensor) -> None:
        if self._active and scores.numel():
            largest = scores.detach().abs().amax().float()
            self._logits[head] = torch.maximum(largest, self._logits.get(head, largest))


def module_of(name: str) -> str:
    """Return the module that a parameter is counted with: its layer, its head, or else three parts of its path."""
    if layer := LAYER.match(name):
        return f"{layer['stack']}.layers.{layer['index']}"
    parts = name.split(".")
    return ".".join(parts[:-1][: 2 if parts[0] == "heads" else 3]) if len(parts) > 2 else name


def merge(figures: Sequence[LayerFigures]) -> dict[str, dict[str, float]]:
    """Return the keys of a record from the figures of all ranks; NaN if any rank has NaN."""
    heads = dict.fromkeys(head for own in figures for head in own.logits)
    logits = {head: float(np.max([own.logits[head] for own in figures if head in own.logits])) for head in heads}
    norms = {module: sum(own.squares[module] for own in figures) ** 0.5 for module in figures[0].squares}
    return {key: value for key, value in (("layer_gradient_norms", norms), ("largest_logits", logits)) if value}
