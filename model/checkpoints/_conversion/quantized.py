"""Convert a checkpoint between floating-point weights and stored integers."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.checkpoints._conversion.checkpoint import Checkpoint
from clozeline.model.quantization import INTEGERS, SCALES, quantizable_modules
from clozeline.model.quantization.formats import Format
from clozeline.registry import Chosen

_WEIGHT: Final = ".weight"
_ROWS: Final = 256
"""Rows of a matrix that are rounded at a time, so that memory is taken for integers alone."""


def is_quantized(checkpoint: Checkpoint) -> bool:
    """Return whether weights are stored as integers."""
    quantization = checkpoint.config.quantization
    return quantization is not None and quantization.options.stored


def quantizable_weights(checkpoint: Checkpoint, number_format: Format) -> list[str]:
    """Return the names of the parameters that a format stores as integers, each once.

    Raises:
        ConfigurationError: there are none, or the format cannot store one of them.
    """
    with torch.device("meta"):
        model = Model(replace(checkpoint.config, quantization=None), checkpoint.vocab_size)
        stored = {id(module.weight) for module in quantizable_modules(model, number_format).values()}
    return [name for name, parameter in model.named_parameters() if id(parameter) in stored]


def quantize_checkpoint(
    checkpoint: Checkpoint, chosen: Chosen, rounded: Mapping[str, tuple[Tensor, Tensor]] | None = None
) -> Checkpoint:
    """Return a checkpoint with stored integers; parameters that stay as they are are shared, not copied.

    Args:
        checkpoint: floating-point weights; a training with a number format must have had this one.
        chosen: the format, with or without `stored`.
        rounded: integers and scales of some parameters that were rounded otherwise, by GPTQ.

    Raises:
        ConfigurationError: it is quantized already, was trained for another format, or the format does not fit.
    """
    trained = checkpoint.config.quantization
    if trained is not None and trained.options.stored:
        raise ConfigurationError(
            f"expected floating-point weights, got integers of {trained.name}: quantizing them again would add up both "
            "errors; quantize the model that it was made from"
        )
    stored = replace(chosen, options=replace(chosen.options, stored=True))
    if trained is not None and replace(trained, options=replace(trained.options, stored=True)) != stored:
        raise ConfigurationError(
            f"the model was trained for model.quantization={trained.plain()}, got {chosen.plain()}: use the format of "
            "the training"
        )
    number_format: Format = stored.build()
    names = quantizable_weights(checkpoint, number_format)
    tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if name not in names}
    for name in names:
        integers, scales = (rounded or {}).get(name) or _quantize(checkpoint.tensors[name], number_format)
        path = name.removesuffix(_WEIGHT)
        tensors |= {f"{path}{INTEGERS}": integers, f"{path}{SCALES}": scales}
    try:
        config = replace(checkpoint.config, quantization=stored)
    except ValueError as error:  # a family whose keys do not include it
        raise ConfigurationError(f"{chosen.name}: the model has no quantized form: {error}") from error
    return replace(checkpoint, config=config, tensors=tensors)


def _quantize(weight: Tensor, number_format: Format) -> tuple[Tensor, Tensor]:
    integers, scales = zip(*map(number_format.quantize, torch.split(weight, _ROWS)), strict=True)
    return torch.cat(integers), torch.cat(scales)


def dequantize_checkpoint(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint with fp32 weights in place of stored integers; one without integers is returned as it is."""
    if not is_quantized(checkpoint):
        return checkpoint
    tensors = dict(iterate_weights(checkpoint))
    return replace(checkpoint, config=replace(checkpoint.config, quantization=None), tensors=tensors)


def iterate_weights(checkpoint: Checkpoint) -> Iterator[tuple[str, Tensor]]:
    """Yield each parameter by name, those with stored integers dequantized, one at a time."""
    tensors, quantization = checkpoint.tensors, checkpoint.config.quantization
    number_format: Any = None if quantization is None else quantization.build()
    for name, tensor in tensors.items():
        path = name.removesuffix(INTEGERS)
        if path != name:
            yield f"{path}{_WEIGHT}", number_format.dequantize(tensor, tensors[f"{path}{SCALES}"])
        elif f"{name.removesuffix(SCALES)}{INTEGERS}" not in tensors:
            yield name, tensor
