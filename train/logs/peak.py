"""Arithmetic that a rank could do at most, to which its throughput is compared."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch

__all__ = ["Peak", "peak_of"]

_DATA_SHEETS: Final = {
    "B200": 2.25e15,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
}
"""Operations a second in bf16 without sparsity, by a part of the device's name; longer parts come first."""


class Peak(NamedTuple):
    """Operations a second of one rank, and where the number comes from."""

    operations: float
    origin: str


def peak_of(device: torch.device, precision: str, measured: float) -> Peak:
    """Return the peak of a device: its maker's number for bf16 where it is known, else what was measured.

    Args:
        device: on which a rank trains.
        precision: fp32 or bf16.
        measured: operations a second of a matrix product there.
    """
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    if precision == "bf16":
        for part, operations in _DATA_SHEETS.items():
            if part in name:
                return Peak(operations, f"data sheet of {name}")
    return Peak(measured, "measured matrix product")
