"""Verify and read a checkpoint on disk, at any world size and ZeRO stage.

`part-RRRRR.safetensors` holds 1-D tensors named `<key>/<parameter>`, the slices that rank R owned:
`weight` is the fp32 master (a frozen parameter in its type), other keys are optimizer states.
`checkpoint.json` says which slice of which parameter is in which part: any range can be read
without torch.distributed or DeepSpeed. States whose shape differs from their parameter's are the
same on every rank and stored in part 0.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass
from safetensors import SafetensorError, safe_open

from clozeline.checksummed_json import refuse_newer
from clozeline.configuration.config import Natural, Positive
from clozeline.errors import (
    CheckpointError,
    ConfigurationError,
    NewerFormatError,
    RemoteRankError,
    write_note,
)
from clozeline.files import file_hash, read_bytes, replacing
from clozeline.model.configuration.capabilities import AVERAGE
from clozeline.pipeline.shards.manifest import canonical_sha256, first_problem
from clozeline.train.configuration.checkpoint import StepChoice

if TYPE_CHECKING:  # both import torch, which a command that lists checkpoints does not need
    from torch import Tensor

    from clozeline.train.checkpoint.state import TrainState

FORMAT: Final = 1
"""Version of checkpoint.json. New keys raise it: older versions of Clozeline then refuse it."""
INDEX: Final = "checkpoint.json"
FROZEN: Final = "frozen"
"""Group name of frozen parameters."""
WEIGHT: Final = "weight"
"""Key of the master weights; other keys are optimizer states."""
LATEST: Final = "latest"
"""File that names the checkpoint to resume from."""
_PARTS: Final = ("family.", "heads.", "adapters.")
"""Parts of the model; other parameters belong to what a hook has put around it."""

_STRICT: Final = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True, config=_STRICT)
class FileRecord:
    """Size and xxh3-128 (hex) of a part."""

    bytes: Natural
    xxh3_128: str


@dataclass(frozen=True, config=_STRICT)
class ParameterRecord:
    """Storage of a parameter: `slices` are (part, start, count) over its flattened elements."""

    shape: list[Natural]
    group: str
    keys: list[str]
    slices: list[tuple[Natural, Natural, Natural]]


@dataclass(frozen=True, config=_STRICT)
class Index:
    """Content of checkpoint.json, which also contains its checksum."""

    state: dict[str, Any]
    """counters and identity of the run: see train.checkpoint.state.TrainState"""
    scalars: dict[str, dict[str, float]]
    """optimizer group → state → number"""
    parameters: dict[str, ParameterRecord]
    buffers: list[str]
    """persistent buffers, stored in part 0 as `buffer/<name>`"""
    files: dict[str, FileRecord]
    format: Positive = FORMAT
    whole: dict[str, list[Natural]] = dataclasses.field(default_factory=dict)
    """unsliced optimizer states in part 0: `KEY/PARAMETER` → shape"""
    hooks: list[str] = dataclasses.field(default_factory=list)
    """keys that belong to hooks, not to the optimizer"""

    def write(self, directory: Path) -> None:
        """Write checkpoint.json atomically, and sync it to disk."""
        with replacing(directory / INDEX) as temporary:
            temporary.write_bytes(_encode_with_checksum(dataclasses.asdict(self)))

    @staticmethod
    def read(directory: Path) -> Index:
        """Read and check checkpoint.json.

        Raises:
            CheckpointError: it is missing, malformed or changed.
            NewerFormatError: it was written by a newer version.
        """
        path = directory / INDEX

        try:
            raw = read_bytes(path)
            data = json.loads(raw)
            # verify the checksum, then the version, then the schema
            data.pop("checksum", None)
            if raw != _encode_with_checksum(data):
                raise CheckpointError(
                    f"{path}: its checksum differs: it was changed after it was written"
                )
            refuse_newer(path, data, FORMAT)
            index: Index = TypeAdapter(Index).validate_json(json.dumps(data))
        except FileNotFoundError as error:
            raise CheckpointError(
                f"{path} is missing: the checkpoint was never committed"
            ) from error
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            raise CheckpointError(
                f"{path}: cannot be read as a checkpoint's index ({first_problem(error)})"
            ) from error

        return index


def _encode_with_checksum(data: dict[str, object]) -> bytes:
    checksummed = {**data, "checksum": canonical_sha256(data)}
    return f"{json.dumps(checksummed, separators=(',', ':'))}\n".encode()


def steps_in(directory: Path) -> list[Path]:
    """Return the checkpoint folders of a directory by step, valid or not."""
    folders = (path for path in directory.glob("step-*") if path.is_dir())
    return sorted(
        (path for path in folders if re.fullmatch(r"step-[0-9]{8,}", path.name)),
        key=lambda path: step_of(path.name),
    )


def step_of(name: str) -> int:
    """Return the step in the name of a checkpoint's folder."""
    return int(name.removeprefix("step-"))


def part_name(rank: int) -> str:
    """Return the file name of a rank's part."""
    return f"part-{rank:05d}.safetensors"


