from __future__ import annotations

import pytest
import torch

from clozeline.train.logs.cost_estimate import Peak, peak_of

CUDA = torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("name", "operations"),
    [("NVIDIA H200", 989e12), ("NVIDIA H200 NVL", 835e12), ("NVIDIA H100 PCIe", 756e12), ("NVIDIA H100 NVL", 835e12),
     ("NVIDIA H100 80GB HBM3", 989e12), ("NVIDIA GH200 480GB", 989e12), ("NVIDIA H800", 989e12), ("NVIDIA H20", 148e12),
     ("NVIDIA A100-SXM4-80GB", 312e12), ("A100-SXM4-40GB", 312e12), ("NVIDIA A800 80GB PCIe", 312e12),
     ("NVIDIA L40S", 362e12), ("NVIDIA L40", 181e12), ("NVIDIA L4", 121e12), ("NVIDIA B200", 2.25e15),
     ("NVIDIA RTX A6000", 155e12)],
)  # fmt: skip
def test_known_devices_have_their_makers_number(monkeypatch: pytest.MonkeyPatch, name: str, operations: float) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert peak_of(CUDA, "bf16", 1.0) == Peak(operations, f"data sheet of {name}")
    assert peak_of(CUDA, "fp32", 5.0).operations == 5.0


@pytest.mark.parametrize(
    "name",
    ["Some Device", "NVIDIA L400", "NVIDIA RTX A100", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA H200 MIG 1g.18gb",
     "GRID A100D-40C", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D", ""],
)  # fmt: skip
def test_others_are_compared_with_a_measured_product(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A slice of a device and other devices with a known part in their name too; a line says what was measured."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    found = peak_of(CUDA, "bf16", 3.0)
    assert found.operations == 3.0
    assert f"measured, a matrix product in bf16; no data sheet of {name} in bf16" in found.line()
    cpu = peak_of(torch.device("cpu"), "bf16", 2.0)
    assert cpu.line().startswith("peak       2 operations a second on each rank: measured, a matrix product in bf16")
