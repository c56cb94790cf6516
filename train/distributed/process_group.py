"""Join and leave the process group, and exchange small values between ranks.

Works under `python`, `torchrun`, `deepspeed` and `srun`, see `launcher`.
"""

import ctypes
import gc
import os
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

import torch
import torch.distributed as dist

from clozeline.errors import (
    ClozelineError,
    ConfigurationError,
    NoPeersError,
    RemoteRankError,
)
from clozeline.repair import explain
from clozeline.train.distributed.launcher import describe_environment, free_port
from clozeline.train.distributed.watchdog import RECORDER

Result = TypeVar("Result")

_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
"""Parameters of glibc's mallopt(3)."""
_MAX_MALLOPT_BYTES: Final = 2**31 - 1
"""Maximum number of bytes that mallopt takes, which is an int."""
_MALLOC_VARIABLES: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@dataclass(frozen=True)
class World:
    """The ranks of a run.

    Small values and barriers use `group`, a gloo group on the host with a timeout.
    """

    rank: int
    size: int
    local_rank: int
    device: torch.device
    group: Any

    def sum_over_ranks(self, values: Sequence[float]) -> list[float]:
        """Sum values over ranks in float64, by one collective."""
        if self.size == 1:
            return [float(value) for value in values]
        tensor = torch.tensor(list(values), dtype=torch.float64)
        dist.all_reduce(tensor, group=self.group)
        return [float(value) for value in tensor.tolist()]

    def gather(self, value: Result) -> list[Result]:
        """Return the value of each rank, in rank order, on every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self.group)
        return values

    def barrier(self) -> None:
        """Wait for all ranks, until the timeout."""
        dist.barrier(group=self.group)

    def raise_everywhere(self, error: Exception | None) -> None:
        """Raise the error of the lowest failed rank on every rank; others get a RemoteRankError."""
        problems = self.gather(None if error is None else explain(error))
        first = next((rank for rank, problem in enumerate(problems) if problem is not None), None)
        if first is None:
            return
        if first == self.rank and isinstance(error, ClozelineError):
            raise error
        code, message = problems[first] or (1, "")
        raise RemoteRankError(
            message if first == self.rank else f"rank {first}: {message}", code
        ) from error

    @contextmanager
    def sharing_errors(self) -> Iterator[None]:
        """Run a block that may fail on some ranks; if it does, all ranks raise the first error."""
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


def device_of(environment: Mapping[str, str]) -> torch.device:
    """Return the device on which a rank of this environment trains.

    `srun --gpus-per-task=1` shows every rank one GPU, which is then number 0 for all of them.
    """
    possible = ["cpu", *["cuda"] * torch.cuda.is_available()]
    chosen = environment.get("DS_ACCELERATOR", possible[-1])
    if chosen not in possible:
        raise ConfigurationError(
            f"DS_ACCELERATOR={chosen} in the environment: this torch can use "
            f"{' or '.join(possible)} here: choose it, or unset the variable"
        )
    if chosen == "cpu":
        return torch.device(chosen)
    return torch.device("cuda", int(environment["LOCAL_RANK"]) % max(1, torch.cuda.device_count()))


def load_deepspeed() -> Any:
    """Import deepspeed without its warnings, on which no caller can act, and return it.

    It is imported late: the accelerator must be chosen first.
    """
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")

    # DeepSpeed imports its Muon in every engine, which loads torch's compiler and takes seconds
    for module, name in (("muon_optimizer", "MuonWithAuxAdam"), ("original_muon", "muon_update")):
        stand_in = ModuleType(f"deepspeed.runtime.zero.muon.{module}")
        setattr(stand_in, name, type(name, (), {}))
        sys.modules.setdefault(stand_in.__name__, stand_in)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import deepspeed
        from deepspeed.ops import __compatible_ops__ as compatible_ops
        from deepspeed.runtime import bf16_optimizer
        from deepspeed.utils import logger

    logger.setLevel("ERROR")
    # only for inference, and would be compiled at the first start
    compatible_ops["deepspeed_shm_comm"] = False
    bf16_optimizer.see_memory_usage = lambda *_, **__: None
    return deepspeed


def join_process_group(timeout_s: float = 600.0, *, deterministic: bool = True) -> World:
    """Join the process group, once per rank; `deterministic`: see `set_determinism`."""
    # choose the device
    rank, size = describe_environment(os.environ)
    local_rank = int(os.environ["LOCAL_RANK"])
    device = device_of(os.environ)
    if device.index is not None:
        for name in {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"} & os.environ.keys():
            os.environ[name] = str(device.index)  # DeepSpeed reads the device here
        os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")
        os.environ.setdefault(RECORDER, str(Path(tempfile.gettempdir()) / "nccl_trace_rank_"))

    # meet the other ranks; DeepSpeed calls collectives that torch 2.13 deprecates
    deepspeed = load_deepspeed()
    warnings.filterwarnings("ignore", r"`torch\.distributed\.\w+` is deprecated", FutureWarning)
    timeout = timedelta(seconds=timeout_s)
    _bound_later_groups(timeout)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            deepspeed.init_distributed(verbose=False, timeout=timeout)
    except RuntimeError as error:
        address = os.environ["MASTER_ADDR"]
        port = os.environ["MASTER_PORT"]
        if "EADDRINUSE" in str(error) or "address already in use" in str(error).lower():
            raise ConfigurationError(
                f"port {port} of {address} is in use, probably by another run: choose another one, "
                f"for example `deepspeed --master_port {free_port()} ...`"
            ) from error
        if not isinstance(error, dist.DistError):
            raise
        if "invalid usage" in str(error):
            raise ConfigurationError(
                f"NCCL refuses two ranks on one GPU; rank {rank} of {size} sees "
                f"{torch.cuda.device_count()} of them: start one rank for each GPU "
                "(NCCL_DEBUG=WARN shows any other reason)"
            ) from error
        raise NoPeersError(
            f"rank {rank} of {size} on {socket.gethostname()} did not meet the others at "
            f"{address}:{port} in {timeout_s:g} s ({str(error).splitlines()[0]}); start all ranks, "
            "and see that every machine reaches this address"
        ) from error

    # a group for small values
    set_determinism(deterministic)
    group = dist.new_group(backend="gloo", timeout=timeout)
    if device.type == "cpu":
        keep_freed_memory()
    return World(rank, size, local_rank, device, group)


def _bound_later_groups(timeout: timedelta) -> None:
    """Set the timeout of groups that are created without one, such as DeepSpeed's.

    DeepSpeed reduces gradients in its group. By default torch gives such groups 30 minutes over
    gloo and 10 over NCCL, whatever the timeout of the first group is.
    """
    from torch.distributed import distributed_c10d

    distributed_c10d.default_pg_timeout = timeout
    distributed_c10d.default_pg_nccl_timeout = timeout  # type: ignore[attr-defined]


def set_determinism(deterministic: bool) -> None:
    """Ask torch for the same bits from the same inputs, or for its fastest kernels."""
    if not deterministic:
        torch.set_deterministic_debug_mode("default")
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # with "warn", attention's backward pass stays nondeterministic
    torch.set_deterministic_debug_mode("error")
    # nothing reads uninitialized memory; filling DeepSpeed's buckets takes 80 times a small step
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def keep_freed_memory() -> bool:
    """Keep freed blocks of up to 2 GiB in the process; return whether the C library does so.

    By default glibc returns large blocks to the system: above 128 kB to 32 MB, depending on earlier
    blocks. Each of their pages then costs a fault in every step: up to a third of the CPU time. The
    peak of the memory changes by a few percent.
    """
    if any(name in os.environ for name in _MALLOC_VARIABLES):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # macOS and musl have none
    return mallopt is not None and bool(
        mallopt(_MMAP_THRESHOLD, _MAX_MALLOPT_BYTES)
        and mallopt(_TRIM_THRESHOLD, _MAX_MALLOPT_BYTES)
    )


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Collect garbage once, and exclude the remaining objects from collections inside the block.

    A full collection visits every object of every imported module, while the GPU waits. If the
    caller has frozen objects already, only those stay excluded.
    """
    gc.collect()
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
