"""Checkpoint format: an index and parts, independent of world size and ZeRO stage.

`part-RRRRR.safetensors` holds 1-D tensors named `<key>/<parameter>`, the slices that rank R owned: `weight` is the
fp32 master (a frozen parameter in its own type), other keys are optimizer states. `checkpoint.json` says which slice of
which parameter is in which part, so that any range can be read without torch.distributed or DeepSpeed. States whose
shape differs from their parameter's are the same on every rank and stored in part 0.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, field
from math import prod
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from clozeline.errors import CheckpointError
from clozeline.files import replacing
from clozeline.pipeline.shards.manifest import canonical_sha256, first_problem
from clozeline.sealed_json import refuse_newer

FORMAT: Final = 1
"""Version of checkpoint.json. New keys raise it, so that a version that does not know them refuses."""
INDEX: Final = "checkpoint.json"
FROZEN: Final = "frozen"
"""Group name of frozen parameters."""
WEIGHT: Final = "weight"
"""Key of the master weights; other keys are optimizer states."""

_STRICT: Final = ConfigDict(extra="forbid", strict=True)
_Count: TypeAlias = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, config=_STRICT)
class FileRecord:
    """Size and xxh3-128 (hex) of a part."""

    bytes: _Count
    xxh3_128: str


@dataclass(frozen=True, config=_STRICT)
class ParameterRecord:
    """Storage of a parameter: `slices` are (part, start, count) over its flattened elements."""

    shape: list[_Count]
    group: str
    keys: list[str]
    slices: list[tuple[_Count, _Count, _Count]]


@dataclass(frozen=True, config=_STRICT)
class Index:
    """Content of checkpoint.json, which also contains its own checksum."""

    state: dict[str, Any]
    """counters and identity of the run: see train.checkpoint.state.TrainState"""
    scalars: dict[str, dict[str, float]]
    """optimizer group → state → number"""
    parameters: dict[str, ParameterRecord]
    buffers: list[str]
    """persistent buffers, stored in part 0 as `buffer/<name>`"""
    files: dict[str, FileRecord]
    format: int = FORMAT
    whole: dict[str, list[_Count]] = field(default_factory=dict)
    """unsliced optimizer states in part 0: `KEY/PARAMETER` → shape"""
    hooks: list[str] = field(default_factory=list)
    """keys that belong to hooks, not to the optimizer"""

    def write(self, directory: Path) -> None:
        """Write checkpoint.json atomically, and sync it to disk."""
        with replacing(directory / INDEX) as temporary:
            temporary.write_bytes(_with_checksum(asdict(self)))

    @staticmethod
    def read(directory: Path) -> Index:
        """Read and check checkpoint.json.

        Raises:
            CheckpointError: it is missing, malformed or changed.
            NewerFormatError: it was written by a newer version.
        """
        path = directory / INDEX
        try:
            raw = path.read_bytes()
            plain = json.loads(raw)
            # verify the checksum, then the version, then the schema
            plain.pop("checksum", None)
            if raw != _with_checksum(plain):
                raise CheckpointError(f"{path}: changed after it was written, its checksum differs")
            refuse_newer(path, plain, FORMAT)
            index: Index = TypeAdapter(Index).validate_json(json.dumps(plain))
        except FileNotFoundError as error:
            raise CheckpointError(f"{path}: missing, so the checkpoint was never committed") from error
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"{path}: cannot be read as a checkpoint's index ({first_problem(error)})") from error
        if index.format != FORMAT:
            raise CheckpointError(f"{path}: format {index.format}, this version reads format {FORMAT}")
        return index


def _with_checksum(plain: dict[str, Any]) -> bytes:
    return (json.dumps({**plain, "checksum": canonical_sha256(plain)}, separators=(",", ":")) + "\n").encode()


def steps_in(directory: Path) -> list[Path]:
    """Return the checkpoint folders of a directory by step, valid or not."""
    folders = (path for path in directory.glob("step-*") if path.is_dir())
    return sorted(
        (path for path in folders if re.fullmatch(r"step-[0-9]{8,}", path.name)), key=lambda path: step_of(path.name)
    )


def step_of(name: str) -> int:
    """Return the step in the name of a checkpoint's folder."""
    return int(name.removeprefix("step-"))


def part_name(rank: int) -> str:
    """Return the file name of a rank's part."""
    return f"part-{rank:05d}.safetensors"


def tiling_problem(name: str, record: ParameterRecord) -> str:
    """Return the gap, overlap or wrong end of a parameter's slices; "" if they tile it."""
    position = 0
    for part, start, count in sorted(record.slices, key=lambda piece: piece[1]):
        if start != position:
            what = "a gap" if start > position else "an overlap"
            return f"{name}: {what} at element {min(start, position)}, slice of part {part} starts at {start}"
        position += count
    size = prod(record.shape)
    return "" if position == size else f"{name}: slices end at element {position} of {size}"
