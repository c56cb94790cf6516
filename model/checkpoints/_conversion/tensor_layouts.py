"""Convert tensors between a checkpoint and our parameters: split fused ones, transpose, reshape."""

from collections.abc import Iterable, Mapping
from functools import partial

import torch
from torch import Tensor

from clozeline.errors import WeightsError
from clozeline.model.build import Model
from clozeline.model.checkpoints._conversion.key_map import KeyMap
from clozeline.model.checkpoints._conversion.tables import Target
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.quantization import holds_integers


def parameter_shapes(config: ModelConfig, vocab_size: int) -> dict[str, torch.Size]:
    """Return the names and shapes of a model's parameters, without allocating them."""
    with torch.device("meta"):
        return {name: parameter.shape for name, parameter in Model(config, vocab_size).named_parameters()}


def their_shapes(key_map: KeyMap, config: ModelConfig, ours: Mapping[str, torch.Size]) -> dict[str, list[int]]:
    """Return names and shapes of a checkpoint's tensors, from those of our parameters."""
    shapes = {}
    for name, target in key_map.targets(config, ours).items():
        fused = [ours[name][0] * sum(target.sizes) // target.sizes[target.part], *ours[name][1:]]
        turned = fused[::-1] if target.transposed else fused
        shapes[target.name] = turned if target.shape is None else [turned[0] if n < 0 else n for n in target.shape]
    return shapes


def to_ours(
    key_map: KeyMap, config: ModelConfig, theirs: Mapping[str, Tensor], names: Iterable[str]
) -> dict[str, Tensor]:
    """Return our parameters, cut out of a checkpoint's tensors."""
    ours = {}
    for name, target in key_map.targets(config, names).items():
        tensor = theirs[target.name]
        if holds_integers(tensor):  # integers and scales have the outputs of the weight
            if target.shape is not None or target.transposed:
                raise WeightsError(f"{target.name}: expected floating-point values, got integers")
            ours[name] = tensor._apply_fn_to_data(partial(part_of, target=target))  # type: ignore[attr-defined]
            continue
        if target.shape is not None:
            tensor = tensor.flatten(1 if target.shape[0] < 0 else 0)
        tensor = tensor.T if target.transposed else tensor
        ours[name] = part_of(tensor, target)
    return ours


def part_of(tensor: Tensor, target: Target) -> Tensor:
    """Return our outputs among those of a fused tensor [groups x outputs of all parts, ...]."""
    groups = tensor.reshape(target.groups, -1, *tensor.shape[1:])
    unit = groups.shape[1] // sum(target.sizes)
    first, size = unit * sum(target.sizes[: target.part]), unit * target.sizes[target.part]
    return groups.narrow(1, first, size).flatten(0, 1).contiguous()


def to_theirs(key_map: KeyMap, config: ModelConfig, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a checkpoint's tensors, assembled from our parameters."""
    parts: dict[str, dict[int, Tensor]] = {}
    targets = key_map.targets(config, ours)
    for name, target in targets.items():
        parts.setdefault(target.name, {})[target.part] = ours[name].reshape(target.groups, -1, *ours[name].shape[1:])
    turned = {target.name for target in targets.values() if target.transposed}
    shapes = {target.name: target.shape for target in targets.values() if target.shape is not None}
    # parts [groups, outputs of a part, inputs] alternate within each group
    joined = {name: torch.cat([own[part] for part in sorted(own)], dim=1).flatten(0, 1) for name, own in parts.items()}
    stored = {name: tensor.T if name in turned else tensor for name, tensor in joined.items()}
    return {name: tensor.reshape(shapes.get(name, tensor.shape)).contiguous() for name, tensor in stored.items()}
