from __future__ import annotations

import pytest
import torch

from train.logs.peak import Peak, peak_of

CUDA = torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("name", "operations"),
    [("NVIDIA H200", 989e12), ("NVIDIA H100 PCIe", 756e12), ("NVIDIA H100 80GB HBM3", 989e12),
     ("NVIDIA A100-SXM4-80GB", 312e12), ("NVIDIA L40S", 362e12)],
)  # fmt: skip
def test_known_devices_have_their_makers_number(monkeypatch: pytest.MonkeyPatch, name: str, operations: float) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert peak_of(CUDA, "bf16", 1.0) == Peak(operations, f"data sheet of {name}")
    assert peak_of(CUDA, "fp32", 5.0) == Peak(5.0, "measured matrix product")


def test_others_are_compared_with_a_measured_product(monkeypatch: pytest.MonkeyPatch) -> None:
    assert peak_of(torch.device("cpu"), "bf16", 2.0) == Peak(2.0, "measured matrix product")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some Device")
    assert peak_of(CUDA, "bf16", 3.0) == Peak(3.0, "measured matrix product")
