"""Activation functions by name, and soft capping of scores."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "relu_squared": lambda x: F.relu(x).square(),
    "silu": F.silu,
    "tanh": torch.tanh,
    "identity": nn.Identity(),
}
"""Names of `ModelConfig.activation` and of `hidden` of heads; only the latter may be tanh or
identity."""


def soft_cap(scores: Tensor, bound: float | None) -> Tensor:
    """Return bound x tanh(scores / bound), between -bound and bound; None: the scores unchanged.

    This is the cap of Gemma 2 (arXiv 2408.00118).

    Example:
        >>> soft_cap(torch.tensor([0.1, 100.0]), 2.0)
        tensor([0.0999, 2.0000])
    """
    return scores if bound is None else bound * torch.tanh(scores / bound)
