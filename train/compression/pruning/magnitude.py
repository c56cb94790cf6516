"""Gradual magnitude pruning (arXiv 1710.01878, 1902.09574)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from clozeline.configuration.config import config_class
from clozeline.model.compression.methods._selection import Scope, Sparsity
from clozeline.train.compression.pruning._pruning import CubicOptions, MaskedWeights
from clozeline.train.hooks import Step


class Magnitude(MaskedWeights):
    """Every few steps the weights of smallest |w| become 0 and stay 0, more and more of them.

    The share s of zeros after step t is s_t = s_f + (s_i - s_f) (1 - (t - t0) / (nΔt))³, from 0 to `sparsity`.
    Between two updates of the masks it is constant. Dense kernels multiply zeros like any number.
    """

    options: Options
    claim: ClassVar = "up to 10 times fewer non-zero parameters with minimal loss of accuracy (1710.01878)"

    @config_class
    class Options(CubicOptions):
        """Share of zeros, and its schedule."""

        sparsity: Sparsity
        """final share of the weights that are 0, in (0, 1)"""
        scope: Scope = "local"
        """local: this share of each matrix; global: of all of them together"""

    def describe_plan(self, horizon: int) -> str:
        options, last = self.options, self.options.last_step(horizon)
        steps = f"from step {options.start} to {last}, every {options.every} steps"
        return f"{100 * options.sparsity:g} % of them by magnitude, {steps}"

    @torch.no_grad()
    def end(self, step: Step, norm: float) -> Mapping[str, Any]:
        options, last = self.options, self.options.last_step(self._trained.horizon)
        if options.is_due(step.index, last):
            self.mask_smallest(options.sparsity * options.progress(step.index, last), options.scope)
            self.apply()
        return {}
