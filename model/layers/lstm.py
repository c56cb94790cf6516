"""LSTM layers with weight drop or a projection, and dropout that is constant over a sequence."""

from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.model.parameters.initial_values import Draw, constant_per_gate, uniform

State: TypeAlias = tuple[Tensor, Tensor]
"""Outputs and cells [B, width] after the last token."""


class LongShortTermMemory(nn.Module):
    """An LSTM over sequences, from zeros or a given state, with torch's fused kernel.

    Weight drop (arXiv 1708.02182 §2): in training, each forward pass drops entries of the recurrent
    matrix, the same ones at all tokens. The parameter is the complete matrix, in evaluation and in
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
        """Return the outputs [B, T, outputs] of [B, T, inputs], and the final state."""
        first = x.new_zeros(len(x), self.outputs)
        output, cell = (first, first) if state is None else state
        # weight drop: one mask for all tokens; the kernel adds two biases, the second is 0
        recurrent = F.dropout(self.recurrent, self.weight_dropout, self.training)
        weights = [self.input, recurrent, self.bias, torch.zeros_like(self.bias)]
        # no autocast on a CPU: without bf16 instructions it has no such kernel
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

    The bias of the forget gate is 1, so that cells initially keep their content (Jozefowicz et al.
    2015).
    """
    bound = width**-0.5
    return {
        "input": uniform(bound),
        "recurrent": uniform(bound),
        "bias": constant_per_gate(0.0, 1.0, 0.0, 0.0),
    }


class ProjectedLstm(nn.Module):
    """An LSTM with narrower outputs than cells (arXiv 1402.1128), both clipped at every token.

    torch's kernel cannot clip, so this is a loop over tokens; the products with the inputs are
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
        """Return the outputs [B, T, outputs] of [B, T, inputs]; every row starts from zeros."""
        # gates of all tokens, [B, T, 4 * cells], without their recurrent part
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
    """Drop features of x [B, T, width], the same ones at all positions (arXiv 1512.05287).

    Like any dropout, it scales up the remaining features.
    """
    if not training or not probability:
        return x
    return x * F.dropout(x.new_ones(len(x), 1, x.shape[2]), probability)


def drop_words(
    vectors: Tensor, ids: Tensor, rows: int, probability: float, training: bool
) -> Tensor:
    """Drop the vectors [B, T, width] of some words, at all their positions in `ids` [B, T]."""
    if not training or not probability:
        return vectors
    return vectors * F.dropout(vectors.new_ones(rows), probability)[ids][..., None]
