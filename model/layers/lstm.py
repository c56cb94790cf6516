"""LSTM layers with weight drop, or with a projection, and dropout that is the same at all tokens."""

from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.model.parameters.initial_values import Draw, constant_per_gate, uniform

State: TypeAlias = tuple[Tensor, Tensor]
"""Outputs and cells [B, width] after the last token."""


class LongShortTermMemory(nn.Module):
    """An LSTM over sequences, from zeros or a given state, by torch's fused kernel.

    Weight drop (arXiv 1708.02182 §2): in training each forward pass drops entries of the recurrent
    matrix, the same ones at all tokens. The parameter is the full matrix, in evaluation and in
    checkpoints.
    """

    def __init__(self, inputs: int, outputs: int, weight_dropout: float) -> None:
        super().__init__()
        self.outputs = outputs
        self.weight_dropout = weight_dropout
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
        weights = [
            self.input,
            recurrent,
            self.bias,
            torch.zeros_like(self.bias),
        ]  # the kernel adds two biases
        # no autocast on a processor: without bf16 instructions it has no such kernel
        with torch.autocast("cpu", enabled=False):
            x, output, cell = (
                tensor.to(self.bias.dtype) for tensor in (x, output[None], cell[None])
            )
            out, output, cell = torch.lstm(
                x, (output, cell), weights, True, 1, 0.0, self.training, False, True
            )
        return out, (output[0], cell[0])


def gate_distributions(width: int) -> dict[str, Draw]:
    """Return the initial distributions of the gates, in the order input, forget, candidate, output.

    The bias of the forget gate is 1, so that cells keep their content at first (Jozefowicz et al.
    2015).
    """
    bound = width**-0.5
    return {
        "input": uniform(bound),
        "recurrent": uniform(bound),
        "bias": constant_per_gate(0.0, 1.0, 0.0, 0.0),
    }


class ProjectedLstm(nn.Module):
    """An LSTM whose outputs are narrower than its cells (arXiv 1402.1128); both are clipped at every token.

    torch's own kernel cannot clip, so the tokens are a loop; the products with the inputs are
    computed before it.
    """

    def __init__(self, inputs: int, cells: int, outputs: int, clip: float) -> None:
        super().__init__()
        self.cells = cells
        self.clip = clip
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
        cell = gates.new_zeros(len(x), cells)
        output = gates.new_zeros(len(x), outputs)
        states = []
        for step in gates.unbind(1):  # one token: [B, 4 * cells]
            write, forget, candidate, read = (step + F.linear(output, self.recurrent)).chunk(
                4, dim=-1
            )
            cell = forget.sigmoid() * cell + write.sigmoid() * candidate.tanh()
            cell = cell.clamp(-self.clip, self.clip)
            output = F.linear(read.sigmoid() * cell.tanh(), self.projection).clamp(
                -self.clip, self.clip
            )
            states.append(output)
        return torch.stack(states, dim=1)


def drop_features(x: Tensor, probability: float, training: bool) -> Tensor:
    """Drop features of x [B, T, width], the same ones at all positions of a row (arXiv 1512.05287); scale the rest."""
    if not training or not probability:
        return x
    return x * F.dropout(x.new_ones(len(x), 1, x.shape[2]), probability)


def drop_words(
    vectors: Tensor, ids: Tensor, rows: int, probability: float, training: bool
) -> Tensor:
    """Drop the vectors [B, T, width] of entire words, wherever they occur in `ids` [B, T]; scale up the others."""
    if not training or not probability:
        return vectors
    return vectors * F.dropout(vectors.new_ones(rows), probability)[ids][..., None]
