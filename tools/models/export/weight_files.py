"""Write weights in files of limited size, with an index of the file that holds each tensor."""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from torch import Tensor

from clozeline.files import publish_json
from clozeline.tools.model_folder import write_tensors

_UNITS: Final = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def byte_count(text: str) -> int:
    """Parse a size such as `500MB`, as the `type` of an argument."""
    match = re.fullmatch(r"(\d+)([KMG]B)?", text)
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"expected a number of bytes such as 5GB, 200MB or 4096, got '{text}'")
    return int(match[1]) * _UNITS[match[2] or ""]


def divide(tensors: Mapping[str, Tensor], max_bytes: int) -> list[dict[str, Tensor]]:
    """Return the tensors in order, in parts of at most `max_bytes`; a larger tensor is a part of its own."""
    parts: list[dict[str, Tensor]] = [{}]
    for name, tensor in tensors.items():
        if parts[-1] and sum(part.nbytes for part in parts[-1].values()) + tensor.nbytes > max_bytes:
            parts.append({})
        parts[-1][name] = tensor
    return parts


def write_weights(folder: Path, tensors: Mapping[str, Tensor], max_bytes: int) -> None:
    """Publish `model.safetensors`, or numbered parts and finally `model.safetensors.index.json`."""
    parts = divide(tensors, max_bytes)
    if len(parts) == 1:
        write_tensors(folder / "model.safetensors", tensors)
        return
    files: dict[str, str] = {}
    for number, part in enumerate(parts, start=1):
        file = f"model-{number:05}-of-{len(parts):05}.safetensors"
        write_tensors(folder / file, part)
        files |= dict.fromkeys(part, file)
    size = sum(tensor.nbytes for tensor in tensors.values())
    publish_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": files})
