"""Where DeepSpeed rounds in bf16: a plain loop that rounds there too differs by little more than
one in fp32 does."""

from unittest import mock

import torch
from torch import nn


def add_over_ranks(gradients, stage):
    """Add gradients [micro-batches, ranks, ...]: those of ranks in the precision of the run, at
    stage 1 last."""
    if stage == 1:
        return gradients.double().sum(0).to(gradients.dtype).sum(0).double()
    return gradients.sum(1).double().sum(0)


def linear_maps(stage):
    """Return a context with the linear map of a stage: that of stage 3 rounds a product before it
    adds the bias."""
    from deepspeed.runtime.zero.linear import zero3_linear_wrap

    linear = zero3_linear_wrap if stage == 3 else nn.functional.linear
    return mock.patch.object(nn.functional, "linear", linear)


def add_module_by_module(model):
    """Have a model add up gradients of a tensor within each module that reads it, then over
    modules, as at stage 3."""
    from deepspeed.runtime.zero.utils import apply_to_tensors_only

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x.detach()

        @staticmethod
        def backward(_, gradient):
            return gradient

    for module in model.modules():
        module.register_forward_hook(
            lambda _module, _inputs, output: apply_to_tensors_only(Same.apply, output)
        )
        module.register_forward_pre_hook(
            lambda _module, inputs: apply_to_tensors_only(Same.apply, inputs)
        )
