"""Run a model over calibration rows, for the gradients of gates."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor, nn

from clozeline.model.build import Model
from clozeline.model.checkpoints import Checkpoint, build_checkpoint
from clozeline.model.compression.methods._method import Batch


def gate_importance(model: Model, gates: Mapping[str, int], batches: Sequence[Batch]) -> dict[str, Tensor]:
    """Return the mean over rows of |dL / d gate| for gates of 1 on the inputs of linear maps (arXiv 1905.10650).

    L is the summed loss of a row, and a gate multiplies consecutive features of all positions of that row.

    Args:
        model: in evaluation mode.
        gates: by path of a linear map, the number of its gates; they share its input features equally.
        batches: rows with labels.

    Returns:
        fp64 [gates] for each path.
    """
    sums = {path: torch.zeros(count, dtype=torch.float64) for path, count in gates.items()}
    rows, opened = 0, list[tuple[str, Tensor]]()

    def multiply(path: str, _: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        # x [B, T, features]; a gate for each row, so that one backward pass gives the gradients of all rows
        (x,) = inputs
        gate = x.new_ones(len(x), gates[path], requires_grad=True)
        opened.append((path, gate))
        return x * gate.repeat_interleave(x.shape[-1] // gates[path], dim=1)[:, None]

    with ExitStack() as hooks:
        for path in gates:
            hooks.callback(model.get_submodule(path).register_forward_pre_hook(partial(multiply, path)).remove)
        for batch in batches:
            opened.clear()
            losses = model(batch)
            total = torch.stack([losses[name].total * weight for name, weight in model.config.head_weights.items()])
            gradients = torch.autograd.grad(total.sum(), [gate for _, gate in opened], allow_unused=True)
            for (path, _), gradient in zip(opened, gradients, strict=True):
                if gradient is not None:
                    sums[path] += gradient.double().abs().sum(0)
            rows += int((batch["row_weight"] != 0).sum())
    return {path: total / max(rows, 1) for path, total in sums.items()}


def score_parts(
    checkpoint: Checkpoint, gates: Mapping[str, int], batches: Sequence[Batch], by_weights: Callable[[str], Tensor]
) -> tuple[dict[str, Tensor], str]:
    """Return the importance of the parts behind gates, by path, and what it comes from.

    Without calibration rows it is `by_weights` of each path, else that of `gate_importance`.
    """
    if not batches:
        return {path: by_weights(path) for path in gates}, "weights"
    rows = sum(len(batch["row_weight"]) for batch in batches)
    model = build_checkpoint(checkpoint).requires_grad_(False)
    return gate_importance(model, gates, batches), f"|dL/d gate| over {rows} rows"
