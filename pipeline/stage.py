"""Stages: passes over units, published whole, recorded one by one, skipped when they are done.

A unit is complete when its record exists, its key (configuration, plan, everything upstream, algorithm versions) is
the present one, and every output it lists is there with its size. Anything else is done again, with the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import psutil
import xxhash

from pipeline.errors import ClozelineError, IntegrityError, StorageError
from pipeline.recipe import Recipe

__all__ = ["Counts", "Output", "Pass", "Record", "Stage", "UnitRunner", "add_counts", "file_hash", "publish",
           "publish_json", "records", "sweep"]  # fmt: skip

Counts = dict[str, Any]
"""Numbers by name, nested by reason or kind; merged by addition, so order cannot matter."""

TEMPORARY: Final = "tmp"
"""Folder of intermediates below a stage's folder, removed when the stage is complete."""


_LEASE_S: Final = 3600
_HOST: Final = xxhash.xxh32_hexdigest(platform.node().encode())


def add_counts(total: Counts, more: Mapping[str, Any]) -> Counts:
    """Add `more` into `total`, nested dictionaries included; returns `total`."""
    for name, value in more.items():
        if isinstance(value, Mapping):
            add_counts(total.setdefault(name, {}), value)
        else:
            total[name] = total.get(name, 0) + value
    return total


def file_hash(path: Path) -> str:
    """XXH3-128 (hex) of a file."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def publish(path: Path) -> Iterator[Path]:
    """Write a file whole or not at all: yields a temporary path beside it, then fsync and rename.

    Raises:
        StorageError: the folder cannot be written, or the disk is full; the temporary file is removed.
    """
    temporary = path.with_name(f"{path.name}.{_HOST}-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # not there any more, or its folder is none: the first error is the one to tell
            temporary.unlink()


def sweep(folder: Path) -> None:
    """Remove temporary files that killed processes left: of this host's dead processes, or older than an hour."""
    for path in folder.rglob("*.tmp"):
        host, _, rest = path.name.split(".")[-2].partition("-")
        process = rest.split("-")[0]
        if host == _HOST and process.isdigit():
            dead = not psutil.pid_exists(int(process))
        else:
            dead = time.time() - _changed(path) > _LEASE_S
        if dead:
            path.unlink(missing_ok=True)


def _changed(path: Path) -> float:
    """When a file was last written; now, where somebody has just removed it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish_json(path: Path, data: Any) -> None:
    """Publish plain data as JSON with sorted keys."""
    with publish(path) as temporary:
        temporary.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")


@dataclass
class Output:
    """What a unit writes through: every file is published whole and listed in the unit's record."""

    folder: Path
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    @contextmanager
    def file(self, relative: str) -> Iterator[Path]:
        """A temporary path to write to; published as `relative` below the stage's folder on success."""
        with publish(self.folder / relative) as temporary:
            yield temporary
            self.files[relative] = {"bytes": temporary.stat().st_size, "xxh3_128": file_hash(temporary)}


class Pass(ABC):
    """One pass of a stage: the same work on units 0 .. units - 1, in any order, in any process. Picklable."""

    name: str
    units: int

    @abstractmethod
    def run(self, unit: int, output: Output) -> Counts:
        """Do one unit: write files through `output`, return sums."""


