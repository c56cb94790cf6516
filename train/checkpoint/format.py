"""The checkpoint on disk: an index and parts, free of world size and ZeRO stage.

`part-RRRRR.safetensors` holds 1-D tensors named `<key>/<parameter>`, the slices that rank R owned: `weight` is the
fp32 master (a frozen parameter in its own type), other keys are optimizer states. `checkpoint.json` says which slice of
which parameter lies in which part, so that any reader finds any range without torch.distributed or DeepSpeed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pipeline.files import file_hash, replacing
from train.errors import CheckpointError

__all__ = [
    "FORMAT",
    "INDEX",
    "CheckpointReader",
    "FileRecord",
    "Index",
    "ParameterRecord",
    "check_files",
    "part_name",
    "tiling_problem",
]

FORMAT: Final = 1
INDEX: Final = "checkpoint.json"
_CHUNK: Final = 4 * 2**20


@dataclass(frozen=True)
class FileRecord:
    """Size and xxh3-128 (hex) of a part."""

    bytes: int
    xxh3_128: str


@dataclass(frozen=True)
class ParameterRecord:
    """The place of a parameter: `slices` are (part, start, count) over its flattened elements."""

    shape: list[int]
    group: str
    keys: list[str]
    slices: list[tuple[int, int, int]]


@dataclass(frozen=True)
class Index:
    """The content of checkpoint.json."""

    state: dict[str, Any]
    """counters and identity of the run: see train.checkpoint.state.TrainState"""
    scalars: dict[str, dict[str, float]]
    """optimizer group → state → number"""
    parameters: dict[str, ParameterRecord]
    buffers: list[str]
    """persistent buffers, stored whole in part 0 as `buffer/<name>`"""
    files: dict[str, FileRecord]
    format: int = field(default=FORMAT)

    def write(self, directory: Path) -> None:
        """Write checkpoint.json, or replace it as a whole, and force it to the disk."""
        with replacing(directory / INDEX) as temporary:
            temporary.write_text(json.dumps(asdict(self), separators=(",", ":")) + "\n", encoding="utf-8")

    @staticmethod
    def read(directory: Path) -> Index:
        """Read checkpoint.json.

        Raises:
            CheckpointError: it is missing, is not JSON, or was written by a newer version.
        """
        path = directory / INDEX
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            if fields["format"] != FORMAT:
                raise CheckpointError(f"{path}: format {fields['format']}, this version reads format {FORMAT}")
            records = {
                name: ParameterRecord(r["shape"], r["group"], r["keys"], [(p, s, c) for p, s, c in r["slices"]])
                for name, r in fields["parameters"].items()
            }
            files = {name: FileRecord(r["bytes"], r["xxh3_128"]) for name, r in fields["files"].items()}
            return Index(fields["state"], fields["scalars"], records, fields["buffers"], files)
        except FileNotFoundError as error:
            raise CheckpointError(f"{path}: missing, so the checkpoint was never committed") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: cannot be read as a checkpoint's index ({error!r})") from error


def part_name(rank: int) -> str:
    """Return the file name of a rank's part."""
    return f"part-{rank:05d}.safetensors"


def tiling_problem(name: str, record: ParameterRecord) -> str:
    """Return the gap, overlap or wrong end that keeps slices from tiling a parameter; empty if they tile it."""
    position = 0
    for part, start, count in sorted(record.slices, key=lambda piece: piece[1]):
        if start != position:
            what = "a gap" if start > position else "an overlap"
            return f"{name}: {what} at element {min(start, position)}, slice of part {part} starts at {start}"
        position += count
    size = prod(record.shape)
    return "" if position == size else f"{name}: slices end at element {position} of {size}"


def check_files(directory: Path, files: Mapping[str, FileRecord], *, hashes: bool, only: Iterable[str]) -> None:
    """Compare parts with their records.

    Raises:
        CheckpointError: a part is missing, has another size or another hash; the message names it.
    """
    for name in only:
        path, record = directory / name, files[name]
        try:
            size = path.stat().st_size
            digest = file_hash(path) if hashes and size == record.bytes else record.xxh3_128
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror or error}") from error
        if size != record.bytes:
            raise CheckpointError(f"{path}: expected {record.bytes} bytes, got {size}: truncated or replaced")
        if digest != record.xxh3_128:
            raise CheckpointError(f"{path}: expected xxh3-128 {record.xxh3_128}, got {digest}: the file is corrupted")


class CheckpointReader:
    """Reader of ranges from a checkpoint's parts; each part is opened once."""

    def __init__(self, directory: Path, index: Index) -> None:
        self.directory = directory
        self.index = index
        self._open: dict[int, Any] = {}
        self._slices: dict[tuple[int, str], Any] = {}

    def read(self, key: str, name: str, start: int, count: int) -> Tensor:
        """Return elements `[start, start + count)` of a flattened parameter's `key`, 1-D.

        Raises:
            CheckpointError: the parameter or the key is not there, or a part contradicts the index.
        """
        record = self.index.parameters.get(name)
        if record is None or key not in record.keys:
            raise CheckpointError(f"{self.directory}: holds no {key} of parameter {name}; is this another model's?")
        pieces: list[Tensor] = []
        for part, begin, length in sorted(record.slices, key=lambda piece: piece[1]):
            first, last = max(start, begin), min(start + count, begin + length)
            if first < last:
                pieces.append(self._tensor(part, f"{key}/{name}")[first - begin : last - begin])
        found = torch.cat(pieces) if pieces else torch.empty(0)
        if found.numel() != count:
            raise CheckpointError(f"{self.directory}: {key} of {name} lacks elements of {start}..{start + count}")
        return found

    def whole(self, key: str, name: str) -> Tensor:
        """Return a whole parameter in its shape."""
        shape: Sequence[int] = self.index.parameters[name].shape
        return self.read(key, name, 0, prod(shape)).view(list(shape))

    def buffer(self, name: str) -> Tensor:
        """Return a persistent buffer."""
        return self._part(0).get_tensor(f"buffer/{name}")  # type: ignore[no-any-return]

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
