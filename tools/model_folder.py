"""Write the files of a folder with a model."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from clozeline.errors import StorageError
from clozeline.files import publish

TOKENIZER: Final = "tokenizer"
"""Folder of the tokenizer in a folder with a model."""


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, str] | None = None
) -> None:
    """Publish tensors as safetensors, each with its own storage, and metadata with them."""
    with publish(path) as temporary:
        try:
            contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
            save_file(contiguous, temporary, dict(facts or {"format": "pt"}))
            _sort_metadata(temporary)
        except SafetensorError as error:
            raise StorageError(
                f"cannot write {path}: {error}; free some space, or choose another folder"
            ) from error
        temporary.chmod(0o644)  # safetensors makes it readable only by its owner


def _sort_metadata(path: Path) -> None:
    """Sort the metadata of a safetensors file in place.

    The library writes them in another order each time.
    """
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        content = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        file.seek(8)
        file.write(content.ljust(size))
