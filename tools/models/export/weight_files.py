"""Write weights in files of limited size, with an index of the file that holds each tensor."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from clozeline.files import publish_json
from clozeline.tools.model_folder import write_tensors


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
