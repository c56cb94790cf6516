"""Convert tensors and LoRA factors between a checkpoint and our parameters."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from clozeline.errors import WeightsError
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.tables import Target
from clozeline.model.checkpoints.checkpoint import parameter_shapes
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.quantization import holds_integers


def exported_shapes(
    key_map: KeyMap, config: ModelConfig, ours: Mapping[str, torch.Size]
) -> dict[str, list[int]]:
    """Return names and shapes of a checkpoint's tensors, from the shapes of our parameters."""
    shapes = {}
    for name, target in key_map.tensors.targets(config, ours).items():
        fused = [ours[name][0] * sum(target.sizes) // target.sizes[target.part], *ours[name][1:]]
        file_shape = fused[::-1] if target.transposed else fused
        shapes[target.name] = (
            file_shape
            if target.shape is None
            else [file_shape[0] if n < 0 else n for n in target.shape]
        )
    return shapes


def import_tensors(
    key_map: KeyMap, config: ModelConfig, stored: Mapping[str, Tensor], names: Iterable[str]
) -> dict[str, Tensor]:
    """Return our parameters, cut out of a checkpoint's tensors."""
    ours = {}

    for name, target in key_map.tensors.targets(config, names).items():
        tensor = stored[target.name]
        if holds_integers(tensor):  # integers and scales have the same outputs as the weight
            if target.shape is not None or target.transposed:
                raise WeightsError(f"{target.name}: expected floating-point values, got integers")
            ours[name] = tensor._apply_fn_to_data(  # type: ignore[attr-defined]
                partial(extract_part, target=target)
            )
            continue
        if target.shape is not None:
            tensor = tensor.flatten(1 if target.shape[0] < 0 else 0)
        tensor = tensor.T if target.transposed else tensor
        ours[name] = extract_part(tensor, target)

    return ours


def extract_part(tensor: Tensor, target: Target) -> Tensor:
    """Return our outputs of a fused tensor [groups x outputs of all parts, ...]."""
    groups = tensor.reshape(target.groups, -1, *tensor.shape[1:])
    unit = groups.shape[1] // sum(target.sizes)
    first = unit * sum(target.sizes[: target.part])
    size = unit * target.sizes[target.part]
    return groups.narrow(1, first, size).flatten(0, 1).contiguous()


def export_tensors(
    key_map: KeyMap, config: ModelConfig, ours: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return a checkpoint's tensors, assembled from our parameters."""
    parts: dict[str, dict[int, Tensor]] = {}
    targets = key_map.tensors.targets(config, ours)
    for name, target in targets.items():
        parts.setdefault(target.name, {})[target.part] = ours[name].reshape(
            target.groups, -1, *ours[name].shape[1:]
        )

    transposed = {target.name for target in targets.values() if target.transposed}
    shapes = {target.name: target.shape for target in targets.values() if target.shape is not None}
    # parts [groups, outputs of a part, inputs] alternate within each group
    joined = {
        name: _join([by_part[part] for part in sorted(by_part)]).flatten(0, 1)
        for name, by_part in parts.items()
    }
    in_file_order = {
        name: tensor.T if name in transposed else tensor for name, tensor in joined.items()
    }
    return {
        name: tensor.reshape(shapes.get(name, tensor.shape)).contiguous()
        for name, tensor in in_file_order.items()
    }


def _join(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate parts [groups, outputs of a part, ...] along the outputs.

    It copies slices, because `torch.cat` of tensors without values imports torch's compiler, which
    takes seconds.
    """
    outputs = sum(part.shape[1] for part in parts)
    joined = parts[0].new_empty(parts[0].shape[0], outputs, *parts[0].shape[2:])
    start = 0
    for part in parts:
        end = start + part.shape[1]
        joined[:, start:end] = part
        start = end
    return joined


def linear_maps_of_class(
    key_map: KeyMap, config: ModelConfig, vocab_size: int
) -> dict[str, dict[str, Target]]:
    """Return our weights in each linear map of the class of the body, by the map's name."""
    shapes = parameter_shapes(config, vocab_size)
    names = [name for name in shapes if name.startswith("family.") and name.endswith(".weight")]
    modules: dict[str, dict[str, Target]] = {}
    for name, target in key_map.tensors.targets(config, names).items():
        if target.shape is None and len(shapes[name]) == 2 and name != "family.tokens.weight":
            modules.setdefault(target.name.removesuffix(".weight"), {})[name] = target
    return modules


class Update(NamedTuple):
    """scale B A, with A [rank, inputs] and B [outputs, rank]."""

    a: Tensor
    b: Tensor
    scale: float


def join_updates(
    updates: Mapping[str, Update], siblings: Mapping[str, Target], outputs: Mapping[str, int]
) -> Update:
    """Return the update of a fused map, from the updates of some of our maps in it.

    Updates that share A keep a single A. Otherwise the rows of A are stacked, and each part of B
    has separate columns: the rank grows, the product is the same. `siblings` are the locations of
    our maps in the fused map, in the order of the model; `outputs` are the rows of each of our
    weights.
    """
    first, *others = updates.values()

    if shares_a := all(
        torch.equal(first.a, other.a) and first.scale == other.scale for other in others
    ):
        a = first.a
        starts = dict.fromkeys(updates, 0)
    else:
        a = torch.cat([update.a for update in updates.values()])
        ends = torch.tensor([len(update.a) for update in updates.values()]).cumsum(0).tolist()
        starts = {
            name: end - len(update.a)
            for (name, update), end in zip(updates.items(), ends, strict=True)
        }

    # B of each part, with zeros for parts without an update
    parts: dict[int, Tensor] = {}

    for name, target in siblings.items():
        columns = torch.zeros(outputs[name], len(a))
        if (update := updates.get(name)) is not None:
            ratio = 1.0 if shares_a else update.scale / first.scale
            columns[:, starts[name] : starts[name] + len(update.a)] = (
                update.b if ratio == 1.0 else update.b * ratio
            )
        parts[target.part] = columns.reshape(target.groups, -1, len(a))
    # the outputs of a group are next to each other
    b = torch.cat([parts[part] for part in sorted(parts)], dim=1).flatten(0, 1)
    return Update(a, b, first.scale)
