"""Records of units: their counts and published files.

A unit is complete when three things hold: its record exists, the key of the record is the current
one (configuration, plan, everything upstream, algorithm versions), and every output that it lists
exists with its size. Any other unit is run again, and writes the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypedDict, TypeVar, cast

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.errors import IntegrityError
from clozeline.files import file_hash, parse_json, publish, publish_json


class Counts(TypedDict, total=False):
    """Counts by name, nested by reason or type. Each stage has a subclass with further names.

    A pass omits the counts that it does not make. Sums do not depend on the order of units.
    """

    documents_in: int
    """documents read by the stage"""
    documents_out: int
    """documents written by the stage"""


StageCounts = TypeVar("StageCounts", bound=Counts)
NestedCounts = TypeVar("NestedCounts", bound=Mapping[str, Any])

LOGS: Final = "logs"
"""Folder of the executors' logs, in a stage's folder."""
DOCUMENTS_FOLDER: Final = "documents/"
"""Folder of the documents, in a stage's folder."""
TEMPORARY: Final = "tmp"
"""Folder of intermediate files, in a stage's folder; removed when the stage is complete."""


def add_counts(total: NestedCounts, more: NestedCounts) -> NestedCounts:
    """Add `more` to `total`, also in nested mappings, and return `total`."""
    sums = cast(dict[str, Any], total)
    for name, value in more.items():
        if isinstance(value, Mapping):
            add_counts(sums.setdefault(name, {}), value)
        else:
            sums[name] = sums.get(name, 0) + value
    return total


@dataclass
class Output:
    """Files of one unit: each is published atomically and listed in the unit's record."""

    folder: Path
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    """hashes (hex) of the ranges of the run's inputs that the unit read, by name"""

    @contextmanager
    def file(self, relative: str) -> Iterator[Path]:
        """Yield a temporary path, and publish it on success.

        `relative` is the path of the file in the stage's folder.
        """
        with publish(self.folder / relative) as temporary:
            yield temporary
            self.files[relative] = {
                "bytes": temporary.stat().st_size,
                "xxh3_128": file_hash(temporary),
            }


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """Result of a unit that succeeded or failed."""

    pass_name: str
    unit: int
    key: str
    status: str
    counts: Counts
    outputs: dict[str, dict[str, Any]]
    error: str = ""
    exit_code: int = 0
    trace: str = ""
    inputs: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def path(folder: Path, pass_name: str, unit: int) -> Path:
        prefix = "" if pass_name == "main" else f"{pass_name}-"
        return folder / "records" / f"{prefix}{unit:06d}.json"

    @staticmethod
    def read(path: Path) -> UnitRecord | None:
        """Read a record; None if it is missing, damaged or belongs to another unit.

        Raises:
            NewerFormatError: a newer version wrote it.
        """
        try:
            record = UnitRecord(
                **verify_checksum(parse_json(path.read_text(encoding="utf-8")), path)
            )
        except (OSError, ValueError, TypeError, AttributeError):
            return None
        expected = UnitRecord.path(path.parents[1], record.pass_name, record.unit)
        return record if path == expected else None

    @staticmethod
    def load(folder: Path, pass_name: str, unit: int) -> UnitRecord | None:
        return UnitRecord.read(UnitRecord.path(folder, pass_name, unit))

    def save(self, folder: Path) -> None:
        """Publish the record, which marks the unit as done."""
        data = {name: getattr(self, name) for name in UnitRecord.__slots__}
        publish_json(self.path(folder, self.pass_name, self.unit), add_checksum(data))

    def bytes(self, prefix: str = "") -> int:
        """Return the total bytes of the outputs whose names begin with `prefix`.

        Intermediate files do not count.
        """
        return sum(
            output["bytes"]
            for name, output in self.outputs.items()
            if name.startswith(prefix) and not _is_intermediate(name)
        )

    def find_missing_output(self, folder: Path, *, temporary: bool, verify: bool = False) -> str:
        """Return the first missing or changed output of the unit, and why; "" if it is complete.

        An output has changed if its size differs or, with `verify`, its hash. Without `temporary`,
        intermediate files may be missing: they are removed once no pass needs them.
        """
        if self.status != "ok":
            path = self.path(folder, self.pass_name, self.unit)
            return f"{path} is the record of a failed unit"

        for relative, recorded in self.outputs.items():
            if _is_intermediate(relative) and not temporary:
                continue
            path = folder / relative
            try:
                size = path.stat().st_size
            except (FileNotFoundError, NotADirectoryError):
                return f"{path} is missing"
            if size != recorded["bytes"]:
                return f"{path} has {size} bytes, expected {recorded['bytes']}"
            if verify and file_hash(path) != recorded["xxh3_128"]:
                return f"{path} has changed since it was written"

        return ""


def _is_intermediate(name: str) -> bool:
    return name.startswith(f"{TEMPORARY}/")


def read_records(folder: Path, names: str = "*.json") -> Iterator[UnitRecord]:
    """Yield the records of a stage, succeeded or failed, in the order of their files.

    Damaged records are skipped.
    """
    return filter(None, map(UnitRecord.read, sorted((folder / "records").glob(names))))


def records(folder: Path, pass_name: str) -> list[UnitRecord]:
    """Return the records of the finished units of a pass, by unit."""
    prefix = "" if pass_name == "main" else f"{pass_name}-"
    candidates = read_records(folder, f"{prefix}[0-9]*.json")
    return [
        record for record in candidates if record.pass_name == pass_name and record.status == "ok"
    ]


def total_counts(folder: Path, pass_name: str) -> Any:
    """Return the sum of the counts of the finished units of a pass."""
    counts: Any = {}
    for record in records(folder, pass_name):
        add_counts(counts, record.counts)
    return counts


def outputs_digest(unit_records: Iterable[UnitRecord]) -> str:
    """Return the SHA-256 over the published outputs of records; later stages depend on them."""
    digest = hashlib.sha256()
    for record in unit_records:
        for relative, output in sorted(record.outputs.items()):
            if not _is_intermediate(relative):
                digest.update(f"{relative} {output['bytes']} {output['xxh3_128']}\n".encode())
    return digest.hexdigest()


def unit_marker(folder: Path, pass_name: str, unit: int) -> Path:
    """Return the file that exists while a unit runs, and remains if its process dies."""
    return folder / TEMPORARY / "running" / f"{pass_name}-{unit:06d}"


def require_equal(stage: str, left: str, left_value: int, right: str, right_value: int) -> None:
    """Raise IntegrityError unless an accounting equation holds."""
    if left_value != right_value:
        raise IntegrityError(
            f"{stage}: counts do not add up: {left} = {left_value}, but {right} = {right_value}. "
            "Something was lost or counted twice: please report this with the input that caused it"
        )


def require_written(where: str, counted: tuple[int, int], written: tuple[int, int]) -> None:
    """Raise IntegrityError unless files hold as many rows and tokens as were counted before."""
    for what, expected, actual in zip(("rows", "tokens"), counted, written, strict=True):
        require_equal(where, f"{what} counted", expected, f"{what} written", actual)
