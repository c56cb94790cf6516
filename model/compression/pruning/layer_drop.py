"""LayerDrop (arXiv 1909.11556): skip entire layers at random in training, so that fewer layers work afterwards."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar, Final

import torch
from pydantic import Field
from torch import Tensor, nn

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.compression.pruning._pruning import Pruning, Training
from clozeline.model.compression.selection import split_name
from clozeline.model.configuration.conflicts import DISTILLATION, SHARED_LAYERS
from clozeline.model.layers.layer import Layer
from clozeline.seeding import hash64

_DRAWS: Final = 2**64


class LayerDropPruning(Pruning):
    """In each step each layer is skipped with probability p: it returns its input, and its gradients are 0.

    The draw depends on seed, step and layer alone: it is the same on all ranks and in all
    micro-batches. Evaluations use all layers. Afterwards `clozeline compress method=layers` removes
    some: every other one works best.

    At ZeRO stage 3 a skipped layer is computed and its output discarded, because the ranks gather
    its parameters in a fixed order; other stages save the time.
    """

    options: Options
    claim: ClassVar = (
        "sub-networks of any depth without fine-tuning, with limited loss of quality (1909.11556)"
    )
    conflicts: ClassVar = {
        SHARED_LAYERS: "a layer that is used several times cannot be removed once",
        DISTILLATION: "its losses compare layers that may be skipped",
    }

    @config_class
    class Options:
        """Probability of a skipped layer."""

        p: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.2
        """probability that a layer is skipped in a step, ≥ 0, < 1; 0 is a training without it, bit
        by bit"""

    def describe(self, model: Model, horizon: int) -> str:
        return (
            f"prune      each of {len(layers_to_drop(model))} layers is skipped with probability "
            f"{self.options.p:g}"
        )

    def attach(self, training: Training) -> None:
        self._seed = training.seed
        self._step = 0
        skip = _compute_and_discard if training.gathers_layers else _skip
        for index, layer in enumerate(layers_to_drop(training.model) if self.options.p else ()):
            layer.forward = partial(self._call, index, layer, layer.forward, skip)  # type: ignore[method-assign]

    def begin(self, step: int, rate: float) -> None:
        self._step = step

    def is_skipped(self, index: int, step: int) -> bool:
        """Return whether a step skips a layer, both counted over the model and from 1."""
        return hash64("layer_drop", self._seed, step, index) < self.options.p * _DRAWS

    def _call(
        self, index: int, layer: nn.Module, forward: Any, skip: Any, x: Tensor, *rest: Any
    ) -> Tensor:
        if layer.training and self.is_skipped(index, self._step):
            return skip(layer, forward, x, *rest)
        return forward(x, *rest)


def layers_to_drop(model: Model) -> list[Layer]:
    """Return the layers of all stacks, in the order of the model.

    Raises:
        ConfigurationError: the family has other layers than Transformer layers in plain stacks.
    """
    named = [(split_name(f"{path}.itself"), module) for path, module in model.named_modules()]
    layers = [module for parts, module in named if parts is not None and parts[2] == "itself"]
    if not layers or any(type(layer) is not Layer for layer in layers):
        raise ConfigurationError(
            "prune: layer_drop: nothing to drop: expected a family of plain Transformer layers, "
            "got "
            f"{model.config.family} with {type(layers[0]).__name__ if layers else 'none'}"
        )
    return [layer for layer in layers if isinstance(layer, Layer)]


class _ZeroGradients(torch.autograd.Function):
    """The identity, with gradients of 0 for parameters: ZeRO and optimizers treat a missing gradient differently."""

    @staticmethod
    def forward(context: Any, x: Tensor, *parameters: Tensor) -> Tensor:
        context.save_for_backward(*parameters)
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        return gradient, *(torch.zeros_like(parameter) for parameter in context.saved_tensors)


def _skip(layer: nn.Module, _: object, x: Tensor, *__: object) -> Tensor:
    trainable = [parameter for parameter in layer.parameters() if parameter.requires_grad]
    return _ZeroGradients.apply(x, *trainable)  # type: ignore[no-untyped-call]


def _compute_and_discard(_: nn.Module, forward: Any, x: Tensor, *rest: Any) -> Tensor:
    return torch.where(torch.ones((), dtype=torch.bool, device=x.device), x, forward(x, *rest))
