"""L2-SP: keep weights near their starting point (arXiv 1802.01483)."""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.train.optim.regularizers import Anchored, Regularizer


class L2Sp(Regularizer):
    """Penalties instead of weight decay: `alpha` / 2 |w - w0|², and `beta` / 2 |w|² if w is new.

    w0 are the weights of `model.init_from`.
    """

    owns: ClassVar = {"the decay of weights"}

    @config_class
    class Options:
        """Options of L2-SP; the paper has 0.01 to 0.1 for both."""

        alpha: float = Field(default=0.1, ge=0.0)
        """Strength of the pull to the weights of `model.init_from`, ≥ 0."""
        beta: float = Field(default=0.01, ge=0.0)
        """Strength of the pull of new weights to 0, ≥ 0."""

    options: Options

    def anchor(self, name: str, weight: Tensor, start: int, *, fresh: bool) -> Anchored:
        if fresh:
            return Anchored(torch.zeros_like(weight), torch.full_like(weight, self.options.beta))
        return Anchored(weight.clone(), torch.full_like(weight, self.options.alpha))
