"""Read the weights of a run in one process, without DeepSpeed and for any ZeRO stage."""

import os
import sys
from pathlib import Path

from torch import Tensor

from clozeline.errors import CheckpointError, ConfigurationError, message_text
from clozeline.train.checkpoint.find_checkpoint import check_share, find_newest
from clozeline.train.checkpoint.format import WEIGHT, Index, step_of, steps_in
from clozeline.train.checkpoint.part_reader import CheckpointReader
from clozeline.train.optim.optimizers import AVERAGE


def find_checkpoint(run: Path, step: int | None = None) -> tuple[Path, Index]:
    """Return the verified checkpoint of a step and its index; None: the checkpoint to resume from.

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
    # checkpoint of a step
    if step not in steps:
        known = ", ".join(map(str, steps[-8:]))
        raise ConfigurationError(f"{checkpoints}: holds no checkpoint of step {step}, only of {known}")
    path = checkpoints / f"step-{step:08d}"
    try:
        return path, check_share(path, hashes=True)
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
