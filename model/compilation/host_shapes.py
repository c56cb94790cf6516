"""Properties of a batch that are computed on the host, so that no forward pass waits for an accelerator."""

from collections.abc import Mapping, Set

import torch
from torch import Tensor

from clozeline.errors import BatchError
from clozeline.model.loss import real_index


def add_host_shapes(
    tensors: Mapping[str, Tensor], limit: int | None, added: Set[str] = frozenset()
) -> dict[str, Tensor]:
    """Encode properties that a forward pass depends on as shapes; call this before a batch moves to an accelerator.

    Equal rows of `position_ids` [B, T] become [1, T], and `lengths` [B] of rows without padding the one length [];
    `max_seqlen` [] becomes an empty tensor of as many rows, `left_padding` [B] of zeros is removed, and
    `predicted_positions` are added to `rank`. Tensors that are not on the host stay as they are.

    Args:
        tensors: model inputs by name.
        limit: size of the position table; None: no limit.
        added: further tensors to add, as heads name them: `real_index`, see `model.loss`.

    Raises:
        BatchError: a position id beyond the table, or padding on the left that does not fit the rows.

    Example:
        >>> batch = {"input_ids": torch.zeros(2, 3), "position_ids": torch.arange(3).repeat(2, 1)}
        >>> batch["lengths"] = torch.tensor([3, 3])
        >>> {name: list(tensor.shape) for name, tensor in add_host_shapes(batch, limit=8).items()}
        {'input_ids': [2, 3], 'position_ids': [1, 3], 'lengths': []}
    """
    shaped = dict(tensors)
    if "real_index" in added and tensors["input_ids"].device.type == "cpu":
        shaped["real_index"] = real_index(tensors)
    for name in ("position_ids", "position_ids_b", "decoder_position_ids"):
        if name in tensors and tensors[name].device.type == "cpu":
            positions = tensors[name]
            equal_rows = positions.stride(0) == 0 or bool((positions == positions[:1]).all())
            shaped[name] = positions[:1] if equal_rows else positions
            _check_positions(shaped[name], limit)
    # rows without padding
    lengths = tensors.get("lengths")
    if lengths is not None and lengths.device.type == "cpu" and bool((lengths >= tensors["input_ids"].shape[1]).all()):
        shaped["lengths"] = torch.tensor(tensors["input_ids"].shape[1])
    left = tensors.get("left_padding")
    if left is not None and left.device.type == "cpu":
        if bool((left == 0).all()):
            del shaped["left_padding"]
        else:
            _check_left_padding(left, tensors)
    # the length of the longest packed document, as a shape
    longest = tensors.get("max_seqlen")
    if longest is not None and longest.device.type == "cpu" and longest.ndim == 0:
        shaped["max_seqlen"] = torch.empty(int(longest), 0)
    if "rank" in tensors and tensors["rank"].device.type == "cpu":
        shaped["predicted_positions"] = prediction_positions(tensors["rank"])
    return shaped


def prediction_positions(rank: Tensor) -> Tensor:
    """Return the positions of each row in the order of prediction, [B, most of a row], padded with zeros.

    Args:
        rank: [B, T], 0 for context, r for the position that is predicted as the r-th.

    Example:
        >>> prediction_positions(torch.tensor([[0, 2, 1], [0, 0, 1]])).tolist()
        [[2, 1], [2, 0]]
    """
    most = max(1, int(rank.max()))
    positions = torch.arange(rank.shape[1], device=rank.device).expand_as(rank)
    return rank.new_zeros(len(rank), most + 1).scatter_(1, rank, positions)[:, 1:]


def _check_left_padding(left: Tensor, tensors: Mapping[str, Tensor]) -> None:
    if counted := sorted({"attention", "prefix_length"} & tensors.keys()):
        raise BatchError(
            f"left_padding: {counted[0]} counts the positions of a row from 0: pad these rows on the right"
        )
    ends, columns = left + tensors["lengths"].to(left.device), tensors["input_ids"].shape[1]
    if bool((left < 0).any()) or bool((ends > columns).any()):
        raise BatchError(
            f"left_padding: expected 0 or more, and with lengths up to {columns} positions, got padding "
            f"{left.tolist()} and lengths {tensors['lengths'].tolist()}"
        )


def _check_positions(positions: Tensor, limit: int | None) -> None:
    if limit is not None and positions.numel() and (largest := int(positions.max())) >= limit:
        raise BatchError(
            f"position id {largest}: the position table has room for 0..{limit - 1}; "
            "make the samples shorter or raise model.position.maximum"
        )
