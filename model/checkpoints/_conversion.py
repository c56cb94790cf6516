"""Tensors of a checkpoint from our parameters, and the reverse: cut out of fused ones, transposed or reshaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from clozeline.model.build import Model
from clozeline.model.checkpoints._key_map import KeyMap
from clozeline.model.configuration.model_config import ModelConfig


def parameter_shapes(config: ModelConfig, vocab_size: int) -> dict[str, torch.Size]:
    """Return the names and shapes of a model's parameters, without memory for them."""
    with torch.device("meta"):
        return {name: parameter.shape for name, parameter in Model(config, vocab_size).named_parameters()}


def their_shapes(key_map: KeyMap, config: ModelConfig, ours: Mapping[str, torch.Size]) -> dict[str, list[int]]:
    """Return names and shapes of a checkpoint's tensors, from those of our parameters."""
    found = {}
    for name, target in key_map.targets(config, ours).items():
        whole = [ours[name][0] * target.of, *ours[name][1:]]
        turned = whole[::-1] if target.transposed else whole
        found[target.name] = turned if target.shape is None else [turned[0] if n < 0 else n for n in target.shape]
    return found


def to_ours(
    key_map: KeyMap, config: ModelConfig, theirs: Mapping[str, Tensor], names: Iterable[str]
) -> dict[str, Tensor]:
    """Return our parameters, cut out of a checkpoint's tensors."""
    found = {}
    for name, target in key_map.targets(config, names).items():
        tensor = theirs[target.name]
        if target.shape is not None:
            tensor = tensor.flatten(1 if target.shape[0] < 0 else 0)
        tensor = tensor.T if target.transposed else tensor
        parts = tensor.reshape(target.groups, target.of, -1, *tensor.shape[1:])
        found[name] = parts[:, target.part].flatten(0, 1).contiguous()
    return found


def to_theirs(key_map: KeyMap, config: ModelConfig, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a checkpoint's tensors, put together from our parameters."""
    parts: dict[str, dict[int, Tensor]] = {}
    targets = key_map.targets(config, ours)
    for name, target in targets.items():
        parts.setdefault(target.name, {})[target.part] = ours[name].reshape(target.groups, -1, *ours[name].shape[1:])
    turned = {target.name for target in targets.values() if target.transposed}
    shapes = {target.name: target.shape for target in targets.values() if target.shape is not None}
    joined = {
        name: torch.stack([found[part] for part in sorted(found)], dim=1).flatten(0, 2) for name, found in parts.items()
    }
    stored = {name: tensor.T if name in turned else tensor for name, tensor in joined.items()}
    return {name: tensor.reshape(shapes.get(name, tensor.shape)).contiguous() for name, tensor in stored.items()}
