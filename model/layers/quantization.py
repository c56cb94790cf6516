"""Integer weights by torchao: linear maps of the body as int8 or int4, or rounded in training."""

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
"""Number of consecutive inputs that share a scale in int4."""


class RoundedLinear(nn.Linear):
    """A linear map in quantization-aware training: its parameters are rounded in each forward pass.

    Gradients pass straight through. The modules of `torchao.quantization.qat` are not used, because
    they lack the symmetric rounding per token of `int8_dynamic`. The rounding functions are
    torchao's, so the stored model computes what the training computed.
    """

    quantization: Quantization

    def forward(self, x: Tensor) -> Tensor:
        if self.quantization == "int8_dynamic":
            x = round_values(x, "int8")
        return F.linear(x, round_values(self.weight, self.quantization), self.bias)


def quantizable_maps(model: nn.Module, quantization: Quantization) -> dict[str, nn.Linear]:
    """Return the linear maps of the body by path, each once: their weights become integers.

    Norms, heads, and the tables of tokens, positions and types stay in floating point.

    Raises:
        ConfigurationError: there are no linear maps, or groups do not divide the width of one.
    """
    paths = [
        path
        for path, module in model.named_modules()
        if path.startswith("family.") and type(module) is nn.Linear
    ]

    modules: dict[str, Any] = {path: model.get_submodule(path) for path in paths}
    # an unsupported model or width
    if not modules:
        raise ConfigurationError(
            f"{quantization}: expected a family with linear maps, got a family of LSTMs"
        )

    for path, module in modules.items():
        width = full_shape(module.weight)[1]
        if quantization == "int4" and width % GROUP:
            raise ConfigurationError(
                f"int4: {path}: its width {width} is not a multiple of {GROUP}, the inputs that "
                "share a scale; use int8"
            )

    return modules


def round_while_training(model: nn.Module, quantization: Quantization) -> None:
    """Let the linear maps of a model compute with rounded weights; parameters keep their names.

    Raises:
        ConfigurationError: torchao is not installed, or the model cannot be quantized.
    """
    with torchao_for(f"model.quantization={quantization}"):
        import torchao.quantization  # noqa: F401 (an early error)
    # the same module with another forward: its parameters, hooks and path stay
    for module in quantizable_maps(model, quantization).values():
        module.__class__ = RoundedLinear
        module.quantization = quantization  # type: ignore[assignment]


def round_values(values: Tensor, quantization: Quantization) -> Tensor:
    """Return values [..., inputs] rounded as torchao stores them, with their gradient."""
    from torchao.quantization import (
        MappingType,
        choose_qparams_affine,
        dequantize_affine,
        quantize_affine,
    )

    # one scale per group of inputs, or per row
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
    """Return the torchao configuration for a type of integers.

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
    """Return a matrix [outputs, inputs] as a torchao tensor, which `F.linear` accepts."""
    config = torchao_config(quantization)
    from torchao.quantization import quantize_

    module = nn.Linear(1, 1, bias=False, device="meta")
    # torchao reads no fp64
    known = weight.float() if weight.dtype == torch.float64 else weight
    module.weight = nn.Parameter(known.detach(), requires_grad=False)
    quantize_(module, config, lambda *_: True)
    return module.weight.detach()


def holds_integers(tensor: Tensor) -> bool:
    """Return whether this is a torchao tensor: integers and scales with the shape of the weight."""
    return hasattr(tensor, "tensor_data_names")


def flatten_integers(tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return tensors that safetensors can store, and the metadata for `restore_integers`."""
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict

    flat, metadata = flatten_tensor_state_dict(
        {name: tensor.detach() for name, tensor in tensors.items()}
    )
    return flat, {**metadata, "format": "pt"}


def has_integers(metadata: dict[str, str]) -> bool:
    """Return whether the metadata of a file describe integers."""
    return "tensor_names" in metadata


def restore_integers(stored: dict[str, Tensor], metadata: dict[str, str]) -> dict[str, Tensor]:
    """Restore the tensors that `flatten_integers`, or transformers, has written.

    Tensors in floating point stay as they are stored.

    Raises:
        ConfigurationError: torchao is not installed.
        ValueError: the metadata describe other tensors.
    """
    with torchao_for("a model with integer weights"):
        from torchao.prototype.safetensors.safetensors_support import unflatten_tensor_state_dict
    try:
        tensors, unread = unflatten_tensor_state_dict(stored, metadata)
    except Exception as error:  # torchao checks its types with assertions
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if unread:
        raise ValueError(f"the metadata do not describe {sorted(unread)[0]}")
    return dict(tensors)


@contextmanager
def torchao_for(purpose: str) -> Iterator[None]:
    """Import torchao in the block, without its log lines about kernels for other machines."""
    for library in ("torchao", "torch.utils._pytree"):
        logging.getLogger(library).setLevel(logging.ERROR)
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f"{purpose} needs torchao: pip install 'clozeline[torchao]'"
        ) from error
