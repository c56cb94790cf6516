"""The interface of heads: losses on hidden states."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.flops import matrix_flops
from clozeline.model.layers.pooling import ScalarMix
from clozeline.model.loss import Loss, weigh_rows_equally


class Head(nn.Module, ABC):
    """A loss on hidden states: a sum over labels, and the divisor of that sum."""

    Options: ClassVar[type[ModelConfig]] = ModelConfig
    target: ClassVar[str]
    """Target of the prediction, as objectives name it in `heads`. Several heads may share a target."""
    needs: ClassVar[frozenset[str]]
    """Tensors that it reads from a batch, besides the family's and `row_weight`. A head that needs `input_ids_b` also
    gets `hidden_b` [B, Tb, dim], the family's states of the second view."""
    host_tensors: ClassVar[frozenset[str]] = frozenset()
    """Tensors that it reads and `add_host_shapes` computes on the host."""
    settings: ClassVar[frozenset[str]] = frozenset()
    """Keys of its configuration that it reads, besides `weight`."""
    unit: ClassVar[Literal["label", "token", "row"]] = "label"
    """Unit of its predictions: labeled positions, all tokens of the labeled rows, or rows."""
    left_padding: ClassVar[bool] = False
    """It can read rows that are padded on the left."""
    normalise: Literal["label", "row"] = "label"
    """Unit of equal weight in the mean; the model sets it from the configuration."""
    label_chunk: int | None = None
    """Labels whose scores are held in memory at a time; the model sets it from the configuration."""

    def __init__(self) -> None:
        super().__init__()
        self.mix: ScalarMix | None = None
        """Mix of the states of all layers that it reads instead of the last; the model sets it."""

    @classmethod
    def key(cls) -> str:
        return cls.__module__.rpartition(".")[2]  # the name of its file, the key in `model.heads`

    @abstractmethod
    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the summed loss, an fp32 scalar: 0 without labels, but with a gradient path to every parameter."""

    @abstractmethod
    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the divisor of the sum, an integer scalar on the batch's device: a function of inputs alone."""

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """Return scores at every position, [B, T, dim] to [B, T, classes], or of rows."""

    def scores(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return scores of a batch; heads that score rows need to know which positions hold tokens."""
        return self.logits(hidden)

    def figures(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return further sums by name, recorded as shares of the divisor, such as correctly classified positions."""
        return {}

    def loss(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Loss:
        """Return sum and divisor of a batch, weighted as `normalise` says."""
        weighted = self._weigh(tensors)
        total = self(hidden, weighted)
        with torch.no_grad():
            return Loss(total, self.divisor(weighted), self.figures(hidden, weighted))

    def count(self, tensors: Mapping[str, Tensor]) -> int:
        """Return the divisor of a batch as a number; free for a batch that is still on the host."""
        return int(self.divisor(self._weigh(tensors)))

    def classes(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the correct class of each prediction, [n] int64: a token id, a class index, a choice; or nothing."""
        return tensors["row_weight"].new_zeros(0, dtype=torch.int64)

    @property
    def flops_unit(self) -> str:
        """Unit for which `flops` counts."""
        return self.unit

    def flops(self) -> float:
        """Return the FLOPs of the forward pass for one `flops_unit`: each matrix entry is used once."""
        return matrix_flops(self)

    def _weigh(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return tensors if self.normalise == "label" else weigh_rows_equally(tensors, self.key())
