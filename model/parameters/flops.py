"""Count the forward FLOPs of matrix products; modules add what else they multiply."""

from torch import nn

from clozeline.model.parameters.sharding import full_shape


def matrix_flops(*modules: nn.Module) -> float:
    """Return the FLOPs of modules for one position, which uses each matrix entry once.

    A multiply-add counts as two.

    Example (a product of 3 x 2 entries; the bias adds nothing):
        >>> matrix_flops(nn.Linear(2, 3))
        12.0
    """
    shapes = (full_shape(weight) for module in modules for weight in module.parameters())
    return 2.0 * sum(shape.numel() for shape in shapes if len(shape) == 2)
