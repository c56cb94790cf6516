"""Log to TensorBoard, and to Weights & Biases, if installed.

Project, account and the run to continue come from its environment variables, such as WANDB_PROJECT
and WANDB_RUN_ID.
"""

import importlib
import socket
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from clozeline.errors import ConfigurationError


class TensorBoard:
    """Writes event files for TensorBoard; they replace earlier events after `step`."""

    def __init__(self, folder: Path, step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog

        # written here: a thread of SummaryWriter would print a traceback if the disk is full
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}"
        self._write(file_version="brain.Event:2")
        self._write(step=step + 1, session_log=SessionLog(status=SessionLog.START))

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Write the metrics of a step."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        # one event with all scalars: an event for each would cost ten times as much
        values = [Summary.Value(tag=tag, simple_value=figure) for tag, figure in figures.items()]
        self._write(step=step, summary=Summary(value=values))

    def end(self, *, failed: bool) -> None:
        """The file is complete after each event."""

    def _write(self, **fields: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        with self._file.open("ab") as file:
            RecordWriter(file).write(Event(wall_time=time.time(), **fields).SerializeToString())


class WeightsAndBiases:
    """Sends metrics to Weights & Biases, whose library may raise its own errors."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self._run = importlib.import_module("wandb").init(
            dir=str(folder), name=folder.name, resume="allow", config=dict(config)
        )

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Send the metrics of a step."""
        self._run.log(dict(figures), step=step)

    def end(self, *, failed: bool) -> None:
        """Say how the run ended."""
        self._run.finish(exit_code=int(failed))


Tracker: TypeAlias = TensorBoard | WeightsAndBiases


def check_tracker(name: str | None) -> None:
    """Refuse a tracker whose module is not installed."""
    if name is not None and find_spec(name) is None:
        raise ConfigurationError(
            f"log.tracker: {name} is not installed: run `pip install {name}`, or remove the key"
        )
