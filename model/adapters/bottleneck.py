"""Bottleneck adapters in layers: Houlsby's (arXiv 1902.00751), Pfeiffer's (arXiv 2005.00247)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.adapters._adapter import Adapter, AdapterOptions
from clozeline.model.configuration.key_types import Width
from clozeline.model.families import ModelFamily
from clozeline.model.layers.layer import Residual
from clozeline.model.parameters.initial_values import Draw, constant, normal


class Bottleneck(Adapter):
    """h + up(gelu(down(h))) on the output of blocks, before their residual sum.

    `up` is initially 0, so nothing changes at first. A block has 2 dim width + width + dim
    parameters.
    """

    options: Options
    inner = ".dropout"  # the last module of a block before its residual sum

    @config_class
    class Options(AdapterOptions):
        """Configuration of a bottleneck adapter."""

        width: Width = 64
        """Features between `down` and `up`."""
        after: Literal["every_block", "feed_forward"] = "every_block"
        """every_block: after each attention and feed-forward block (Houlsby); feed_forward: only
        after the latter (Pfeiffer)."""

    def __init__(self, options: Options, family: ModelFamily) -> None:
        super().__init__(options, family)
        # the blocks that get an adapter
        blocks = {
            path: module for path, module in family.named_modules() if isinstance(module, Residual)
        }

        if options.after == "feed_forward":
            blocks = {
                path: block for path, block in blocks.items() if path.endswith("feed_forward")
            }

        if not blocks:
            raise ConfigurationError(
                "model.adapter: bottleneck: expected a family with residual blocks, "
                f"{type(family).__name__} has none: choose another adapter, such as lora"
            )
        # one projection down and up after each block
        self.register_parts(
            {path: DownUpProjection(block.dim, options) for path, block in blocks.items()}
        )

    def change(self, part: Any, x: Tensor, output: Tensor) -> Tensor:
        return output + part(output)


class DownUpProjection(nn.Module):
    """up(gelu(down(x))), with biases."""

    def __init__(self, dim: int, options: Bottleneck.Options) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.empty(options.width, dim))
        self.down_bias = nn.Parameter(torch.empty(options.width))
        self.up = nn.Parameter(torch.empty(dim, options.width))
        self.up_bias = nn.Parameter(torch.empty(dim))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        # `down` from N(0, 0.01), truncated at two standard deviations, everything else 0
        return {"down": normal(0.01, 2.0)} | dict.fromkeys(
            ("down_bias", "up", "up_bias"), constant(0.0)
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.gelu(F.linear(x, self.down, self.down_bias)), self.up, self.up_bias)
