"""Profile a few steps: write a trace of all operations, and print the most expensive ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import torch

from clozeline.errors import ClozelineError, StorageError
from clozeline.files import publish, read_json
from clozeline.train.configuration.logs import ProfileConfig

_LARGEST: Final = 10
"""Rows of the printed table."""


class Profiler:
    """Torch's profiler over the configured steps, on rank 0; it changes no result."""

    def __init__(
        self,
        config: ProfileConfig,
        output: Path,
        device: torch.device,
        announce: Callable[..., None],
        say: Callable[[str], None],
    ) -> None:
        self._config = config
        self._path = output / f"trace-{config.first:08d}.json"
        self._on_device = device.type == "cuda"
        self._announce, self._say = announce, say
        self._running: Any = None

    def begin(self, step: int) -> None:
        """Begin a step. A run that resumes after the first profiled step records no profile."""
        if step == self._config.first:
            os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # quiet start and end
            kinds = [torch.profiler.ProfilerActivity.CPU]
            kinds += [torch.profiler.ProfilerActivity.CUDA] if self._on_device else []
            self._running = torch.profiler.profile(activities=kinds)
            self._running.start()

    def end(self, step: int) -> None:
        """End a step; after the last one, write the trace and print the table."""
        if self._running is None or step < self._config.last:
            return
        profile = self._running
        self.close()
        for line in self._table(profile.key_averages()):
            self._say(line)
        try:
            with publish(self._path) as temporary:
                profile.export_chrome_trace(str(temporary))
                if read_json(temporary) is None:  # torch does not report a full disk
                    raise StorageError(f"{self._path} is incomplete: free some space")
        except (ClozelineError, OSError, RuntimeError) as error:
            self._announce("profile_failed", step=step, error=str(error))
            return
        self._announce("profile", step=step, steps=self._config.steps, trace=self._path.name)

    def close(self) -> None:
        """Stop; an unfinished profile is dropped."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def _table(self, items: Any) -> Iterator[str]:
        """Yield the operations with the largest self time."""
        name = "self_device_time_total" if self._on_device else "self_cpu_time_total"
        times = {
            item.key: (float(getattr(item, name)), int(item.count))
            for item in items
            if (item.device_type.name == "CUDA") == self._on_device  # operations also include the time of their kernels
        }
        total = sum(time for time, _ in times.values())
        largest = sorted(times.items(), key=lambda item: (-item[1][0], item[0]))[:_LARGEST]
        where = "on the device" if self._on_device else "of the processor"
        yield f"profile of steps {self._config.first} to {self._config.last}: time {where} by operation"
        yield f"  {'ms a step':>10}  {'share':>6}  {'calls':>7}  operation"
        for key, (time, calls) in largest:
            yield f"  {time / 1e3 / self._config.steps:10.3f}  {time / total:6.1%}  {calls:7,}  {key}"
