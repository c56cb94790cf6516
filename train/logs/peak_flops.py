"""Arithmetic that a rank could do at most, to which its throughput is compared."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch

_DATA_SHEETS: Final = {
    312e12: (
        "A100-SXM4-40GB",
        "A100-SXM4-80GB",
        "A100-PCIE-40GB",
        "A100 80GB PCIe",
        "A800-SXM4-80GB",
        "A800 80GB PCIe",
    ),
    989e12: ("H100 80GB HBM3", "H200", "H800", "GH200 480GB"),
    835e12: ("H100 NVL", "H200 NVL"),
    756e12: ("H100 PCIe", "H800 PCIe"),
    148e12: ("H20",),
    2.25e15: ("B200",),
    2.5e15: ("GB200",),
    362e12: ("L40S",),
    181e12: ("L40",),
    121e12: ("L4",),
    165e12: ("A30", "GeForce RTX 4090"),
    150e12: ("A40",),
    125e12: ("A10",),
    155e12: ("RTX A6000",),
    71e12: ("GeForce RTX 3090",),
    209e12: ("GeForce RTX 5090",),
}
"""Operations a second in bf16 without sparsity, summed in fp32, and the names of devices as drivers give them.

A part of a name would do for others too: an L40 is no L4, and a slice of a device (MIG) is not the whole.
"""


class Peak(NamedTuple):
    """Operations a second of one rank, and where the number comes from."""

    operations: float
    origin: str

    def line(self) -> str:
        """Return what a start prints."""
        return f"peak       {self.operations:.3g} operations a second on each rank: {self.origin}"


def peak_of(device: torch.device, precision: str, measured: float) -> Peak:
    """Return the peak of a device: its maker's number for bf16 where it is known, else what was measured.

    Args:
        device: on which a rank trains.
        precision: fp32 or bf16.
        measured: operations a second of a matrix product there, in this precision.
    """
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "a processor"
    if precision == "bf16":
        for operations, names in _DATA_SHEETS.items():
            if name.removeprefix("NVIDIA ") in names:
                return Peak(operations, f"data sheet of {name}")
    return Peak(
        measured, f"measured, a matrix product in {precision}; no data sheet of {name} in {precision} is known here"
    )
