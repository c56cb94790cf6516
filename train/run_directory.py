"""The folder of a run: who may write into it, and what it holds besides metrics and checkpoints."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final, TextIO

from pipeline.config import former_names, load_config, save_yaml, to_plain
from pipeline.errors import ConfigurationError
from train.config import TrainConfig

__all__ = ["claim", "read_config", "save_config"]

_TRACES: Final = frozenset(
    {
        *(".lock", ".config.tmp", ".status.tmp", "checkpoints", "config.yaml", "events.jsonl"),
        *("metrics.jsonl", "metrics.tmp", "status.json", "tensorboard"),
    }
)
"""What a start makes before its first step."""


def claim(config: TrainConfig) -> TextIO:
    """Make the run directory and hold it for this process; the lock goes with the process, however it ends.

    Raises:
        ConfigurationError: another run writes here, `resume=never` meets a folder in which something was trained or
            that holds files of somebody else, or `resume=must` one without a checkpoint; nothing has been made then.
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
            f"resume=never: {output} is not empty, it holds {', '.join(found[:4])}: choose another output, or go on "
            "with resume=auto"
        )
    output.mkdir(parents=True, exist_ok=True)
    lock = (output / ".lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        owner = lock.read().strip() or "unknown"
        lock.close()
        raise ConfigurationError(
            f"output: {output} is in use by process {owner}, which still trains: stop it, or choose another output"
        ) from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def _contents(output: Path) -> list[str]:
    """Names in a run directory; none where the only traces are those of starts that failed before their first step."""
    names = sorted(path.name for path in output.iterdir()) if output.exists() else []
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
    part = config.output / ".config.tmp"
    save_yaml(to_plain(config), part)
    part.replace(config.output / "config.yaml")
