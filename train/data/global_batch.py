"""Read the next global batch: this rank's micro-batches, and label counts over all ranks.

Label counts, tokens, stop requests, requests to save and failed reads share one collective per
step.
"""

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from clozeline.arrays import Int64
from clozeline.columns import TEXTS
from clozeline.errors import ClozelineError
from clozeline.train.distributed.process_group import World
from clozeline.train.distributed.stopping import Interrupted, StopRequest


class MicroBatch(Protocol):
    """The part of a batch that the engine reads."""

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Model inputs by name."""

    @property
    def origin(self) -> Int64:
        """Source, stored block and row of each row [B, 3]."""

    @property
    def epoch(self) -> float:
        """Epochs of the training data before the end of the global batch."""


MicroBatch_co = TypeVar("MicroBatch_co", bound=MicroBatch, covariant=True)
MicroBatchT = TypeVar("MicroBatchT", bound=MicroBatch)


class BatchSource(Protocol[MicroBatch_co]):
    """A source of a rank's micro-batches."""

    def next_step(self) -> Sequence[MicroBatch_co]:
        """Return this rank's micro-batches of the next global batch."""


class CountingHead(Protocol):
    """The part of a head that counting needs."""

    def count(self, tensors: Mapping[str, Tensor]) -> int:
        """Return the part of a batch in the divisor of the head's loss."""


@dataclass(frozen=True)
class GlobalBatch(Generic[MicroBatchT]):
    """This rank's part of a global batch, with totals over all ranks."""

    micro_batches: Sequence[MicroBatchT]
    """micro-batches of this rank; may be empty if `stop` is set"""
    counts: dict[str, float]
    """head → divisor of its loss, over all ranks"""
    tokens: int
    """real tokens over all ranks"""
    stop: bool
    """a rank was asked to stop: no rank trains on this batch"""
    waited: float
    """seconds that the slowest rank waited for its micro-batches"""
    save: bool = False
    """a rank asked to save after the step"""
    padded_tokens: int = 0
    """positions computed over all ranks: real tokens, padding and filler rows"""
    real_rows: int = 0
    """rows over all ranks without filler and without rows that online corruption skipped"""
    all_rows: int = 0
    """rows over all ranks"""

    @property
    def is_short(self) -> bool:
        """Whether fewer than half of its rows are real, such as at the end of a pass."""
        return 2 * self.real_rows < self.all_rows

    @property
    def weight(self) -> float:
        """Factor of the gradient: 1, or for a short batch its real rows as a share of half a batch.

        In a mean over few rows, each row would have the weight of many. With this factor, a row
        weighs at most twice as much as in a full batch.
        """
        return 2 * self.real_rows / self.all_rows if self.is_short else 1.0


def next_global_batch(
    source: BatchSource[MicroBatchT],
    heads: Mapping[str, CountingHead],
    world: World,
    stop: StopRequest,
    *,
    save: bool = False,
) -> GlobalBatch[MicroBatchT]:
    """Return the next global batch; after a stop request no rank waits for data.

    `save`: this rank asks for a save.

    Raises:
        ClozelineError: reading failed on some rank; raised on all of them, naming rank and cause.
    """
    # read this rank's micro-batches
    micro_batches: Sequence[MicroBatchT] = ()
    problem: Exception | None = None
    began = time.perf_counter()

    try:
        if not stop.is_set():
            micro_batches = _read_interruptibly(source, stop)
    except (ClozelineError, OSError) as error:
        problem = error

    # sum over the ranks: waiting time by rank, flags, tokens, labels by head
    waited = [0.0] * world.size
    waited[world.rank] = time.perf_counter() - began
    labels = [count_labels(head, micro_batches) for head in heads.values()]
    flags = [float(stop.reason is not None), float(problem is not None), float(save)]
    sizes = [
        count_real_tokens(micro_batches),
        count_positions(micro_batches),
        *count_rows(micro_batches),
    ]

    totals = world.sum_over_ranks([*waited, *flags, *sizes, *labels])
    stops, problems, saves, tokens, padded, real_rows, all_rows, *counts = totals[world.size :]
    if problems:
        world.raise_everywhere(problem)
    return GlobalBatch(
        micro_batches,
        dict(zip(heads, counts, strict=True)),
        int(tokens),
        stop=stops > 0,
        waited=max(totals[: world.size]),
        save=saves > 0,
        padded_tokens=int(padded),
        real_rows=int(real_rows),
        all_rows=int(all_rows),
    )


def next_batch_of_tokens(
    source: BatchSource[MicroBatchT],
    heads: Mapping[str, CountingHead],
    world: World,
    stop: StopRequest,
    tokens: int | None,
    *,
    save: bool = False,
) -> GlobalBatch[MicroBatchT]:
    """Return a global batch with at least `tokens` real tokens; None: one batch of the source.

    Batches are joined until all ranks together have enough tokens: the result is the same at every
    world size.
    """
    batch = next_global_batch(source, heads, world, stop, save=save)
    while tokens is not None and batch.tokens < tokens and not batch.stop:
        more = next_global_batch(source, heads, world, stop)
        batch = GlobalBatch(
            [*batch.micro_batches, *more.micro_batches],
            {head: count + more.counts[head] for head, count in batch.counts.items()},
            batch.tokens + more.tokens,
            more.stop,
            batch.waited + more.waited,
            batch.save,
            batch.padded_tokens + more.padded_tokens,
            batch.real_rows + more.real_rows,
            batch.all_rows + more.all_rows,
        )

    return batch