def tiling_problem(name: str, record: ParameterRecord) -> str:
    """Return what is wrong with the slices of a parameter; "" if they tile it."""
    position = 0
    for part, start, count in sorted(record.slices, key=lambda piece: piece[1]):
        if start != position:
            fault = "a gap" if start > position else "an overlap"
            return (
                f"{name}: {fault} at element {min(start, position)}, the slice of part {part} "
                f"starts at {start}"
            )
        position += count
    size = math.prod(record.shape)
    return "" if position == size else f"{name}: slices end at element {position} of {size}"


@dataclasses.dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint whose index, state and files were verified."""

    folder: Path
    index: Index
    state: TrainState

    @staticmethod
    def open(folder: Path, *, rank: int = 0, size: int = 1) -> StoredCheckpoint:
        """Verify a checkpoint: its index, its state, and every `size`-th part from `rank` on.

        Raises:
            CheckpointError: a file is missing, damaged, or of another step than the folder's name.
            NewerFormatError: a newer version wrote it.
        """
        from clozeline.train.checkpoint.state import TrainState

        index = Index.read(folder)
        state = TrainState.read(index.state)
        if folder.name != (name := f"step-{state.step:08d}"):
            raise CheckpointError(f"{folder} was renamed: it contains {name}")
        for part in range(rank, len(index.files), size):
            _check_part(folder / part_name(part), index.files[part_name(part)])
        return StoredCheckpoint(folder, index, state)

    @staticmethod
    def find(run: Path, step: StepChoice = None) -> StoredCheckpoint:
        """Open the checkpoint of a step.

        Args:
            run: run directory.
            step: step of the checkpoint; best: the one with the lowest held-out loss; None: the
                checkpoint to resume from.

        Raises:
            ConfigurationError: it is not a run directory, or it has no such checkpoint.
            CheckpointError: the checkpoint is damaged.
        """
        # list the checkpoints
        checkpoints = run / "checkpoints"
        folders = {step_of(path.name): path for path in steps_in(checkpoints)}
        if not folders:
            raise ConfigurationError(
                f"{run} is not a run directory with checkpoints; train first, or wait"
            )

        # choose one of them
        if step is None:
            newest = find_newest(checkpoints, _note_refused)
            assert newest is not None, "there are checkpoints: one is valid, or that was an error"
            return newest

        if step == "best":
            best = find_best(readable_states(folders.values(), _note_refused))
            if best is None:
                raise ConfigurationError(
                    f"{checkpoints}: step=best: no checkpoint has a held-out loss: train with "
                    "evaluate.every and checkpoint.keep_best=true, or name a step"
                )
            step = step_of(best[1].name)

        if step not in folders:
            known = ", ".join(map(str, [*folders][-8:]))
            raise ConfigurationError(
                f"{checkpoints}: there is no checkpoint of step {step}, only of {known}"
            )

        # verify it
        try:
            return StoredCheckpoint.open(folders[step])
        except CheckpointError as error:
            raise CheckpointError(
                f"{error}; copy the checkpoint back, or choose another step"
            ) from error

    @property
    def digest(self) -> str:
        """xxh3-128 (hex) of checkpoint.json, which holds the hashes of all parts."""
        return file_hash(self.folder / INDEX)

    def read_weights(self) -> dict[str, Tensor]:
        """Return the fp32 master weights by name, or their averages if there are any."""
        reader = CheckpointReader(self.folder, self.index)
        weights = {}
        for name, record in self.index.parameters.items():
            if name.startswith(_PARTS):
                weights[name] = reader.parameter(
                    AVERAGE if AVERAGE in record.keys else WEIGHT, name
                )
        return weights


def find_newest(directory: Path, refuse: Callable[[str, str], None]) -> StoredCheckpoint | None:
    """Return the checkpoint to resume from, without other ranks; see `choose_valid`."""
    names, ignored = candidates(directory)
    if ignored:
        refuse(LATEST, ignored)
    return choose_valid(directory, names, StoredCheckpoint.open, refuse)


def candidates(directory: Path) -> tuple[list[str], str]:
    """Return the names of all checkpoints, preferred first, and why `latest` is ignored or ""."""
    names = [path.name for path in reversed(steps_in(directory))]
    try:
        latest = read_bytes(directory / LATEST).decode().strip()
        ignored = "" if latest in names else f"it names {latest!r:.60}, which is not there"
    except (OSError, ValueError) as error:
        latest = ""
        ignored = f"it cannot be read ({error})"
    return sorted(names, key=lambda name: name != latest), ignored if names else ""


def choose_valid(
    directory: Path,
    names: Sequence[str],
    check: Callable[[Path], StoredCheckpoint],
    refuse: Callable[[str, str], None],
) -> StoredCheckpoint | None:
    """Return the first valid checkpoint of `names`; None if there is no name.

    `refuse` gets name and reason of each skipped checkpoint, once a valid one is found.

    Raises:
        CheckpointError: there are checkpoints, but none is valid: a run never overwrites them.
        NewerFormatError: a newer version wrote the preferred checkpoint.
    """
    reasons: dict[str, str] = {}

    for name in names:
        try:
            checkpoint = check(directory / name)
        except (CheckpointError, RemoteRankError) as error:
            if error.exit_code == NewerFormatError.exit_code:  # on another rank
                raise
            reasons[name] = str(error)
            continue
        for other, reason in reasons.items():
            refuse(other, reason)
        return checkpoint

    # no checkpoint is valid
    if names:
        listed = "\n  ".join(reasons.values())
        raise CheckpointError(
            f"{directory} holds {len(names)} checkpoints, none of them is valid "
            f"({', '.join(names[:4])}); nothing was changed: copy a valid one back, or start from "
            f"step 0 in another output\n  {listed}"
        )

    return None


def find_best(
    states: dict[Path, dict[str, Any]], sets: Mapping[str, str] | None = None
) -> tuple[float, Path] | None:
    """Return the lowest finite held-out loss of checkpoints and the first with it, or None.

    Losses on other held-out sets than `sets` do not count; None: those of the last checkpoint.
    """
    sets = sets or next(reversed(states.values()), {}).get("heldout_sets")
    losses = [
        (state.get("heldout_loss"), path)
        for path, state in states.items()
        if state.get("heldout_sets", sets) == sets
    ]
    return min(
        ((loss, path) for loss, path in losses if loss is not None and math.isfinite(loss)),
        default=None,
    )


def readable_states(
    paths: Iterable[Path], refuse: Callable[[str, str], object] = lambda name, reason: None
) -> dict[Path, dict[str, Any]]:
    """Return the state in each index that can be read; the parts are not read.

    `refuse` gets name and reason of the others, each of which may be the best.
    """
    states = {}
    for path in paths:
        try:
            states[path] = _state_in(path, (path / INDEX).stat().st_mtime_ns)
        except (CheckpointError, NewerFormatError, OSError) as error:
            refuse(path.name, str(error))
    return states


@lru_cache(maxsize=64)
def _state_in(path: Path, written: int) -> dict[str, object]:
    """Return the state in an index, cached until it is written again.

    Reading an index of 512 ranks takes seconds.
    """
    return Index.read(path).state


def _note_refused(name: str, reason: str) -> None:
    write_note(f"{name} is not used: {reason}")


def _check_part(path: Path, record: FileRecord) -> None:
    """Compare the size of a part, and then its hash, with its record."""
    try:
        size = path.stat().st_size
        digest = file_hash(path) if size == record.bytes else ""
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror or error}") from error

    if size != record.bytes:
        raise CheckpointError(
            f"{path}: expected {record.bytes} bytes, got {size}: truncated or replaced"
        )

    if digest != record.xxh3_128:
        raise CheckpointError(
            f"{path}: expected xxh3-128 {record.xxh3_128}, got {digest}: the file is corrupted"
        )


class CheckpointReader:
    """Reads ranges from a checkpoint's parts; each part is opened once."""

    def __init__(self, directory: Path, index: Index) -> None:
        self.directory = directory
        self.index = index
        self._open: dict[int, object] = {}
        self._slices: dict[tuple[int, str], object] = {}

    def read(self, key: str, name: str, start: int, count: int) -> Tensor:
        """Return elements `[start, start + count)` of a flattened parameter's `key`, 1-D."""
        import torch

        record = self.index.parameters.get(name)
        if record is None or key not in record.keys:
            raise CheckpointError(
                f"{self.directory} has no {key} of parameter {name}; is it of another model?"
            )

        # join the parts of the slices that are in the range
        pieces: list[Tensor] = []

        for part, begin, length in sorted(record.slices, key=lambda piece: piece[1]):
            first = max(start, begin)
            last = min(start + count, begin + length)
            if first < last:
                pieces.append(self._tensor(part, f"{key}/{name}")[first - begin : last - begin])

        values = torch.cat(pieces) if pieces else torch.empty(0)
        if values.numel() != count:
            raise CheckpointError(
                f"{self.directory}: {key} of {name} lacks elements of {start}..{start + count}"
            )

        return values

    def parameter(self, key: str, name: str) -> Tensor:
        """Return a parameter in its shape."""
        shape: Sequence[int] = self.index.parameters[name].shape
        return self.read(key, name, 0, math.prod(shape)).view(list(shape))

    def states(self) -> dict[str, Tensor]:
        """Return the unsliced optimizer states: `KEY/PARAMETER` → tensor."""
        return {key: self._part(0).get_tensor(key) for key in self.index.whole}

    def buffer(self, name: str, shape: Sequence[int] | None = None) -> Tensor:
        """Return a persistent buffer, of this shape if one is given."""
        values: Tensor = self._part(0).get_tensor(f"buffer/{name}")
        if shape is not None and list(values.shape) != list(shape):
            raise CheckpointError(
                f"{self.directory}: buffer {name} has shape {list(values.shape)}, not {list(shape)}"
            )
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
