"""Read tensors from safetensors files, and check their values."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from clozeline.errors import WeightsError
from clozeline.model.layers.quantization import holds_integers

_FLOAT_TYPES: Final = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file; WeightsError: it is missing or damaged."""
    try:
        return load_file(path)
    except (OSError, ValueError, SafetensorError) as error:
        raise WeightsError(
            f"{path}: not a valid safetensors file, or a truncated one: {error}; download it again"
        ) from error


def check_values(tensors: Mapping[str, Tensor], where: str) -> None:
    """Raise WeightsError if a tensor is not in floating point, or not finite."""
    for name, tensor in tensors.items():
        if tensor.dtype not in _FLOAT_TYPES:
            raise WeightsError(
                f"{where}: {name}: expected floating-point values, got {tensor.dtype}; is it "
                "quantized?"
            )
        tensor = tensor.scale if holds_integers(tensor) else tensor  # type: ignore[attr-defined]
        # minimum and maximum need no memory; only if one is not finite, count the wrong entries
        if tensor.numel() and not all(bound.float().isfinite() for bound in tensor.aminmax()):
            wrong = int((~torch.isfinite(tensor.float())).sum())
            values = f"{wrong} of {tensor.numel()} values"
            raise WeightsError(
                f"{where}: {name}: {values} are nan or infinite in fp32; download it again"
            )


def read_metadata(files: Iterable[Path]) -> dict[str, str]:
    """Return the metadata of safetensors files in one mapping."""
    metadata: dict[str, str] = {}
    for path in (path for path in files if path.suffix == ".safetensors"):
        with safe_open(path, framework="pt") as file:
            metadata |= file.metadata() or {}
    return metadata
