"""Add, train, fill and merge adapters of a model; one of them is active at a time, and only it trains."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError, WeightsError
from clozeline.model.adapters import Adapter
from clozeline.model.build import Model
from clozeline.model.initialization import initialize_parameters
from clozeline.registry import Chosen, choose


def add_adapter(model: Model, name: str, entry: Chosen | Mapping[str, Any] | str, *, seed: int = 0) -> Adapter:
    """Add an adapter to a model, initialized by the seed; it is not yet active. `entry` is a name, or name and options.

    Raises:
        ConfigurationError: the name is taken or holds a dot, or the model cannot have such an adapter.

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
    config = entry if isinstance(entry, Chosen) else choose("clozeline.model.adapters", entry)
    adapter: Adapter = config.build(model.family)
    model.adapters[name] = adapter
    initialize_parameters(adapter, model.config, seed, prefix=f"adapters.{name}.")
    adapter.initialize_from(model.family, model.vocab_size, seed)
    adapter.to(model.family.tokens.weight).train(model.training)
    model.recount()
    return adapter


def freeze_base(model: Model, trained: Collection[str] = ()) -> None:
    """Train only the active adapter and further parameters by name, such as a new head's.

    Raises:
        ConfigurationError: no adapter is active.
    """
    if model.adapter_in_use is None:
        raise ConfigurationError("no adapter is active, nothing would train: call `use_adapter` first")
    key = f"adapters.{model.adapter_in_use}."
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith(key) or name in trained)


def fill_adapter(model: Model, name: str, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into an adapter.

    Raises:
        WeightsError: names or shapes differ.
    """
    ours = dict(model.find_adapter(name).named_parameters())
    shapes = {key: list(parameter.shape) for key, parameter in ours.items()}
    theirs = {key: list(tensor.shape) for key, tensor in weights.items()}
    if differing := sorted(key for key in {*shapes, *theirs} if shapes.get(key) != theirs.get(key)):
        key = differing[0]
        raise WeightsError(
            f"adapter '{name}': {key}: expected shape {shapes.get(key)}, got {theirs.get(key)} ({len(differing)} "
            "parameters differ): these are the weights of another adapter"
        )
    with torch.no_grad():
        for key, parameter in ours.items():
            parameter.copy_(weights[key])


def merge_adapter(model: Model, name: str) -> dict[str, Tensor]:
    """Merge an adapter into the weights of the model, which then runs without it; return the previous weights.

    `model.family.load_state_dict(before, strict=False)` undoes the merge exactly.

    Raises:
        ConfigurationError: no weight can hold what the adapter computes.
    """
    with torch.no_grad():
        merged = model.find_adapter(name).merge(model.family)
        before = {key: model.family.get_parameter(key).detach().clone() for key in merged}
        for key, tensor in merged.items():
            model.family.get_parameter(key).copy_(tensor)
    if model.adapter_in_use == name:
        model.use_adapter(None)
    return before