class Stage(ABC):
    """A verb of the pipeline: passes that run one after another."""

    name: ClassVar[str]

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.folder = recipe.folder(self.name)

    @abstractmethod
    def version(self) -> int:
        """Sum of the `VERSION`s of the algorithms that decide bytes."""

    @abstractmethod
    def passes(self) -> Sequence[Pass]:
        """The passes, in order."""

    def check(self, counts: Counts) -> None:  # noqa: B027 (a stage without equations has none to check)
        """Raise IntegrityError where an accounting equation fails; called per unit and on the sum."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of a finished unit."""

    pass_name: str
    unit: int
    key: str
    status: str
    counts: Counts
    outputs: dict[str, dict[str, Any]]
    error: str = ""
    exit_code: int = 0
    trace: str = ""

    @staticmethod
    def path(folder: Path, pass_name: str, unit: int) -> Path:
        """Where the record of a unit stands."""
        prefix = "" if pass_name == "main" else f"{pass_name}-"
        return folder / "records" / f"{prefix}{unit:06d}.json"

    @staticmethod
    def read(path: Path) -> Record | None:
        """A record from its file, or None where there is none or it cannot be read."""
        try:
            return Record(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    @staticmethod
    def load(folder: Path, pass_name: str, unit: int) -> Record | None:
        """The record of a unit, or None."""
        return Record.read(Record.path(folder, pass_name, unit))

    def save(self, folder: Path) -> None:
        """Publish it; from now on the unit is done."""
        data = {name: getattr(self, name) for name in Record.__slots__}
        publish_json(self.path(folder, self.pass_name, self.unit), data)

    def complete(self, folder: Path, *, temporary: bool, verify: bool = False) -> bool:
        """Whether every output it lists is there with its size (and hash, with `verify`).

        `temporary=False` leaves intermediates out: they are removed once nothing needs them.
        """
        if self.status != "ok":
            return False
        for relative, facts in self.outputs.items():
            if relative.startswith(f"{TEMPORARY}/") and not temporary:
                continue
            path = folder / relative
            if not path.is_file() or path.stat().st_size != facts["bytes"]:
                return False
            if verify and file_hash(path) != facts["xxh3_128"]:
                return False
        return True


def records(folder: Path, pass_name: str) -> list[Record]:
    """Records of the finished units of a pass, by unit."""
    prefix = "" if pass_name == "main" else f"{pass_name}-"
    found = []
    for path in sorted((folder / "records").glob(f"{prefix}[0-9]*.json")):
        record = Record.load(folder, pass_name, int(path.stem.removeprefix(prefix)))
        if record is not None and record.pass_name == pass_name and record.status == "ok":
            found.append(record)
    return found


def outputs_digest(found: Sequence[Record]) -> str:
    """SHA-256 over the published outputs of records: what later stages depend on."""
    digest = hashlib.sha256()
    for record in found:
        for relative, facts in sorted(record.outputs.items()):
            if not relative.startswith(f"{TEMPORARY}/"):
                digest.update(f"{relative} {facts['bytes']} {facts['xxh3_128']}\n".encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class UnitRunner:
    """Runs one unit of a pass in any process: work, check, publish, record. Picklable."""

    stage: Stage
    work: Pass
    key: str

    def __call__(self, unit: int) -> None:
        """Run a unit; an error of its own becomes a record with status `failed`."""
        folder = self.stage.folder
        marker = self._marker(unit)
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
        output = Output(folder)
        try:
            counts = self.work.run(unit, output)
            self.stage.check(counts)
        except Exception as error:
            known = isinstance(error, ClozelineError)
            self._fail(unit, str(error) if known else repr(error), error.exit_code if known else 1, trace=not known)  # type: ignore[attr-defined]
        else:
            Record(self.work.name, unit, self.key, "ok", counts, output.files).save(folder)
        marker.unlink(missing_ok=True)

    def _fail(self, unit: int, message: str, exit_code: int, *, trace: bool = False) -> None:
        text = traceback.format_exc() if trace else ""
        record = Record(self.work.name, unit, self.key, "failed", {}, {}, message, exit_code, text)
        record.save(self.stage.folder)

    def _marker(self, unit: int) -> Path:
        return self.stage.folder / TEMPORARY / "running" / f"{self.work.name}-{unit:06d}"

    def load(self, unit: int) -> Record | None:
        """The unit's record if it belongs to this configuration."""
        record = Record.load(self.stage.folder, self.work.name, unit)
        return record if record is not None and record.key == self.key else None

    def done(self, unit: int) -> bool:
        """Whether the unit has been dealt with, well or not: the driver removes the records of what must be made."""
        return Record.path(self.stage.folder, self.work.name, unit).exists()

    def started(self, unit: int) -> bool:
        """Whether a process began the unit and never came to its end."""
        return self._marker(unit).exists()

    def give_up(self, unit: int, reason: str) -> None:
        """Record the unit as failed."""
        self._fail(unit, reason, 69)


def require_equal(stage: str, left: str, left_value: int, right: str, right_value: int) -> None:
    """Raise IntegrityError unless an accounting equation holds."""
    if left_value != right_value:
        raise IntegrityError(
            f"{stage}: counts do not add up: {left} = {left_value}, but {right} = {right_value}; "
            "a document was lost or counted twice: please report it with the input that caused it"
        )
