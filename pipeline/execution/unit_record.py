"""Records of units: what a unit was given and what it read, its counts and its published files.

A unit is kept if its record has the arguments that the unit has now, if all that it read is the
same, and if every output that the record lists exists with its size. Any other unit runs again, and
writes the same bytes as a run from an empty folder.
"""

from __future__ import annotations

import gc
import glob
import hashlib
import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, TypeVar, cast

from clozeline.checksummed_json import read_canonical, write_canonical
from clozeline.errors import IntegrityError, StorageError
from clozeline.files import file_hash, is_temporary, publish
from clozeline.recorded_file import RecordedFile

if TYPE_CHECKING:
    from clozeline.pipeline.shards import Manifest


class Counts(TypedDict, total=False):
    """Counts by name, nested by reason or type. Each stage has a subclass with further names.

    A pass omits the counts that it does not make. Sums do not depend on the order of units.
    """

    documents_in: int
    """documents read by the stage"""
    documents_out: int
    """documents written by the stage"""
    sources: dict[str, dict[str, int]]
    """columns of the table by source: title, and count by the `source` label of the inputs"""


Value = TypeVar("Value")
StageCounts = TypeVar("StageCounts", bound=Counts)
NestedCounts = TypeVar("NestedCounts", bound=Mapping[str, Any])

LOGS: Final = "logs"
"""Folder of the executors' logs, in a stage's folder."""
OTHER_CODE: Final = "made by other code"
"""Status of a record with fields that this version does not have, and reason to run a unit."""
RECORDS: Final = "records"
"""Folder of the records, in a stage's folder, with a folder for each pass."""
TEMPORARY: Final = "tmp"
"""Folder of intermediate files, in a stage's folder; `keep_intermediates` says how long they
stay."""
_ENDING: Final = ".json"
_ALWAYS: Final = ("arguments", "reads", "counts", "outputs")
"""Fields of a record that are stored even if they are empty."""
_REQUEST_BYTES: Final = 1 << 16
"""Bytes that one request reads of a record; few are longer."""
MARKER_ENDING: Final = ".running"
"""End of the name of a marker, which is next to the record of its unit while that runs, and lists
what the unit has published. It remains if the process dies."""


def add_counts(total: NestedCounts, more: NestedCounts) -> NestedCounts:
    """Add `more` to `total`, also in nested mappings, and return `total`."""
    sums = cast(dict[str, Any], total)
    for name, value in more.items():
        if isinstance(value, dict):  # a Mapping would take five times as long
            nested = sums.setdefault(name, {})
            if value:
                add_counts(nested, value)
        else:
            sums[name] = sums.get(name, 0) + value
    return total


@dataclass
class Output:
    """Files of one unit: each is published atomically and listed in the unit's record."""

    folder: Path
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    marker: Path | None = None
    """file that lists what is published, so that it is known to be ours if the process dies"""

    @contextmanager
    def file(self, relative: str) -> Iterator[Path]:
        """Yield a temporary path, and publish it on success.

        `relative` is the path of the file in the stage's folder.
        """
        with publish(self.folder / relative) as temporary:
            yield temporary
            if self.marker is not None:
                with self.marker.open("a", encoding="utf-8") as listing:
                    listing.write(f"{relative}\n")
            self.files[relative] = {
                "bytes": temporary.stat().st_size,
                "xxh3_128": file_hash(temporary),
            }


