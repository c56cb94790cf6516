"""Log to Weights & Biases or MLflow, if installed.

Project, server and account come from their environment variables, such as WANDB_PROJECT, WANDB_MODE,
MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME.
"""

import importlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from clozeline.errors import ConfigurationError
from clozeline.files import parse_json, replacing

_FILE: Final = "tracker.json"
"""File with the tracker's id of the run, with which a resumed run continues there."""
_PARAMETERS: Final = 100
"""Parameters per call of MLflow."""


class Tracker(Protocol):
    """A run at a tracker."""

    identity: str
    """the tracker's id of the run"""

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Send the metrics of a step."""

    def end(self, *, failed: bool) -> None:
        """End the run."""


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


_SERVICES: Final[dict[str, Callable[..., Tracker]]] = {"wandb": _WeightsAndBiases, "mlflow": _MLflow}
"""Trackers by module name, the value of `log.tracker`."""


def check_tracker(name: str | None) -> None:
    """Refuse a tracker whose module is not installed."""
    if name is None:
        return
    try:
        importlib.import_module(name)
    except ImportError as error:
        how = f"run `pip install {name}`, or leave the key out"
        raise ConfigurationError(f"log.tracker: {name} is not installed ({error}): {how}") from error
    except Exception:  # installed but broken: `open_tracker` reports it
        return


def open_tracker(name: str, folder: Path, config: Mapping[str, Any]) -> Tracker:
    """Start a run at a tracker, or continue the one in the run directory; trackers raise their own errors."""
    path = folder / _FILE
    known = parse_json(path.read_bytes()) if path.is_file() else {}
    identity = known.get("identity") if isinstance(known, dict) and known.get("tracker") == name else None
    tracker = _SERVICES[name](importlib.import_module(name), folder, identity, config)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps({"tracker": name, "identity": tracker.identity}) + "\n", encoding="utf-8")
    return tracker
