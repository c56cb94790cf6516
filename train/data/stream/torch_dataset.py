"""Wrap a stream as a `torch.utils.data.IterableDataset`, for the training loops of other libraries."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from clozeline.errors import StreamError
from clozeline.train.data.stream.stream import Stream


class StreamDataset(IterableDataset[dict[str, Tensor]]):
    """Endless micro-batches of a stream, as dictionaries of tensors.

    A stream loads in its own threads and splits rows over ranks: use `DataLoader(StreamDataset(stream),
    batch_size=None)` without workers, sampler or collation, or iterate directly.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Yield the tensors of each micro-batch from the stream's position on."""
        if get_worker_info() is not None:  # each worker would read all rows
            raise StreamError("StreamDataset: expected num_workers=0; the stream loads in threads of its own")
        return (batch.tensors for step in self.stream for batch in step)

    def state_dict(self) -> dict[str, Any]:
        """Return the stream's state; save it between steps, not between micro-batches."""
        return self.stream.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; start a new iterator afterwards."""
        self.stream.load_state_dict(state)
