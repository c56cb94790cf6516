"""Factors of LoRA where a checkpoint fuses several of our linear maps into one, both ways.

Our maps of one of theirs are given as `siblings`, {our name: location of its weight}, in the order of the model.
"""

from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from clozeline.model.checkpoints._conversion.tables import Target
from clozeline.model.checkpoints._conversion.tensor_layouts import part_of


class Update(NamedTuple):
    """scale B A, with A [rank, inputs] and B [outputs, rank]."""

    a: Tensor
    b: Tensor
    scale: float


def join_updates(updates: Mapping[str, Update], siblings: Mapping[str, Target], outputs: Mapping[str, int]) -> Update:
    """Return the update of their map, from those of some of ours.

    Updates that share A have it once. Otherwise the rows of A are stacked, and each part of B has columns of its own:
    the rank grows, the product is the same. `outputs` are the rows of each of our weights.
    """
    first, *others = updates.values()
    if shared := all(torch.equal(first.a, other.a) and first.scale == other.scale for other in others):
        a, starts = first.a, dict.fromkeys(updates, 0)
    else:
        a = torch.cat([update.a for update in updates.values()])
        ends = torch.tensor([len(update.a) for update in updates.values()]).cumsum(0).tolist()
        starts = {name: end - len(update.a) for (name, update), end in zip(updates.items(), ends, strict=True)}
    parts: dict[int, Tensor] = {}
    for name, target in siblings.items():
        columns = torch.zeros(outputs[name], len(a))
        if (update := updates.get(name)) is not None:
            ratio = 1.0 if shared else update.scale / first.scale
            columns[:, starts[name] : starts[name] + len(update.a)] = update.b if ratio == 1.0 else update.b * ratio
        parts[target.part] = columns.reshape(target.groups, -1, len(a))
    # the outputs of a group together
    b = torch.cat([parts[part] for part in sorted(parts)], dim=1).flatten(0, 1)
    return Update(a, b, first.scale)


def split_update(update: Update, siblings: Mapping[str, Target]) -> dict[str, Update]:
    """Return the updates of our maps from that of theirs; one that it leaves as it is has none.

    Columns of B that reach a single map belong to it, as `join_updates` stacks them; otherwise all have the same A.
    """
    parts = {name: part_of(update.b, target) for name, target in siblings.items()}
    columns = {name: part.any(dim=0).nonzero().flatten().tolist() for name, part in parts.items()}
    reached = [name for name in parts if columns[name]] or list(parts)
    everything = list(range(len(update.a)))
    if list(chain.from_iterable(columns[name] for name in reached)) != everything:
        columns = dict.fromkeys(reached, everything)
    return {name: Update(update.a[columns[name]], parts[name][:, columns[name]], update.scale) for name in reached}
