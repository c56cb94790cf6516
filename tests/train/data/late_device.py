"""A device without hardware whose side streams work as late as waits allow: a missing wait gives
wrong values."""

from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class LateStream:
    """Work in order, done when an event after it is waited for."""

    def __init__(self, device=None):
        self.work = []
        self.done = 0

    def run(self, until):
        """Do the work before this index."""
        for one in self.work[self.done : until]:
            one()
        self.done = max(self.done, until)

    def wait_event(self, event):
        """Order the work of this stream, which runs at once, after an event of another."""
        event.synchronize()


class LateEvent:
    """A mark in a stream; of none before it is recorded."""

    stream: LateStream | None = None
    index = 0

    def record(self, stream):
        self.stream = stream
        self.index = len(stream.work)

    def synchronize(self):
        if self.stream is not None:
            self.stream.run(self.index)


class LateDevice(TorchFunctionMode):
    """The module of the device, and the mode in which `copy_(..., non_blocking=True)` belongs to
    the current stream.

    All other work is done at once: that of the default stream, which computes, as early as waits
    allow.
    """

    Stream = LateStream
    Event = LateEvent

    def __init__(self):
        super().__init__()
        self.compute = self.current = LateStream()
        self.allocated = {}
        """Stream that a device tensor was allocated by, by address."""
        self.read = []
        """Device tensors that a stream was told to read."""

    @contextmanager
    def stream(self, stream):
        before = self.current
        self.current = stream
        yield
        self.current = before

    def current_stream(self, device=None):
        return self.current

    def __enter__(self):
        # torch asks for a stream of its own before a mode sees the call
        def record(tensor, stream):
            self.read.append((tensor.untyped_storage().data_ptr(), stream))

        self._patch = patch.object(Tensor, "record_stream", record)
        self._patch.start()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._patch.stop()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is Tensor.copy_ and kwargs.get("non_blocking") and self.current is not self.compute:
            target, source = args
            target.fill_(0xAA)  # what reads it too early does not find the last batch there
            self.current.work.append(lambda: target.copy_(source))
            return target

        result = func(*args, **kwargs)
        if func is torch.empty and kwargs.get("device") is not None:
            self.allocated[result.untyped_storage().data_ptr()] = self.current
        return result
