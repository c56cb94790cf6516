"""Verify the parts of a checkpoint against its index, and read ranges from them."""

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from clozeline.errors import CheckpointError
from clozeline.files import file_hash
from clozeline.train.checkpoint.format import FileRecord, Index, part_name


def check_files(directory: Path, files: Mapping[str, FileRecord], *, only: Iterable[str]) -> None:
    """Compare parts with their records."""
    for name in only:
        path, record = directory / name, files[name]
        try:
            size = path.stat().st_size
            digest = file_hash(path) if size == record.bytes else ""
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror or error}") from error
        if size != record.bytes:
            raise CheckpointError(f"{path}: expected {record.bytes} bytes, got {size}: truncated or replaced")
        if digest != record.xxh3_128:
            raise CheckpointError(f"{path}: expected xxh3-128 {record.xxh3_128}, got {digest}: the file is corrupted")


class CheckpointReader:
    """Read ranges from a checkpoint's parts; each part is opened once."""

    def __init__(self, directory: Path, index: Index) -> None:
        self.directory = directory
        self.index = index
        self._open: dict[int, Any] = {}
        self._slices: dict[tuple[int, str], Any] = {}

    def read(self, key: str, name: str, start: int, count: int) -> Tensor:
        """Return elements `[start, start + count)` of a flattened parameter's `key`, 1-D."""
        record = self.index.parameters.get(name)
        if record is None or key not in record.keys:
            raise CheckpointError(f"{self.directory}: holds no {key} of parameter {name}; is this another model's?")
        pieces: list[Tensor] = []
        for part, begin, length in sorted(record.slices, key=lambda piece: piece[1]):
            first, last = max(start, begin), min(start + count, begin + length)
            if first < last:
                pieces.append(self._tensor(part, f"{key}/{name}")[first - begin : last - begin])
        values = torch.cat(pieces) if pieces else torch.empty(0)
        if values.numel() != count:
            raise CheckpointError(f"{self.directory}: {key} of {name} lacks elements of {start}..{start + count}")
        return values

    def parameter(self, key: str, name: str) -> Tensor:
        """Return a parameter in its shape."""
        shape: Sequence[int] = self.index.parameters[name].shape
        return self.read(key, name, 0, prod(shape)).view(list(shape))

    def states(self) -> dict[str, Tensor]:
        """Return the unsliced optimizer states: `KEY/PARAMETER` → tensor."""
        return {key: self._part(0).get_tensor(key) for key in self.index.whole}

    def buffer(self, name: str, shape: Sequence[int] | None = None) -> Tensor:
        """Return a persistent buffer, of this shape if one is given."""
        values: Tensor = self._part(0).get_tensor(f"buffer/{name}")
        if shape is not None and list(values.shape) != list(shape):
            raise CheckpointError(f"{self.directory}: buffer {name} has shape {list(values.shape)}, not {list(shape)}")
        return values

    def _tensor(self, part: int, key: str) -> Any:
        if (part, key) not in self._slices:
            try:
                self._slices[part, key] = self._part(part).get_slice(key)
            except SafetensorError as error:
                raise CheckpointError(f"{self.directory / part_name(part)}: {error}") from error
        return self._slices[part, key]

    def _part(self, part: int) -> Any:
        if part not in self._open:
            path = self.directory / part_name(part)
            try:
                self._open[part] = safe_open(path, framework="pt")
            except (OSError, SafetensorError) as error:
                raise CheckpointError(f"{path}: {error}") from error
        return self._open[part]
