"""Count the FLOPs of a model's forward and backward pass.

Frozen matrices, and everything below the lowest trained parameter, have no backward pass.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from torch import nn

from clozeline.model.layers.stack import Stack
from clozeline.model.parameters.sharding import full_shape

DocumentCounts: TypeAlias = Mapping[tuple[int, int], float]
"""Mean number of documents in a row, by their number of tokens and of target tokens."""


class FlopCounts:
    """The methods of `Model` that count matrix products, from its modules."""

    family: Any
    heads: Mapping[str, Any]
    head_flops: list[tuple[str, float]]
    """FLOPs of the forward pass of each head, and the unit (label, token or row) they are for"""
    adapters: Any

    def flops(
        self,
        tokens_per_row: int,
        target_tokens_per_row: int = 0,
        labels_per_row: float | None = None,
        documents: DocumentCounts | None = None,
    ) -> float:
        """Return the FLOPs of one row's forward and backward pass, matrix products only.

        Frozen matrices, and everything below the lowest trained parameter, have no backward pass.

        Args:
            tokens_per_row: tokens of the row; of the encoder's row in an encoder_decoder.
            target_tokens_per_row: encoder_decoder: tokens of the decoder's row.
            labels_per_row: positions that reach the heads; None = every token of the labeled row.
            documents: number of documents of each length, in tokens and target tokens, that share a
                row without seeing each other; None = one document fills the row.
        """
        body, *heads = self._forward_flops(
            tokens_per_row, target_tokens_per_row, labels_per_row, documents
        )
        trained = any(parameter.requires_grad for parameter in self.family.parameters())
        below = trained or self.adapters.active is not None
        total = body + self.body_backward_flops(tokens_per_row, body)
        for head, forward in zip(self.heads.values(), heads, strict=True):
            total += forward + _head_backward_flops(head, forward, below=below)
        return total

    def body_backward_flops(self, tokens: int, forward: float) -> float:
        """Return the FLOPs of the body's backward pass, from those of its forward pass.

        Each matrix product of the forward pass has two in the backward pass: one for the gradient
        of its input, if gradients pass, and one for that of its matrix, if the matrix trains.
        Products of two states, in attention, always have both.
        """
        # an adapter trains in the lowest layer
        parts = _parts_of(self.family, adapted=self.adapters.active is not None)
        matrix_flops = 2.0 * tokens * sum(part.entries for part in parts)
        passed = [part for part in parts if part.is_passed]
        state_flops = 2.0 * (forward - matrix_flops) * len(passed) / len(parts)
        return state_flops + 2.0 * tokens * sum(part.entries + part.trained for part in passed)

    def forward_flops(
        self,
        tokens_per_row: int,
        target_tokens_per_row: int = 0,
        labels_per_row: float | None = None,
        documents: DocumentCounts | None = None,
    ) -> float:
        """Return the FLOPs of one row's forward pass alone; the arguments are those of `flops`."""
        return sum(
            self._forward_flops(tokens_per_row, target_tokens_per_row, labels_per_row, documents)
        )

    def _forward_flops(
        self,
        tokens: int,
        target_tokens: int,
        labels: float | None,
        documents: DocumentCounts | None,
    ) -> list[float]:
        """Return the FLOPs of the body, followed by those of each head."""
        labeled = target_tokens or tokens
        units = {"label": labeled if labels is None else labels, "token": labeled, "row": 1}
        body = self.states_flops(tokens, target_tokens, documents)
        body += units["label"] * self.family.label_flops(labeled)
        return [body, *(units[unit] * flops for unit, flops in self.head_flops)]

    def states_flops(
        self, tokens: int, target_tokens: int, documents: DocumentCounts | None
    ) -> float:
        """Return the forward FLOPs of one row's hidden states; see `flops`."""
        counts = {(tokens, target_tokens): 1.0} if documents is None else documents
        lengths = np.array(list(counts)).T
        return float(np.sum(self.family.flops(*lengths) * list(counts.values())))


@dataclass(frozen=True)
class _Part:
    """The matrix entries of a layer."""

    entries: int
    trained: int
    """entries of matrices that train"""
    is_passed: bool
    """whether gradients pass through the layer"""


def _head_backward_flops(head: nn.Module, forward: float, *, below: bool) -> float:
    """Return the FLOPs of a head's backward pass; `below`: gradients pass on to the body."""
    matrices = [parameter for parameter in head.parameters() if len(full_shape(parameter)) > 1]
    trained = any(parameter.requires_grad for parameter in matrices) if matrices else below
    passes = below or (trained and len(matrices) > 1)
    return forward * (trained + passes)


def _parts_of(family: nn.Module, *, adapted: bool) -> list[_Part]:
    """Return the layers of all stacks, lowest first; a family without stacks is one part."""
    stacks = [module for module in family.modules() if isinstance(module, Stack)]
    layers: list[nn.Module] = [layer for stack in stacks for layer in stack.layers]
    # what is neither in a layer nor in the final norm lies below the layers, as embeddings do
    norms = [parameter for stack in stacks for parameter in stack.norm.parameters()]
    inside = {id(parameter) for layer in layers for parameter in layer.parameters()}
    inside.update(map(id, norms))
    passed = adapted or any(
        parameter.requires_grad for parameter in family.parameters() if id(parameter) not in inside
    )

    parts = []

    for layer in layers or [family]:
        passed = passed or any(parameter.requires_grad for parameter in layer.parameters())
        # a lookup in an embedding table is not a matrix product
        tables = {
            id(module.weight) for module in layer.modules() if isinstance(module, nn.Embedding)
        }
        matrices = [parameter for parameter in layer.parameters() if id(parameter) not in tables]
        trained = [parameter for parameter in matrices if parameter.requires_grad]
        parts.append(_Part(_entries(matrices), _entries(trained), passed))

    return parts


def _entries(parameters: Iterable[nn.Parameter]) -> int:
    shapes = map(full_shape, parameters)
    return sum(shape.numel() for shape in shapes if len(shape) == 2)
