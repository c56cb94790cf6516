"""Start and end of the process group, and the small values that ranks exchange.

The same entry point serves `python`, `torchrun`, `deepspeed` and `srun`: the five variables that torch reads are
taken from the environment, from Slurm, or set for one process.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import ModuleType
from typing import Any, Final, TypeVar

import torch
import torch.distributed as dist

from clozeline.errors import ClozelineError, ConfigurationError, PeerError, StorageError

T = TypeVar("T")

_FIRST_PORT: Final = 29500
"""Port of the rendezvous under Slurm; a job adds the last digits of its number, so that two jobs may share a node."""


@dataclass(frozen=True)
class World:
    """The ranks of a run, and their exchange of small values.

    `group` is a gloo group with a timeout: small values and barriers travel over it on the host, never over the
    communication of the accelerator.
    """

    rank: int
    size: int
    local_rank: int
    device: torch.device
    group: Any

    def total(self, values: Sequence[float]) -> list[float]:
        """Sum over ranks in float64, the same on every rank: one collective for all the values."""
        tensor = torch.tensor(list(values), dtype=torch.float64)
        dist.all_reduce(tensor, group=self.group)
        return [float(value) for value in tensor.tolist()]

    def gather(self, value: T) -> list[T]:
        """Return the value of each rank, in rank order, on every rank."""
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self.group)
        return values

    def barrier(self) -> None:
        """Wait for all ranks; fails after the start's timeout."""
        dist.barrier(group=self.group)

    def raise_everywhere(self, error: Exception | None) -> None:
        """Raise the lowest rank's error on every rank, so that no rank continues alone.

        Raises:
            ClozelineError: the error of this rank if it is the lowest one that failed, else a PeerError.
        """
        code = getattr(error, "exit_code", StorageError.exit_code)
        problems = self.gather(None if error is None else (str(error), code))
        first = next((rank for rank, problem in enumerate(problems) if problem is not None), None)
        if first is None:
            return
        if first == self.rank and isinstance(error, ClozelineError):
            raise error
        message, code = problems[first] or ("", 1)
        raise PeerError(message if first == self.rank else f"rank {first}: {message}", code) from error

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run a block that may fail on some ranks only: afterwards all succeeded, or all raise the first error."""
        problem: Exception | None = None
        try:
            yield
        except (ClozelineError, OSError) as error:
            problem = error
        self.raise_everywhere(problem)

    def shutdown(self) -> None:
        """Leave the process group."""
        if dist.is_initialized():
            dist.destroy_process_group()


def fill_environment(environment: MutableMapping[str, str]) -> None:
    """Fill in the five variables of torch's rendezvous, from Slurm or for a single process.

    Tasks of one `srun` are the ranks. Its first node and a port by the job's number are where they meet, unless the
    variables say something else. A script of `sbatch` outside `srun` is a single process, which gets a free port, so
    that two runs on one machine never collide.
    """
    if "RANK" not in environment and "SLURM_PROCID" in environment:
        if int(environment.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
            environment.setdefault("MASTER_ADDR", _first_host(environment.get("SLURM_STEP_NODELIST", "127.0.0.1")))
        if "MASTER_ADDR" in environment:
            environment["RANK"] = environment["SLURM_PROCID"]
            environment.setdefault("LOCAL_RANK", environment.get("SLURM_LOCALID", "0"))
            environment.setdefault("WORLD_SIZE", environment.get("SLURM_NTASKS", "1"))
            environment.setdefault("MASTER_PORT", str(_FIRST_PORT + int(environment.get("SLURM_JOB_ID", "0")) % 1000))
    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1")):
        environment.setdefault(name, value)
    if "MASTER_PORT" not in environment:
        environment["MASTER_PORT"] = str(_free_port())


def _first_host(nodes: str) -> str:
    """Return the first name of a list of nodes as Slurm writes it: node003 of `node[003-006,9],login`."""
    return re.sub(r"\[(\d+)[^]]*\]", r"\1", nodes).split(",")[0]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def describe_environment(environment: MutableMapping[str, str]) -> tuple[int, int]:
    """Return (rank, world size) of this process before any process group exists.

    Raises:
        ConfigurationError: a variable is not a number, or the rank does not lie in the world.
    """
    fill_environment(environment)
    try:
        rank, size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
    except ValueError as error:
        raise ConfigurationError(f"environment: RANK and WORLD_SIZE must be whole numbers ({error})") from error
    if not 0 <= rank < size:
        raise ConfigurationError(f"environment: RANK must lie in 0..{size - 1} for WORLD_SIZE={size}, got {rank}")
    return rank, size


def device_of(environment: Mapping[str, str]) -> torch.device:
    """Return the device on which a rank of this environment trains."""
    on_gpu = environment.get("DS_ACCELERATOR", "cuda") == "cuda" and torch.cuda.is_available()
    return torch.device("cuda", int(environment["LOCAL_RANK"])) if on_gpu else torch.device("cpu")


def load_deepspeed() -> Any:
    """Import deepspeed late and quietly, and return it.

    Late, because the accelerator must be chosen before; quietly, because no caller can act on its warnings. The
    shared-memory op serves only inference and would be compiled at the first start.
    """
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    _leave_out_muon()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import deepspeed
        from deepspeed.ops import __compatible_ops__ as compatible_ops
        from deepspeed.runtime import bf16_optimizer
        from deepspeed.utils import logger
    logger.setLevel("ERROR")
    compatible_ops["deepspeed_shm_comm"] = False
    bf16_optimizer.see_memory_usage = lambda *_, **__: None
    return deepspeed


def _leave_out_muon() -> None:
    """Stand in for an optimizer that every engine imports and no run uses.

    Its kernels are compiled on import, which loads torch's whole compiler: seconds of every start.
    """
    folder = "deepspeed.runtime.zero.muon"
    for module, name in (("muon_optimizer", "MuonWithAuxAdam"), ("original_muon", "muon_update")):
        stand_in = ModuleType(f"{folder}.{module}")
        setattr(stand_in, name, type(name, (), {}))
        sys.modules.setdefault(stand_in.__name__, stand_in)


def start(timeout_s: float = 600.0, *, deterministic: bool = True) -> World:
    """Join the process group; every rank calls this once.

    Args:
        timeout_s: of a collective.
        deterministic: ask torch for the same bits from the same inputs.

    Raises:
        ConfigurationError: the port of the rendezvous is taken.
    """
    rank, size = describe_environment(os.environ)
    deepspeed = load_deepspeed()
    # DeepSpeed calls collectives by names that torch 2.13 deprecates
    warnings.filterwarnings("ignore", r"`torch\.distributed\.\w+` is deprecated", FutureWarning)
    timeout = timedelta(seconds=timeout_s)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            deepspeed.init_distributed(verbose=False, timeout=timeout)
    except RuntimeError as error:
        if "EADDRINUSE" not in str(error) and "address already in use" not in str(error).lower():
            raise
        port = os.environ["MASTER_PORT"]
        raise ConfigurationError(
            f"port {port} of {os.environ['MASTER_ADDR']} is in use, probably by another run: choose another one, "
            f"for example `deepspeed --master_port {_free_port()} ...`"
        ) from error
    if deterministic:
        _make_deterministic()
    local_rank = int(os.environ["LOCAL_RANK"])
    device = device_of(os.environ)
    group = dist.new_group(backend="gloo", timeout=timeout)
    return World(rank=rank, size=size, local_rank=local_rank, device=device, group=group)


def _make_deterministic() -> None:
    """Ask torch for reproducible kernels.

    Filling fresh memory is part of that mode and would touch each of DeepSpeed's large buckets at every step, eighty
    times the cost of a small step: nothing here reads memory that it has not written.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_deterministic_debug_mode("warn" if torch.cuda.is_available() else "error")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