class NotMadeError(StorageError):
    """A unit must run before its output is known."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"depends on {folder.name}")


Arguments: TypeAlias = Mapping[str, Any]
"""Fields of a unit and versions of its algorithms, as JSON data: see `arguments`."""


@dataclass(slots=True)
class UnitRecord:
    """Result of a unit that succeeded or failed; nobody changes it.

    It is not frozen: a start makes one for every unit, and a frozen one takes four times as long.
    """

    pass_name: str
    unit: str
    """name of the unit"""
    arguments: Arguments
    reads: dict[str, str] = field(default_factory=dict)
    """what the unit read, by address: see `unit_inputs`"""
    status: str = "ok"
    counts: Counts = field(default_factory=Counts)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    error: str = ""
    exit_code: int = 0
    trace: str = ""
    inputs: dict[str, str] = field(default_factory=dict)
    """hashes (hex) of the ranges of the run's inputs that the unit read, by name"""
    made: int = 0
    """time when the unit ran, in ns"""
    cpu_seconds: float = 0.0

    @staticmethod
    def path(folder: Path, pass_name: str, unit: str) -> Path:
        return folder / RECORDS / pass_name / f"{unit}.json"

    @staticmethod
    def read(path: Path | str) -> UnitRecord | None:
        """Read a record; None if it is missing, damaged or belongs to another unit.

        Raises:
            NewerFormatError: a newer version wrote it.
        """
        try:
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # never waits for a pipe
            try:
                raw = os.read(file, _REQUEST_BYTES)
                while len(raw) % _REQUEST_BYTES == 0 and (more := os.read(file, _REQUEST_BYTES)):
                    raw += more
            finally:
                os.close(file)
            content = read_canonical(raw, path)
            try:
                record = UnitRecord(**content)
            except TypeError:  # other code wrote it: only what it has written is known
                record = UnitRecord(content["pass_name"], content["unit"], {}, status=OTHER_CODE)
                record.outputs = content["outputs"]
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None
        # compared as a text: the parts of a path take longer than the rest of a record
        is_own = str(path).endswith(f"{os.sep}{record.pass_name}{os.sep}{record.unit}.json")
        return record if is_own else None

    def save(self, folder: Path) -> None:
        """Publish the record, which marks the unit as done."""
        values = {name: getattr(self, name) for name in UnitRecord.__slots__}
        data = {name: value for name, value in values.items() if value or name in _ALWAYS}
        with publish(self.path(folder, self.pass_name, self.unit)) as temporary:
            temporary.write_bytes(write_canonical(data))

    def remove(self, folder: Path) -> None:
        """Remove the files that the record lists, then the record.

        If a process dies in between, the next run removes the rest.
        """
        remove_files(folder, self.outputs)
        self.path(folder, self.pass_name, self.unit).unlink(missing_ok=True)

    def output(self, folder: Path, name: str) -> RecordedFile:
        """Return a file of the unit with its recorded size and hash."""
        recorded = self.outputs[name]
        return RecordedFile(folder / name, folder.name, recorded["bytes"], recorded["xxh3_128"])

    def digest(self, prefix: str = "") -> str:
        """Return a digest of the outputs whose names begin with `prefix`."""
        if output := self.outputs.get(prefix):
            digest: str = output["xxh3_128"]
            return digest
        lines = (
            f"{name} {output['xxh3_128']}\n"
            for name, output in sorted(self.outputs.items())
            if name.startswith(prefix)
        )
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def total_bytes(self) -> int:
        """Bytes of all outputs."""
        return sum(output["bytes"] for output in self.outputs.values())

    def find_missing_output(self, folder: Path, *, verify: bool = False) -> str:
        """Return the first missing or changed output of the unit, and why; "" if it is complete.

        An output has changed if its size differs or, with `verify`, its hash. Intermediate files
        may be missing.
        """
        if self.status != "ok":
            record = self.path(folder, self.pass_name, self.unit)
            return f"{record} is the record of a failed unit"

        start = f"{folder}{os.sep}"
        for relative, recorded in self.outputs.items():
            path = start + relative
            try:
                size = os.stat(path).st_size  # noqa: PTH116 (paths would take most of a start)
            except (FileNotFoundError, NotADirectoryError):
                if is_intermediate(relative):
                    continue
                return f"{path} is missing"
            if size != recorded["bytes"]:
                return f"{path} has {size} bytes, expected {recorded['bytes']}"
            if verify and file_hash(Path(path)) != recorded["xxh3_128"]:
                return f"{path} has changed since it was written"

        return ""

    def lacks_intermediates(self, folder: Path) -> bool:
        """Return whether an intermediate file of the unit was removed."""
        return any(is_intermediate(name) and not (folder / name).exists() for name in self.outputs)


def _read_pass(folder: Path) -> dict[str, UnitRecord | None]:
    """Return the records in the folder of a pass, by the names of their units."""
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as entries:
        paths = {each.name: each.path for each in entries if each.name.endswith(_ENDING)}
    return {name.removesuffix(_ENDING): UnitRecord.read(path) for name, path in paths.items()}


