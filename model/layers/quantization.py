"""Integer weights by torchao: the linear maps of a model's body, stored as int8 or int4, or rounded while training."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import Quantization
from clozeline.model.parameters.sharding import full_shape

GROUP: Final = 32
"""Consecutive inputs that share a scale in int4."""


class RoundedLinear(nn.Linear):
    """A linear map in quantization-aware training: the same parameters, rounded in each forward pass.

    Gradients pass straight through. The modules of `torchao.quantization.qat` are not used: they
    have no symmetric rounding per token, which `int8_dynamic` computes with. The rounding functions
    are torchao's, so that the stored model computes what the training did.
    """

    quantization: Quantization

    def forward(self, x: Tensor) -> Tensor:  # named as in `Attention`
        if self.quantization == "int8_dynamic":
            x = round_values(x, "int8")
        return F.linear(x, round_values(self.weight, self.quantization), self.bias)


def linear_maps(model: nn.Module, quantization: Quantization) -> dict[str, nn.Linear]:
    """Return the modules whose weights become integers by path, each once: the linear maps of the body.

    Norms, heads, and the tables of tokens, positions and types stay in floating point.

    Raises:
        ConfigurationError: there are none, or groups do not divide the width of one.
    """
    paths = [
        path
        for path, module in model.named_modules()
        if path.startswith("family.") and type(module) is nn.Linear
    ]
    modules: dict[str, Any] = {path: model.get_submodule(path) for path in paths}
    if not modules:
        raise ConfigurationError(
            f"{quantization}: expected a family with linear maps, got one of LSTMs, which have none"
        )
    for path, module in modules.items():
        width = full_shape(module.weight)[1]
        if quantization == "int4" and width % GROUP:
            raise ConfigurationError(
                f"int4: {path}: groups of {GROUP} inputs do not divide its width {width}; use int8"
            )
    return modules


def round_while_training(model: nn.Module, quantization: Quantization) -> None:
    """Let the linear maps of a model compute with rounded weights; parameters keep their names.

    Raises:
        ConfigurationError: torchao is not installed, or the model has no such form.
    """
    with torchao_for(f"model.quantization={quantization}"):
        import torchao.quantization  # noqa: F401 (an early error)
    # the same module with another forward: its parameters, hooks and position in the model stay
    for module in linear_maps(model, quantization).values():
        module.__class__ = RoundedLinear
        module.quantization = quantization  # type: ignore[assignment]


def round_values(values: Tensor, quantization: Quantization) -> Tensor:
    """Return values [..., inputs] rounded as torchao stores them, with the gradient of the values."""
    from torchao.quantization import (
        MappingType,
        choose_qparams_affine,
        dequantize_affine,
        quantize_affine,
    )

    group, low, high = (GROUP, -8, 7) if quantization == "int4" else (values.shape[-1], -128, 127)
    exact = values.detach().float()
    block = (*(1,) * (values.dim() - 1), group)
    scale, zero = choose_qparams_affine(
        exact,
        MappingType.SYMMETRIC,
        block,
        torch.int8,
        low,
        high,
        zero_point_dtype=torch.int8,
        keepdim=True,
    )
    integers = quantize_affine(exact, block, scale, zero, torch.int8, low, high)
    rounded: Tensor = dequantize_affine(integers, block, scale, zero, torch.int8, low, high)
    return rounded.to(values.dtype) + (values - values.detach())


def torchao_config(quantization: Quantization) -> object:
    """Return the configuration of torchao that a kind of integers is made by.

    Raises:
        ConfigurationError: torchao is not installed.
    """
    with torchao_for(f"method={quantization}"):
        from torchao.quantization import (
            Int8DynamicActivationInt8WeightConfig,
            Int8WeightOnlyConfig,
            IntxWeightOnlyConfig,
            PerGroup,
        )
    if quantization == "int4":  # Int4WeightOnlyConfig has no kernel for a CPU
        return IntxWeightOnlyConfig(torch.int4, PerGroup(GROUP))  # type: ignore[attr-defined]
    chosen = (
        Int8WeightOnlyConfig if quantization == "int8" else Int8DynamicActivationInt8WeightConfig
    )
    return chosen(set_inductor_config=False)


def quantize_weight(weight: Tensor, quantization: Quantization) -> Tensor:
    """Return a matrix [outputs, inputs] as a tensor of torchao, with which `F.linear` multiplies like any other."""
    config = torchao_config(quantization)
    from torchao.quantization import quantize_

    module = nn.Linear(1, 1, bias=False, device="meta")
    known = (
        weight.float() if weight.dtype == torch.float64 else weight
    )  # torchao reads no other types
    module.weight = nn.Parameter(known.detach(), requires_grad=False)
    quantize_(module, config, lambda *_: True)
    return module.weight.detach()


def holds_integers(tensor: Tensor) -> bool:
    """Return whether this is a tensor of torchao: integers and scales behind the shape of the weight."""
    return hasattr(tensor, "tensor_data_names")


def flatten_integers(tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return tensors that safetensors can hold, and the metadata of the file that `restore_integers` needs."""
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict

    plain, metadata = flatten_tensor_state_dict(
        {name: tensor.detach() for name, tensor in tensors.items()}
    )
    return plain, {**metadata, "format": "pt"}


def has_integers(metadata: dict[str, str]) -> bool:
    """Return whether the metadata of a file describe integers."""
    return "tensor_names" in metadata


def restore_integers(plain: dict[str, Tensor], metadata: dict[str, str]) -> dict[str, Tensor]:
    """Return the tensors that `flatten_integers`, or transformers, has written; plain ones stay.

    Raises:
        ConfigurationError: torchao is not installed.
        ValueError: the metadata describe other tensors.
    """
    with torchao_for("a model with integer weights"):
        from torchao.prototype.safetensors.safetensors_support import unflatten_tensor_state_dict
    try:
        tensors, left = unflatten_tensor_state_dict(plain, metadata)
    except Exception as error:  # torchao checks its own types by assertions
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if left:
        raise ValueError(f"no metadata for {sorted(left)[0]}")
    return dict(tensors)


@contextmanager
def torchao_for(purpose: str) -> Iterator[None]:
    """Import torchao in the block, without its lines about kernels for other machines."""
    for library in ("torchao", "torch.utils._pytree"):
        logging.getLogger(library).setLevel(logging.ERROR)
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f"{purpose} needs torchao: pip install 'clozeline[torchao]'"
        ) from error
