"""The stream as a `torch.utils.data.IterableDataset`, for training loops of other libraries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from clozeline.errors import StreamError
from clozeline.train.data.stream.stream import Stream


class StreamDataset(IterableDataset[dict[str, Tensor]]):
    """Micro-batches of a stream, without end, as dictionaries of tensors.

    A stream loads in threads of its own and shares its rows among ranks, so a loader needs neither workers, nor a
    sampler, nor collation: `DataLoader(StreamDataset(stream), batch_size=None)`. Without a loader it is iterable too.

    Args:
        stream: the rank's stream, which stays open for the caller to close.

    Example: two micro-batches a step, and after three of them the state is that after one whole step.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Yield the tensors of each micro-batch from the stream's position on.

        Raises:
            StreamError: a worker process of a loader asks; each would read all rows.
        """
        if get_worker_info() is not None:
            raise StreamError("StreamDataset: expected num_workers=0; the stream loads in threads of its own")
        return (batch.tensors for step in self.stream for batch in step)

    def state_dict(self) -> dict[str, Any]:
        """Return the stream's state after the last whole step that was begun; save it between steps."""
        return self.stream.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; start a new iterator afterwards.

        Raises:
            StateMismatch: the state belongs to other data, lanes or another seed.
        """
        self.stream.load_state_dict(state)