def _read_interruptibly(
    source: BatchSource[MicroBatchT], stop: StopRequest
) -> Sequence[MicroBatchT]:
    """Return the next micro-batches, or () if a signal comes first.

    A remote store may block for minutes.
    """
    try:
        stop.interrupts = True
        micro_batches = source.next_step()
        stop.interrupts = False
    except Interrupted:
        return ()
    finally:
        stop.interrupts = False
    return micro_batches


def count_labels(head: CountingHead, micro_batches: Iterable[MicroBatch]) -> float:
    """Return the part of micro-batches in the divisor of a head's loss."""
    return float(sum(head.count(batch.tensors) for batch in micro_batches))


def shares(totals: Mapping[str, float], counts: Mapping[str, float]) -> dict[str, float]:
    """Divide sums named "head" or "head/name" by the count of that name, or else of the head.

    The result is 0 where the count is 0.

    Example: `shares({"lm": 6.0, "lm/right": 1.0}, {"lm": 2.0})` is `{"lm": 3.0, "lm/right": 0.5}`.
    """
    divisors = {name: counts[name if name in counts else name.partition("/")[0]] for name in totals}
    return {
        name: total / divisors[name] if divisors[name] else 0.0 for name, total in totals.items()
    }


def count_real_tokens(micro_batches: Iterable[MicroBatch]) -> float:
    """Count tokens without padding and filler, over both sides and all views of a row."""
    total = 0.0
    for batch in micro_batches:
        weighted = batch.tensors["row_weight"] > 0
        for text in TEXTS:
            if (lengths := batch.tensors.get(text.lengths.name)) is not None:
                choices = batch.tensors.get("choices")
                rows = weighted if choices is None else weighted.repeat_interleave(choices)
                total += float(lengths[rows].sum())
    return total


def count_rows(micro_batches: Iterable[MicroBatch]) -> tuple[float, float]:
    """Return the number of real rows, and of all rows."""
    weights = [batch.tensors["row_weight"] for batch in micro_batches]
    real_rows = sum(int((each > 0).sum()) for each in weights)
    return float(real_rows), float(sum(each.numel() for each in weights))


def count_positions(micro_batches: Iterable[MicroBatch]) -> float:
    """Count positions that the model computes, with padding: both sides, both views."""
    names = [text.ids.name for text in TEXTS]
    return float(
        sum(
            batch.tensors[name].numel()
            for batch in micro_batches
            for name in names
            if name in batch.tensors
        )
    )


_BUFFER_COUNT: Final = 2
"""Pinned buffers: one is copied while the next one is written."""
_ALIGNMENT: Final = 64
"""Tensors start at multiples of this many bytes, for kernels with wide loads."""


@dataclass(frozen=True)
class DeviceCopy:
    """A batch on its way to the device."""

    device_module: Any
    buffer: Tensor
    tensors: dict[str, Tensor]
    copied: Any
    """event at the end of the copy"""

    def wait(self) -> dict[str, Tensor]:
        """Return the tensors; later work of the current stream runs after the copy."""
        stream = self.device_module.current_stream(self.buffer.device)
        stream.wait_event(self.copied)
        self.buffer.record_stream(stream)
        return self.tensors


class DeviceCopies:
    """Copies of batches to a device.

    Args:
        device: device to copy to.
        device_module: streams and events, with the interface of `torch.cuda`; default: the module
            of the device.
    """

    def __init__(self, device: torch.device, device_module: Any = None) -> None:
        self._device = device
        self._module = torch.get_device_module(device) if device_module is None else device_module
        self._stream = self._module.Stream(device)
        self._ring = deque(
            [
                (torch.empty(0, dtype=torch.uint8), self._module.Event())
                for _ in range(_BUFFER_COUNT)
            ]
        )

    def start(self, tensors: Mapping[str, Tensor]) -> DeviceCopy:
        """Start to copy the tensors of a batch, while the device works."""
        # take a pinned buffer whose last copy has ended, or a larger one
        offsets = []
        size = 0
        for tensor in tensors.values():
            offsets.append(size)
            size += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT

        pinned, copied = self._ring.popleft()
        copied.synchronize()
        if len(pinned) < size:
            pinned = torch.empty(2 * size, dtype=torch.uint8, pin_memory=self._device.type != "cpu")

        # one copy of all tensors
        for tensor, offset in zip(tensors.values(), offsets, strict=True):
            _view(pinned, offset, tensor).copy_(tensor)
        with self._module.stream(self._stream):
            buffer = torch.empty(size, dtype=torch.uint8, device=self._device)
            buffer.copy_(pinned[:size], non_blocking=True)
            copied = self._module.Event()
            copied.record(self._stream)

        self._ring.append((pinned, copied))

        # views of the buffer
        views = {
            name: _view(buffer, at, of)
            for (name, of), at in zip(tensors.items(), offsets, strict=True)
        }
        return DeviceCopy(self._module, buffer, views, copied)


def _view(buffer: Tensor, offset: int, like: Tensor) -> Tensor:
    """Return a view of a byte buffer with the shape and type of `like`."""
    return buffer[offset : offset + like.nbytes].view(like.dtype).view(like.shape)
