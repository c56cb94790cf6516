"""The elements of each parameter that this rank holds, at every ZeRO stage.

Only this file knows DeepSpeed's private attributes (0.19.8, an exact pin). A *flat* is the fp32 tensor that the torch
optimizer updates; a `Fragment` is the part of a flat that belongs to one parameter, together with the optimizer
states of the same elements. Padding at the end of a flat belongs to no fragment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from model.whole_shapes import whole_shape
from train.anchors import ANCHOR_STATES
from train.checkpoint.format import FROZEN, WEIGHT
from train.engine import Engine
from train.errors import CheckpointError

__all__ = [
    "Fragment",
    "buffers",
    "fragments",
    "memory",
    "prepare_states",
    "refresh_weights",
    "scalars",
    "set_anchors",
    "shapes",
]


@dataclass(frozen=True)
class Fragment:
    """Elements `[start, start + count)` of a flattened parameter, held by this rank.

    `tensors` are 1-D views into the live state: reading them saves, writing them loads.
    """

    name: str
    group: str
    start: int
    count: int
    tensors: Mapping[str, Tensor]


@dataclass(frozen=True)
class _FlatSlice:
    """Elements of a parameter inside a flat."""

    name: str
    flat: Tensor
    group: str
    offset: int
    start: int
    count: int


def shapes(engine: Engine) -> dict[str, list[int]]:
    """Return the full shape of each parameter that a checkpoint holds, also where this rank holds only a slice.

    Those of a model beside an adapter are not held: they are where they came from.
    """
    kept = [(name, p) for name, p in engine.model.named_parameters() if p.requires_grad or _holds_frozen(engine)]
    return {name: list(whole_shape(p)) for name, p in kept}


def _holds_frozen(engine: Engine) -> bool:
    return engine.config.model.adapter is None


def buffers(engine: Engine) -> dict[str, Tensor]:
    """Return persistent buffers, whole on every rank."""
    saved = engine.model.state_dict(keep_vars=True)
    return {name: buffer for name, buffer in engine.model.named_buffers() if name in saved}


def fragments(engine: Engine, *, owned: bool) -> list[Fragment]:
    """Return the fragments on this rank, in the order of the model's parameters.

    Args:
        engine: the engine.
        owned: only what this rank writes: at stage 0, where every rank holds all, equal shares of all elements.
    """
    trainable = list(_flat_slices(engine))
    if owned and engine.config.zero.stage == 0:
        trainable = list(_share(trainable, engine.world.rank, engine.world.size))
    fragments = [_fragment(engine, piece) for piece in trainable if piece.count > 0]
    return fragments + list(_frozen(engine, owned=owned))


def _named(engine: Engine, *, trainable: bool) -> list[tuple[str, Any]]:
    """Return parameters, typed so that the attributes which DeepSpeed adds can be read."""
    return [(name, p) for name, p in engine.model.named_parameters() if p.requires_grad is trainable]


def _fragment(engine: Engine, piece: _FlatSlice) -> Fragment:
    tensors = {WEIGHT: piece.flat.data}
    kept = {} if engine.anchors is None else engine.anchors.of.get(piece.flat, {})
    for key, value in (engine.optimizer.state.get(piece.flat, {}) | kept).items():
        if isinstance(value, Tensor) and value.shape == piece.flat.shape:
            tensors[key] = value
        elif not isinstance(value, Tensor) or value.numel() != 1:
            raise CheckpointError(f"optimizer state {key} of {piece.name} has a shape that no checkpoint holds yet")
    views = {key: tensor.view(-1).narrow(0, piece.offset, piece.count) for key, tensor in tensors.items()}
    return Fragment(piece.name, piece.group, piece.start, piece.count, views)


def _flat_slices(engine: Engine) -> Iterator[_FlatSlice]:
    zero = engine.deepspeed.optimizer
    kind = type(zero).__name__
    named = _named(engine, trainable=True)
    if zero is engine.optimizer:
        groups = {id(p): group["name"] for group in zero.param_groups for p in group["params"]}
        for name, p in named:
            yield _FlatSlice(name, p, groups[id(p)], 0, 0, p.numel())
    elif kind in ("DeepSpeedZeroOptimizer", "BF16_Optimizer"):
        for name, p in named:
            mapping = p._hp_mapping
            if mapping is not None:
                flat = _flats(zero)[mapping.param_group_index]
                group = engine.optimizer.param_groups[mapping.param_group_index]["name"]
                here, there = mapping.hp_fragment_address, mapping.lp_fragment_address
                yield _FlatSlice(name, flat, group, here.start, there.start, there.numel)
    elif kind == "DeepSpeedZeroOptimizer_Stage3":
        for name, p in named:
            index, offset, width = zero.grad_position[zero.get_param_id(p)]
            group = engine.optimizer.param_groups[zero.sub_group_to_group_id[index]]["name"]
            start = width * zero._get_param_partition_rank(p)
            count = min(width, p.ds_numel - start)
            yield _FlatSlice(name, zero.fp32_partitioned_groups_flat[index], group, offset, start, count)
    else:
        raise CheckpointError(f"DeepSpeed chose {kind}, whose state no checkpoint holds; this is a bug")


def _flats(zero: Any) -> list[Tensor]:
    """Return the master tensors that the torch optimizer updates, in its order."""
    for name in ("single_partition_of_fp32_groups", "fp32_groups_flat_partition", "fp32_partitioned_groups_flat"):
        if (flats := getattr(zero, name, None)) is not None:
            return list(flats)
    return [parameter for group in zero.param_groups for parameter in group["params"]]


def _share(slices: list[_FlatSlice], rank: int, size: int) -> Iterator[_FlatSlice]:
    """Cut slices that every rank holds into equal element ranges of their concatenation."""
    total = sum(piece.count for piece in slices)
    first, last = total * rank // size, total * (rank + 1) // size
    begin = 0
    for piece in slices:
        start, stop = max(first - begin, 0), min(last - begin, piece.count)
        if start < stop:
            yield _FlatSlice(piece.name, piece.flat, piece.group, start, start, stop - start)
        begin += piece.count


def _frozen(engine: Engine, *, owned: bool) -> Iterator[Fragment]:
    frozen = _named(engine, trainable=False) if _holds_frozen(engine) else []
    for index, (name, p) in enumerate(frozen):
        if engine.config.zero.stage == 3:
            width = p.ds_tensor.ds_numel
            start = engine.world.rank * width
            count = min(width, p.ds_numel - start)
            if count > 0:
                yield Fragment(name, FROZEN, start, count, {WEIGHT: p.ds_tensor.data.view(-1)[:count]})
        elif not owned or index % engine.world.size == engine.world.rank:
            yield Fragment(name, FROZEN, 0, p.numel(), {WEIGHT: p.data.view(-1)})


def scalars(engine: Engine) -> dict[str, dict[str, float]]:
    """Return optimizer states that are one number per group, such as the number of updates.

    Raises:
        CheckpointError: the flats of a group disagree.
    """
    scalars: dict[str, dict[str, float]] = {}
    for flat, group in _grouped_flats(engine):
        state = engine.optimizer.state.get(flat, {})
        numbers = {
            key: float(value)
            for key, value in state.items()
            if not isinstance(value, Tensor) or (value.dim() == 0 and value.shape != flat.shape)
        }
        if scalars.setdefault(group, numbers) != numbers:
            raise CheckpointError(f"optimizer group {group}: states disagree, {scalars[group]} and {numbers}")
    return scalars


def _grouped_flats(engine: Engine) -> Iterator[tuple[Tensor, str]]:
    """Yield (flat, group name) of every flat, also of flats that hold only padding."""
    zero = engine.deepspeed.optimizer
    groups = engine.optimizer.param_groups
    if zero is engine.optimizer:
        yield from ((p, group["name"]) for group in groups for p in group["params"])
        return
    owners = getattr(zero, "sub_group_to_group_id", None)
    for index, flat in enumerate(_flats(zero)):
        yield flat, groups[index if owners is None else owners[index]]["name"]


def prepare_states(
    engine: Engine, keys: Mapping[str, Collection[str]], numbers: Mapping[str, Mapping[str, float]]
) -> None:
    """Create the optimizer state of every flat, zeros to be overwritten, as the first step would have.

    Each flat gets number tensors of its own: torch updates them in place.

    Args:
        engine: the engine.
        keys: optimizer group → states that have one number per element.
        numbers: optimizer group → state → number, for states that have one number per group.
    """
    on_device = {
        group["name"]: bool(group.get("fused") or group.get("capturable")) for group in engine.optimizer.param_groups
    }
    for flat, group in _grouped_flats(engine):
        state: dict[str, Tensor] = {}
        for key, value in numbers.get(group, {}).items():
            device = flat.device if on_device[group] else torch.device("cpu")
            state[key] = torch.tensor(value, dtype=torch.float32, device=device)
        names = set(keys.get(group, ()))
        if engine.anchors is not None and names.issuperset(ANCHOR_STATES):
            engine.anchors.create(flat)
        names.difference_update(ANCHOR_STATES)
        state |= {key: torch.zeros_like(flat, requires_grad=False) for key in sorted(names)}
        if state:
            engine.optimizer.state[flat] = state


def set_anchors(engine: Engine, fresh: Collection[str]) -> None:
    """Anchor the weights as the regularizer says, unless a checkpoint has brought their anchors.

    Args:
        engine: the engine.
        fresh: parameters that are new in this run.
    """
    if engine.anchors is None or engine.anchors.of:
        return
    for flat, _ in _grouped_flats(engine):
        engine.anchors.create(flat)
    for piece in fragments(engine, owned=False):
        if piece.group != FROZEN:
            engine.anchors.fill(piece.name, piece.start, dict(piece.tensors), fresh)


def refresh_weights(engine: Engine) -> None:
    """Copy the masters into the weights of the model; DeepSpeed does so only after a step."""
    zero = engine.deepspeed.optimizer
    if zero is engine.optimizer:
        return
    if engine.config.zero.stage < 3:
        zero.update_lp_params()
        return
    for index in range(len(zero.fp16_groups)):
        zero._reassign_or_swap_out_partitioned_parameters(index)
    if persistent := zero.persistent_parameters:
        persistent[0].partition(persistent)  # without this the gather finds nothing to do
        persistent[0].all_gather(persistent)


def memory(engine: Engine) -> dict[str, int]:
    """Return the bytes that this rank holds, each storage counted once: weights, gradients, optimizer."""
    weights = [getattr(p, "ds_tensor", None) for p in engine.model.parameters()]
    weights += [p.data for p in engine.model.parameters() if p.data.numel()]
    held = _storages(weights)
    optimizer: list[Tensor | None] = []
    for flat, _ in _grouped_flats(engine):
        optimizer += [flat, *(v for v in engine.optimizer.state.get(flat, {}).values() if isinstance(v, Tensor))]
        optimizer += [] if engine.anchors is None else engine.anchors.of.get(flat, {}).values()
    states = {address: size for address, size in _storages(optimizer).items() if address not in held}
    return {
        "weights": sum(held.values()),
        "gradients": engine.gradient_bytes,
        "optimizer": sum(states.values()),
    }


def _storages(tensors: list[Tensor | None]) -> dict[int, int]:
    stores = [tensor.untyped_storage() for tensor in tensors if tensor is not None]
    return {store.data_ptr(): store.nbytes() for store in stores if store.nbytes()}
