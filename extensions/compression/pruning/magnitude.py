"""Gradual magnitude pruning (arXiv 1710.01878, 1902.09574)."""

from __future__ import annotations

from clozeline.configuration.config import config_class
from clozeline.extensions.compression.pruning._masked_weights import MaskedWeights, MaskTarget
from clozeline.extensions.compression.pruning._pruning import CubicOptions
from clozeline.extensions.compression.selection import SparsityOptions


class MagnitudePruning(MaskedWeights):
    """Every few steps, set the weights of smallest |w| to 0 for good, more and more of them.

    The share s of zeros after step t is s_t = s_f + (s_i - s_f) (1 - (t - t0) / (nΔt))³, from 0 to
    `sparsity`. Between two updates of the masks it is constant. Dense kernels multiply zeros like
    any number.
    """

    options: Options
    published_result = (
        "up to 10 times fewer non-zero parameters with minimal loss of accuracy (1710.01878)"
    )

    @config_class
    class Options(SparsityOptions, CubicOptions):
        """Final share of zeros, and its schedule."""

    def describe_plan(self, horizon: int) -> str:
        options = self.options
        last = self.options.last_step(horizon)
        steps = f"from step {options.start} to {last}, every {options.every} steps"
        return f"{100 * options.sparsity:g} % of them by magnitude, {steps}"

    def mask_target(self, step: int) -> MaskTarget | None:
        options = self.options
        last = self.options.last_step(self.context.horizon)
        if not options.is_due(step, last):
            return None
        return MaskTarget(options.sparsity * options.progress(step, last), options.scope)
