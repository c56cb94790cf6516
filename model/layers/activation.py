"""Activation functions by name."""

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
    "silu": F.silu,
    "tanh": torch.tanh,
    "identity": nn.Identity(),
}
"""Names of `ModelConfig.activation` and of `HeadConfig.hidden`, which alone may be tanh or identity."""
