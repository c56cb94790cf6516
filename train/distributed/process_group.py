"""Join and leave the process group, and exchange small values between ranks.

Works under `python`, `torchrun`, `deepspeed` and `srun`: torch's five variables come from the environment, from Slurm,
or are set for a single process.
"""

import os
import re
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

import psutil
import torch
import torch.distributed as dist

from clozeline.errors import ClozelineError, ConfigurationError, PeerError, StorageError
from clozeline.train.distributed.host_memory import keep_freed_memory
from clozeline.train.distributed.watchdog import RECORDER

T = TypeVar("T")

_FIRST_PORT: Final = 29500
"""First rendezvous port under Slurm; the job id is added, so that two jobs can share a node."""


@dataclass(frozen=True)
class World:
    """The ranks of a run. Small values and barriers use `group`, a gloo group on the host with a timeout."""

    rank: int
    size: int
    local_rank: int
    device: torch.device
    group: Any

    def total(self, values: Sequence[float]) -> list[float]:
        """Sum values over ranks in float64, by one collective."""
        if self.size == 1:
            return [float(value) for value in values]
        tensor = torch.tensor(list(values), dtype=torch.float64)
        dist.all_reduce(tensor, group=self.group)
        return [float(value) for value in tensor.tolist()]

    def gather(self, value: T) -> list[T]:
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
        """Raise the error of the lowest failed rank on every rank, as a PeerError on the others."""
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
        """Run a block that may fail on some ranks: afterwards all succeeded, or all raise the first error."""
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
    """Fill in torch's rendezvous variables, from Slurm or for a single process.

    Under `srun`, tasks are ranks that meet on the first node, at a port derived from the job id. Everything else, also
    an `sbatch` script without `srun`, is a single process with a free port.
    """
    if "RANK" not in environment and "SLURM_PROCID" in environment:
        if int(environment.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
            nodes = environment.get("SLURM_STEP_NODELIST", "127.0.0.1")  # such as `node[003-006,9],login`
            environment.setdefault("MASTER_ADDR", re.sub(r"\[(\d+)[^]]*\]", r"\1", nodes).split(",")[0])
        if "MASTER_ADDR" in environment:
            environment["RANK"] = environment["SLURM_PROCID"]
            environment.setdefault("LOCAL_RANK", environment.get("SLURM_LOCALID", "0"))
            environment.setdefault("WORLD_SIZE", environment.get("SLURM_NTASKS", "1"))
            environment.setdefault("MASTER_PORT", str(_FIRST_PORT + int(environment.get("SLURM_JOB_ID", "0")) % 1000))
    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1")):
        environment.setdefault(name, value)
    if "MASTER_PORT" not in environment:
        environment["MASTER_PORT"] = str(_free_port())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def describe_environment(environment: MutableMapping[str, str] = os.environ) -> tuple[int, int]:
    """Return (rank, world size) of this process before any process group exists."""
    fill_environment(environment)
    try:
        rank, size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
    except ValueError as error:
        raise ConfigurationError(f"environment: RANK and WORLD_SIZE must be integers ({error})") from error
    if not 0 <= rank < size:
        raise ConfigurationError(f"environment: RANK must lie in 0..{size - 1} for WORLD_SIZE={size}, got {rank}")
    return rank, size


def device_of(environment: Mapping[str, str]) -> torch.device:
    """Return the device on which a rank of this environment trains.

    `srun --gpus-per-task=1` shows every rank one GPU, which is then number 0 for all of them.
    """
    on_gpu = environment.get("DS_ACCELERATOR", "cuda") == "cuda" and torch.cuda.is_available()
    if not on_gpu:
        return torch.device("cpu")
    return torch.device("cuda", int(environment["LOCAL_RANK"]) % max(1, torch.cuda.device_count()))


def load_deepspeed() -> Any:
    """Import deepspeed late and quietly, and return it.

    Late, because the accelerator must be chosen before; quietly, because no caller can act on its warnings.
    """
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    # DeepSpeed imports its Muon in every engine; importing it loads torch's compiler, which takes seconds
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
    compatible_ops["deepspeed_shm_comm"] = False  # only for inference, and would be compiled at the first start
    bf16_optimizer.see_memory_usage = lambda *_, **__: None
    return deepspeed


def start(timeout_s: float = 600.0, *, deterministic: bool = True) -> World:
    """Join the process group, once per rank; `deterministic` is that of `set_determinism`."""
    rank, size = describe_environment(os.environ)
    local_rank, device = int(os.environ["LOCAL_RANK"]), device_of(os.environ)
    if device.index is not None:
        for name in {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"} & os.environ.keys():
            os.environ[name] = str(device.index)  # from which DeepSpeed takes the device
        os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")
        os.environ.setdefault(RECORDER, str(Path(tempfile.gettempdir()) / "nccl_trace_rank_"))
    deepspeed = load_deepspeed()
    # DeepSpeed calls collectives that torch 2.13 deprecates
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
    set_determinism(deterministic)
    group = dist.new_group(backend="gloo", timeout=timeout)
    if device.type == "cpu":
        keep_freed_memory()
    return World(rank, size, local_rank, device, group)


def describe_network(environment: Mapping[str, str] = os.environ) -> str:
    """Return how gloo exchanges small values between ranks: through the interface that has the host's address."""
    if named := environment.get("GLOO_SOCKET_IFNAME"):
        return f"gloo through {named} (GLOO_SOCKET_IFNAME)"
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError as error:
        return f"gloo, but the name of this host has no address ({error}): set GLOO_SOCKET_IFNAME"
    with_it = [name for name, all_of in psutil.net_if_addrs().items() if address in {one.address for one in all_of}]
    through = with_it[0] if with_it else "an interface that is not known"
    return f"gloo through {through}, which has the host's address {address}; GLOO_SOCKET_IFNAME chooses another one"


def set_determinism(deterministic: bool) -> None:
    """Ask torch for the same bits from the same inputs, or for its fastest kernels."""
    if not deterministic:
        torch.set_deterministic_debug_mode("default")
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_deterministic_debug_mode("warn" if torch.cuda.is_available() else "error")
    # nothing reads uninitialized memory; filling DeepSpeed's buckets would cost 80 times a small step
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
