"""An LSTM layer whose outputs are narrower than its cells (arXiv 1402.1128)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.model.layers.lstm import gate_distributions
from clozeline.model.parameters.initial_values import Draw, uniform


class ProjectedLstm(nn.Module):
    """An LSTM with a projection; cells and outputs are clipped at every token.

    torch's own kernel cannot clip, so the tokens are a loop; the products with the inputs are computed before it.
    """

    def __init__(self, inputs: int, cells: int, outputs: int, clip: float) -> None:
        super().__init__()
        self.cells, self.clip = cells, clip
        self.input = nn.Parameter(torch.empty(4 * cells, inputs))
        self.recurrent = nn.Parameter(torch.empty(4 * cells, outputs))
        self.bias = nn.Parameter(torch.empty(4 * cells))
        self.projection = nn.Parameter(torch.empty(outputs, cells))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {**gate_distributions(self.cells), "projection": uniform(self.cells**-0.5)}

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs [B, T, outputs] of inputs [B, T, inputs]; every row starts from zeros."""
        gates = F.linear(x, self.input, self.bias)
        outputs, cells = self.projection.shape
        cell, output = gates.new_zeros(len(x), cells), gates.new_zeros(len(x), outputs)
        states = []
        for step in gates.unbind(1):  # one token: [B, 4 * cells]
            write, forget, candidate, read = (step + F.linear(output, self.recurrent)).chunk(4, dim=-1)
            cell = forget.sigmoid() * cell + write.sigmoid() * candidate.tanh()
            cell = cell.clamp(-self.clip, self.clip)
            output = F.linear(read.sigmoid() * cell.tanh(), self.projection).clamp(-self.clip, self.clip)
            states.append(output)
        return torch.stack(states, dim=1)
