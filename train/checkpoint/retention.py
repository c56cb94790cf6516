"""Remove old checkpoints: a rename first, then the files, in case of a kill."""

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from clozeline.files import is_temporary
from clozeline.train.checkpoint.stored_checkpoint import (
    INDEX,
    find_best,
    readable_states,
    step_of,
    steps_in,
)
from clozeline.train.configuration.checkpoint import CheckpointConfig

HIDDEN: Final = ".tmp-"
"""Prefix of directories that are being written or removed."""


def prune(
    directory: Path, latest: str, keep_last: int, config: CheckpointConfig, refused: Collection[str]
) -> None:
    """Remove all checkpoints except the last k, every n-th, the best, milestones and `latest`.

    Later steps stay until the run replaces them; damaged checkpoints, which are `refused`, are not
    counted, and neither are those after steps that were skipped. A checkpoint whose index cannot be
    read at this moment stays.
    """
    paths = [path for path in steps_in(directory) if step_of(path.name) <= step_of(latest)]
    undamaged = [path for path in paths if path.name not in refused]
    # keep the latest, every n-th, and what cannot be read now: it may be the best, or a milestone
    kept_names = {latest}
    if every := config.keep_every:
        kept_names |= {path.name for path in undamaged if step_of(path.name) % every == 0}
    readable = readable_states(paths, lambda name, _: kept_names.add(name))
    states = {path: readable[path] for path in undamaged if path in readable}
    # keep the last ones; those of a divergence are not counted
    sound = [path.name for path in undamaged if not states.get(path, {}).get("skipped_in_a_row")]
    kept_names.update(sound[-keep_last:])
    # keep the best of the held-out set and of early stopping, and milestones
    if config.keep_best and (best_kept := find_best(states)):
        kept_names.add(best_kept[1].name)
    if best := states.get(directory / latest, {}).get("best"):
        kept_names.add(f"step-{best['step']:08d}")
    for limit in config.milestones:  # the first checkpoint at or after a number of tokens
        kept_names.update(
            [path.name for path, state in states.items() if state.get("tokens", 0) >= limit][:1]
        )
    # remove all other checkpoints, also damaged ones
    for path in paths:
        if path.name not in kept_names:
            remove(path)


def remove(path: Path) -> None:
    """Hide a checkpoint by one rename, then delete it; a folder with files of others stays."""
    if path.is_dir() and not all(map(_is_ours, path.iterdir())):
        return
    if path.exists() and not path.name.startswith(HIDDEN):
        path = path.rename(path.with_name(f"{HIDDEN}old-{path.name}"))
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_ours(path: Path) -> bool:
    return path.name == INDEX or path.match("part-*.safetensors") or is_temporary(path)


def size_of(path: Path) -> int:
    """Return the bytes of the files of a directory."""
    return sum(file.stat().st_size for file in path.iterdir())
