"""An LSTM layer with weight drop."""

from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.model.parameters.initial_values import Draw, constant_per_gate, uniform

State: TypeAlias = tuple[Tensor, Tensor]
"""Outputs and cells [B, width] after the last token."""


class LongShortTermMemory(nn.Module):
    """An LSTM over sequences, from zeros or a given state, by torch's fused kernel.

    Weight drop (arXiv 1708.02182 §2): in training each forward pass drops entries of the recurrent matrix, the same
    ones at all tokens. The parameter is the full matrix, in evaluation and in checkpoints.
    """

    def __init__(self, inputs: int, outputs: int, weight_dropout: float) -> None:
        super().__init__()
        self.outputs, self.weight_dropout = outputs, weight_dropout
        self.input = nn.Parameter(torch.empty(4 * outputs, inputs))
        self.recurrent = nn.Parameter(torch.empty(4 * outputs, outputs))
        self.bias = nn.Parameter(torch.empty(4 * outputs))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return gate_distributions(self.outputs)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Return outputs [B, T, outputs] of inputs [B, T, inputs], and the state after the last position."""
        first = x.new_zeros(len(x), self.outputs)
        output, cell = (first, first) if state is None else state
        recurrent = F.dropout(self.recurrent, self.weight_dropout, self.training)
        weights = [self.input, recurrent, self.bias, torch.zeros_like(self.bias)]  # the kernel adds two biases
        # no autocast on a processor: without bf16 instructions it has no such kernel
        with torch.autocast("cpu", enabled=False):
            x, output, cell = (tensor.to(self.bias.dtype) for tensor in (x, output[None], cell[None]))
            out, output, cell = torch.lstm(x, (output, cell), weights, True, 1, 0.0, self.training, False, True)
        return out, (output[0], cell[0])


def gate_distributions(width: int) -> dict[str, Draw]:
    """Return the initial distributions of the gates, in the order input, forget, candidate, output.

    The bias of the forget gate is 1, so that cells keep their content at first (Jozefowicz et al. 2015).
    """
    bound = width**-0.5
    return {"input": uniform(bound), "recurrent": uniform(bound), "bias": constant_per_gate(0.0, 1.0, 0.0, 0.0)}
