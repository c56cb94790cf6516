"""Heads: what hidden states are asked for in training. One file each, chosen by the keys of `model.heads`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.flops import matrix_flops
from clozeline.model.layers.scalar_mix import ScalarMix
from clozeline.model.loss import Loss, weigh_rows_equally


class Head(nn.Module, ABC):
    """A loss on hidden states: a sum over labels, and the count that the sum is divided by."""

    Options: ClassVar[type[ModelConfig]] = ModelConfig
    target: ClassVar[str]
    """Target of the prediction, as objectives name it in `heads`. Several heads may share one."""
    needs: ClassVar[frozenset[str]]
    """Tensors it reads from a batch, besides the family's and `row_weight`. One that needs `input_ids_b` is also given
    `hidden_b` [B, Tb, dim], the family's states of the second view."""
    host_tensors: ClassVar[frozenset[str]] = frozenset()
    """Facts about a batch that it reads, and `add_host_shapes` finds on the host."""
    settings: ClassVar[frozenset[str]] = frozenset()
    """Keys of its configuration that it reads, besides `weight`."""
    unit: ClassVar[Literal["label", "token", "row"]] = "label"
    """Unit of its predictions: labelled places, all tokens of the labelled rows, or rows."""
    left_padding: ClassVar[bool] = False
    """It finds the tokens of rows that are padded on the left."""
    normalise: Literal["label", "row"] = "label"
    """Unit that weighs alike in the mean; the model sets it from the configuration."""
    label_chunk: int | None = None
    """Labels whose scores are held at a time; the model sets it from the configuration."""

    def __init__(self) -> None:
        super().__init__()
        self.mix: ScalarMix | None = None
        """of the states of all layers, which it reads in the place of the last; the model sets it"""

    @classmethod
    def key(cls) -> str:
        """Return its key in `model.heads`, the name of its file."""
        return cls.__module__.rpartition(".")[2]

    @abstractmethod
    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the summed loss, an fp32 scalar.

        Without labels it is 0 and still has a gradient path to every parameter.
        """

    @abstractmethod
    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return what the sum is divided by, an integer scalar on the batch's device: a function of inputs alone."""

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """Return scores at every place, [B, T, dim] to [B, T, classes], or of rows."""

    def scores(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return scores of a batch; heads that judge rows need to know which places hold tokens."""
        return self.logits(hidden)

    def figures(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return sums by name that are recorded as shares of the count, such as the places that are judged rightly."""
        return {}

    def loss(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Loss:
        """Return sum and count of a batch, weighed as `normalise` says."""
        weighed = self._weigh(tensors)
        total = self(hidden, weighed)
        with torch.no_grad():
            return Loss(total, self.divisor(weighed), self.figures(hidden, weighed))

    def count(self, tensors: Mapping[str, Tensor]) -> int:
        """Return the count of a batch as a number; free for a batch that is still on the host."""
        return int(self.divisor(self._weigh(tensors)))

    def classes(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the right class of each prediction, [n] int64, as a number: a token's id, a class, a choice.

        Empty where the head predicts something else than one of several classes.
        """
        return tensors["row_weight"].new_zeros(0, dtype=torch.int64)

    def flops(self) -> float:
        """Return the forward's floating-point operations for one prediction: each entry of a matrix is used once."""
        return matrix_flops(self)

    def _weigh(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        if self.normalise == "label":
            return tensors
        return weigh_rows_equally(tensors, self.key())
