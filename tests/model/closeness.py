"""Equality of gradients up to rounding.

Rounding follows the largest values that were added and canceled on the way to a gradient, not the
size of the tensor in which it ends: the gradient of a key's bias is 0, and what is computed there
is noise of everything behind it. So the tolerance is a share of the largest entry of the whole
gradient. The noise differs between processors, and a test has to pass on all of them: compare in
float64 wherever both sides can.
"""

import torch
from torch.overrides import TorchFunctionMode

FLOAT32 = 1e-5
"""Share of the largest entry for models in float32, and for those with norms that compute in
float32 in any case."""


def assert_gradients_close(found, expected, within=1e-6):
    """Compare gradients by name: no entry differs by more than `within` of the largest entry of all
    tensors.

    The default is for models in float64, whose losses are summed in float32.
    """
    assert found.keys() == expected.keys()

    scale = max(gradient.abs().max().item() for gradient in expected.values())

    assert scale > 0

    for name, gradient in expected.items():
        error = (found[name] - gradient).abs().max().item()
        assert error <= within * scale, (
            f"{name} differs by {error:.1e}, the largest entry of all is {scale:.1e}"
        )


def gradients(model):
    """The gradients of a model, by the names of its parameters."""
    return {name: parameter.grad for name, parameter in model.named_parameters()}


class ComputesInFloat64(TorchFunctionMode):
    """Makes float64 of each float32 that an operation asks for, as norms, softmax and rotations of
    classes do."""

    def __torch_function__(self, function, types, given=(), named=None):
        def widen(value):
            return torch.float64 if value is torch.float32 else value

        function = torch.Tensor.double if function is torch.Tensor.float else function
        return function(
            *map(widen, given), **{name: widen(value) for name, value in (named or {}).items()}
        )
