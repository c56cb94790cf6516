"""Wrap a stream as a `torch.utils.data.IterableDataset`, for training loops of other libraries."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NoReturn

from torch import Tensor, distributed
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils.collate import default_collate_fn_map

from clozeline.configuration.config import Natural, check_arguments
from clozeline.errors import ConfigurationError, StreamError
from clozeline.train.data.stream.batches import Batch
from clozeline.train.data.stream.stream import Stream

_FETCHED_AHEAD: Final = 8
"""Most steps that a loop may have fetched beyond its optimizer; the loops of Lightning and
accelerate fetch one."""


class MicroBatchTensors(dict[str, Tensor]):
    """Tensors of a micro-batch by name; a collation into a larger batch is refused."""


def _refuse_collation(batch: Any, **_: Any) -> NoReturn:
    raise StreamError(
        f"StreamDataset: each item is a micro-batch, of which a loader would stack {len(batch)}: "
        "use DataLoader(dataset, batch_size=None), and Stream(..., micro_batch=N) for the rows of "
        "each"
    )


default_collate_fn_map[MicroBatchTensors] = _refuse_collation


class StreamDataset(IterableDataset[MicroBatchTensors]):
    """Micro-batches of a stream as dictionaries: endless, or one pass over a held-out set.

    A stream loads in its threads and splits rows over ranks: use
    `DataLoader(StreamDataset(stream), batch_size=None)` without workers, sampler or collation, or
    iterate directly. Another batch size is refused.

    Args:
        stream: the stream to read, from its position on.
        passes: 1: every row of the stream's only set once, with filler rows at the end; `len` then
            counts micro-batches of this rank. None: endless.
    """

    def __init__(self, stream: Stream, *, passes: Literal[1] | None = None) -> None:
        if not isinstance(stream, Stream):
            raise ConfigurationError(f"StreamDataset: expected a Stream, got {stream!r}")

        if passes not in (None, 1):
            raise ConfigurationError(
                f"passes: expected 1, or None for an endless stream, got {passes!r}"
            )

        if passes is not None and len(stream.sources) > 1:
            raise ConfigurationError(
                f"passes: expected a stream of one set, got {len(stream.sources)}: open one each"
            )

        self.stream = stream
        self.passes = passes
        self._steps = 0
        # positions after each of the last steps
        self._positions = deque([stream.samples], maxlen=_FETCHED_AHEAD + 1)

    def __iter__(self) -> Iterator[MicroBatchTensors]:
        """Yield the tensors of each micro-batch, from the stream's position on or for one pass."""
        if get_worker_info() is not None:  # each worker would read all rows
            raise StreamError(
                "StreamDataset: expected num_workers=0; the stream has its threads for loading"
            )
        steps = self._take_steps() if self.passes is None else self.stream.one_pass()
        return (MicroBatchTensors(batch.tensors) for step in steps for batch in step)

    def __len__(self) -> int:
        """Return the number of micro-batches of a pass; TypeError for an endless stream."""
        if self.passes is None:
            raise TypeError(
                "StreamDataset: an endless stream has no length; a held-out set has one with "
                "passes=1"
            )
        stream = self.stream
        first, last = stream.sources[0].lanes
        steps = -(-stream.samples_per_epoch // stream.global_batch)
        return steps * (stream.global_batch // stream.lanes * (last - first) // stream.micro_batch)

    def __getstate__(self) -> NoReturn:
        raise StreamError(
            "StreamDataset: its threads cannot be copied or sent to another process: use "
            "num_workers=0"
        )

    def set_epoch(self, epoch: int) -> None:
        """Refuse a loader that accelerate prepared for several processes.

        The loader would divide this rank's rows among all ranks, and most rows would never be read.
        """
        if distributed.is_initialized() and distributed.get_world_size() > 1:
            raise StreamError(
                "StreamDataset: the stream has given each process its own rows already, and a "
                "loader that accelerate prepares divides them again: return DataLoader(dataset, "
                "batch_size=None) from get_train_dataloader and get_eval_dataloader, and do not "
                "pass the loader to accelerator.prepare"
            )

    def state_dict(self, *, step: int) -> dict[str, object]:
        """Return the stream's state after `step` steps of the optimizer.

        The loop may have fetched further batches already.

        Args:
            step: steps since the start of the training, across resumes, such as `global_step` of a
                trainer.

        Raises:
            StreamError: the loop is not near this step of the stream.
        """
        step = check_arguments(dict[str, Natural], "StreamDataset", step=step)["step"]
        ahead = self._steps - step
        if not 0 <= ahead < len(self._positions):
            raise StreamError(
                f"StreamDataset: expected a step from {self._steps + 1 - len(self._positions)} to "
                f"{self._steps}, the steps of {self.stream.global_batch} samples that were "
                f"fetched, got {step}: accumulate as many micro-batches in an optimizer step as a "
                "global batch has, and load the state when you resume"
            )
        return {**self.stream.state_dict(), "samples": self._positions[-1 - ahead], "step": step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; start a new iterator afterwards."""
        step = state.get("step") if isinstance(state, Mapping) else state
        steps: int = check_arguments(dict[str, Natural], "stream state", step=step)["step"]
        self.stream.load_state_dict(state)
        self._steps = steps
        self._positions = deque([self.stream.samples], maxlen=_FETCHED_AHEAD + 1)

    def _take_steps(self) -> Iterator[list[Batch]]:
        for step in self.stream:
            self._steps += 1
            self._positions.append(self.stream.samples)
            yield step
