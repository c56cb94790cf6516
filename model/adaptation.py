"""Adapters of a model: many may be there, one at a time is in use, and only it trains."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError, WeightsError
from clozeline.model.adapters import Adapter
from clozeline.model.build import Model
from clozeline.model.configuration.adapter import AdapterConfig
from clozeline.model.initialization import initial_distributions
from clozeline.model.parameters.initial_values import generator_for
from clozeline.registry import find


def add_adapter(model: Model, name: str, given: AdapterConfig | Mapping[str, Any] | str, *, seed: int = 0) -> Adapter:
    """Give a model an adapter, with initial values that are a function of the seed; it is not yet in use.

    Args:
        model: whose parameters stay as they are.
        name: of this adapter among those of the model, such as that of a task.
        given: `lora`, or `{"name": "lora", "rank": 4}`.
        seed: of the initial values.

    Raises:
        ConfigurationError: the name is taken or holds a dot, or the model has no place for such an adapter.

    Example:
        >>> from clozeline.model.configuration.model_config import ModelConfig
        >>> from clozeline.model.build import build_model
        >>> c = ModelConfig(family="encoder", dim=4, layers=1, attention_heads=1, ffn_dim=8, heads={"masked_lm": 1.0})
        >>> model = build_model(c, 9, {})
        >>> adapter = add_adapter(model, "sst2", {"name": "lora", "rank": 2})
        >>> model.use_adapter("sst2")
        >>> sum(parameter.numel() for parameter in adapter.parameters())  # two maps, 2 x (4 + 4) each
        32
    """
    if not name or "." in name or hasattr(model.adapters, name):
        known = ", ".join(model.adapters) or "none"
        raise ConfigurationError(f"adapter '{name}': expected a new name without dots; there are: {known}")
    try:
        config = AdapterConfig.of(given)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    adapter: Adapter = find("clozeline.model.adapters", config.name)(config.options, model.family)
    model.adapters[name] = adapter
    drawn = initial_distributions(adapter, model.config)
    with torch.no_grad():
        for own, parameter in adapter.named_parameters():
            fresh = torch.empty(parameter.shape)
            drawn[own](fresh, generator_for(seed, f"adapters.{name}.{own}"))
            parameter.copy_(fresh)
    adapter.initialize_from(model.family.tokens, model.vocab_size, seed)
    adapter.to(model.family.tokens.weight).train(model.training)
    model.recount()
    return adapter


def freeze_base(model: Model, trained: Collection[str] = ()) -> None:
    """Let only the adapter in use train, and further parameters by name, such as those of a new head.

    Raises:
        ConfigurationError: no adapter is in use.
    """
    if model.adapter_in_use is None:
        raise ConfigurationError("no adapter is in use, nothing would train: call `use_adapter` first")
    own = f"adapters.{model.adapter_in_use}."
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith(own) or name in trained)


def adapter_weights(model: Model, name: str) -> dict[str, Tensor]:
    """Return the parameters of an adapter, by their names in it."""
    return {own: parameter.detach() for own, parameter in _adapter(model, name).named_parameters()}


def fill_adapter(model: Model, name: str, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into an adapter.

    Raises:
        WeightsError: they are not those of such an adapter.
    """
    ours = dict(_adapter(model, name).named_parameters())
    shapes = {own: list(parameter.shape) for own, parameter in ours.items()}
    given = {own: list(tensor.shape) for own, tensor in weights.items()}
    if differing := sorted(own for own in {*shapes, *given} if shapes.get(own) != given.get(own)):
        own = differing[0]
        raise WeightsError(
            f"adapter '{name}': {own}: expected shape {shapes.get(own)}, got {given.get(own)} ({len(differing)} "
            "parameters differ): these are the weights of another adapter"
        )
    with torch.no_grad():
        for own, parameter in ours.items():
            parameter.copy_(weights[own])


def merge_adapter(model: Model, name: str) -> dict[str, Tensor]:
    """Write an adapter into the weights of the model, which then computes without it; return the weights before.

    `model.family.load_state_dict(before, strict=False)` takes the merge back, to the byte.

    Raises:
        ConfigurationError: no weight can hold what the adapter computes.
    """
    with torch.no_grad():
        merged = _adapter(model, name).merge(model.family)
        before = {own: model.family.get_parameter(own).detach().clone() for own in merged}
        for own, tensor in merged.items():
            model.family.get_parameter(own).copy_(tensor)
    if model.adapter_in_use == name:
        model.use_adapter(None)
    return before


def _adapter(model: Model, name: str) -> Adapter:
    if name not in model.adapters:
        raise ConfigurationError(f"no adapter '{name}'; there are: {', '.join(model.adapters) or 'none'}")
    return model.adapters[name]
