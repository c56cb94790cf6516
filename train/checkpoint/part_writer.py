"""Write a rank's part of a checkpoint, from the live state or a copy."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from clozeline.files import file_hash, sync
from clozeline.train.checkpoint import zero_partitions as partitions
from clozeline.train.checkpoint.stored_checkpoint import FileRecord
from clozeline.train.engine import Engine


@dataclass(frozen=True)
class Snapshot:
    """Content of a rank's part, and its entries of the index."""

    tensors: Mapping[str, Tensor]
    """name in the file → contiguous tensor on the CPU; empty once they are written"""
    rows: list[tuple[str, str, int, int, list[str]]]
    """name, group, start, count and states of each slice of a parameter"""
    scalars: dict[str, dict[str, float]]
    """optimizer group → state → number"""
    buffers: list[str]
    """names of the buffers among the tensors"""
    whole: dict[str, list[int]]
    """unsliced optimizer states among the tensors → shape"""
    hooks: list[str] = field(default_factory=list)
    """states that belong to hooks"""


@dataclass(frozen=True)
class WrittenPart:
    """A part on disk: its entries of the index, and its size and hash."""

    content: Snapshot
    file: FileRecord


def snapshot(engine: Engine, copies: dict[str, Tensor] | None = None) -> Snapshot:
    """Collect the part of an engine's state that this rank writes.

    `copies` is memory for copies, reused by the next call; None: return views of CPU state, which
    must be written before the next update.

    Raises:
        CheckpointError: the optimizer has a state that the format cannot store.
    """
    # collect the tensors that this rank writes
    owned = partitions.fragments(engine, owned=True)
    buffers = partitions.buffers(engine) if engine.world.rank == 0 else {}
    unsliced_states = partitions.whole_states(engine) if engine.world.rank == 0 else {}
    live = {f"{key}/{piece.name}": view for piece in owned for key, view in piece.tensors.items()}
    live |= {f"buffer/{name}": buffer for name, buffer in buffers.items()} | unsliced_states
    live = {name: tensor.detach() for name, tensor in live.items()}

    # copy these tensors, or take views
    if copies is None:
        cpu_tensors = {name: tensor.contiguous().cpu() for name, tensor in live.items()}
    else:
        cpu_tensors = _copy_into(live, copies)

    # entries of the index for these tensors
    rows = [
        (piece.name, piece.group, piece.start, piece.count, sorted(piece.tensors))
        for piece in owned
    ]
    return Snapshot(
        cpu_tensors,
        rows,
        partitions.scalars(engine),
        sorted(buffers),
        {key: list(tensor.shape) for key, tensor in unsliced_states.items()},
        sorted({key for hook in engine.hooks for key in hook.keys}),
    )


def _copy_into(live: Mapping[str, Tensor], copies: dict[str, Tensor]) -> dict[str, Tensor]:
    # reuse memory: fresh pages would cost more than the copy
    for name, tensor in live.items():
        copy = copies.get(name)
        if copy is None or copy.shape != tensor.shape or copy.dtype != tensor.dtype:
            copies[name] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        copies[name].copy_(tensor, non_blocking=True)
    if any(tensor.is_cuda for tensor in live.values()):
        torch.cuda.current_stream().synchronize()
    return {name: copies[name] for name in live}


def write_part(content: Snapshot, path: Path) -> WrittenPart:
    """Write a part and sync it to disk; safetensors raises a plain Exception for a full disk."""
    save_file(dict(content.tensors), path)
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)  # permissions of a new file; safetensors sets narrower ones
    sync(path)
    return WrittenPart(
        replace(content, tensors={}), FileRecord(path.stat().st_size, file_hash(path))
    )
