"""Retention of checkpoints: the ones that stay, and removal by one rename, so that a kill leaves no torn one."""

from __future__ import annotations

import math
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from pipeline.errors import NewerFormatError
from train.checkpoint.format import Index, steps_in
from train.config import CheckpointConfig
from train.errors import CheckpointError

__all__ = ["HIDDEN", "prune", "remove", "size_of"]

HIDDEN: Final = ".tmp-"
"""Begin of the names of directories that are no checkpoints yet, or none any more."""


def prune(directory: Path, latest: str, keep_last: int, config: CheckpointConfig, refused: Collection[str]) -> None:
    """Remove all checkpoints but the last k, every n-th, the best, and the one that `latest` names.

    One of a later step is left to be replaced when the run passes it.

    Args:
        directory: of the checkpoints.
        latest: name of the newest.
        keep_last: k.
        config: the other rules.
        refused: names of damaged ones, which count for nothing.
    """
    paths = [path for path in steps_in(directory) if _step(path.name) <= _step(latest)]
    whole = [path for path in paths if path.name not in refused]
    kept = {latest, *(path.name for path in whole[-keep_last:])}
    if every := config.keep_every:
        kept |= {path.name for path in whole if _step(path.name) % every == 0}
    if config.keep_best:
        kept |= _best(whole)
    for path in paths:
        if path.name not in kept:
            remove(path)


def _step(name: str) -> int:
    return int(name.removeprefix("step-"))


def _best(paths: Iterable[Path]) -> set[str]:
    losses: dict[str, float] = {}
    for path in paths:
        try:
            loss = Index.read(path).state.get("heldout_loss")
        except (CheckpointError, NewerFormatError):
            continue
        if loss is not None and math.isfinite(loss):
            losses[path.name] = loss
    return {min(losses, key=lambda name: (losses[name], name))} if losses else set()


def remove(path: Path) -> None:
    """Hide a path by one rename, then delete it."""
    if path.exists() and not path.name.startswith(HIDDEN):
        path = path.rename(path.with_name(f"{HIDDEN}old-{path.name}"))
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def size_of(path: Path) -> int:
    """Return the bytes of the files of a directory."""
    return sum(file.stat().st_size for file in path.iterdir())
