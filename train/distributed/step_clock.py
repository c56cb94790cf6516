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
        self._marks.append((part, self._now()))

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each part."""
        seconds: dict[str, float] = {}
        for (_, before), (part, after) in zip(self._marks, self._marks[1:], strict=False):
            seconds[part] = seconds.get(part, 0.0) + self._between(before, after)
        return seconds

    def _now(self) -> Any:
        if not self._on_device:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def _between(self, before: Any, after: Any) -> float:
        if not self._on_device:
            return float(after - before)
        after.synchronize()
        return float(before.elapsed_time(after)) / 1e3
