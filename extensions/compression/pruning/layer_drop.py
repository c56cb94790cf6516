"""LayerDrop (arXiv 1909.11556): skip layers at random in training, so that fewer suffice later."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar, Final

import torch
from pydantic import Field
from torch import Tensor, nn

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.pruning._pruning import Pruning
from clozeline.extensions.compression.selection import split_name
from clozeline.model.build import Model
from clozeline.model.configuration.capabilities import ALL_STATES, OWN_LAYERS
from clozeline.model.layers.layer import Layer
from clozeline.seeding import hash64
from clozeline.train.hooks import HookContext, StepInfo

_DRAWS: Final = 2**64


class LayerDropPruning(Pruning):
    """Skip each layer with probability p in each step: it returns its input, with gradients 0.

    The draw depends only on seed, step and layer: it is the same on all ranks and in all
    micro-batches. Evaluations use all layers. Afterwards, `clozeline compress method=layers`
    removes some; every other layer works best.

    At ZeRO stage 3, a skipped layer is computed and its output discarded, because the ranks gather
    its parameters in a fixed order; other stages save the time.
    """

    options: Options
    published_result = (
        "sub-networks of any depth without fine-tuning, with limited loss of quality (1909.11556)"
    )
    needs: ClassVar = {OWN_LAYERS}
    prevents = Pruning.prevents | {ALL_STATES}

    @config_class
    class Options:
        """Probability of a skipped layer."""

        p: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.2
        """probability that a layer is skipped in a step, ≥ 0, < 1; 0 is bit-identical to a training
        without LayerDrop"""

    def describe(self, model: Model, horizon: int) -> str:
        return (
            f"prune      each of {len(layers_to_drop(model))} layers is skipped with probability "
            f"{self.options.p:g}"
        )

    def attach(self, context: HookContext) -> None:
        self._seed = context.seed
        self._step = 0
        skip = _compute_and_discard if context.stage == 3 else _skip
        layers = layers_to_drop(context.model) if self.options.p else ()
        for index, layer in enumerate(layers):
            layer.forward = partial(  # type: ignore[method-assign]
                self._call, index, layer, layer.forward, skip
            )

    def begin(self, step: StepInfo) -> None:
        self._step = step.index

    def is_skipped(self, index: int, step: int) -> bool:
        """Return whether a step, from 1, skips a layer, counted over the model."""
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
        ConfigurationError: the family has other layers than standard Transformer layers.
    """
    named = [(split_name(f"{path}.itself"), module) for path, module in model.named_modules()]
    layers = [module for parts, module in named if parts is not None and parts[2] == "itself"]
    if not layers or any(type(layer) is not Layer for layer in layers):
        raise ConfigurationError(
            "prune: layer_drop: expected a family of standard Transformer layers, got "
            f"{model.config.family} with {type(layers[0]).__name__ if layers else 'none'}"
        )
    return [layer for layer in layers if isinstance(layer, Layer)]


class _ZeroGradients(torch.autograd.Function):
    """The identity, with gradients 0 for parameters, which ZeRO and optimizers need."""

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
