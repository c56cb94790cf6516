"""Read the environment that a launcher sets: rank, world size, and rendezvous address.

Imports no torch.
"""

import os
import re
import socket
from collections.abc import MutableMapping
from typing import Final

from clozeline.errors import ConfigurationError

_FIRST_PORT: Final = 29500
"""First rendezvous port under Slurm; the job id is added, because two jobs can share a node."""


def describe_environment(environment: MutableMapping[str, str] = os.environ) -> tuple[int, int]:
    """Return (rank, world size) of this process, and fill in torch's variables.

    No process group needs to exist.
    """
    try:
        fill_environment(environment)
        rank, size, _, _ = (
            int(environment[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")
        )
    except ValueError as error:
        raise ConfigurationError(
            f"environment: RANK, WORLD_SIZE, LOCAL_RANK and MASTER_PORT must be integers ({error})"
        ) from error

    if not 0 <= rank < size:
        raise ConfigurationError(
            f"environment: RANK must lie in 0..{size - 1} for WORLD_SIZE={size}, got {rank}"
        )

    return rank, size


def fill_environment(environment: MutableMapping[str, str]) -> None:
    """Fill in torch's rendezvous variables, from Slurm or for a single process.

    Under `srun`, the tasks of the step are ranks that meet on its first node, at a port derived
    from the job id. Any other process without RANK and WORLD_SIZE, also an `sbatch` script without
    `srun`, is a single process. It uses a free port and ignores MASTER_ADDR and MASTER_PORT.
    """
    # tasks of a Slurm step
    tasks = environment.get("SLURM_STEP_NUM_TASKS", "1")
    if (
        "RANK" not in environment
        and int(tasks) > 1
        and environment.get("WORLD_SIZE", tasks) == tasks
    ):
        environment.update(RANK=environment["SLURM_PROCID"], WORLD_SIZE=tasks)
        environment["LOCAL_RANK"] = environment.get("SLURM_LOCALID", "0")
        # such as `node[003-006,9],login`
        nodes = environment.get("SLURM_STEP_NODELIST", "127.0.0.1")
        environment.setdefault("MASTER_ADDR", re.sub(r"\[(\d+)[^]]*\]", r"\1", nodes).split(",")[0])
        environment.setdefault(
            "MASTER_PORT", str(_FIRST_PORT + int(environment.get("SLURM_JOB_ID", "0")) % 1000)
        )

    # a single process
    if "RANK" not in environment and "WORLD_SIZE" not in environment:
        environment.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    if environment.get("WORLD_SIZE") == "1":
        environment.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        # torchrun's store listens at another port
        environment.pop("TORCHELASTIC_USE_AGENT_STORE", None)

    # several ranks: all variables must be set
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    if missing := [name for name in names if name not in environment]:
        known = ", ".join(f"{name}={environment[name]}" for name in names if name in environment)
        raise ConfigurationError(
            f"environment: {known} without {', '.join(missing)}; start several ranks by deepspeed, "
            "torchrun or srun, which set all of them, or unset RANK and WORLD_SIZE for a single "
            "process"
        )

    environment.setdefault("LOCAL_RANK", "0")


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
