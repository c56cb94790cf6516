"""Services that draw the figures of runs: Weights & Biases and MLflow, where they are installed.

Project, server and account are those of the services' own environment variables, such as WANDB_PROJECT, WANDB_MODE,
MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from clozeline.errors import ConfigurationError
from clozeline.files import parse_json, replacing

_FILE: Final = "tracker.json"
"""File of a run directory that holds the service's name of the run, with which a resumed run continues there."""
_PARAMETERS: Final = 100
"""Parameters that MLflow takes in one call."""


class Tracker(Protocol):
    """A run at a service."""

    identity: str
    """the service's name of the run"""

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Send the figures of a step."""

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
        parameters = [] if identity else list(config.items())  # a service that has them refuses others
        for first in range(0, len(parameters), _PARAMETERS):
            mlflow.log_params(dict(parameters[first : first + _PARAMETERS]))

    def log(self, figures: Mapping[str, float], step: int) -> None:
        self._mlflow.log_metrics(dict(figures), step=step)

    def end(self, *, failed: bool) -> None:
        self._mlflow.end_run(status="FAILED" if failed else "FINISHED")


_SERVICES: Final[dict[str, Callable[..., Tracker]]] = {"wandb": _WeightsAndBiases, "mlflow": _MLflow}
"""Services by the module that speaks to them, which is also the value of `log.tracker`."""


def check_tracker(name: str | None) -> None:
    """Check that a service can be used.

    Raises:
        ConfigurationError: its module is not installed.
    """
    if name is None:
        return
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            f"log.tracker: {name} is not installed ({error}): run `pip install {name}`, or leave the key out"
        ) from error
    except Exception:  # installed but broken: `open_tracker` meets it again
        return


def open_tracker(name: str, folder: Path, config: Mapping[str, Any]) -> Tracker:
    """Begin a run at a service, or continue the one that the run directory names.

    Raises:
        Exception: the service refuses, each with types of its own, or the run directory cannot be written.
    """
    path = folder / _FILE
    known = parse_json(path.read_bytes()) if path.is_file() else {}
    identity = known.get("identity") if isinstance(known, dict) and known.get("tracker") == name else None
    tracker = _SERVICES[name](importlib.import_module(name), folder, identity, config)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps({"tracker": name, "identity": tracker.identity}) + "\n", encoding="utf-8")
    return tracker
