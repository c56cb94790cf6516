"""Find a valid checkpoint, report why others are skipped, and read its weights in one process, without DeepSpeed."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from torch import Tensor

from clozeline.errors import CheckpointError, ConfigurationError, NewerFormatError, PeerError, message_text
from clozeline.train.checkpoint.format import WEIGHT, Index, part_name, step_of, steps_in
from clozeline.train.checkpoint.part_reader import CheckpointReader, check_files
from clozeline.train.checkpoint.retention import find_best
from clozeline.train.checkpoint.state import read_state
from clozeline.train.configuration.checkpoint import StepChoice
from clozeline.train.optim.optimizers import AVERAGE

LATEST: Final = "latest"


def candidates(directory: Path) -> tuple[list[str], str]:
    """Return the names of all checkpoints, preferred first, and why `latest` is ignored, or ""."""
    names = [path.name for path in reversed(steps_in(directory))]
    try:
        latest = (directory / LATEST).read_bytes().decode().strip()
        ignored = "" if latest in names else f"it names {latest!r:.60}, which is not there"
    except (OSError, ValueError) as error:
        latest, ignored = "", f"it cannot be read ({error})"
    return sorted(names, key=lambda name: name != latest), ignored if names else ""


def choose(
    directory: Path, names: Sequence[str], check: Callable[[Path], Index], refuse: Callable[[str, str], None]
) -> tuple[Path, Index] | None:
    """Return the first valid checkpoint of `names`, preferred first; None if there is no checkpoint.

    `check` reads the index and checks the rest; `refuse` gets name and reason of each skipped checkpoint, once a valid
    one is found.

    Raises:
        CheckpointError: there are checkpoints, but none is valid: a run never overwrites them.
        NewerFormatError: a newer version wrote the preferred one.
    """
    # try them in order; report the skipped ones only if a valid one follows
    reasons: dict[str, str] = {}
    for name in names:
        try:
            index = check(directory / name)
        except (CheckpointError, PeerError) as error:
            if error.exit_code == NewerFormatError.exit_code:  # on another rank
                raise
            reasons[name] = str(error)
            continue
        for other, reason in reasons.items():
            refuse(other, reason)
        return directory / name, index
    if names:
        listed = "\n  ".join(reasons.values())
        raise CheckpointError(
            f"{directory}: holds {len(names)} checkpoints, none of them is valid ({', '.join(names[:4])}): "
            f"nothing was changed; copy a valid one back, or start from step 0 in another output\n  {listed}"
        )
    return None


def check_share(path: Path, *, rank: int = 0, size: int = 1) -> Index:
    """Check the index of a checkpoint, and every `size`-th part from `rank` on; return the index."""
    index = Index.read(path)
    if path.name != (name := f"step-{read_state(index).step:08d}"):
        raise CheckpointError(f"{path}: holds {name}, the folder was renamed")
    for part in range(rank, len(index.files), size):
        check_files(path, index.files, only=[part_name(part)])
    return index


def find_newest(directory: Path, refuse: Callable[[str, str], None]) -> tuple[Path, Index] | None:
    """Return the checkpoint to resume from, without other ranks; see `choose`."""
    names, ignored = candidates(directory)
    if ignored:
        refuse(LATEST, ignored)
    return choose(directory, names, check_share, refuse)


def find_checkpoint(run: Path, step: StepChoice = None) -> tuple[Path, Index]:
    """Return the verified checkpoint of a step and its index.

    Args:
        run: run directory.
        step: of the checkpoint; best: the one with the lowest held-out loss; None: the checkpoint to resume from.

    Raises:
        ConfigurationError: not a run directory, or without such a checkpoint.
        CheckpointError: the checkpoint is damaged.
    """
    checkpoints = run / "checkpoints"
    steps = [step_of(path.name) for path in steps_in(checkpoints)]
    if not steps:
        raise ConfigurationError(f"{run}: expected a run directory with checkpoints; train first, or wait")
    # newest valid checkpoint
    if step is None:

        def note(name: str, reason: str) -> None:
            if os.environ.get("RANK", "0") == "0":
                sys.stderr.write(message_text(f"note: {name} is passed over: {reason}\n"))

        checkpoint = find_newest(checkpoints, note)
        assert checkpoint is not None, "there are checkpoints: one is valid, or that was an error"
        return checkpoint
    # checkpoint with the lowest held-out loss, or of a step
    if step == "best":
        best = find_best(steps_in(checkpoints))
        if best is None:
            raise ConfigurationError(
                f"{checkpoints}: step=best: no checkpoint holds a held-out loss: set evaluate.every and "
                "checkpoint.keep_best=true before a training, or name a step"
            )
        step = step_of(best[1].name)
    if step not in steps:
        known = ", ".join(map(str, steps[-8:]))
        raise ConfigurationError(f"{checkpoints}: holds no checkpoint of step {step}, only of {known}")
    path = checkpoints / f"step-{step:08d}"
    try:
        return path, check_share(path)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; copy the checkpoint back, or choose another step") from error


def read_weights(directory: Path, index: Index) -> dict[str, Tensor]:
    """Return the fp32 master weights of a checkpoint by name, or their averages.

    Projections of distillation are left out: they belong to its losses.
    """
    reader = CheckpointReader(directory, index)
    kept = {name: record for name, record in index.parameters.items() if not name.startswith("distillation.")}
    keys = {name: AVERAGE if AVERAGE in record.keys else WEIGHT for name, record in kept.items()}
    return {name: reader.parameter(key, name) for name, key in keys.items()}
