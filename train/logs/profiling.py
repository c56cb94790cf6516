"""Profile a few steps: write a trace of all operations, for Perfetto or chrome://tracing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from clozeline.errors import ClozelineError
from clozeline.files import publish
from clozeline.train.configuration.logs import ProfileConfig


class Profiler:
    """Torch's profiler over the configured steps, on rank 0; it changes no result."""

    def __init__(
        self,
        config: ProfileConfig,
        output: Path,
        device: torch.device,
        announce: Callable[..., None],
    ) -> None:
        self._config = config
        self._path = output / f"trace-{config.first:08d}.json"
        self._on_device = device.type == "cuda"
        self._announce = announce
        self._running: Any = None

    def begin(self, step: int) -> None:
        """Begin a step. A run that resumes after the first profiled step records no profile."""
        if step == self._config.first:
            os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # quiet start and end
            activities = [torch.profiler.ProfilerActivity.CPU]
            activities += [torch.profiler.ProfilerActivity.CUDA] if self._on_device else []
            self._running = torch.profiler.profile(activities=activities)
            self._running.start()

    def end(self, step: int) -> None:
        """End a step; after the last one, write the trace."""
        if self._running is None or step < self._config.last:
            return
        profile = self._running
        self.close()

        try:
            with publish(self._path) as temporary:
                profile.export_chrome_trace(str(temporary))
        except (ClozelineError, OSError, RuntimeError) as error:
            self._announce("profile_failed", step=step, error=str(error))
            return

        self._announce("profile", step=step, steps=self._config.steps, trace=self._path.name)

    def close(self) -> None:
        """Stop; an unfinished profile is dropped."""
        if self._running is not None:
            self._running.stop()
            self._running = None
