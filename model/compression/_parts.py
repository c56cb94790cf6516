"""Find the layers of a model, and cut its parameters to fit a smaller configuration."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from torch import Tensor

from clozeline.configuration.config import adapter_of, validate
from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import Checkpoint, parameter_shapes
from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.configuration.model_config import ModelConfig

_LAYER: Final = re.compile(r"(family\.(?:(?:stack|encoder|decoder)\.)?layers\.)(\d+)\.(.+)")


def split_name(name: str) -> tuple[str, int, str] | None:
    """Return the stack, the layer index and the rest of a parameter's name; None outside the layers.

    Example:
        >>> split_name("family.stack.layers.3.feed_forward.body.up.weight")
        ('family.stack.layers.', 3, 'feed_forward.body.up.weight')
    """
    match = _LAYER.fullmatch(name)
    return None if match is None else (match[1], int(match[2]), match[3])


def change_config(config: ModelConfig, method: str, **changes: Any) -> ModelConfig:
    """Return a configuration with other values; one that contradicts itself is refused in the name of the method."""
    plain = adapter_of(type(config)).dump_python(config, mode="json", exclude_none=True)
    changed: ModelConfig = validate(ModelConfig, {**plain, **changes}, method, "model.")
    return changed


def refuse_shared_layers(config: ModelConfig, method: str) -> None:
    """Refuse layers that share weights: what one layer can spare, another uses."""
    if config.share != ShareConfig():
        raise ConfigurationError(
            f"method={method}: expected layers with weights of their own, got model.share, which uses the same weights "
            "in several layers; train a model without it, or use magnitude"
        )


def cut_checkpoint(checkpoint: Checkpoint, config: ModelConfig, cut: Callable[[str], Tensor]) -> Checkpoint:
    """Return the model of a smaller configuration, each parameter by `cut` from its name.

    Raises:
        ConfigurationError: a parameter has another shape than the smaller model needs.
    """
    tensors = {}
    for name, shape in parameter_shapes(config, checkpoint.vocab_size).items():
        if name in checkpoint.absent:
            continue
        tensor = cut(name)
        if tensor.shape != shape:
            raise ConfigurationError(
                f"{name}: expected shape {list(shape)} in the smaller model, got {list(tensor.shape)}: the family "
                f"{config.family} cannot be cut like this"
            )
        tensors[name] = tensor
    # tensors that only a class of transformers reads belong to the complete model
    return replace(checkpoint, config=config, tensors=tensors, unread={})


def matrices_of_layers(checkpoint: Checkpoint, method: str) -> dict[str, Tensor]:
    """Return the weights of the linear maps in the layers by name, in the order of the model."""
    matrices = {
        name: tensor
        for name, tensor in checkpoint.tensors.items()
        if tensor.ndim == 2 and name.endswith(".weight") and split_name(name) is not None
    }
    if not matrices:
        raise ConfigurationError(
            f"method={method}: expected a family with layers of linear maps, got {checkpoint.config.family}"
        )
    return matrices
