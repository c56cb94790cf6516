"""Several linear maps of the same states by one matrix product."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def apply_jointly(maps: tuple[nn.Linear, ...], x: Tensor) -> tuple[Tensor, ...]:
    """Return the outputs of linear maps for x [..., inputs], by one product of their concatenated weights if possible.

    On an accelerator one wide product should be faster than several narrow ones, and the backward pass adds up no
    gradients of x; this has not been measured. A processor gains nothing, nor does a single token, for which the copy
    of the weights counts: there, and in evaluation, each map is called. So are maps that were replaced, and maps with
    hooks: those of adapters, calibrations, and ZeRO stage 3.
    """
    biases: list[Tensor] = [linear.bias for linear in maps if linear.bias is not None]
    if not _is_accelerated(x) or len(biases) not in (0, len(maps)) or not all(map(_is_plain, maps)):
        return tuple(linear(x) for linear in maps)
    weights: list[Tensor] = [linear.weight for linear in maps]
    joint = F.linear(x, torch.cat(weights), torch.cat(biases) if biases else None)
    return torch.split(joint, [linear.out_features for linear in maps], dim=-1)


def _is_accelerated(x: Tensor) -> bool:
    return x.device.type != "cpu"


def _is_plain(linear: nn.Linear) -> bool:
    """Return whether calling a map in training does nothing but its product."""
    hooks = linear._forward_hooks or linear._forward_pre_hooks or linear._backward_hooks or linear._backward_pre_hooks
    return linear.training and type(linear) is nn.Linear and not hooks and "forward" not in vars(linear)
