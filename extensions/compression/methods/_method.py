"""The interface of compression methods, and shared parts: cutting, importance, integer weights."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor, nn

from clozeline import plugins
from clozeline.configuration.config import adapter_of, config_class, validate
from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.checkpoints.checkpoint import (
    Checkpoint,
    build_checkpoint,
    integer_weights,
    parameter_shapes,
)
from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.configuration.model_config import ModelConfig, Quantization
from clozeline.model.layers.quantization import quantize_weight

Batch: TypeAlias = Mapping[str, Tensor]
"""Tensors of rows with their labels, as the heads of the model read them in training."""


@dataclass(frozen=True)
class Compressed:
    """A smaller model."""

    checkpoint: Checkpoint
    """configuration and parameters of the smaller model; a quantized one has torchao integers as
    some weights"""
    lines: tuple[str, ...]
    """descriptions of the removed parts"""


class Method(ABC):
    """A way to make a trained model smaller without training it.

    Args:
        options: options of the method.
    """

    Options: ClassVar[type]
    """Options, a frozen pydantic dataclass; the docstring of each field gives unit and range."""
    published_result: ClassVar[str]
    """Result that the paper reports, with its arXiv id; reports show it next to what was
    measured."""
    calibrates: ClassVar[bool] = False
    """Whether `compress` reads batches of training rows, if there are any."""
    quantization: ClassVar[Quantization | None] = None
    """Integers that the method makes; only a folder in the layout of transformers can store
    them."""

    def __init__(self, options: object) -> None:
        self.options = options

    @classmethod
    def key(cls) -> str:
        """Return the name of its file, which `method` selects."""
        return plugins.name_of(cls)

    @abstractmethod
    def compress(self, checkpoint: Checkpoint, batches: Sequence[Batch]) -> Compressed:
        """Return the smaller model; the given one stays unchanged.

        A tensor that does not change is shared, not copied, so both take at most twice the memory
        of the first.

        Args:
            checkpoint: the model, with all of its heads.
            batches: calibration rows, in the order of the set; empty unless the method reads them.

        Raises:
            ConfigurationError: the model has nothing that the options could remove.
        """

    def check_layers_unshared(self, config: ModelConfig) -> None:
        """Raise ConfigurationError if layers share weights, which they need differently."""
        if config.share != ShareConfig():
            raise ConfigurationError(
                f"method={self.key()}: expected layers with separate weights, got model.share, "
                "which uses the same weights in several layers; train a model without it, or use "
                "magnitude"
            )

    def build_smaller(
        self, checkpoint: Checkpoint, part: Callable[[str], Tensor], **changes: object
    ) -> Checkpoint:
        """Return the model with changed values in its configuration, and parameters from `part`.

        `part` returns each parameter of the smaller model by its name.

        Raises:
            ConfigurationError: the values contradict each other, or a parameter does not have the
                shape that they need.
        """
        values = adapter_of(type(checkpoint.config)).dump_python(
            checkpoint.config, mode="json", exclude_none=True
        )
        config: ModelConfig = validate(ModelConfig, {**values, **changes}, self.key(), "model.")
        tensors = {}

        for name, shape in parameter_shapes(config, checkpoint.vocab_size).items():
            if name in checkpoint.absent:
                continue
            tensor = part(name)
            if tensor.shape != shape:
                raise ConfigurationError(
                    f"{name}: expected shape {list(shape)} in the smaller model, got "
                    f"{list(tensor.shape)}: this method does not support the family {config.family}"
                )
            tensors[name] = tensor
        # tensors that only a class of transformers reads belong to the complete model
        return replace(checkpoint, config=config, tensors=tensors, unread={})


def gate_importance(
    model: Model, gates: Mapping[str, int], batches: Sequence[Batch]
) -> dict[str, Tensor]:
    """Return the mean over rows of |dL / d gate|, for gates of 1 on inputs of linear maps.

    See arXiv 1905.10650.

    L is the summed loss of a row, and a gate multiplies consecutive features of all positions of
    that row.

    Args:
        model: in evaluation mode.
        gates: number of gates by path of a linear map; they share its input features equally.
        batches: rows with labels.

    Returns:
        fp64 [gates] for each path.
    """
    sums = {path: torch.zeros(count, dtype=torch.float64) for path, count in gates.items()}
    rows = 0
    open_gates = list[tuple[str, Tensor]]()

    def multiply(path: str, _: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        # x [B, T, features]; a gate per row, so one backward pass gives the gradients of all rows
        (x,) = inputs
        gate = x.new_ones(len(x), gates[path], requires_grad=True)
        open_gates.append((path, gate))
        return x * gate.repeat_interleave(x.shape[-1] // gates[path], dim=1)[:, None]

    with ExitStack() as hooks:
        for path in gates:
            hooks.callback(
                model.get_submodule(path).register_forward_pre_hook(partial(multiply, path)).remove
            )
        # sum |dL / d gate| over rows
        for batch in batches:
            open_gates.clear()
            losses = model(batch)
            total = torch.stack(
                [losses[name].total * weight for name, weight in model.config.head_weights.items()]
            )
            gradients = torch.autograd.grad(
                total.sum(), [gate for _, gate in open_gates], allow_unused=True
            )
            for (path, _), gradient in zip(open_gates, gradients, strict=True):
                if gradient is not None:
                    sums[path] += gradient.double().abs().sum(0)
            rows += int((batch["row_weight"] != 0).sum())

    return {path: total / max(rows, 1) for path, total in sums.items()}


def score_parts(
    checkpoint: Checkpoint,
    gates: Mapping[str, int],
    batches: Sequence[Batch],
    by_weights: Callable[[str], Tensor],
) -> tuple[dict[str, Tensor], str]:
    """Return the importance of the parts behind gates, by path, and its description.

    Without calibration rows, it is `by_weights` of each path, otherwise `gate_importance`.
    """
    if not batches:
        return {path: by_weights(path) for path in gates}, "weights"
    rows = sum(len(batch["row_weight"]) for batch in batches)
    model = build_checkpoint(checkpoint).requires_grad_(False)
    return gate_importance(model, gates, batches), f"|dL/d gate| over {rows} rows"


class QuantizationMethod(Method):
    """Store the linear maps of the body as integers, and the rest in floating point."""

    quantization: ClassVar[Quantization]

    @config_class
    class Options:
        """No options."""

    def compress(self, checkpoint: Checkpoint, batches: Sequence[Batch]) -> Compressed:
        names = integer_weights(checkpoint, self.quantization)
        tensors = {
            name: quantize_weight(tensor, self.quantization) if name in names else tensor
            for name, tensor in checkpoint.tensors.items()
        }
        line = (
            f"{self.quantization}: {len(names)} matrices; norms, biases, heads and tables stay in "
            "floating point"
        )
        config = replace(checkpoint.config, quantization=None)
        return Compressed(replace(checkpoint, config=config, tensors=tensors), (line,))
