"""Copy batches to an accelerator while it computes: on a side stream, from a ring of pinned buffers.

A copy from ordinary memory makes the host wait until the device has done all work before it; so the tensors of a batch
are first laid out in one pinned (page-locked) buffer, and copied at once. Three waits keep this right:

- the host writes into a pinned buffer again only after the last copy from it has ended
- the stream that computes reads a batch only after its copy has ended
- the memory of a batch on the device, allocated by the side stream, is free again only after the last kernel that reads
  it (`record_stream`)
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

_BUFFERS: Final = 2
"""pinned buffers: one is copied, the next one written"""
_ALIGNMENT: Final = 64
"""bytes; tensors start at multiples, as kernels with wide loads expect"""


@dataclass(frozen=True)
class DeviceCopy:
    """A batch on its way to the device."""

    device_module: Any
    buffer: Tensor
    tensors: dict[str, Tensor]
    copied: Any
    """event at the end of the copy"""

    def wait(self) -> dict[str, Tensor]:
        """Return the tensors; work that the current stream is given from now on runs after the copy."""
        stream = self.device_module.current_stream(self.buffer.device)
        stream.wait_event(self.copied)
        self.buffer.record_stream(stream)
        return self.tensors


class DeviceCopies:
    """Copies of batches to a device.

    Args:
        device: to copy to.
        device_module: streams and events, with the interface of `torch.cuda`; default: the module of the device.
    """

    def __init__(self, device: torch.device, device_module: Any = None) -> None:
        self._device = device
        self._module = torch.get_device_module(device) if device_module is None else device_module
        self._stream = self._module.Stream(device)
        self._ring = deque([(torch.empty(0, dtype=torch.uint8), self._module.Event()) for _ in range(_BUFFERS)])

    def start(self, tensors: Mapping[str, Tensor]) -> DeviceCopy:
        """Start to copy the tensors of a batch; the device goes on with the work that it has."""
        # a pinned buffer whose last copy has ended, and is large enough
        offsets, size = [], 0
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
        views = {name: _view(buffer, at, of) for (name, of), at in zip(tensors.items(), offsets, strict=True)}
        return DeviceCopy(self._module, buffer, views, copied)


def _view(buffer: Tensor, offset: int, like: Tensor) -> Tensor:
    """Return the part of a buffer of bytes that holds a tensor of this shape and type."""
    return buffer[offset : offset + like.nbytes].view(like.dtype).view(like.shape)
