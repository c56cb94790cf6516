"""Linear maps and tables with quantized weights: stored as integers, or rounded in each forward pass of a training."""

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.model.layers.vocabulary import VocabularyProjection
from clozeline.model.quantization.formats import Format

INTEGERS: Final = ".integers"
SCALES: Final = ".scales"
"""Ends of the names of buffers that replace `.weight`."""


class _Stored(nn.Module):
    """Buffers `integers` and `scales` of a matrix [outputs, inputs]."""

    integers: Tensor
    scales: Tensor

    def __init__(self, number_format: Format, outputs: int, inputs: int) -> None:
        super().__init__()
        self.number_format = number_format
        self.shape = (outputs, inputs)
        integers, scales = number_format.allocate(outputs, inputs)
        self.register_buffer("integers", integers)
        self.register_buffer("scales", scales)
        self._prepared: Tensor | None = None
        self._is_prepared = False

    @property
    def weight(self) -> Tensor:
        """The dequantized matrix, fp32; computed at each access."""
        return self.number_format.dequantize(self.integers, self.scales)

    def product(self, x: Tensor) -> Tensor:
        """Map [..., inputs] to [..., outputs], without a bias."""
        if not self._is_prepared or (self._prepared is not None and self._prepared.device != x.device):
            self._prepared, self._is_prepared = self.number_format.prepare(self.integers, self.scales), True
        return self.number_format.product(x, self.integers, self.scales, self._prepared)


class StoredLinear(_Stored):
    """A linear map whose weight is stored as integers; its bias is that of the map it replaces."""

    def __init__(self, number_format: Format, replaced: nn.Linear) -> None:
        super().__init__(number_format, replaced.out_features, replaced.in_features)
        self.out_features, self.in_features = self.shape
        self.bias = replaced.bias

    def forward(self, x: Tensor) -> Tensor:
        scores = self.product(x)
        return scores if self.bias is None else scores + self.bias


class StoredEmbedding(_Stored):
    """A table whose rows are stored as integers."""

    def __init__(self, number_format: Format, replaced: nn.Embedding) -> None:
        super().__init__(number_format, replaced.num_embeddings, replaced.embedding_dim)
        self.num_embeddings, self.embedding_dim = self.shape

    def forward(self, ids: Tensor) -> Tensor:
        return self.number_format.dequantize(self.integers[ids], self.scales[ids])


class StoredProjection(_Stored):
    """A projection onto the vocabulary with integers of its own, or those of the token table that it is tied to."""

    def __init__(self, number_format: Format, replaced: VocabularyProjection, tied_to: StoredEmbedding | None) -> None:
        super().__init__(number_format, *(replaced.weight.shape if tied_to is None else (0, replaced.weight.shape[1])))
        if tied_to is not None:  # the same tensors: they are counted, stored and loaded once
            self.integers, self.scales, self.shape = tied_to.integers, tied_to.scales, tied_to.shape
        self.bias, self.extra, self.vocab_size = replaced.bias, replaced.extra, replaced.vocab_size

    def forward(self, hidden: Tensor) -> Tensor:
        width = self.shape[1]
        scores = self.product(hidden[..., :width])
        scores = scores if self.bias is None else scores + self.bias
        scores = scores if self.extra is None else scores + self.extra(hidden[..., width:])
        return scores[..., : self.vocab_size]


class RoundedLinear(nn.Linear):
    """A linear map in quantization-aware training: the same parameters, rounded in each forward pass."""

    number_format: Format

    def forward(self, x: Tensor) -> Tensor:  # named as in `Attention`
        scores = self.number_format.fake_product(x, self.weight)
        return scores if self.bias is None else scores + self.bias


class RoundedEmbedding(nn.Embedding):
    """A token table in quantization-aware training: the rows that are looked up are rounded."""

    number_format: Format

    def forward(self, ids: Tensor) -> Tensor:
        return self.number_format.round_weights(F.embedding(ids, self.weight))


class RoundedProjection(VocabularyProjection):
    """A projection onto the vocabulary in quantization-aware training."""

    number_format: Format

    def forward(self, hidden: Tensor) -> Tensor:
        width = self.weight.shape[1]
        scores = self.number_format.fake_product(hidden[..., :width], self.weight)
        scores = scores if self.bias is None else scores + self.bias
        scores = scores if self.extra is None else scores + self.extra(hidden[..., width:])
        return scores[..., : self.vocab_size]


def stored_modules(model: nn.Module) -> dict[str, _Stored]:
    """Return the modules with stored integers by path, each tensor of integers once."""
    modules: dict[str, _Stored] = {}
    for path, module in model.named_modules():
        if isinstance(module, _Stored) and not any(module.integers is other.integers for other in modules.values()):
            modules[path] = module
    return modules


def stored_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return what a folder of a model holds, by name: its parameters, and the integers and scales of its buffers."""
    tensors: dict[str, Tensor] = dict(model.named_parameters())
    for path, module in stored_modules(model).items():
        tensors |= {f"{path}{INTEGERS}": module.integers, f"{path}{SCALES}": module.scales}
    return tensors


def share_integers(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Let a model read the integers and scales in these tensors, without a copy."""
    paths = {id(module.integers): path for path, module in stored_modules(model).items()}
    stored = [(paths[id(module.integers)], module) for module in model.modules() if isinstance(module, _Stored)]
    for path, module in stored:
        module.integers, module.scales = tensors[f"{path}{INTEGERS}"], tensors[f"{path}{SCALES}"]


def count_quantized(model: nn.Module) -> dict[str, int]:
    """Return the number of weights that are stored as integers, by module path."""
    return {path: torch.Size(module.shape).numel() for path, module in stored_modules(model).items()}
