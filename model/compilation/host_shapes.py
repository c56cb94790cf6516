"""Prepare a batch on the host, so that a forward pass never waits or recompiles.

It would wait for an accelerator to read a value that decides a shape.
"""

from collections.abc import Mapping, Set

import torch
from torch import Tensor

from clozeline.columns import FIELDS, TEXTS, BatchField, names_of
from clozeline.errors import BatchError
from clozeline.model.loss import choice_rows, real_index


def add_host_shapes(
    tensors: Mapping[str, Tensor], limit: int | None, added: Set[str] = frozenset()
) -> dict[str, Tensor]:
    """Encode properties that a forward pass depends on as shapes.

    Call this before a batch moves to an accelerator.

    Equal rows of `position_ids` [B, T] become [1, T]; `lengths` [B] of rows without padding become
    one length []; `max_seqlen` [], of both sides, becomes an empty tensor with as many rows;
    `left_padding` [B] of zeros is removed; `predicted_positions` are added to `rank`. Tensors that
    are not on the host stay unchanged.

    `limit` is the size of the position table; heads name further tensors to be `added`:
    `real_index` and `choice_rows`, see `model.loss`.

    Raises:
        BatchError: a position id is outside the table, or padding on the left does not fit the
            rows.

    Example:
        >>> batch = {"input_ids": torch.zeros(2, 3), "position_ids": torch.arange(3).repeat(2, 1)}
        >>> batch["lengths"] = torch.tensor([3, 3])
        >>> {name: list(tensor.shape) for name, tensor in add_host_shapes(batch, limit=8).items()}
        {'input_ids': [2, 3], 'position_ids': [1, 3], 'lengths': []}
    """
    shaped = dict(tensors)
    on_host = {name: tensor for name, tensor in tensors.items() if tensor.device.type == "cpu"}
    # indices that heads ask for
    if "real_index" in added and "input_ids" in on_host:
        shaped["real_index"] = real_index(tensors)
    if "choice_rows" in added and "choices" in on_host:
        shaped["choice_rows"] = choice_rows(tensors["choices"])
    # position ids, which must be inside the table
    for name in on_host.keys() & names_of(text.positions for text in TEXTS):
        positions = tensors[name]
        equal_rows = positions.stride(0) == 0 or bool((positions == positions[:1]).all())
        shaped[name] = positions[:1] if equal_rows else positions
        if limit is not None and positions.numel():
            largest = int(shaped[name].max())
            if largest >= limit:
                raise BatchError(
                    f"position id {largest}: the position table holds 0 to {limit - 1}; make the "
                    "samples shorter, or raise model.position.maximum"
                )
    # rows without padding
    if "lengths" in on_host and bool((tensors["lengths"] >= tensors["input_ids"].shape[1]).all()):
        shaped["lengths"] = torch.tensor(tensors["input_ids"].shape[1])
    if "left_padding" in on_host:
        if bool((tensors["left_padding"] == 0).all()):
            del shaped["left_padding"]
        else:
            _check_left_padding(tensors["left_padding"], tensors)
    # the length of the longest packed document, as a shape
    for name, tensor in on_host.items():
        if tensor.ndim == 0 and name in FIELDS and FIELDS[name].per == "batch":
            shaped[name] = torch.empty(int(tensor), 0)

    if "rank" in on_host:
        shaped["predicted_positions"] = prediction_positions(tensors["rank"])
    return shaped


def prediction_positions(rank: Tensor) -> Tensor:
    """Return the positions of each row in the order of prediction, padded with zeros.

    The shape is [B, most predictions of a row].

    `rank` [B, T] is 0 for context, and r for the position that is predicted as the r-th.

    Example:
        >>> prediction_positions(torch.tensor([[0, 2, 1], [0, 0, 1]])).tolist()
        [[2, 1], [2, 0]]
    """
    most = max(1, int(rank.max()))
    positions = torch.arange(rank.shape[1], device=rank.device).expand_as(rank)
    return rank.new_zeros(len(rank), most + 1).scatter_(1, rank, positions)[:, 1:]


def _check_left_padding(left: Tensor, tensors: Mapping[str, Tensor]) -> None:
    if from_start := sorted({"attention", "prefix_length"} & tensors.keys()):
        raise BatchError(
            f"left_padding: {from_start[0]} counts positions from 0: pad these rows on the right"
        )
    ends = left + tensors["lengths"].to(left.device)
    columns = tensors["input_ids"].shape[1]
    if bool((left < 0).any()) or bool((ends > columns).any()):
        raise BatchError(
            f"left_padding: expected 0 or more, and with lengths up to {columns} positions, got "
            f"padding {left.tolist()} and lengths {tensors['lengths'].tolist()}"
        )


def pad_labels(
    tensors: Mapping[str, Tensor], capacity: int, reads: Mapping[str, BatchField] = FIELDS
) -> dict[str, Tensor]:
    """Pad the labels of a batch to a multiple of a capacity, with entries that have no effect.

    The fields that have an entry per label define these fillers: fields that the model `reads`, and
    standard fields.

    A batch without labels gets `capacity` such entries. Losses and gradients stay the same, up to
    the order of rounding. For each further multiple, a compiler builds one more graph.

    Example:
        >>> batch = {"label_index": torch.tensor([3, 8]), "label_ids": torch.tensor([7, 9])}
        >>> {name: tensor.tolist() for name, tensor in pad_labels(batch, 3).items()}
        {'label_index': [3, 8, 0], 'label_ids': [7, 9, -100]}
    """
    if "label_index" not in tensors:
        return dict(tensors)
    count = len(tensors["label_index"])
    missing = -count % capacity if count else capacity
    fields = [field for name in tensors if (field := reads.get(name, FIELDS.get(name))) is not None]
    # the missing entries of each field that has one per label
    added = {
        field.name: tensors[field.name].new_full(
            (missing, *tensors[field.name].shape[1:]), field.filler
        )
        for field in fields
        if field.per == "label"
    }

    return {
        **tensors,
        **{name: torch.cat((tensors[name], entries)) for name, entries in added.items()},
    }
