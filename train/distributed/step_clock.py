"""Time the parts of a step: by the host clock, or by CUDA events."""

import time
from typing import Any

import torch


class StepClock:
    """Sums the seconds of each part of a step; parts follow each other without gaps."""

    def __init__(self, device: torch.device) -> None:
        self._on_device = device.type == "cuda"
        self._marks: list[tuple[str, Any]] = []
        self.end("")

    def end(self, part: str) -> None:
        """End a part, which started where the last one ended."""
        mark: Any = time.perf_counter()
        if self._on_device:
            mark = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            mark.record()
        self._marks.append((part, mark))

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each part."""
        seconds: dict[str, float] = {}
        for (_, before), (part, after) in zip(self._marks, self._marks[1:], strict=False):
            if self._on_device:
                after.synchronize()
            passed = before.elapsed_time(after) / 1e3 if self._on_device else after - before
            seconds[part] = seconds.get(part, 0.0) + passed
        return seconds
