"""Findings about a machine, on made-up machines."""

from __future__ import annotations

import os
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clozeline.tools.start.examination import hardware

Usage = namedtuple("Usage", "total used free")
GIB = 2**30


def test_one_core_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3}, raising=False)
    assert (hardware.examine_cores().status, hardware.examine_cores().found) == ("slow", "1")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(12)), raising=False)
    assert hardware.examine_cores().advice.endswith("executor.tasks=12")


@pytest.mark.parametrize(
    ("limit", "status", "found"),
    [("max", "ok", "16.0 GiB, 8.0 GiB free"),
     (str(2 * GIB), "slow", "2.0 GiB (limit of the container), 2.0 GiB free")],
)  # fmt: skip
def test_memory_is_that_of_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, status: str, found: str
) -> None:
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    monkeypatch.setattr(hardware, "_CGROUP", tmp_path)
    monkeypatch.setattr(hardware.psutil, "virtual_memory", lambda: SimpleNamespace(total=16 * GIB, available=8 * GIB))
    finding = hardware.examine_memory()
    assert (finding.status, finding.found) == (status, found)


def test_a_full_or_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware.shutil, "disk_usage", lambda folder: Usage(0, 0, 5 * GIB))
    monkeypatch.setattr(hardware, "measure_write_speed", lambda folder: 20e6)
    free, speed = hardware.examine_disk(tmp_path / "not" / "there")
    assert (free.status, free.found) == ("note", f"5.0 GiB free in {tmp_path}")
    assert (speed.status, speed.found) == ("slow", f"20 MB/s in {tmp_path}")


def test_the_write_speed_is_bytes_over_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that counts the calls of fsync: 2 MiB in one second."""
    synced: list[int] = []
    written: list[int] = []

    def sync(file: int) -> None:
        synced.append(file)
        written.append(os.fstat(file).st_size)

    monkeypatch.setattr(hardware.os, "fsync", sync)
    monkeypatch.setattr(hardware.time, "perf_counter", lambda: float(len(synced)))
    assert hardware.measure_write_speed(tmp_path, 2 << 20) == 2 << 20
    assert written == [2 << 20]
    assert list(tmp_path.iterdir()) == []


def torch_with(gpus: list[tuple[str, int, int]], nccl: Any = (2, 27, 3), cuda: str | None = "13.0") -> Any:
    """Return a torch of a machine with GPUs by (name, GiB, major capability)."""
    devices = [SimpleNamespace(name=name, total_memory=size * GIB, major=major, minor=0) for name, size, major in gpus]

    def version() -> Any:
        if nccl is None:
            raise AttributeError("not built with NCCL")
        return nccl

    return SimpleNamespace(
        version=SimpleNamespace(cuda=cuda),
        cuda=SimpleNamespace(
            is_available=lambda: bool(gpus), device_count=lambda: len(gpus),
            get_device_properties=lambda number: devices[number], nccl=SimpleNamespace(version=version),
        ),
    )  # fmt: skip


def test_gpus_and_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DS_ACCELERATOR", raising=False)
    found = list(hardware.examine_gpus(torch_with([("H200", 139, 9), ("V100", 16, 7)])))
    assert [(finding.name, finding.status) for finding in found] == [("GPU 0", "ok"), ("GPU 1", "slow"), ("NCCL", "ok")]
    assert found[0].found == "H200, 139 GiB, compute capability 9.0"
    assert "no bf16" in found[1].advice
    assert found[2].found == "2.27.3"
    assert [*hardware.examine_gpus(torch_with([("A", 8, 8), ("B", 8, 8)], nccl=None))][-1].status == "missing"
    assert [*hardware.examine_gpus(torch_with([("A", 8, 8)], nccl=None))][-1].status == "ok"
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    assert [*hardware.examine_gpus(torch_with([("A", 8, 8)]))][1].advice.endswith("unset DS_ACCELERATOR")


def test_without_a_gpu_training_is_slow() -> None:
    (found,) = hardware.examine_gpus(torch_with([], cuda=None))
    assert (found.name, found.status) == ("GPU", "slow")
