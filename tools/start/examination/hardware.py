"""Examine processor, memory, disk and GPUs, for what will be slow."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil

from clozeline.tools.start.examination.finding import Finding

WRITE_SPEED: Final = "write speed"
_GIB: Final = 2**30
_CGROUP: Final = Path("/sys/fs/cgroup")
_LEAST_MEMORY: Final = 4 * _GIB
_LEAST_FREE: Final = 10 * _GIB
_SLOW_DISK: Final = 50e6
"""Bytes a second below which writing shards takes longer than making them."""
_PROBE: Final = 1 << 26
_BLOCK: Final = 1 << 20


def examine_hardware(output: Path, torch: Any | None) -> Iterator[Finding]:
    """Yield findings about cores, memory, the disk of the output folder and the GPUs."""
    yield examine_cores()
    yield examine_memory()
    yield from examine_disk(output)
    if torch is not None:
        yield from examine_gpus(torch)


def examine_cores() -> Finding:
    """Return the cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores == 1:
        return Finding("cores", "slow", "1", "the pipeline does one unit at a time; loading competes with training")
    return Finding("cores", "ok", f"{cores}", f"use them all in the pipeline with executor.tasks={cores}")


def examine_memory() -> Finding:
    """Return the memory of the machine, or of the container if it has less."""
    total, free = psutil.virtual_memory().total, psutil.virtual_memory().available
    limits = [_read(_CGROUP / name) for name in ("memory.max", "memory/memory.limit_in_bytes")]
    limit = min([total, *(int(text) for text in limits if text.isdigit())])
    inside = " (limit of the container)" if limit < total else ""
    found = f"{limit / _GIB:.1f} GiB{inside}, {min(free, limit) / _GIB:.1f} GiB free"
    if limit < _LEAST_MEMORY:
        return Finding("memory", "slow", found, "use small units: plan.unit_bytes=16777216, and executor.workers=1")
    return Finding("memory", "ok", found)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def examine_disk(output: Path) -> Iterator[Finding]:
    """Yield free space and write speed of a folder, or of its nearest parent that exists."""
    folder = output.absolute()
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    low = "a run of the pipeline needs about four times the size of its text" if free < _LEAST_FREE else ""
    yield Finding("disk", "note" if low else "ok", f"{free / _GIB:.1f} GiB free in {folder}", low)
    try:
        speed = measure_write_speed(folder)
    except OSError as error:
        advice = "name a folder that you may write to: clozeline doctor output=DIR"
        yield Finding(WRITE_SPEED, "missing", f"{folder}: {error.strerror}", advice)
        return
    slow = "write shards and checkpoints to a local disk, then copy them" if speed < _SLOW_DISK else ""
    yield Finding(WRITE_SPEED, "slow" if slow else "ok", f"{speed / 1e6:,.0f} MB/s in {folder}", slow)


def measure_write_speed(folder: Path, size: int = _PROBE) -> float:
    """Return bytes a second of a sequential write that reaches the disk; the file is removed."""
    block = os.urandom(_BLOCK)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".clozeline-doctor-") as file:
        begun = time.perf_counter()
        for _ in range(size // _BLOCK):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        return size / (time.perf_counter() - begun)


def examine_gpus(torch: Any) -> Iterator[Finding]:
    """Yield the accelerators that this torch can use, and NCCL."""
    if not torch.cuda.is_available():
        if Path("/proc/driver/nvidia/version").exists():
            reason = "this torch is built for the CPU" if torch.version.cuda is None else "torch cannot use the driver"
            advice = f"{reason}: install the build of torch for your CUDA version, see README, Several GPUs"
            yield Finding("GPU", "slow", "an NVIDIA driver, but no GPU in torch", advice)
            return
        advice = "training runs on the CPU: minutes for a model of a few million parameters, weeks for BERT"
        yield Finding("GPU", "slow", "none", advice)
        return
    for number in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(number)
        bf16 = device.major >= 8
        found = f"{device.name}, {device.total_memory / _GIB:.0f} GiB, compute capability {device.major}.{device.minor}"
        advice = "" if bf16 else "no bf16: train with precision=fp32, which is slower and needs more memory"
        yield Finding(f"GPU {number}", "ok" if bf16 else "slow", found, advice)
    if os.environ.get("DS_ACCELERATOR") == "cpu":
        yield Finding("DS_ACCELERATOR", "slow", "cpu", "DeepSpeed will not use the GPU: unset DS_ACCELERATOR")
    yield _examine_nccl(torch)


def _examine_nccl(torch: Any) -> Finding:
    several = torch.cuda.device_count() > 1
    try:
        return Finding("NCCL", "ok", ".".join(map(str, torch.cuda.nccl.version())))
    except (AttributeError, RuntimeError) as error:
        advice = "several GPUs need a torch with NCCL" if several else "one GPU needs none"
        return Finding("NCCL", "missing" if several else "ok", f"none ({error})", advice)
