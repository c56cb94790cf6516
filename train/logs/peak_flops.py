"""Peak FLOPs per second of a device, for model FLOPs utilization."""

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
"""Dense bf16 FLOPs per second with fp32 accumulation → exact device names; an L40 is not an L4."""


class Peak(NamedTuple):
    """FLOPs per second of one rank, and the origin of the number."""

    operations: float
    origin: str

    def line(self) -> str:
        """Return what a start prints."""
        return f"peak       {self.operations:.3g} operations a second on each rank: {self.origin}"


def peak_of(device: torch.device, precision: str, measured: float) -> Peak:
    """Return the peak of a device: from its data sheet in bf16 if known, else `measured` by a matrix product."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "a processor"
    if precision == "bf16":
        for operations, names in _DATA_SHEETS.items():
            if name.removeprefix("NVIDIA ") in names:
                return Peak(operations, f"data sheet of {name}")
    unknown = f"no data sheet of {name} in {precision} is known here"
    return Peak(measured, f"measured, a matrix product in {precision}; {unknown}")
