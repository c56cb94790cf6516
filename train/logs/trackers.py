"""Log to TensorBoard, and to Weights & Biases or MLflow, if installed.

Project, server and account come from their environment variables, such as WANDB_PROJECT, WANDB_MODE,
MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME.
"""

import importlib
import json
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from clozeline.errors import ConfigurationError
from clozeline.files import parse_json, replacing

_FILE: Final = "tracker.json"
"""File with the tracker's id of the run, with which a resumed run continues there."""
_PARAMETERS: Final = 100
"""Parameters per call of MLflow."""
_FLUSH_S: Final = 30
"""Seconds after which TensorBoard's events are on disk."""


class Tracker(Protocol):
    """A run at a tracker."""

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Send the metrics of a step."""

    def end(self, *, failed: bool) -> None:
        """End the run."""


class TensorBoard:
    """Event files for TensorBoard in a folder, where what was written after `step` is replaced."""

    def __init__(self, folder: Path, step: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torch.utils.tensorboard import SummaryWriter

            self._writer: Any = SummaryWriter(str(folder), purge_step=step + 1, flush_secs=_FLUSH_S)

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Write the metrics of a step."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        # one event with all scalars: an event for each would cost ten times as much
        values = [Summary.Value(tag=tag, simple_value=figure) for tag, figure in figures.items()]
        self._writer.file_writer.add_summary(Summary(value=values), step)

    def end(self, *, failed: bool) -> None:
        """Flush and close."""
        self._writer.close()


class _WeightsAndBiases:
    def __init__(self, wandb: Any, folder: Path, identity: str | None, config: Mapping[str, Any]) -> None:
        self._run = wandb.init(dir=str(folder), name=folder.name, id=identity, resume="allow", config=dict(config))
        self.identity = str(self._run.id)

    def log(self, figures: Mapping[str, float], step: int) -> None:
        self._run.log(dict(figures), step=step)

    def end(self, *, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


class _MLflow:
    def __init__(self, mlflow: Any, folder: Path, identity: str | None, config: Mapping[str, Any]) -> None:
        self._mlflow = mlflow
        self.identity = str(mlflow.start_run(run_id=identity, run_name=folder.name).info.run_id)
        parameters = [] if identity else list(config.items())  # a resumed run has them
        for first in range(0, len(parameters), _PARAMETERS):
            mlflow.log_params(dict(parameters[first : first + _PARAMETERS]))

    def log(self, figures: Mapping[str, float], step: int) -> None:
        self._mlflow.log_metrics(dict(figures), step=step)

    def end(self, *, failed: bool) -> None:
        self._mlflow.end_run(status="FAILED" if failed else "FINISHED")


_SERVICES: Final[dict[str, Callable[..., _WeightsAndBiases | _MLflow]]] = {
    "wandb": _WeightsAndBiases,
    "mlflow": _MLflow,
}
"""Trackers by module name, the value of `log.tracker`."""


def check_tracker(name: str | None) -> None:
    """Refuse a tracker whose module is not installed."""
    if name is not None and find_spec(name) is None:
        raise ConfigurationError(
            f"log.tracker: {name} is not installed: run `pip install {name}`, or leave the key out"
        )


def open_tracker(name: str, folder: Path, config: Mapping[str, Any]) -> Tracker:
    """Start a run at a tracker, or continue the one in the run directory; trackers raise their own errors."""
    path = folder / _FILE
    known = parse_json(path.read_bytes()) if path.is_file() else {}
    identity = known.get("identity") if isinstance(known, dict) and known.get("tracker") == name else None
    tracker = _SERVICES[name](importlib.import_module(name), folder, identity, config)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps({"tracker": name, "identity": tracker.identity}) + "\n", encoding="utf-8")
    return tracker
