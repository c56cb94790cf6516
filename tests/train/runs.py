"""Whole runs on ranks that have started already, and what they wrote."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clozeline.configuration.config import load_config
from clozeline.errors import ClozelineError
from clozeline.train.checkpoint.run_weights import find_checkpoint, read_weights
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.logs.json_lines import read_lines, step_records
from clozeline.train.run import run


def start(world: World, config: Path, overrides: Sequence[str] = ()) -> tuple[int, str]:
    """Return the exit code of a run, and its error."""
    try:
        return run(load_config(TrainConfig, config, list(overrides)), joined=world), ""
    except ClozelineError as error:
        return error.exit_code, str(error)


def steps(output: Path) -> list[dict[str, Any]]:
    """The records of its steps."""
    return step_records(read_lines(output / "metrics.jsonl"))


def evaluations(output: Path, name: str = "heldout") -> list[dict[str, Any]]:
    """The results of its evaluations on a held-out set."""
    return [record["heldout"][name] for record in read_lines(output / "metrics.jsonl") if "heldout" in record]


def logged(output: Path) -> list[tuple[int, str, str]]:
    """Every bit of its losses and gradient norms."""
    return [(one["step"], one["loss"].hex(), one["gradient_norm"].hex()) for one in steps(output)]


def events(output: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in read_lines(output / "events.jsonl") if event["event"] == kind]


def saved(output: Path, step: int | None = None) -> dict[str, Any]:
    """The weights of a checkpoint."""
    return read_weights(*find_checkpoint(output, step))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
