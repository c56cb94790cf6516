"""Find the elements of each parameter that this rank holds, at every ZeRO stage.

A `Fragment` is the part of a flat buffer that belongs to one parameter, with the states of the same
elements in the optimizer and in hooks.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from clozeline.errors import CheckpointError
from clozeline.model.parameters.sharding import full_shape
from clozeline.train.checkpoint.stored_checkpoint import FROZEN, WEIGHT
from clozeline.train.engine import Engine
from clozeline.train.optim.optimizers._optimizer import WholeParameterOptimizer
from clozeline.train.optim.weights.flat_buffers import Segment
from clozeline.train.zero import storage_sizes


@dataclass(frozen=True)
class Fragment:
    """Elements `[start, start + count)` of a flattened parameter, held by this rank.

    `tensors` are 1-D views into the live state: a save reads them, a load writes to them.
    """

    name: str
    group: str
    start: int
    count: int
    tensors: Mapping[str, Tensor]


def shapes(engine: Engine) -> dict[str, list[int]]:
    """Return the full shape of each parameter in a checkpoint, without the base of an adapter."""
    return {
        name: list(full_shape(parameter))
        for name, parameter in engine.model.named_parameters()
        if parameter.requires_grad or _stores_frozen(engine)
    }


def _stores_frozen(engine: Engine) -> bool:
    return engine.config.model.adapter is None


def buffers(engine: Engine) -> dict[str, Tensor]:
    """Return the persistent buffers, which every rank holds."""
    saved = engine.model.state_dict(keep_vars=True)
    buffers = {name: buffer for name, buffer in engine.model.named_buffers() if name in saved}
    for hook in engine.hooks:
        buffers |= hook.buffers
    return buffers


def whole_states(engine: Engine) -> dict[str, Tensor]:
    """Return the unsliced optimizer states, the same on every rank: `KEY/PARAMETER` → tensor."""
    optimizer = engine.optimizer
    return (
        dict(sorted(optimizer.whole.items()))
        if isinstance(optimizer, WholeParameterOptimizer)
        else {}
    )


def set_whole_states(engine: Engine, states: Mapping[str, Tensor]) -> None:
    """Set the unsliced optimizer states from a checkpoint."""
    optimizer = engine.optimizer
    if isinstance(optimizer, WholeParameterOptimizer):
        optimizer.whole = {key: tensor.to(engine.world.device) for key, tensor in states.items()}


def fragments(engine: Engine, *, owned: bool) -> list[Fragment]:
    """Return the fragments on this rank, in the order of the model's parameters.

    `owned`: only the fragments that this rank writes; at stage 0, an equal share of all elements.
    """
    trainable = list(engine.zero.segments())
    if owned and engine.config.zero.stage == 0:
        trainable = list(_take_share(trainable, engine.world.rank, engine.world.size))

    # take views of the weights, and of all states that have the shape of the weights
    fragments = []

    for piece in trainable:
        if piece.count <= 0:
            continue
        views = {WEIGHT: piece.of(piece.flat.data)}
        for key, value in states_of(engine, piece.flat).items():
            if isinstance(value, Tensor) and value.shape == piece.flat.shape:
                views[key] = piece.of(value)
            elif not isinstance(value, Tensor) or value.numel() != 1:
                raise CheckpointError(
                    f"optimizer state {key} of {piece.name} has a shape that checkpoints do not "
                    "support"
                )
        fragments.append(Fragment(piece.name, piece.group, piece.start, piece.count, views))

    return fragments + list(_frozen_fragments(engine, owned=owned))


def states_of(engine: Engine, flat: Tensor) -> dict[str, Any]:
    """Return the states of a flat buffer in the optimizer and in hooks, by name."""
    states: dict[str, object] = dict(engine.optimizer.state.get(flat, {}))
    for hook in engine.hooks:
        states |= hook.of.get(flat, {})
    return states


def _take_share(slices: list[Segment], rank: int, size: int) -> Iterator[Segment]:
    """Split slices that every rank holds into equal ranges; yield the range of this rank."""
    total = sum(piece.count for piece in slices)
    first = total * rank // size
    last = total * (rank + 1) // size
    begin = 0
    for piece in slices:
        start = max(first - begin, 0)
        stop = min(last - begin, piece.count)
        if start < stop:
            yield replace(piece, offset=start, start=start, count=stop - start)
        begin += piece.count


def _frozen_fragments(engine: Engine, *, owned: bool) -> Iterator[Fragment]:
    stored_parameters: list[tuple[str, Any]] = (
        [*engine.model.named_parameters()] if _stores_frozen(engine) else []
    )
    frozen = [
        (name, parameter) for name, parameter in stored_parameters if not parameter.requires_grad
    ]
    for index, (name, parameter) in enumerate(frozen):
        start, elements = engine.zero.share_of(parameter)
        # at stage 3 each rank has a share of each parameter; at other stages each rank has all
        # parameters, and writes some of them
        if engine.config.zero.stage == 3:
            if len(elements):
                yield Fragment(name, FROZEN, start, len(elements), {WEIGHT: elements})
        elif not owned or index % engine.world.size == engine.world.rank:
            yield Fragment(name, FROZEN, start, len(elements), {WEIGHT: elements})


def scalars(engine: Engine) -> dict[str, dict[str, float]]:
    """Return the scalar optimizer states by group, such as the number of updates."""
    scalars: dict[str, dict[str, float]] = {}

    for flat, group in engine.zero.flats():
        state = engine.optimizer.state.get(flat, {})
        # a state without dimensions is a number, as parameters without dimensions are refused
        numbers = {
            key: float(value)
            for key, value in state.items()
            if not isinstance(value, Tensor) or (value.dim() == 0 and value.shape != flat.shape)
        }
        if scalars.setdefault(group, numbers) != numbers:
            raise CheckpointError(
                f"optimizer group {group}: states disagree, {scalars[group]} and {numbers}"
            )

    return scalars


def prepare_states(
    engine: Engine,
    keys: Mapping[str, Collection[str]],
    numbers: Mapping[str, Mapping[str, float]],
    of_hooks: Collection[str],
) -> None:
    """Create the states of every flat buffer, as the first step would; zeros to be overwritten.

    Existing states are dropped. Every buffer gets its own scalar tensors: torch updates them in
    place.

    Args:
        engine: the engine.
        keys: optimizer group → elementwise states in the checkpoint.
        numbers: optimizer group → scalar states.
        of_hooks: the keys that belong to hooks; keys of a hook that this run does not have are
            ignored.
    """
    engine.optimizer.state.clear()
    for hook in engine.hooks:
        hook.of.clear()
    on_device = {
        group["name"]: bool(group.get("fused") or group.get("capturable"))
        for group in engine.optimizer.param_groups
    }

    for flat, group in engine.zero.flats():
        # scalar states, on the device where the optimizer expects them
        state: dict[str, Tensor] = {}
        for key, value in numbers.get(group, {}).items():
            device = flat.device if on_device[group] else torch.device("cpu")
            state[key] = torch.tensor(value, dtype=torch.float32, device=device)

        # elementwise states
        names = set(keys.get(group, ()))
        for hook in engine.hooks:
            hook.create(flat, names.intersection(of_hooks))
        state |= {
            key: torch.zeros_like(flat, requires_grad=False)
            for key in sorted(names.difference(of_hooks))
        }
        if state:
            engine.optimizer.state[flat] = state


def memory(engine: Engine) -> dict[str, int]:
    """Return the bytes of weights, gradients and optimizer on this rank, each storage once."""
    weights = storage_sizes(engine.zero.weights())
    optimizer: list[Tensor | None] = [*whole_states(engine).values()]

    for flat, _ in engine.zero.flats():
        optimizer += [
            flat,
            *(value for value in states_of(engine, flat).values() if isinstance(value, Tensor)),
        ]

    states = {
        address: size
        for address, size in storage_sizes(optimizer).items()
        if address not in weights
    }

    sizes = {"weights": sum(weights.values()), "gradients": engine.zero.gradient_bytes}
    return {**sizes, "optimizer": sum(states.values())}
