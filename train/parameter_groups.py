"""Groups of parameters with one weight decay each."""

from __future__ import annotations

from typing import Any

from torch import nn

from model.whole_shapes import whole_shape
from pipeline.errors import ConfigurationError

__all__ = ["parameter_groups"]


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return two named groups: `decay` holds matrices and tables, `no_decay` biases, norms and other vectors.

    Every parameter that needs a gradient is in exactly one group, a tied one under its first name. An empty group is
    left out, because ZeRO cannot partition it.

    Raises:
        ConfigurationError: a parameter has no dimension, so that its slices could not be told from a scalar state.
    """
    groups: dict[str, dict[str, Any]] = {
        "decay": {"name": "decay", "weight_decay": weight_decay, "params": []},
        "no_decay": {"name": "no_decay", "weight_decay": 0.0, "params": []},
    }
    for name, parameter in model.named_parameters():
        dimensions = len(whole_shape(parameter))
        if dimensions == 0:
            raise ConfigurationError(f"parameter {name} has no dimension: give it the shape [1]")
        if parameter.requires_grad:
            groups["decay" if dimensions >= 2 else "no_decay"]["params"].append(parameter)
    return [group for group in groups.values() if group["params"]]
