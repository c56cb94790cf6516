"""The adapter of AdaLoRA (arXiv 2303.10512): updates of linear maps in the form of a singular value decomposition.

`train/compression/pruning/adalora.py` distributes a budget of singular values over the maps during training.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.configuration.config import config_class
from clozeline.model.adapters.lora import Lora, LowRank
from clozeline.model.configuration.key_types import Width
from clozeline.model.parameters.initial_values import Draw, constant, normal


class Adalora(Lora):
    """h = W x + scale P Λ Q x for each chosen linear map W, where Λ is diagonal and initially 0.

    P is `b`, Q is `a`, and the diagonal of Λ is `values`. A singular value of 0 removes a row of Q and a column of P
    from the update: its rank is the number of other values. A map has rank x (inputs + outputs + 1) parameters, which
    can be merged into its weight.
    """

    options: Options

    @config_class
    class Options(Lora.Options):
        """Configuration of AdaLoRA's updates: that of LoRA, with a higher rank."""

        rank: Width = 12
        """Rank of each update before pruning; `scale` is `alpha` divided by it, also afterwards."""

    def update_of(self, path: str, linear: nn.Linear) -> LowRank:
        options = self.options
        size = linear.in_features, linear.out_features, options.rank_of(path)
        return SingularUpdate(*size, options.scale_of(path), options.dropout)


class SingularUpdate(LowRank):
    """scale P Λ Q x: Q is `a` [rank, inputs], the diagonal of Λ is `values` [rank, 1], P is `b` [outputs, rank]."""

    def __init__(self, inputs: int, outputs: int, rank: int, scale: float, dropout: float) -> None:
        super().__init__(inputs, outputs, rank, scale, dropout)
        self.values = nn.Parameter(torch.empty(rank, 1))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {"a": normal(0.02), "b": normal(0.02), "values": constant(0.0)}

    def forward(self, x: Tensor | None = None) -> Tensor:
        """Map [..., inputs] to [..., outputs]; without an input, return the penalty of P and Q.

        The penalty is the sum of |P'P - I| and |QQ' - I|, Frobenius norms. It is part of the call because ZeRO stage 3
        has the parameters only inside it.
        """
        if x is not None:
            return F.linear(F.linear(self.dropout(x), self.a * self.values), self.b) * self.scale
        one = torch.eye(len(self.a), device=self.a.device)
        products = self.a.float() @ self.a.float().T, self.b.float().T @ self.b.float()
        return torch.stack([torch.linalg.matrix_norm(product - one) for product in products]).sum()

    @torch.no_grad()
    def factors(self) -> tuple[Tensor, Tensor]:
        """Return Q [r, inputs] and P Λ [outputs, r] for the r singular values that are not 0, fp32."""
        a, b = super().factors()
        values = self.values.float().flatten()
        kept = values != 0
        return a[kept], (b * values)[:, kept]
