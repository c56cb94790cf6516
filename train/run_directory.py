"""The folder of a run: its lock, and its configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, TextIO

from pipeline.config import former_names, load_config, save_yaml, to_plain
from pipeline.errors import ConfigurationError
from pipeline.files import lock, replacing, sweep
from train.config import TrainConfig

__all__ = ["claim", "read_config", "save_config"]

_TRACES: Final = frozenset(
    {
        *(".lock", "checkpoints", "config.yaml", "events.jsonl"),
        *("metrics.jsonl", "status.json", "tensorboard"),
    }
)
"""Files that a start makes before its first step."""


def claim(config: TrainConfig) -> TextIO:
    """Make the run directory and lock it for this process; the lock ends with the process.

    Raises:
        ConfigurationError: another run writes here; `resume=never` and the folder holds a trained run or other files;
            `resume=must` and it holds no checkpoint. Nothing has been made then.
        OSError: the folder cannot be made.
    """
    output = config.output
    if output.exists() and not output.is_dir():
        raise ConfigurationError(f"output: {output} is a file, expected a folder")
    if config.resume == "must" and not any((output / "checkpoints").glob("step-*")):
        raise ConfigurationError(
            f"resume=must: {output / 'checkpoints'} holds no valid checkpoint: choose another output, or start with "
            "resume=auto"
        )
    if config.resume == "never" and (found := _contents(output)):
        raise ConfigurationError(
            f"resume=never: {output} is not empty, it holds {', '.join(found[:4])}: choose another output, or "
            "resume with resume=auto"
        )
    output.mkdir(parents=True, exist_ok=True)
    held = (output / ".lock").open("a+", encoding="utf-8")
    if not lock(held):
        held.seek(0)
        owner = held.read().strip() or "unknown"
        held.close()
        raise ConfigurationError(
            f"output: {output} is in use by process {owner}, which still trains: stop it, or choose another output"
        )
    sweep(output)
    held.truncate(0)
    held.write(str(os.getpid()))
    held.flush()
    return held


def _contents(output: Path) -> list[str]:
    """Return names in a run directory; none if they only come from starts that failed before their first step."""
    names = sorted(path.name for path in output.iterdir() if path.suffix != ".tmp") if output.exists() else []
    metrics = output / "metrics.jsonl"
    trained = any((output / "checkpoints").glob("step-*")) or (metrics.exists() and metrics.stat().st_size > 0)
    return [] if ".lock" in names and not trained and _TRACES.issuperset(names) else names


def read_config(output: Path) -> TrainConfig:
    """Read config.yaml of a run directory, also one that an earlier version wrote.

    Raises:
        ConfigurationError: the file is missing or damaged.
    """
    with former_names():
        return load_config(TrainConfig, output / "config.yaml")


def save_config(config: TrainConfig) -> None:
    """Write the resolved configuration as config.yaml."""
    with replacing(config.output / "config.yaml") as temporary:
        save_yaml(to_plain(config), temporary)