@contextmanager
def without_collections() -> Iterator[None]:
    """Do not look for circles of objects, which records and keys do not have.

    With many units, each search passes over all of them: a start takes a fifth longer. What the
    block has made is not looked at later, either.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files that a stage has written to its folder, and the folders that become empty."""
    paths = [folder / name for name in names]
    for path in paths:
        path.unlink(missing_ok=True)
    for above in sorted({above for path in paths for above in path.parents}, reverse=True):
        if above.is_relative_to(folder) and above != folder:
            with suppress(OSError):
                above.rmdir()


def holds_records(folder: Path) -> bool:
    """Return whether a run has written into the folder of a stage.

    Its first file there is a plan or the options of units, and both have a checksum.
    """
    for path in chain((folder / RECORDS).glob("*/*.json"), [folder / "plan.json"]):
        with suppress(OSError, ValueError):
            if path.is_file():
                read_canonical(path.read_bytes(), path, sys.maxsize)
                return True
    return False


def find_files(folder: Path) -> list[str]:
    """Return the relative paths of the files in the folder of a stage, without temporary ones."""
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if not (is_temporary(path) or path.is_dir())
    ]


def options_path(folder: Path, digest: str) -> Path:
    """Return the file with options of units, which their records name by the digest."""
    return folder / RECORDS / "options" / f"{digest}.json"


def is_intermediate(name: str) -> bool:
    """Return whether an output is read by later passes of its stage alone."""
    return name.startswith(f"{TEMPORARY}/")


class KnownRecords:
    """The records of a run, each read once; only for the process that holds the output."""

    def __init__(self) -> None:
        self._passes: dict[tuple[Path, str], dict[str, UnitRecord | None]] = {}
        self._stored: dict[tuple[Path, str], dict[str, UnitRecord | None]] = {}
        self._once: dict[Hashable, Any] = {}
        self.unknown: set[Path] = set()
        """folders of stages whose units are not known yet"""

    def fork(self) -> KnownRecords:
        """Return other records, for a preview; both read each file together once."""
        other = KnownRecords()
        other._stored = self._stored
        other._passes = {place: dict(found) for place, found in self._passes.items()}
        return other

    def of_pass(self, folder: Path, pass_name: str) -> dict[str, UnitRecord | None]:
        """Return the records of a pass by unit; None for a unit that must run."""
        place = (folder, pass_name)
        found = self._passes.get(place)
        if found is None:
            if place not in self._stored:
                self._stored[place] = _read_pass(folder / RECORDS / pass_name)
            found = self._passes[place] = dict(self._stored[place])
        return found

    def once(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return a value that many units share, computed once until records change."""
        if key not in self._once:
            self._once[key] = compute()
        value: Value = self._once[key]
        return value

    def forget_values(self) -> None:
        """Forget the values of `once`, because records have changed."""
        self._once.clear()


def read_records(folder: Path, pass_name: str = "*", prefix: str = "") -> Iterator[UnitRecord]:
    """Yield the records of the finished units of a pass, or of all passes of a stage.

    The names of the units begin with `prefix`. Damaged records are skipped.
    """
    paths = sorted((folder / RECORDS).glob(f"{pass_name}/{glob.escape(prefix)}*.json"))
    return (record for path in paths if (record := UnitRecord.read(path)) and record.status == "ok")


def total_counts(folder: Path, pass_name: str, prefix: str = "") -> Any:
    """Return the summed counts of the finished units whose names begin with `prefix`."""
    counts: Any = {}
    for record in read_records(folder, pass_name, prefix):
        add_counts(counts, record.counts)
    return counts


def require_equal(stage: str, left: str, left_value: int, right: str, right_value: int) -> None:
    """Raise IntegrityError unless an accounting equation holds."""
    if left_value != right_value:
        raise IntegrityError(
            f"{stage}: counts do not add up: {left} = {left_value}, but {right} = {right_value}. "
            "Something was lost or counted twice: please report this with the input that caused it"
        )


def require_written(stage: str, rows: int, tokens: int, manifest: Manifest) -> None:
    """Raise IntegrityError unless a set has as many rows and tokens as were counted before."""
    where = f"{stage} {manifest.name}: manifest"
    require_equal(where, "rows counted", rows, "rows written", manifest.totals.samples)
    require_equal(where, "tokens counted", tokens, "tokens written", manifest.totals.tokens)
