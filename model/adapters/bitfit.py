"""BitFit (arXiv 2106.10199): train only changes of the biases."""

from typing import Any, Final

import torch
from torch import Tensor, nn

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.adapters._adapter import Adapter, AdapterOptions
from clozeline.model.families import ModelFamily
from clozeline.model.layers.disentangled import Convolution
from clozeline.model.layers.norm import NoNorm
from clozeline.model.parameters.initial_values import Draw, constant
from clozeline.model.parameters.sharding import full_shape

_ADDED_LAST: Final = (nn.Linear, nn.LayerNorm, NoNorm, Convolution)
"""Modules that add their bias at the end of their computation."""


class Bitfit(Adapter):
    """A change of every bias of the body, initially 0; the biases themselves stay frozen.

    It has as many parameters as the body has biases, and can be merged into them. Neither a bias
    nor its change has weight decay, so this is equivalent to training the biases.
    """

    @config_class
    class Options(AdapterOptions):
        """BitFit has no options."""

    def __init__(self, options: Options, family: ModelFamily) -> None:
        super().__init__(options, family)
        biased = {
            path: module
            for path, module in family.named_modules()
            if isinstance(getattr(module, "bias", None), nn.Parameter)
        }
        if not biased:
            remedy = "choose another, such as lora"
            raise ConfigurationError(
                f"model.adapter: bitfit changes biases, and this body has none: {remedy}"
            )
        # the change is added to a module's output, which must be where its bias is added
        if other := next(
            (path for path, module in biased.items() if not isinstance(module, _ADDED_LAST)), None
        ):
            raise ConfigurationError(
                f"model.adapter: bitfit: {other}, a {type(biased[other]).__name__}, does not add "
                "its bias at the end of its computation, as linear maps and norms do; choose "
                "another adapter, such as lora"
            )

        self.register_parts(
            {
                path: BiasChange(full_shape(module.get_parameter("bias")).numel())
                for path, module in biased.items()
            }
        )

    def change(self, part: Any, x: Tensor, output: Tensor) -> Tensor:
        return part(output)

    @torch.no_grad()
    def merge(self, family: ModelFamily) -> dict[str, Tensor]:
        biases = {}
        for path, shift in self.parts.items():
            bias = family.get_parameter(f"{path}.bias")
            biases[f"{path}.bias"] = (bias.float() + shift.get_parameter("bias").float()).to(
                bias.dtype
            )
        return biases


class BiasChange(nn.Module):
    """Add a learned bias over the last axis: x + bias."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.empty(width))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {"bias": constant(0.0)}

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias
