"""Record the gradient norm of each layer, and the largest logit of each head."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from clozeline.model.configuration.capabilities import LOGITS
from clozeline.model.layers.stack import LAYER
from clozeline.train.hooks import Hook, HookContext, StepInfo


class LayerStatistics(Hook):
    """Records gradient norms of layers, embeddings and heads, and the largest logit of each head.

    It reads gradients as the optimizer does: in this rank's partitions, averaged over ranks, and
    clipped.
    """

    priority = 0
    observes = True
    needs: ClassVar = {LOGITS}

    def attach(self, context: HookContext) -> None:
        self._context = context
        self._active = False
        named = context.model.named_parameters()
        trainable = [name for name, parameter in named if parameter.requires_grad]
        self._modules = dict.fromkeys(map(module_of, trainable))
        context.optimizer.register_step_pre_hook(self._add_squares)
        for name, head in context.model.heads.items():
            for child, module in head.named_children():
                if child in ("projection", "classifier"):
                    module.register_forward_hook(partial(self._compare_logits, name))

    def begin(self, step: StepInfo) -> None:
        self._active = step.recorded
        self._squares: dict[str, Tensor | float] = dict.fromkeys(self._modules, 0.0)
        self._logits: dict[str, Tensor] = {}

    def end(self, step: StepInfo, norm: float) -> Mapping[str, Any]:
        self._active = False
        if not step.recorded:
            return {}
        logits = {name: float(largest) for name, largest in self._logits.items()}
        squares: dict[str, float] = {}

        if norm < float("inf"):
            # gradients are clipped, as torch and DeepSpeed do; at stage 0 every rank holds the
            # entire gradient
            layout = self._context.layout
            clipping = self._context.clipping
            scale = max(1.0, (norm + 1e-6) / clipping) if clipping else 1.0
            copies = self._context.world.size if layout.size == 1 else 1
            squares = {
                name: float(square) * scale**2 / copies for name, square in self._squares.items()
            }

        return merge(self._context.world.gather((squares, logits)))

    def _add_squares(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        if not self._active:
            return
        flats = [flat for group in optimizer.param_groups for flat in group["params"]]
        for flat in flats:
            if flat.grad is None:
                continue
            segments = self._context.layout.local_segments(flat)
            if not segments:
                continue
            # at stage 0 a flat is one parameter, whose gradient may not be contiguous
            alone = segments[0].count == flat.numel()
            parts = [flat.grad] if alone else [segment.of(flat.grad) for segment in segments]
            # one launch for all norms of a flat
            norms = torch._foreach_norm(parts, dtype=torch.float32)
            for segment, norm in zip(segments, norms, strict=True):
                module = module_of(segment.name)
                self._squares[module] = self._squares[module] + norm.double().square()

    def _compare_logits(self, head: str, module: nn.Module, inputs: object, scores: Tensor) -> None:
        if self._active and scores.numel():
            largest = scores.detach().abs().amax().float()
            self._logits[head] = torch.maximum(largest, self._logits.get(head, largest))


def module_of(name: str) -> str:
    """Return the module of a parameter: its layer, its head, or else three parts of its path."""
    if layer := LAYER.match(name):
        return f"{layer['stack']}.layers.{layer['index']}"
    parts = name.split(".")
    return ".".join(parts[:-1][: 2 if parts[0] == "heads" else 3]) if len(parts) > 2 else name


def merge(
    by_rank: Sequence[tuple[Mapping[str, float], Mapping[str, float]]],
) -> dict[str, dict[str, float]]:
    """Return the entries of a record; NaN if any rank has NaN.

    Args:
        by_rank: for each rank: module → squared norm of its part of the gradient before clipping,
            empty if the step was skipped; and head → largest absolute logit over its rows.
    """
    heads = dict.fromkeys(head for _, logits in by_rank for head in logits)
    largest = {
        head: float(np.max([logits[head] for _, logits in by_rank if head in logits]))
        for head in heads
    }
    norms = {
        module: sum(squares[module] for squares, _ in by_rank) ** 0.5 for module in by_rank[0][0]
    }
    return {
        key: value
        for key, value in (("layer_gradient_norms", norms), ("largest_logits", largest))
        if value
    }
